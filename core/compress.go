package core

import (
	"bytes"
	"io"

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

// Compress appends src, compressed, to dst. level 0 is the codec's default.
func Compress(codec, level int, dst, src []byte) ([]byte, error) {
	if codec == CodecSnappy { // one bare block
		return append(dst, s2.EncodeSnappy(nil, src)...), nil
	}
	out := bytes.NewBuffer(dst)
	w, err := Deflate(codec, level, out)
	if err != nil {
		return dst, err
	}
	if _, err := w.Write(src); err != nil {
		return dst, E(Internal, "compress records: %v", err)
	}
	if err := w.Close(); err != nil {
		return dst, E(Internal, "compress records: %v", err)
	}
	return out.Bytes(), nil
}

// Deflate compresses what is written to it into w, until it is closed.
func Deflate(codec, level int, w io.Writer) (io.WriteCloser, error) {
	switch codec {
	case CodecNone:
		return nopCloser{w}, nil
	case CodecSnappy:
		return newXerialWriter(w), nil
	case CodecGzip:
		if level == 0 || level > gzip.BestCompression || level < gzip.HuffmanOnly {
			level = gzip.DefaultCompression
		}
		return gzip.NewWriterLevel(w, level)
	case CodecLZ4:
		return lz4.NewWriter(w), nil
	case CodecZstd:
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20),
			zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(max(level, 3))))
	default:
		return nil, E(Invalid, "compression codec %d, want 0 to 4", codec)
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
