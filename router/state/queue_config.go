package state

import (
	"polylog/core/message"
	"polylog/core/wire"
)

// QueueKind says whose rules a queue follows where AMQP's kinds of queues differ.
type QueueKind uint8

// The kinds.
const (
	Classic QueueKind = iota // what is given back goes to its old place
	Quorum                   // what is given back goes ahead of the rest, in the order of return
	Stream                   // a topic's partition, as AMQP sees it
)

// Overflow says what becomes of messages when a queue is too long.
type Overflow uint8

// The modes.
const (
	DropHead         Overflow = iota // the first message goes
	RejectPublish                    // the new one is refused
	RejectPublishDLX                 // the new one is refused and dead-lettered
)

// defaultDeliveryLimit is that of quorum queues which say nothing.
const defaultDeliveryLimit = 20

// QueueLimits are what bounds a queue, and what becomes of messages beyond it. The zero value
// bounds nothing.
type QueueLimits struct {
	HasTTL       bool
	TTL          int64 // ms that a message may wait; 0: only a consumer that is ready gets it
	Expires      int64 // ms until a queue that nobody uses is deleted; 0: never
	HasMaxLength bool
	MaxLength    int64 // messages that are ready
	HasMaxBytes  bool
	MaxBytes     int64 // bytes of their bodies
	Overflow     Overflow
	MaxPriority  int // 0: messages have none
	// DeadLetterExchange takes dead messages where HasDeadLetter, with DeadLetterKey for
	// their routing key where HasDeadLetterKey, else with their own keys. It is in the
	// queue's namespace, and need not exist.
	HasDeadLetter      bool
	DeadLetterExchange string
	HasDeadLetterKey   bool
	DeadLetterKey      string
	// DeliveryLimit is how often a delivery may fail; with one failure more the message is
	// dead. 0: what the kind has, which is 20 for Quorum and no limit for others; -1: none.
	DeliveryLimit int
}

// Which fields of limits follow, in this order.
const (
	hasTTL = 1 << iota
	hasExpires
	hasMaxLength
	hasMaxBytes
	hasMaxPriority
	hasDeadLetter
	hasDeadLetterKey
	hasDeliveryLimit
)

// appendTo encodes: fields uvarint, overflow byte; each field that is there: numbers varint,
// strings.
func (l *QueueLimits) appendTo(dst []byte) []byte {
	fields := uint64(0)
	var body []byte
	number := func(bit uint64, has bool, n int64) {
		if has {
			fields |= bit
			body = wire.AppendVarint(body, n)
		}
	}
	text := func(bit uint64, has bool, s string) {
		if has {
			fields |= bit
			body = wire.AppendString(body, s)
		}
	}
	number(hasTTL, l.HasTTL, l.TTL)
	number(hasExpires, l.Expires != 0, l.Expires)
	number(hasMaxLength, l.HasMaxLength, l.MaxLength)
	number(hasMaxBytes, l.HasMaxBytes, l.MaxBytes)
	number(hasMaxPriority, l.MaxPriority != 0, int64(l.MaxPriority))
	text(hasDeadLetter, l.HasDeadLetter, l.DeadLetterExchange)
	text(hasDeadLetterKey, l.HasDeadLetterKey, l.DeadLetterKey)
	number(hasDeliveryLimit, l.DeliveryLimit != 0, int64(l.DeliveryLimit))
	dst = append(wire.AppendUvarint(dst, fields), byte(l.Overflow))
	return append(dst, body...)
}

// Bounds of what is read: more has no meaning, and would overflow.
const (
	maxDuration    = 1 << 45 // ms, about a thousand years
	maxMaxPriority = 255     // as AMQP has it
)

func readQueueLimits(r *wire.Reader) (l QueueLimits) {
	fields := r.Uvarint()
	l.Overflow = min(Overflow(r.Byte()), RejectPublishDLX)
	number := func(bit uint64, most int64) int64 {
		if fields&bit == 0 {
			return 0
		}
		return min(max(r.Varint(), 0), most)
	}
	l.HasTTL, l.TTL = fields&hasTTL != 0, number(hasTTL, maxDuration)
	l.Expires = number(hasExpires, maxDuration)
	l.HasMaxLength, l.MaxLength = fields&hasMaxLength != 0, number(hasMaxLength, maxQueueOffset)
	l.HasMaxBytes, l.MaxBytes = fields&hasMaxBytes != 0, number(hasMaxBytes, maxQueueOffset)
	l.MaxPriority = int(number(hasMaxPriority, maxMaxPriority))
	if l.HasDeadLetter = fields&hasDeadLetter != 0; l.HasDeadLetter {
		l.DeadLetterExchange = r.String()
	}
	if l.HasDeadLetterKey = fields&hasDeadLetterKey != 0; l.HasDeadLetterKey {
		l.DeadLetterKey = r.String()
	}
	if fields&hasDeliveryLimit != 0 {
		l.DeliveryLimit = int(min(max(r.Varint(), -1), maxDeliveryLimit))
	}
	return l
}

