package core

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/s2"
)

// Java clients wrap snappy blocks in the framing of the xerial library:
//
//	 0                          8             12            16
//	+--------------------------+-------------+-------------+-----------+-------+---
//	| 0x82 'S' 'N' 'A' 'P' 'P' | version,    | compatible  | length of | block | …
//	| 'Y' 0                    | i32         | with, i32   | block,i32 |       |
//	+--------------------------+-------------+-------------+-----------+-------+---
//
// Other clients send one bare block. Readers of Kafka accept both.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	xerialHeaderLen = 16
	xerialBlockLen  = 32 << 10
)

var errXerial = errors.New("snappy framing ends inside a block")

// snappyReader inflates block by block.
type snappyReader struct {
	src    []byte // blocks still to come, or the whole
	framed bool   // the header of the framing was seen
	begun  bool
	limit  int    // of one block's output
	block  []byte // memory of rest
	rest   []byte // inflated, not read yet
}

func (r *snappyReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		b, err := r.next()
		if err != nil {
			return 0, err
		}
		if err := r.unpack(b); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next takes a packed block off src.
func (r *snappyReader) next() ([]byte, error) {
	if !r.begun {
		r.begun = true
		if r.framed = bytes.HasPrefix(r.src, xerialMagic); !r.framed {
			b := r.src
			r.src = nil
			return b, nil
		}
		if len(r.src) < xerialHeaderLen {
			return nil, errXerial
		}
		r.src = r.src[xerialHeaderLen:]
	}
	if len(r.src) == 0 {
		return nil, io.EOF
	}
	if len(r.src) < 4 {
		return nil, errXerial
	}
	n := binary.BigEndian.Uint32(r.src)
	r.src = r.src[4:]
	if uint64(n) > uint64(len(r.src)) {
		return nil, errXerial
	}
	b := r.src[:n]
	r.src = r.src[n:]
	return b, nil
}

// snappyRatio is above the best that the format can do: 64 bytes from 3.
const snappyRatio = 24

func (r *snappyReader) unpack(b []byte) (err error) {
	n, err := s2.DecodedLen(b)
	switch {
	case err != nil || n > snappyRatio*len(b):
		return E(Corrupt, "bad snappy block of %d bytes", len(b))
	case n > r.limit:
		return ErrInflated
	}
	r.block, err = s2.Decode(r.block[:cap(r.block)], b)
	r.rest = r.block
	return err
}

// xerialWriter packs what is written to it into framed blocks.
type xerialWriter struct {
	w       io.Writer
	plain   []byte
	packed  []byte
	started bool
}

func newXerialWriter(w io.Writer) *xerialWriter {
	return &xerialWriter{w: w, plain: make([]byte, 0, xerialBlockLen)}
}

func (x *xerialWriter) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		n := copy(x.plain[len(x.plain):cap(x.plain)], p)
		x.plain, p = x.plain[:len(x.plain)+n], p[n:]
		if len(x.plain) == cap(x.plain) {
			if err := x.flush(); err != nil {
				return 0, err
			}
		}
	}
	return total, nil
}

func (x *xerialWriter) flush() error {
	x.packed = x.packed[:0]
	if !x.started {
		x.started = true
		x.packed = append(append(x.packed, xerialMagic...), 0, 0, 0, 1, 0, 0, 0, 1)
	}
	if len(x.plain) > 0 {
		block := s2.EncodeSnappy(nil, x.plain)
		x.packed = binary.BigEndian.AppendUint32(x.packed, uint32(len(block)))
		x.packed = append(x.packed, block...)
	}
	x.plain = x.plain[:0]
	_, err := x.w.Write(x.packed)
	return err
}

// Close writes what is left.
func (x *xerialWriter) Close() error { return x.flush() }
