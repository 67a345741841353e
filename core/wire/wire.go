// Package wire has the encoders and the bounded reader for our own formats: log
// commands, index values, node-to-node messages. Encoders append to the caller's
// slice; the Reader remembers its first error, so that a decoder checks once, and
// never allocates more than the bytes that it was given could hold.
package wire

import (
	"encoding/binary"
	"errors"
)

// ErrShort says that the input ended inside a value, or that a length in it points
// past its end.
var ErrShort = errors.New("wire: input ends inside a value")

// ErrTrailing says that bytes are left after the last value.
var ErrTrailing = errors.New("wire: bytes after the last value")

// AppendUint64 appends v in 8 bytes, big-endian.
func AppendUint64(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

// AppendUint32 appends v in 4 bytes, big-endian.
func AppendUint32(dst []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(dst, v) }

// AppendUvarint appends v in 1 to 10 bytes, as encoding/binary does.
func AppendUvarint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

// AppendVarint appends v zigzag-encoded, as encoding/binary does.
func AppendVarint(dst []byte, v int64) []byte { return binary.AppendVarint(dst, v) }

// AppendBytes appends a uvarint length and then b. nil and empty read back as empty.
func AppendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// AppendString appends a uvarint length and then s.
func AppendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// AppendBool appends one byte, 1 or 0.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// Reader takes values off the front of a slice. After the first error every value
// is zero and Err reports it. The zero value reads nothing.
type Reader struct {
	b   []byte
	err error
}

// NewReader reads from b, which it does not copy.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Err is the first error, or nil.
func (r *Reader) Err() error { return r.err }

// Close is the first error, or ErrTrailing when bytes are left.
func (r *Reader) Close() error {
	if r.err == nil && len(r.b) > 0 {
		r.err = ErrTrailing
	}
	return r.err
}

// Len is the number of bytes left.
func (r *Reader) Len() int { return len(r.b) }

// Rest takes everything that is left, without copying.
func (r *Reader) Rest() []byte { return r.Take(len(r.b)) }

// Take takes n bytes without copying.
func (r *Reader) Take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		r.fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *Reader) fail() {
	if r.err == nil {
		r.err = ErrShort
	}
	r.b = nil
}

// Byte takes one byte.
func (r *Reader) Byte() byte {
	if b := r.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Bool takes one byte and is true unless it is 0.
func (r *Reader) Bool() bool { return r.Byte() != 0 }

// Uint32 takes 4 bytes, big-endian.
func (r *Reader) Uint32() uint32 {
	if b := r.Take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// Uint64 takes 8 bytes, big-endian.
func (r *Reader) Uint64() uint64 {
	if b := r.Take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Uvarint takes an unsigned varint.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.err != nil || n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Varint takes a zigzag varint.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.b)
	if r.err != nil || n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Bytes takes what AppendBytes wrote, without copying.
func (r *Reader) Bytes() []byte {
	n := r.Uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	return r.Take(int(n))
}

// String takes what AppendString wrote.
func (r *Reader) String() string { return string(r.Bytes()) }

// Count takes a uvarint that counts values of at least minLen bytes each, and fails
// unless that many can be left: what it returns is safe to allocate for.
func (r *Reader) Count(minLen int) int {
	n := r.Uvarint()
	if n > uint64(len(r.b)/max(minLen, 1)) {
		r.fail()
		return 0
	}
	return int(n)
}
