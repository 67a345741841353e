package core

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// LightInflated is how much can be inflated with little memory and time: up to it,
// Inflate takes no zstd frame that asks for much history.
const LightInflated = 4 << 20

// Bounds of the history that a zstd frame may ask for. Kafka's clients use 2 MiB, and at
// their highest levels more than 8.
const (
	lightWindow = 8 << 20
	maxWindow   = 32 << 20
)

// ErrInflated says that records inflate beyond the limit.
var ErrInflated = E(TooLarge, "records inflate beyond the limit")

// decoder is a pooled decompressor.
type decoder struct {
	io.Reader
	reset func(io.Reader) error
	pool  *sync.Pool
}

func decoders(make func() (io.Reader, func(io.Reader) error)) *sync.Pool {
	pool := new(sync.Pool)
	pool.New = func() any {
		r, reset := make()
		return &decoder{r, reset, pool}
	}
	return pool
}

func zstdDecoders(window uint64) *sync.Pool {
	return decoders(func() (io.Reader, func(io.Reader) error) {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(MaxInflated), zstd.WithDecoderMaxWindow(window))
		if err != nil {
			panic(err) // our own options are wrong
		}
		return r, r.Reset
	})
}

var (
	noDecoders = decoders(func() (io.Reader, func(io.Reader) error) {
		r := bytes.NewReader(nil)
		return r, func(src io.Reader) error { *r = *src.(*bytes.Reader); return nil }
	})
	gzipDecoders = decoders(func() (io.Reader, func(io.Reader) error) {
		r := new(gzip.Reader)
		return r, r.Reset
	})
	lz4Decoders = decoders(func() (io.Reader, func(io.Reader) error) {
		r := lz4.NewReader(nil)
		return r, func(src io.Reader) error { r.Reset(src); return nil }
	})
	lightZstdDecoders, heavyZstdDecoders = zstdDecoders(lightWindow), zstdDecoders(maxWindow)
)

// snappyBlocks are pooled inflated blocks, up to LightInflated.
var snappyBlocks = sync.Pool{New: func() any { return new([]byte) }}

// Inflater reads what compressed records inflate to, in memory that does not grow with
// it (but for snappy, whose blocks have to be whole). Its errors are of kind TooLarge
// beyond the limit, and Corrupt for damaged input.
type Inflater struct {
	r     io.Reader
	d     *decoder // nil: not pooled
	codec int
	left  int
	err   error   // that ended it
	block *[]byte // pooled memory of snappy
}

// Inflate starts to inflate src, to at most limit bytes. Close must be called.
func Inflate(codec int, src []byte, limit int) (*Inflater, error) {
	return inflate(codec, src, limit, limit > LightInflated)
}

func inflate(codec int, src []byte, limit int, heavy bool) (*Inflater, error) {
	i := &Inflater{codec: codec, left: limit}
	var pool *sync.Pool
	switch codec {
	case CodecNone:
		pool = noDecoders
	case CodecGzip:
		pool = gzipDecoders
	case CodecSnappy:
		i.block = snappyBlocks.Get().(*[]byte)
		i.r = &snappyReader{src: src, limit: limit, block: *i.block}
		return i, nil
	case CodecLZ4:
		pool = lz4Decoders
	case CodecZstd:
		if pool = lightZstdDecoders; heavy {
			pool = heavyZstdDecoders
		}
	default:
		return nil, E(Invalid, "compression codec %d, want 0 to 4", codec)
	}
	i.d = pool.Get().(*decoder)
	i.r = i.d
	if err := i.d.reset(bytes.NewReader(src)); err != nil {
		i.Close()
		return nil, i.failed(err)
	}
	return i, nil
}

// Read implements io.Reader.
func (i *Inflater) Read(p []byte) (int, error) {
	if i.err != nil {
		return 0, i.err
	}
	if len(p) > i.left+1 { // one byte more shows that there is more
		p = p[:i.left+1]
	}
	n, err := i.r.Read(p)
	switch {
	case n > i.left:
		n, i.err = i.left, ErrInflated
	case errors.Is(err, io.EOF):
		i.err = io.EOF
	case err != nil:
		i.err = i.failed(err)
	}
	i.left -= n
	return n, i.err
}

func (i *Inflater) failed(err error) error {
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded), KindOf(err) == TooLarge:
		return ErrInflated
	default:
		return E(Corrupt, "inflate records, codec %d: %v", i.codec, err)
	}
}

// Close gives the decompressor back.
func (i *Inflater) Close() {
	if i.d != nil {
		i.d.pool.Put(i.d)
		i.d, i.r = nil, nil
	}
	if s, ok := i.r.(*snappyReader); ok {
		if cap(s.block) <= LightInflated {
			*i.block = s.block
			snappyBlocks.Put(i.block)
		}
		i.r = nil
	}
}

// Decompress appends what src inflates to to dst, at most limit bytes of it: more is an
// error of kind TooLarge, damaged input one of kind Corrupt, an unknown codec Invalid.
// Memory grows with the output, not with what the input claims.
func Decompress(codec int, dst, src []byte, limit int) ([]byte, error) {
	r, err := inflate(codec, src, limit, true)
	if err != nil {
		return dst, err
	}
	defer r.Close()
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}
