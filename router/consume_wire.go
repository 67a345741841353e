package router

import (
	"polylog/core"
	"polylog/core/wire"
	"polylog/router/dispatch"
)

// A node's consumers speak with the dispatcher of the leader by these messages; over the
// network as a stream of the service "consume", whose messages are frames: any number of
// them, one after the other.

// consumeService is the name of the stream service.
const consumeService = "consume"

// maxFrame is where a frame is full, in bytes.
const maxFrame = 64 << 10

// toHub is a message to the dispatcher. Which fields count depends on the kind.
type toHub struct {
	kind     toHubKind
	consumer uint64 // of the sending node: attach, grant, cancel, detach, get
	request  uint64 // to be answered: settle, extend, hold, purge, count, get
	queue    core.QueueID
	group    string
	attach   attachSpec
	n        int64 // grant: deliveries; settle: delay, ms; extend: ms from now; hold: for ms, none when a transaction came to nothing
	outcome  dispatch.Outcome
	receipts []Receipt // settle, extend, hold
}

type toHubKind uint8

const (
	hubAttach toHubKind = iota + 1
	hubGrant
	hubCancel
	hubDetach
	hubSettle
	hubExtend
	hubPurge
	hubCount
	hubGet
	hubHold
)

// attachSpec is a consumer as the dispatcher wants to know it.
type attachSpec struct {
	priority  int
	prefetch  int
	credit    int64
	leaseMS   int64
	exclusive bool
	countLost bool
	getter    bool
	fence     uint64
}

// Bits of the byte that says who shares a queue with the consumer. A node of feature level 2
// takes it for a truth value, and knows no getters.
const (
	attachExclusive = 1 << iota
	attachGetter
	attachFenced // a fence follows
)

func (a *attachSpec) sharing() (b byte) {
	if a.exclusive {
		b |= attachExclusive
	}
	if a.getter {
		b |= attachGetter
	}
	if a.fence != 0 {
		b |= attachFenced
	}
	return b
}

// fromHub is a message from the dispatcher.
type fromHub struct {
	kind       fromHubKind
	consumer   uint64 // attached, deliver, ended
	request    uint64 // answer
	err        error  // attached, ended, answer
	deliveries []handed
	kinds      []core.Kind // answer: one for each receipt, or none
	counts     QueueCounts // answer
}

type fromHubKind uint8

const (
	hubAttached fromHubKind = iota + 1
	hubDeliver
	hubEnded
	hubAnswer
	hubGot // the answer to a get
)

// handed is a delivery without its message, which every node reads from its own log.
type handed struct {
	Receipt
	attempts    int
	redelivered bool
}

// append encodes kind, consumer or request, queue, group and then what the kind has; all
// numbers are varints.
func (m *toHub) append(b []byte) []byte {
	b = append(b, byte(m.kind))
	switch m.kind {
	case hubAttach:
		b = wire.AppendUvarint(b, m.consumer)
		b = appendGroup(b, m.queue, m.group)
		a := &m.attach
		b = wire.AppendVarint(b, int64(a.priority))
		b = wire.AppendUvarint(b, uint64(a.prefetch))
		b = wire.AppendVarint(b, a.credit)
		b = wire.AppendUvarint(b, uint64(a.leaseMS))
		b = wire.AppendBool(append(b, a.sharing(), 0), a.countLost) // the 0 was an option once
		if a.fence != 0 {
			b = wire.AppendUvarint(b, a.fence)
		}
	case hubGrant:
		b = wire.AppendUvarint(wire.AppendUvarint(b, m.consumer), uint64(m.n))
	case hubCancel, hubDetach:
		b = wire.AppendUvarint(b, m.consumer)
	case hubSettle, hubExtend, hubHold:
		b = appendGroup(wire.AppendUvarint(b, m.request), m.queue, m.group)
		b = wire.AppendVarint(append(b, byte(m.outcome)), m.n)
		b = wire.AppendUvarint(b, uint64(len(m.receipts)))
		var last Receipt
		for _, r := range m.receipts {
			b = wire.AppendVarint(b, int64(r.Offset-last.Offset))
			b = wire.AppendVarint(b, int64(r.Serial-last.Serial))
			last = r
		}
	case hubGet:
		b = wire.AppendUvarint(b, m.consumer)
		b = appendGroup(wire.AppendUvarint(b, m.request), m.queue, m.group)
	case hubPurge, hubCount:
		b = appendGroup(wire.AppendUvarint(b, m.request), m.queue, m.group)
	}
	return b
}

func appendGroup(b []byte, q core.QueueID, group string) []byte {
	return wire.AppendString(wire.AppendUvarint(b, uint64(q)), group)
}

