package kafka

import (
	"bufio"
	"context"
	"errors"
	"io"
	"runtime"
	"sync"

	"polylog/core"
)

// Batches are inflated on two lanes. Nearly all inflate to little and take the light
// one, of a place for each core. What goes on beyond core.LightInflated starts again on
// the heavy lane, where few run at a time: a bomb keeps other bombs waiting, not the
// honest, and never every core.
type inflating struct {
	light, heavy chan struct{} // hold a token for each batch under way
}

func newInflating() inflating {
	n := runtime.GOMAXPROCS(0)
	return inflating{make(chan struct{}, n), make(chan struct{}, max(n/2, 1))}
}

// enter waits for a place on a lane; leave by taking a token out.
func enter(ctx context.Context, lane chan struct{}) error {
	select {
	case lane <- struct{}{}:
		return nil
	case <-ctx.Done():
		return core.E(core.Uncertain, "waiting to inflate records: %v", ctx.Err())
	}
}

// inspect does what needs a batch's inflated records: it checks them as they stream by,
// and stores them in the topic's codec where that differs from the producer's.
func (s *Server) inspect(ctx context.Context, v *validator, batch []byte) ([]byte, error) {
	on := func(lane chan struct{}, limit int) ([]byte, error) {
		if err := enter(ctx, lane); err != nil {
			return nil, err
		}
		defer func() { <-lane }()
		return v.inflate(batch, limit)
	}
	out, err := on(s.inflating.light, core.LightInflated)
	if errors.Is(err, core.ErrInflated) {
		out, err = on(s.inflating.heavy, core.MaxInflated)
	}
	if _, ok := errors.AsType[*recordError](err); err == nil || ok {
		return out, err
	}
	switch core.KindOf(err) {
	case core.TooLarge:
		return nil, badRecord(codeMessageTooLarge, "%s", err.Error())
	case core.Corrupt:
		return nil, badRecord(codeCorruptMessage, "%s", err.Error())
	default:
		return nil, err
	}
}

// inflate checks a batch whose records inflate to at most limit bytes, and returns it in
// the topic's codec.
func (v *validator) inflate(batch []byte, limit int) ([]byte, error) {
	h, _ := core.ParseBatchHeader(batch)
	in, err := core.Inflate(h.Codec(), batch[core.BatchHeaderLen:], limit)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var records io.Reader = in
	var out *core.BatchWriter
	if v.codec != h.Codec() {
		if out, err = core.NewBatchWriter(h, v.codec, 0, v.topic.Config.MaxMessageBytes); err != nil {
			return nil, err
		}
		records = io.TeeReader(in, out)
	}
	br := streamReaders.Get().(*bufio.Reader)
	defer streamReaders.Put(br)
	br.Reset(records)
	defer br.Reset(nil)
	w := v.walking(&h)
	if err := w.stream(br); err != nil {
		return nil, err
	}
	if out != nil {
		if batch, err = out.Finish(); err != nil {
			return nil, err
		}
	}
	v.stamp(batch, w.maxTime)
	return batch, nil
}

// streamReaders hold the part of the inflated records that is looked at.
var streamReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 32<<10) }}

// stream is walk for records that come out of a decompressor, whose errors it returns as
// they are.
func (w *walking) stream(br *bufio.Reader) error {
	for i := range w.count {
		n, err := binaryVarint(br)
		if err != nil || n < minRecord {
			return w.broken(i, err)
		}
		var r rawRecord
		ok := true
		if n <= int64(br.Size()) {
			var b []byte
			if b, err = br.Peek(int(n)); err == nil {
				r, ok = splitRecord(b)
				_, _ = br.Discard(int(n))
			}
		} else {
			r, err = longRecord(br, n)
		}
		if err != nil || !ok {
			return w.broken(i, err)
		}
		if err := w.record(i, &r); err != nil {
			return err
		}
	}
	switch _, err := br.ReadByte(); {
	case err == nil:
		return w.tooMany()
	case !errors.Is(err, io.EOF):
		return err
	}
	return w.end()
}

// broken is err, if it is the decompressor's, or what it means for record i.
func (w *walking) broken(i int32, err error) error {
	if _, ok := errors.AsType[*core.Error](err); ok {
		return err
	}
	return w.malformed(i)
}
