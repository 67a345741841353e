package amqp

import (
	"context"
	"sync"
	"time"

	"polylog/protocols/amqp/spec"
)

// flight counts what a connection has published that is not settled yet. The reader waits
// when there is too much of it.
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

// add counts a publish of n bytes.
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

// memory counts the bytes of messages of all connections that are being received or are not
// settled. Beyond the limit nobody may begin another message; beyond twice the limit those
// that are begun have to wait too.
type memory struct {
	limit int64

	mu    sync.Mutex // guards what follows
	bytes int64
	lower chan struct{} // closed when bytes falls below what somebody waits for; nil: nobody does
	bound int64         // what the last of them waits for: the lowest
}

func (m *memory) add(n int) {
	m.mu.Lock()
	m.bytes += int64(n)
	if m.lower != nil && m.bytes < m.bound {
		close(m.lower)
		m.lower = nil
	}
	m.mu.Unlock()
}

// below is nil when less than bound bytes are held, else a channel that closes when it may
// be so: look again then.
func (m *memory) below(bound int64) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bytes < bound {
		return nil
	}
	if m.lower == nil {
		m.lower, m.bound = make(chan struct{}), bound
	}
	m.bound = max(m.bound, bound) // whoever waits for less looks again
	return m.lower
}

func (m *memory) held() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// awaitMemory waits until another message may begin. A client that waits for long is told.
func (c *conn) awaitMemory(ctx context.Context) error {
	return c.awaitBelow(ctx, c.srv.memory.limit)
}

// awaitHard waits until a message that has begun may go on. That may be never, when all
// memory is held by such messages: whoever has waited for long is given up, and with it what
// it holds.
func (c *conn) awaitHard(ctx context.Context) error {
	if c.srv.memory.below(2*c.srv.memory.limit) == nil {
		return nil
	}
	tooLong := hard(spec.ResourceError, "no memory for the rest of a message")
	waiting, cancel := context.WithTimeoutCause(ctx, c.srv.opts.stall, tooLong)
	defer cancel()
	return c.awaitBelow(waiting, 2*c.srv.memory.limit)
}

func (c *conn) awaitBelow(ctx context.Context, bound int64) error {
	lower := c.srv.memory.below(bound)
	if lower == nil {
		return nil
	}
	patience := time.NewTimer(c.srv.opts.patience)
	defer patience.Stop()
	defer c.unblock()
	for lower != nil {
		select {
		case <-lower:
			lower = c.srv.memory.below(bound)
		case <-patience.C:
			c.block("low on memory")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