func readToHub(r *wire.Reader) (m toHub, err error) {
	m.kind = toHubKind(r.Byte())
	switch m.kind {
	case hubAttach:
		m.consumer, m.queue, m.group = r.Uvarint(), core.QueueID(r.Uvarint()), r.String()
		m.attach = attachSpec{
			priority: int(int32(r.Varint())), prefetch: int(min(r.Uvarint(), 1<<31)), credit: max(r.Varint(), dispatch.Unlimited),
			leaseMS: int64(min(r.Uvarint(), 1<<40)),
		}
		sharing := r.Byte()
		m.attach.exclusive, m.attach.getter = sharing&attachExclusive != 0, sharing&attachGetter != 0
		r.Byte()
		m.attach.countLost = r.Bool()
		if sharing&attachFenced != 0 {
			m.attach.fence = r.Uvarint()
		}
	case hubGrant:
		m.consumer, m.n = r.Uvarint(), int64(min(r.Uvarint(), 1<<40))
	case hubCancel, hubDetach:
		m.consumer = r.Uvarint()
	case hubSettle, hubExtend, hubHold:
		m.request, m.queue, m.group = r.Uvarint(), core.QueueID(r.Uvarint()), r.String()
		m.outcome, m.n = dispatch.Outcome(r.Byte()), r.Varint()
		m.receipts = make([]Receipt, r.Count(2))
		var last Receipt
		for i := range m.receipts {
			last = Receipt{last.Offset + core.Offset(r.Varint()), last.Serial + uint64(r.Varint())}
			m.receipts[i] = last
		}
		if m.outcome > dispatch.Reject || m.n < 0 {
			return m, core.E(core.Invalid, "consume: outcome %d after %d ms", m.outcome, m.n)
		}
	case hubGet:
		m.consumer = r.Uvarint()
		m.request, m.queue, m.group = r.Uvarint(), core.QueueID(r.Uvarint()), r.String()
	case hubPurge, hubCount:
		m.request, m.queue, m.group = r.Uvarint(), core.QueueID(r.Uvarint()), r.String()
	default:
		return m, core.E(core.Unsupported, "consume: message of kind %d", m.kind)
	}
	return m, r.Err()
}

func (m *fromHub) append(b []byte) []byte {
	b = append(b, byte(m.kind))
	switch m.kind {
	case hubAttached, hubEnded:
		b = appendError(wire.AppendUvarint(b, m.consumer), m.err)
	case hubDeliver:
		b = appendHanded(wire.AppendUvarint(b, m.consumer), m.deliveries)
	case hubGot:
		b = appendError(wire.AppendUvarint(b, m.request), m.err)
		b = appendCounts(appendHanded(b, m.deliveries), &m.counts)
	case hubAnswer:
		b = appendError(wire.AppendUvarint(b, m.request), m.err)
		b = wire.AppendUvarint(b, uint64(len(m.kinds)))
		for _, k := range m.kinds {
			b = append(b, byte(k))
		}
		b = appendCounts(b, &m.counts)
	}
	return b
}

func appendHanded(b []byte, hs []handed) []byte {
	b = wire.AppendUvarint(b, uint64(len(hs)))
	var last Receipt
	for _, d := range hs {
		b = wire.AppendVarint(b, int64(d.Offset-last.Offset))
		b = wire.AppendVarint(b, int64(d.Serial-last.Serial))
		flags := uint64(d.attempts) << 1
		if d.redelivered {
			flags |= 1
		}
		b = wire.AppendUvarint(b, flags)
		last = d.Receipt
	}
	return b
}

func readHanded(r *wire.Reader) []handed {
	hs := make([]handed, r.Count(3))
	var last Receipt
	for i := range hs {
		last = Receipt{last.Offset + core.Offset(r.Varint()), last.Serial + uint64(r.Varint())}
		flags := r.Uvarint()
		hs[i] = handed{last, int(flags >> 1), flags&1 != 0}
	}
	return hs
}

func appendCounts(b []byte, c *QueueCounts) []byte {
	for _, n := range [...]int64{c.Ready, c.Unsettled, c.Delayed, int64(c.Consumers)} {
		b = wire.AppendUvarint(b, uint64(n))
	}
	return b
}

func readCounts(r *wire.Reader) QueueCounts {
	return QueueCounts{int64(r.Uvarint()), int64(r.Uvarint()), int64(r.Uvarint()), int(r.Uvarint())}
}

func readFromHub(r *wire.Reader) (m fromHub, err error) {
	m.kind = fromHubKind(r.Byte())
	switch m.kind {
	case hubAttached, hubEnded:
		m.consumer, m.err = r.Uvarint(), readError(r)
	case hubDeliver:
		m.consumer = r.Uvarint()
		m.deliveries = readHanded(r)
	case hubGot:
		m.request, m.err = r.Uvarint(), readError(r)
		m.deliveries, m.counts = readHanded(r), readCounts(r)
	case hubAnswer:
		m.request, m.err = r.Uvarint(), readError(r)
		if n := r.Count(1); n > 0 {
			m.kinds = make([]core.Kind, n)
			for i := range m.kinds {
				m.kinds[i] = core.Kind(r.Byte())
			}
		}
		m.counts = readCounts(r)
	default:
		return m, core.E(core.Unsupported, "consume: message of kind %d", m.kind)
	}
	return m, r.Err()
}

func appendError(b []byte, err error) []byte {
	if err == nil {
		return append(b, byte(core.OK))
	}
	return wire.AppendString(append(b, byte(core.KindOf(err))), err.Error())
}

func readError(r *wire.Reader) error {
	k := core.Kind(r.Byte())
	if k == core.OK {
		return nil
	}
	return core.E(k, "%s", r.String())
}
