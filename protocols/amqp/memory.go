package amqp

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"polylog/protocols/amqp/spec"
)

// memory counts the bytes of messages of all connections that are being received or are not
// settled. Nobody may begin another message beyond the limit. What comes in several frames
// counts from the first one on with the size that its header announced, so that what has begun
// never waits for more.
type memory struct {
	limit int64

	mu      sync.Mutex // guards what follows
	bytes   int64
	kept    int64 // of bytes: by transactions that are open
	uploads map[*upload]struct{}
	waiting []*waiter // in turn
}

// upload is a message that is being received in several frames.
type upload struct {
	conn *conn
	size int64
	got  atomic.Int64 // bytes that have come

	// The sweep's own: what had come at a time since when it gained less than minGain.
	seen  int64
	since time.Time
}

// minGain is what has to come of an upload within Options.stall when others wait for memory,
// or all of the rest.
const minGain = 1 << 20

// waiter waits for memory.
type waiter struct {
	upload *upload       // nil: for a message in one frame, which is counted when it was published
	ready  chan struct{} // closed when its turn has come
}

// add counts n bytes of messages that were published.
func (m *memory) add(n int) {
	m.mu.Lock()
	m.bytes += int64(n)
	if n < 0 {
		m.admitLocked()
	}
	m.mu.Unlock()
}

// keep counts n bytes of a transaction, which its client may leave open for ever: half of all are for those that are
// open, and false says that they have no more. What is counted is given back by letGo.
func (m *memory) keep(n int) (counted int, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counted = int(min(int64(n), m.limit/2))
	if m.kept+int64(counted) > m.limit/2 {
		return 0, false
	}
	m.kept += int64(counted)
	m.bytes += int64(counted)
	return counted, true
}

func (m *memory) letGo(counted int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept -= int64(counted)
	m.bytes -= int64(counted)
	m.admitLocked()
}

// enter is nil when a message may begin, else what to wait for.
func (m *memory) enter() *waiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 && m.bytes < m.limit {
		return nil
	}
	return m.waitLocked(&waiter{}, len(m.waiting))
}

// reserve counts an upload, now or when what it returns is ready; release gives it back.
// Those who have begun another one, and cannot finish it before they have this one, go first.
func (m *memory) reserve(u *upload, first bool) *waiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := &waiter{upload: u}
	if (first || len(m.waiting) == 0) && m.fitsLocked(w) {
		m.beginLocked(u)
		return nil
	}
	if first {
		return m.waitLocked(w, 0)
	}
	return m.waitLocked(w, len(m.waiting))
}

func (m *memory) waitLocked(w *waiter, at int) *waiter {
	w.ready = make(chan struct{})
	m.waiting = slices.Insert(m.waiting, at, w)
	return w
}

// fitsLocked reports whether there is memory. For what is larger than the limit that is when
// nothing else is held, but by transactions: one may need it to end.
func (m *memory) fitsLocked(w *waiter) bool {
	if w.upload == nil {
		return m.bytes < m.limit
	}
	return m.bytes+w.upload.size <= m.limit || m.bytes == m.kept
}

func (m *memory) beginLocked(u *upload) {
	m.bytes += u.size
	m.uploads[u] = struct{}{}
}

// admitLocked lets those go on whose turn it is.
func (m *memory) admitLocked() {
	for len(m.waiting) > 0 && m.fitsLocked(m.waiting[0]) {
		w := m.waiting[0]
		m.waiting[0] = nil
		m.waiting = m.waiting[1:]
		if w.upload != nil {
			m.beginLocked(w.upload)
		}
		close(w.ready)
	}
}

// release gives back what an upload has. When it has nothing it does nothing.
func (m *memory) release(u *upload) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.uploads[u]; ok {
		delete(m.uploads, u)
		m.bytes -= u.size
		m.admitLocked()
	}
}

// leave takes out somebody who does not wait any more.
func (m *memory) leave(w *waiter) {
	m.mu.Lock()
	if i := slices.Index(m.waiting, w); i >= 0 {
		m.waiting = slices.Delete(m.waiting, i, i+1)
		m.admitLocked()
	}
	m.mu.Unlock()
	if w.upload != nil {
		m.release(w.upload)
	}
}

func (m *memory) held() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// stalled are the uploads that gain too little while others wait. It is the sweep's.
func (m *memory) stalled(now time.Time, stall time.Duration) []*upload {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*upload
	for u := range m.uploads {
		got := u.got.Load()
		switch {
		case len(m.waiting) == 0, u.since.IsZero(), got-u.seen >= minGain, got == u.size:
			u.seen, u.since = got, now
		case now.Sub(u.since) >= stall:
			out = append(out, u)
		}
	}
	return out
}

// giveUpStalled closes connections that hold memory for which others wait.
func (s *Server) giveUpStalled(now time.Time) {
	for _, u := range s.memory.stalled(now, s.opts.stall) {
		u.conn.close(hard(spec.ResourceError, "others wait for the memory of a message that comes too slowly").of(spec.BasicPublishID))
	}
}

// await waits for memory. A client that waits for long is told. w may be nil.
func (c *conn) await(ctx context.Context, w *waiter) error {
	if w == nil {
		return nil
	}
	patience := time.NewTimer(c.srv.opts.patience)
	defer patience.Stop()
	defer c.unblock()
	for {
		select {
		case <-w.ready:
			return nil
		case <-patience.C:
			c.block("low on memory")
		case <-ctx.Done():
			c.srv.memory.leave(w)
			return context.Cause(ctx)
		}
	}
}
