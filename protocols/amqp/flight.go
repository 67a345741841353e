package amqp

import (
	"context"
	"sync"
)

// flight counts what a connection has published that is not settled yet, by the memory that it takes. The
// reader waits when there is too much of it.
type flight struct {
	memory *memory // of all connections
	limit  int64

	mu    sync.Mutex // guards what follows
	bytes int64
	count int
	wake  chan struct{} // for the reader, of capacity 1: there is less
}

func (f *flight) init(m *memory, limit int64) {
	f.memory, f.limit, f.wake = m, limit, make(chan struct{}, 1)
}

// add counts a publish that takes n bytes.
func (f *flight) add(n int) {
	f.memory.add(n)
	f.mu.Lock()
	f.bytes += int64(n)
	f.count++
	f.mu.Unlock()
}

// done ends a publish that was added with the same n.
func (f *flight) done(n int) {
	f.memory.add(-n)
	f.mu.Lock()
	f.bytes -= int64(n)
	f.count--
	f.mu.Unlock()
	signal(f.wake)
}

func (f *flight) held() (bytes int64, count int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes, f.count
}

// await waits until ok. It is called by the reader's goroutine only, as room and drained are.
func (f *flight) await(ctx context.Context, ok func(bytes int64, count int) bool) error {
	for !ok(f.held()) {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// room waits until there is room for another publish.
func (f *flight) room(ctx context.Context) error {
	return f.await(ctx, func(bytes int64, _ int) bool { return bytes < f.limit })
}

// drained waits until everything published is settled.
func (f *flight) drained(ctx context.Context) error {
	return f.await(ctx, func(_ int64, count int) bool { return count == 0 })
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
