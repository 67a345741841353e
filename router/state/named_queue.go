package state

import (
	"encoding/binary"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// Queue is a light queue with a name of its own: a queue of AMQP, of an MQTT filter, of
// HTTP. A message leaves it when every group of the queue has settled it. Nothing of a
// queue that is idle is kept in memory.
type Queue struct {
	Name    core.Name
	ID      core.QueueID
	Created int64 // ms
	QueueConfig
	// Deaths says that dead letters were put here: records may have a History.
	Deaths bool
	// Special says that messages here may have Attributes.
	Special bool

	policies *policySet // that Effective looks at; nil: none
}

// AckConfig is what the creator of a group decides, for ever.
type AckConfig struct {
	// DeliveryLimit is how often a delivery may fail: with one more failure the message
	// is dead. 0: as often as it likes.
	DeliveryLimit int
	// DeadLetter is the queue that takes dead messages; its Name is empty where there is
	// none, and a message that is dead then is gone.
	DeadLetter core.Name
	// SingleActive gives messages to one consumer at a time.
	SingleActive bool
	// Attributes belong to the protocol that created it.
	Attributes map[string]string
}

func (c *AckConfig) appendTo(dst []byte) []byte {
	dst = wire.AppendUvarint(dst, uint64(c.DeliveryLimit))
	dst = appendName(dst, c.DeadLetter)
	dst = wire.AppendBool(dst, c.SingleActive)
	return appendConfigs(dst, c.Attributes)
}

// maxDeliveryLimit keeps a limit in an int32, as protocols have it.
const maxDeliveryLimit = 1<<31 - 1

func readAckConfig(r *wire.Reader) AckConfig {
	return AckConfig{
		DeliveryLimit: int(min(r.Uvarint(), maxDeliveryLimit)),
		DeadLetter:    readName(r),
		SingleActive:  r.Bool(),
		Attributes:    readConfigs(r),
	}
}

// queueVersion is that of the value of a queue that level 2 does not know.
const queueVersion = 2

// A queue's value: version byte, name, created varint, group-only byte, deaths byte, ack
// configuration; and in version 2 the rest of the configuration.
func (q *Queue) encode() []byte {
	version := byte(valueVersion)
	full := !q.plain() || q.Special
	if full {
		version = queueVersion
	}
	b := appendName([]byte{version}, q.Name)
	b = wire.AppendVarint(b, q.Created)
	b = wire.AppendBool(b, q.GroupOnly)
	b = wire.AppendBool(b, q.Deaths)
	if b = q.AckConfig.appendTo(b); !full {
		return b
	}
	flags := byte(0)
	if q.Special {
		flags = queueSpecial
	}
	return q.appendExtra(b, flags)
}

func decodeQueue(id core.QueueID, v []byte) (*Queue, error) {
	r := wire.NewReader(v)
	version := r.Byte()
	if version != valueVersion && version != queueVersion {
		return nil, core.E(core.Corrupt, "queue: value of version %d, this binary knows %d", version, queueVersion)
	}
	q := &Queue{Name: readName(&r), ID: id, Created: r.Varint()}
	q.GroupOnly, q.Deaths = r.Bool(), r.Bool()
	q.AckConfig = readAckConfig(&r)
	if version == queueVersion {
		q.Special = q.readExtra(&r)&queueSpecial != 0
	}
	if err := r.Close(); err != nil {
		return nil, core.E(core.Corrupt, "queue %d: %v", id, err)
	}
	return q, nil
}

func queueNamePrefix(namespace string) []byte {
	return wire.AppendString([]byte{prefixQueueName}, namespace)
}

func queueNameKey(n core.Name) []byte { return append(queueNamePrefix(n.Namespace), n.Name...) }

func queueKey(q core.QueueID) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixQueue}, uint64(q))
}

// ReadQueue finds a queue by name; nil when there is none.
func ReadQueue(r index.Reader, n core.Name) (*Queue, error) {
	v, ok, err := r.Get(queueNameKey(n))
	if err != nil || !ok {
		return nil, err
	}
	id, err := decodeQueueID(v)
	if err != nil {
		return nil, err
	}
	return ReadQueueByID(r, id)
}

// Queue finds a queue by name, as of the last applied batch, with the policies that hold; nil
// when there is none.
func (s *State) Queue(n core.Name) (*Queue, error) {
	return s.withPolicies(ReadQueue(s.store, n))
}

// QueueByID finds a queue by its id, like Queue.
func (s *State) QueueByID(id core.QueueID) (*Queue, error) {
	return s.withPolicies(ReadQueueByID(s.store, id))
}

func (s *State) withPolicies(q *Queue, err error) (*Queue, error) {
	if q != nil {
		q.policies = s.policyView.Load()
	}
	return q, err
}

// ReadQueueByID finds a queue by its id; nil when no named queue has it.
func ReadQueueByID(r index.Reader, id core.QueueID) (*Queue, error) {
	v, ok, err := r.Get(queueKey(id))
	if err != nil || !ok {
		return nil, err
	}
	return decodeQueue(id, v)
}

// ReadQueueNames appends to dst up to limit names of queues of a namespace, in order,
// from the one after from on.
func ReadQueueNames(r index.Reader, namespace, from string, limit int, dst []string) ([]string, error) {
	prefix := queueNamePrefix(namespace)
	start := prefix
	if from != "" {
		start = append(append([]byte(nil), prefix...), from+"\x00"...)
	}
	limit += len(dst)
	err := r.Scan(start, after(prefix), func(k, _ []byte) bool {
		dst = append(dst, string(k[len(prefix):]))
		return len(dst) < limit
	})
	return dst, err
}

// A name's value: version byte, queue u64.
func encodeQueueID(id core.QueueID) []byte {
	return wire.AppendUint64([]byte{valueVersion}, uint64(id))
}

func decodeQueueID(v []byte) (core.QueueID, error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "queue name"); err != nil {
		return 0, err
	}
	id := core.QueueID(r.Uint64())
	if err := r.Close(); err != nil {
		return 0, core.E(core.Corrupt, "queue name: %v", err)
	}
	return id, nil
}

// QueueGeneration changes after a named queue was declared or deleted, or changed: what was
// read before it and kept is to be read again.
func (s *State) QueueGeneration() uint64 { return s.queueGen.Load() }
