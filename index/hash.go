package index

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"polylog/core"
)

// Hash is the Snapshot's Hash of the state now.
func (s *Store) Hash() (sum [32]byte, err error) {
	sn, err := s.Snapshot()
	if err != nil {
		return sum, err
	}
	defer sn.Close()
	return sn.Hash()
}

// Hash is the same on all replicas that applied the same entries: SHA-256 over all
// key-value pairs, and all queues with their live runs. It reads everything.
func (sn *Snapshot) Hash() (sum [32]byte, err error) {
	h := hasher{Hash: sha256.New()}
	err = sn.Scan(nil, nil, func(k, v []byte) bool {
		h.number('k', uint64(len(k)), uint64(len(v)))
		h.Write(k) // a Hash never returns an error
		h.Write(v)
		return true
	})
	if err != nil {
		return sum, err
	}
	var runsErr error
	err = sn.Queues(func(q core.QueueID, head Head) bool {
		h.number('q', uint64(q), uint64(head.Start), uint64(head.End), uint64(head.Bytes), uint64(head.Runs),
			uint64(head.MaxTime), uint64(head.MaxTimeOffset))
		runsErr = h.runs(sn, q)
		return runsErr == nil
	})
	if err == nil {
		err = runsErr
	}
	h.Sum(sum[:0])
	return sum, err
}

type hasher struct {
	hash.Hash
	buf []byte
}

func (h *hasher) number(vs ...uint64) {
	h.buf = h.buf[:0]
	for _, v := range vs {
		h.buf = binary.BigEndian.AppendUint64(h.buf, v)
	}
	h.Write(h.buf) // a Hash never returns an error
}

func (h *hasher) runs(sn *Snapshot, q core.QueueID) error {
	v, err := sn.runsView(q)
	if err != nil {
		return err
	}
	defer v.release()
	return v.each(q, v.Start, func(r core.Run) bool {
		h.number('r', uint64(r.Offset), uint64(r.MaxTime), uint64(r.Index),
			uint64(r.Pos), uint64(r.Len), uint64(r.First), uint64(r.Count))
		return true
	})
}
