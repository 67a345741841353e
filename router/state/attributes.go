package state

import (
	"encoding/binary"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// What has to be known of a single message without reading it is kept beside the reference,
// for the messages and in the queues that have any of it.

// Attributes are what is known of a message in a queue.
type Attributes struct {
	Expires  int64 // when its own time is over, ms; 0: never
	Priority int   // up to 255, see Queue.Rank; 0: that of messages that say none
	Size     int64 // of its body, in bytes, where the queue counts them
}

// An attributes' value: version byte, expires varint, priority byte, size uvarint.
func (a *Attributes) encode() []byte {
	b := wire.AppendVarint([]byte{valueVersion}, a.Expires)
	return wire.AppendUvarint(append(b, byte(a.Priority)), uint64(a.Size))
}

func decodeAttributes(v []byte) (a Attributes, err error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "attributes"); err != nil {
		return a, err
	}
	a = Attributes{Expires: r.Varint(), Priority: int(r.Byte()), Size: int64(min(r.Uvarint(), maxQueueOffset))}
	if err := r.Close(); err != nil {
		return a, core.E(core.Corrupt, "attributes: %v", err)
	}
	return a, nil
}

func attributesKey(q core.QueueID, o core.Offset) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{prefixAttributes}, uint64(q)), uint64(o))
}

// ReadAttributes is what is known of the message at an offset of a queue; of most messages
// there is nothing.
func ReadAttributes(r index.Reader, q core.QueueID, o core.Offset) (a Attributes, err error) {
	v, ok, err := r.Get(attributesKey(q, o))
	if err != nil || !ok {
		return a, err
	}
	return decodeAttributes(v)
}

// ScanAttributes calls fn for the messages of [from, to) of which something is known, in
// order, until it returns false.
func ScanAttributes(r index.Reader, q core.QueueID, from, to core.Offset, fn func(core.Offset, Attributes) bool) error {
	var bad error
	err := r.Scan(attributesKey(q, from), attributesKey(q, to), func(k, v []byte) bool {
		var a Attributes
		if a, bad = decodeAttributes(v); bad != nil {
			return false
		}
		return fn(core.Offset(binary.BigEndian.Uint64(k[9:])), a)
	})
	if err != nil {
		return err
	}
	return bad
}
