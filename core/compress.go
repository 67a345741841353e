package core

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The compression codecs of a batch, by their number in its attributes.
const (
	CodecNone = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
)

// MaxInflated bounds what a batch's records may inflate to, in bytes, wherever the
// caller has no tighter bound: a compressed bomb costs that much and no more.
const MaxInflated = 128 << 20

// maxWindow bounds the history that a zstd frame may ask for. Kafka's clients use at
// most 8 MiB.
const maxWindow = 32 << 20

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

const xerialHeaderLen = 16

var (
	errInflated = E(TooLarge, "records inflate beyond the limit")
	errXerial   = errors.New("snappy framing ends inside a block")
)

// resetReader is a pooled decompressor.
type resetReader struct {
	io.Reader
	reset func(io.Reader) error
}

var inflaters = [...]*sync.Pool{
	CodecGzip: {New: func() any {
		r := new(gzip.Reader)
		return &resetReader{r, r.Reset}
	}},
	CodecLZ4: {New: func() any {
		r := lz4.NewReader(nil)
		return &resetReader{r, func(src io.Reader) error { r.Reset(src); return nil }}
	}},
	CodecZstd: {New: func() any {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(MaxInflated), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			panic(err) // our own options are wrong
		}
		return &resetReader{r, r.Reset}
	}},
}

// Decompress appends what src inflates to to dst, at most limit bytes of it: more is an
// error of kind TooLarge, damaged input one of kind Corrupt, an unknown codec Invalid.
// Memory grows with the output, not with what the input claims.
func Decompress(codec int, dst, src []byte, limit int) ([]byte, error) {
	switch codec {
	case CodecNone:
		if len(src) > limit {
			return dst, errInflated
		}
		return append(dst, src...), nil
	case CodecSnappy:
		return unsnap(dst, src, limit)
	case CodecGzip, CodecLZ4, CodecZstd:
		pool := inflaters[codec]
		r := pool.Get().(*resetReader)
		defer pool.Put(r)
		err := r.reset(bytes.NewReader(src))
		if err == nil {
			dst, err = readLimited(dst, r, limit)
		}
		if err != nil && KindOf(err) != TooLarge {
			err = E(Corrupt, "inflate records, codec %d: %v", codec, err)
		}
		return dst, err
	default:
		return dst, E(Invalid, "compression codec %d, want 0 to 4", codec)
	}
}

func readLimited(dst []byte, r io.Reader, limit int) ([]byte, error) {
	start := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if len(dst)-start > limit {
			return dst, errInflated
		}
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

func unsnap(dst, src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialMagic) {
		return unsnapBlock(dst, src, limit)
	}
	if len(src) < xerialHeaderLen {
		return dst, E(Corrupt, "inflate records: %v", errXerial)
	}
	for src = src[xerialHeaderLen:]; len(src) > 0; {
		if len(src) < 4 {
			return dst, E(Corrupt, "inflate records: %v", errXerial)
		}
		n := binary.BigEndian.Uint32(src)
		src = src[4:]
		if uint64(n) > uint64(len(src)) {
			return dst, E(Corrupt, "inflate records: %v", errXerial)
		}
		before := len(dst)
		var err error
		if dst, err = unsnapBlock(dst, src[:n], limit); err != nil {
			return dst, err
		}
		limit -= len(dst) - before
		src = src[n:]
	}
	return dst, nil
}

// snappyRatio is above the best that the format can do: 64 bytes from 3.
const snappyRatio = 24

func unsnapBlock(dst, src []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(src)
	switch {
	case err != nil || n > snappyRatio*len(src):
		return dst, E(Corrupt, "inflate records: bad snappy block of %d bytes", len(src))
	case n > limit:
		return dst, errInflated
	}
	at := len(dst)
	if cap(dst)-at < n {
		dst = append(make([]byte, 0, at+n), dst...)
	}
	out, err := s2.Decode(dst[at:at+n], src)
	if err != nil {
		return dst, E(Corrupt, "inflate records: %v", err)
	}
	return dst[:at+len(out)], nil
}

// Compress appends src, compressed, to dst. level 0 is the codec's default.
func Compress(codec, level int, dst, src []byte) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	var w io.WriteCloser
	switch codec {
	case CodecNone:
		return append(dst, src...), nil
	case CodecSnappy:
		return append(dst, s2.EncodeSnappy(nil, src)...), nil
	case CodecGzip:
		if level == 0 || level > gzip.BestCompression || level < gzip.HuffmanOnly {
			level = gzip.DefaultCompression
		}
		w, _ = gzip.NewWriterLevel(out, level)
	case CodecLZ4:
		w = lz4.NewWriter(out)
	case CodecZstd:
		e, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20),
			zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(max(level, 3))))
		if err != nil {
			return dst, E(Internal, "compress records: %v", err)
		}
		w = e
	default:
		return dst, E(Invalid, "compression codec %d, want 0 to 4", codec)
	}
	if _, err := w.Write(src); err != nil {
		return dst, E(Internal, "compress records: %v", err)
	}
	if err := w.Close(); err != nil {
		return dst, E(Internal, "compress records: %v", err)
	}
	return out.Bytes(), nil
}
