package state

import (
	"encoding/binary"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// Expire forgets what nobody used for long. The proposer looked for candidates in
// its own indexes, where it costs the applier nothing; each is judged again here, by
// the entry's time, so that one that came back meanwhile stays.
type Expire struct {
	ProducerAge int64 // ms since the last append
	Producers   []ProducerRef
	OffsetAge   int64    // ms since the commit
	Groups      []string // that have no members
}

// ProducerRef names a producer's state on a queue.
type ProducerRef struct {
	Queue core.QueueID
	ID    int64
}

// Command encodes: producer age uvarint, count uvarint; each: queue uvarint, id
// varint; then offset age uvarint, count uvarint, groups.
func (c *Expire) Command() core.Command {
	b := wire.AppendUvarint(nil, uint64(c.ProducerAge))
	b = wire.AppendUvarint(b, uint64(len(c.Producers)))
	for _, p := range c.Producers {
		b = wire.AppendVarint(wire.AppendUvarint(b, uint64(p.Queue)), p.ID)
	}
	b = wire.AppendUvarint(b, uint64(c.OffsetAge))
	b = wire.AppendUvarint(b, uint64(len(c.Groups)))
	for _, g := range c.Groups {
		b = wire.AppendString(b, g)
	}
	return core.Command{Code: CodeExpire, Head: b}
}

func decodeExpire(body []byte) (c Expire, err error) {
	r := wire.NewReader(body)
	c.ProducerAge = int64(r.Uvarint())
	c.Producers = make([]ProducerRef, r.Count(2))
	for i := range c.Producers {
		c.Producers[i] = ProducerRef{core.QueueID(r.Uvarint()), r.Varint()}
	}
	c.OffsetAge = int64(r.Uvarint())
	c.Groups = make([]string, r.Count(1))
	for i := range c.Groups {
		c.Groups[i] = r.String()
	}
	if err := r.Close(); err != nil {
		return c, err
	}
	if c.ProducerAge < 0 || c.OffsetAge < 0 {
		return c, core.E(core.Invalid, "an age is negative")
	}
	return c, nil
}

// DecodeExpired reads the body of Expire's result: how many producers and offsets
// went.
func DecodeExpired(body []byte) (producers, offsets int, err error) {
	r := wire.NewReader(body)
	producers, offsets = int(r.Uvarint()), int(r.Uvarint())
	return producers, offsets, r.Close()
}

func (s *State) expire(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeExpire(body)
	if err != nil {
		return invalid("expire", err)
	}
	var producers, offsets int
	for _, ref := range cmd.Producers {
		gone, err := s.expireProducer(tx, producerKey{ref.Queue, ref.ID}, c.time-cmd.ProducerAge)
		if err != nil {
			return s.storeResult(err)
		}
		if gone {
			producers++
		}
	}
	for _, g := range cmd.Groups {
		n, err := expireGroup(tx, g, c.time-cmd.OffsetAge)
		if err != nil {
			return s.storeResult(err)
		}
		offsets += n
	}
	return core.Result{Body: wire.AppendUvarint(wire.AppendUvarint(nil, uint64(producers)), uint64(offsets))}
}

func (s *State) expireProducer(tx txn, key producerKey, before int64) (bool, error) {
	p, err := s.producer(tx, key)
	if err != nil || p == nil || p.time > before {
		return false, err
	}
	delete(s.producers, key)
	tx.Delete(producerKVKey(key))
	return true, nil
}

// expireGroup forgets a group's old positions, and the group when it has none left
// and is old itself.
func expireGroup(tx txn, name string, before int64) (gone int, err error) {
	g, ok, err := ReadGroup(tx, name)
	if err != nil || !ok || g.Time > before {
		return 0, err
	}
	offsets, err := ReadOffsets(tx, name)
	if err != nil {
		return 0, err
	}
	for _, o := range offsets {
		if o.Time <= before {
			deleteOffset(tx, name, o.Queue)
			gone++
		}
	}
	if gone == len(offsets) {
		tx.Delete(groupKey(name))
	}
	return gone, nil
}

// IdleProducers are producers whose last append that the KV space knows of was not
// after before, at most max, from the key after onwards; next is where to go on,
// nil at the end. One that is listed may have appended since.
func IdleProducers(r index.Reader, before int64, from []byte, limit int) (refs []ProducerRef, next []byte, err error) {
	start := []byte{prefixProducer}
	end := after(start)
	if from != nil {
		start = from
	}
	seen := 0
	err = r.Scan(start, end, func(k, v []byte) bool {
		if seen++; seen > limit {
			next = append([]byte(nil), k...)
			return false
		}
		p, err := decodeProducer(v)
		if err == nil && len(k) == 17 && p.time <= before {
			refs = append(refs, ProducerRef{
				core.QueueID(binary.BigEndian.Uint64(k[1:])), int64(binary.BigEndian.Uint64(k[9:])),
			})
		}
		return true
	})
	return refs, next, err
}
