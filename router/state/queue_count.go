package state

import (
	"encoding/binary"

	"polylog/core"
	"polylog/index"
)

// How many queues a namespace has is kept: counting a million of them each time would take a second.

func queueCountKey(namespace string) []byte {
	return append([]byte{prefixCounter, 0}, namespace...)
}

// ReadQueueCount is how many named queues a namespace has. Where that was never kept, since they are older than the
// counts, they are counted.
func ReadQueueCount(r index.Reader, namespace string) (n int64, err error) {
	v, ok, err := r.Get(queueCountKey(namespace))
	switch {
	case err != nil:
		return 0, err
	case ok && len(v) != 8:
		return 0, core.E(core.Corrupt, "queues of %s: %d bytes, want 8", namespace, len(v))
	case ok:
		return int64(binary.BigEndian.Uint64(v)), nil
	}
	prefix := queueNamePrefix(namespace)
	err = r.Scan(prefix, after(prefix), func(_, _ []byte) bool { n++; return true })
	return n, err
}

// countQueue keeps count of a queue that is about to be added, 1, or removed, -1.
func (s *State) countQueue(tx txn, namespace string, change int64) error {
	n, err := ReadQueueCount(tx, namespace)
	switch n += change; {
	case err != nil:
		return err
	case n <= 0:
		tx.Delete(queueCountKey(namespace))
	default:
		tx.Set(queueCountKey(namespace), binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	return nil
}
