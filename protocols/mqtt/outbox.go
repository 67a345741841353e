package mqtt

import (
	"net"
	"sync"
	"time"
)

// outbox is what a connection is yet to be sent. Whoever has something appends it; a
// goroutine that is there only while there is something writes all that has gathered at
// once.
type outbox struct {
	nc      net.Conn
	metrics *metrics
	timeout time.Duration // of one write
	failed  func(error)   // called once, when a write has failed

	mu      sync.Mutex // guards what follows
	room    func()     // called when there is less than lowWater again, without the lock; nil: nobody waits
	changed sync.Cond  // on mu: something was written, or broken
	buf     []byte
	spare   []byte
	sending int // bytes that are being written; -1: a writer is there, which is about to look
	broken  bool
	hurry   bool // nobody waits for room any more
	writers sync.WaitGroup
}

const (
	// highWater is the bytes in an outbox above which nothing is added that can wait or be
	// left out.
	highWater = 256 << 10
	lowWater  = highWater / 2
	// keptBuffer is the largest buffer that an idle outbox keeps.
	keptBuffer = 1 << 10
	// maxWrite bounds one write, so that its time-out is that of a stuck client, not of a slow one.
	maxWrite = 64 << 10
)

func (o *outbox) init(nc net.Conn, m *metrics, timeout time.Duration) {
	o.nc, o.metrics, o.timeout = nc, m, timeout
	o.changed.L = &o.mu
}

// onRoom has room called whenever there is some again.
func (o *outbox) onRoom(room func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.room = room
}

// put adds the packet that fn appends.
func (o *outbox) put(fn func([]byte) []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.putLocked(fn)
}

// tryPut is put unless the outbox is full.
func (o *outbox) tryPut(fn func([]byte) []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unsentLocked() >= highWater {
		return false
	}
	o.putLocked(fn)
	return true
}

func (o *outbox) putLocked(fn func([]byte) []byte) {
	if o.broken {
		return
	}
	idle := len(o.buf) == 0 && o.sending == 0
	o.metrics.packetsOut.Add(1)
	o.buf = fn(o.buf)
	if idle && len(o.buf) > 0 {
		o.sending = -1
		o.writers.Add(1)
		go o.write()
	}
}

// unsent is how many bytes are not written yet.
func (o *outbox) unsent() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unsentLocked()
}

func (o *outbox) unsentLocked() int { return len(o.buf) + max(0, o.sending) }

// awaitRoom waits until the outbox is not full, or broken.
func (o *outbox) awaitRoom() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.broken && !o.hurry && o.unsentLocked() >= highWater {
		o.changed.Wait()
	}
}

// flush waits until everything is written, or the outbox is broken.
func (o *outbox) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.broken && (len(o.buf) > 0 || o.sending != 0) {
		o.changed.Wait()
	}
}

// abandon gives up what is not written.
func (o *outbox) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.broken = true
	o.buf = nil
	o.changed.Broadcast()
}

// write writes until there is nothing to write.
func (o *outbox) write() {
	defer o.writers.Done()
	for {
		o.mu.Lock()
		o.sending = 0
		if len(o.buf) == 0 || o.broken {
			if cap(o.buf) > keptBuffer {
				o.buf = nil
			}
			o.spare = nil
			o.changed.Broadcast()
			o.mu.Unlock()
			return
		}
		out := o.buf
		o.buf, o.sending = o.spare[:0], len(out)
		o.mu.Unlock()

		err := o.send(out)

		o.mu.Lock()
		o.spare = out
		first := err != nil && !o.broken
		if err != nil {
			o.broken, o.buf = true, nil
		}
		room := o.room
		low := len(o.buf) < lowWater
		o.sending = -1
		o.changed.Broadcast()
		o.mu.Unlock()
		switch {
		case first && o.failed != nil:
			o.failed(err)
		case err == nil && low && room != nil:
			room()
		}
	}
}

func (o *outbox) send(b []byte) error {
	for len(b) > 0 {
		if err := o.nc.SetWriteDeadline(time.Now().Add(o.timeout)); err != nil {
			return err
		}
		n, err := o.nc.Write(b[:min(len(b), maxWrite)])
		o.metrics.bytesOut.Add(int64(n))
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// wake ends waiting for room.
func (o *outbox) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hurry = true
	o.changed.Broadcast()
}
