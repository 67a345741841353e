package state

import (
	"math"
	"strconv"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// An idempotent producer numbers its records per queue, so that a batch that it
// sends again, because the answer got lost, is stored once. We remember the last
// batches of each (queue, producer), as Kafka does: a client may have five
// requests under way.
//
// The memory holds who wrote lately; the KV space has the rest, and at a
// checkpoint everybody. Writing each append through would double its cost, and
// nobody looks at the KV space between checkpoints but ourselves.
const (
	sequencesKept = 5
	// producersInMemory bounds the cache. When it is full it is written out and
	// emptied; those who are active come back with their next batch.
	producersInMemory = 1 << 15
	// keyProducerAge is the broker configuration that says after how many ms of
	// idleness a producer counts as unknown, whether or not it was swept up by
	// then. Only what is set for the whole cluster counts, so that replicas agree.
	keyProducerAge     = "producer.id.expiration.ms"
	defaultProducerAge = 24 * 60 * 60 * 1000
)

func producerAge(broker map[string]string) int64 {
	if ms, err := strconv.ParseInt(broker[keyProducerAge], 10, 64); err == nil && ms > 0 {
		return ms
	}
	return defaultProducerAge
}

type producerKey struct {
	queue core.QueueID
	id    int64
}

// producer is what is known of one producer on one queue.
type producer struct {
	epoch int16
	n     uint8                   // sequences kept, 1 to sequencesKept
	seqs  [sequencesKept]sequence // the oldest first
	time  int64                   // of the last append's entry, ms

	dirty bool   // the KV space has an older version
	used  uint64 // checkpoint round of the last use
}

// sequence is one remembered batch.
type sequence struct {
	first, last int32
	offset      core.Offset
}

// appendSequenced appends a batch of an idempotent producer, once.
func (s *State) appendSequenced(tx *index.Tx, c *cursor, q core.QueueID, h *core.BatchHeader, run core.Run) core.Result {
	if h.BaseSequence < 0 || h.ProducerID < 0 || h.ProducerEpoch < 0 {
		return refused(core.Invalid, "append: producer %d, epoch %d, sequence %d", h.ProducerID, h.ProducerEpoch, h.BaseSequence)
	}
	key := producerKey{q, h.ProducerID}
	p, err := s.producer(tx, key)
	if err != nil {
		return s.storeResult(err)
	}
	known := p != nil && c.time-p.time < s.producerAge
	if known {
		if seq, ok := p.duplicate(h); ok {
			head, _, err := tx.Queue(q)
			if err != nil {
				return s.storeResult(err)
			}
			return core.Result{Offset: seq.offset, Start: head.Start}
		}
		if refusal := p.check(h); refusal != nil {
			return core.Result{Err: refusal}
		}
	}
	res := s.appendRun(tx, q, run)
	if res.Err != nil {
		return res
	}
	if p == nil {
		p = &producer{}
		s.producers[key] = p
	}
	if !known || p.epoch != h.ProducerEpoch {
		p.epoch, p.n = h.ProducerEpoch, 0
	}
	p.add(sequence{h.BaseSequence, h.LastSequence(), res.Offset})
	p.time, p.used = c.time, s.round
	if !p.dirty {
		p.dirty = true
		s.dirty = append(s.dirty, key)
	}
	return res
}

// duplicate finds the remembered batch that h is a repetition of.
func (p *producer) duplicate(h *core.BatchHeader) (sequence, bool) {
	if p.epoch != h.ProducerEpoch {
		return sequence{}, false
	}
	for _, seq := range p.seqs[:p.n] {
		if seq.first == h.BaseSequence && seq.last == h.LastSequence() {
			return seq, true
		}
	}
	return sequence{}, false
}

// check is nil when h may follow what is known.
func (p *producer) check(h *core.BatchHeader) *core.Error {
	switch {
	case h.ProducerEpoch < p.epoch:
		return core.E(core.Fenced, "producer %d has epoch %d, the batch is of epoch %d", h.ProducerID, p.epoch, h.ProducerEpoch)
	case h.ProducerEpoch > p.epoch:
		if h.BaseSequence != 0 {
			return core.E(core.OutOfSequence, "producer %d begins epoch %d with sequence %d, want 0", h.ProducerID, h.ProducerEpoch, h.BaseSequence)
		}
		return nil
	}
	last := p.seqs[p.n-1].last
	next := last + 1
	if last == math.MaxInt32 {
		next = 0
	}
	if h.BaseSequence != next {
		return core.E(core.OutOfSequence, "producer %d sends sequence %d, want %d", h.ProducerID, h.BaseSequence, next)
	}
	return nil
}

func (p *producer) add(seq sequence) {
	if p.n == sequencesKept {
		copy(p.seqs[:], p.seqs[1:])
		p.n--
	}
	p.seqs[p.n] = seq
	p.n++
}

// producer finds a producer in memory or in the KV space; nil when unknown.
func (s *State) producer(tx *index.Tx, key producerKey) (*producer, error) {
	if p, ok := s.producers[key]; ok {
		p.used = s.round
		return p, nil
	}
	if len(s.producers) >= producersInMemory {
		if err := s.flushProducers(tx); err != nil {
			return nil, err
		}
		clear(s.producers)
	}
	v, ok, err := tx.Get(producerKVKey(key))
	if err != nil || !ok {
		return nil, err
	}
	p, err := decodeProducer(v)
	if err != nil {
		return nil, err
	}
	p.used = s.round
	s.producers[key] = p
	return p, nil
}

// flushProducers writes what changed to the KV space.
func (s *State) flushProducers(tx *index.Tx) error {
	for _, key := range s.dirty {
		// One that was deleted meanwhile is not in the map any more.
		if p, ok := s.producers[key]; ok && p.dirty {
			tx.Set(producerKVKey(key), p.encode())
			p.dirty = false
		}
	}
	s.dirty = s.dirty[:0]
	return nil
}

// forgetIdleProducers drops from memory whom nobody used since the checkpoint
// before the last one. They must have been flushed.
func (s *State) forgetIdleProducers() {
	for key, p := range s.producers {
		if p.used+1 < s.round {
			delete(s.producers, key)
		}
	}
}

// A producer's value:
//
//	version byte, epoch varint, time varint, count uvarint,
//	count times: first uvarint, last uvarint, offset uvarint
func (p *producer) encode() []byte {
	b := make([]byte, 0, 64)
	b = append(b, valueVersion)
	b = wire.AppendVarint(b, int64(p.epoch))
	b = wire.AppendVarint(b, p.time)
	b = wire.AppendUvarint(b, uint64(p.n))
	for _, seq := range p.seqs[:p.n] {
		b = wire.AppendUvarint(b, uint64(seq.first))
		b = wire.AppendUvarint(b, uint64(seq.last))
		b = wire.AppendUvarint(b, uint64(seq.offset))
	}
	return b
}

func decodeProducer(v []byte) (*producer, error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "producer"); err != nil {
		return nil, err
	}
	p := &producer{epoch: int16(r.Varint()), time: r.Varint()}
	n := r.Count(3)
	if n < 1 || n > sequencesKept {
		return nil, core.E(core.Corrupt, "producer with %d sequences, want 1 to %d", n, sequencesKept)
	}
	p.n = uint8(n)
	for i := range n {
		p.seqs[i] = sequence{int32(r.Uvarint()), int32(r.Uvarint()), core.Offset(r.Uvarint())}
	}
	if err := r.Close(); err != nil {
		return nil, core.E(core.Corrupt, "producer: %v", err)
	}
	return p, nil
}