// QueueConfig is what a queue's creator decides, for ever. The zero value is a queue without
// any limit that stays until it is deleted.
type QueueConfig struct {
	// GroupOnly says that the queue has no group of its own, named "", and keeps its
	// messages for groups that are created.
	GroupOnly bool
	AckConfig // of the queue's own group

	Kind    QueueKind
	Durable bool // nothing follows from it: every queue survives
	// AutoDelete has the queue deleted when its last consumer goes.
	AutoDelete bool
	// Owner is the name of a lease: the queue is deleted when that is not valid any more.
	// Empty: it has no owner.
	Owner     string
	Limits    QueueLimits   // as declared; see Queue.Effective
	Arguments message.Table // verbatim as declared, for whoever compares and lists
}

// plain reports whether the configuration has nothing but what feature level 2 knows.
func (c *QueueConfig) plain() bool {
	return c.Kind == Classic && !c.Durable && !c.AutoDelete && c.Owner == "" && c.Limits == QueueLimits{} && len(c.Arguments) == 0
}

// Bits of a queue's flags.
const (
	queueDurable = 1 << iota
	queueAutoDelete
	queueSpecial
)

// appendExtra encodes what appendTo of AckConfig does not have: kind byte, flags byte, owner,
// limits, arguments.
func (c *QueueConfig) appendExtra(dst []byte, flags byte) []byte {
	if c.Durable {
		flags |= queueDurable
	}
	if c.AutoDelete {
		flags |= queueAutoDelete
	}
	dst = append(dst, byte(c.Kind), flags)
	dst = c.Limits.appendTo(wire.AppendString(dst, c.Owner))
	return message.AppendTable(dst, c.Arguments)
}

func (c *QueueConfig) readExtra(r *wire.Reader) (flags byte) {
	c.Kind = min(QueueKind(r.Byte()), Stream)
	flags = r.Byte()
	c.Durable, c.AutoDelete = flags&queueDurable != 0, flags&queueAutoDelete != 0
	c.Owner = r.String()
	c.Limits = readQueueLimits(r)
	c.Arguments = message.ReadTable(r)
	return flags
}

// Effective are the limits that hold: what the kind has by itself and what was declared, with
// the matching policy and operator policy over them. Of lengths and times the smallest
// counts; for the rest what was declared counts first, then the policy.
func (q *Queue) Effective() QueueLimits {
	l := q.Limits
	if q.policies != nil {
		for _, p := range q.policies.of(q) {
			l.restrict(&p.limits)
		}
	}
	if l.DeliveryLimit == 0 && q.Kind == Quorum {
		l.DeliveryLimit = defaultDeliveryLimit
	}
	return l
}

// restrict lays a policy's limits over l.
func (l *QueueLimits) restrict(p *QueueLimits) {
	least := func(has *bool, n *int64, pHas bool, pn int64) {
		if pHas && (!*has || pn < *n) {
			*has, *n = true, pn
		}
	}
	least(&l.HasTTL, &l.TTL, p.HasTTL, p.TTL)
	least(&l.HasMaxLength, &l.MaxLength, p.HasMaxLength, p.MaxLength)
	least(&l.HasMaxBytes, &l.MaxBytes, p.HasMaxBytes, p.MaxBytes)
	if p.Expires > 0 && (l.Expires == 0 || p.Expires < l.Expires) {
		l.Expires = p.Expires
	}
	if l.Overflow == DropHead {
		l.Overflow = p.Overflow
	}
	if !l.HasDeadLetter && p.HasDeadLetter {
		l.HasDeadLetter, l.DeadLetterExchange = true, p.DeadLetterExchange
	}
	if !l.HasDeadLetterKey && p.HasDeadLetterKey {
		l.HasDeadLetterKey, l.DeadLetterKey = true, p.DeadLetterKey
	}
	if p.DeliveryLimit > 0 && (l.DeliveryLimit <= 0 || p.DeliveryLimit < l.DeliveryLimit) {
		l.DeliveryLimit = p.DeliveryLimit
	}
}
