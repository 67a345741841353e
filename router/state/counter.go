package state

import (
	"encoding/binary"
	"math"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// The counters. Each holds the next number to give; numbers are never given twice.
const (
	counterQueues        = "queue" // from 1
	counterProducers     = "producer"
	counterExchanges     = "exchange" // from 1
	counterSubscriptions = "subscription"
	counterMQTT          = "mqtt" // from 1: sessions and delayed publishes
)

// take gives n consecutive numbers of a counter.
func (s *State) take(tx txn, counter string, n uint64) (first uint64, err error) {
	if first, err = nextOf(tx, counter); err != nil {
		return 0, err
	}
	tx.Set(counterKey(counter), binary.BigEndian.AppendUint64(nil, first+n))
	return first, nil
}

func counterKey(counter string) []byte { return append([]byte{prefixCounter}, counter...) }

// nextOf is the next number of a counter.
func nextOf(r index.Reader, counter string) (uint64, error) {
	v, ok, err := r.Get(counterKey(counter))
	switch {
	case err != nil:
		return 0, err
	case !ok:
		return 1, nil
	case len(v) != 8:
		return 0, core.E(core.Corrupt, "counter %s: %d bytes, want 8", counter, len(v))
	}
	return binary.BigEndian.Uint64(v), nil
}

// NextQueueID is above the ids of all queues and partitions that there were.
func (s *State) NextQueueID() (core.QueueID, error) {
	n, err := nextOf(s.store, counterQueues)
	return core.QueueID(n), err
}

// maxProducerIDs bounds one block.
const maxProducerIDs = 1 << 20

// AllocateProducerIDs takes a block of producer ids for one node to give out.
type AllocateProducerIDs struct{ Count int }

// Command encodes: count uvarint.
func (c *AllocateProducerIDs) Command() core.Command {
	return core.Command{Code: CodeAllocateProducerIDs, Head: wire.AppendUvarint(nil, uint64(c.Count))}
}

func decodeAllocateProducerIDs(body []byte) (c AllocateProducerIDs, err error) {
	r := wire.NewReader(body)
	c.Count = int(min(r.Uvarint(), maxProducerIDs+1))
	return c, r.Close()
}

// DecodeProducerIDs reads the body of AllocateProducerIDs' result: the first id.
func DecodeProducerIDs(body []byte) (first int64, err error) {
	r := wire.NewReader(body)
	first = int64(r.Uint64())
	return first, r.Close()
}

func (s *State) allocateProducerIDs(tx txn, body []byte) core.Result {
	cmd, err := decodeAllocateProducerIDs(body)
	if err != nil {
		return invalid("allocate producer ids", err)
	}
	if cmd.Count < 1 || cmd.Count > maxProducerIDs {
		return refused(core.Invalid, "allocate producer ids: %d, want 1 to %d", cmd.Count, maxProducerIDs)
	}
	first, err := s.take(tx, counterProducers, uint64(cmd.Count))
	if err != nil {
		return s.storeResult(err)
	}
	if first > math.MaxInt64-maxProducerIDs {
		return refused(core.Limit, "producer ids are used up")
	}
	return core.Result{Body: binary.BigEndian.AppendUint64(nil, first)}
}
