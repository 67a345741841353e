package amqp

import (
	"context"
	"net"
)

// source has something to send whenever there is room: the deliveries of a consumer, or
// confirms.
type source interface {
	// feed queues what there is, while conn.hasRoom; when it stops for lack of room it
	// calls conn.ready again. It runs on the writer's goroutine and does not block.
	feed()
	// waits is whether it is on the writer's list; see turn.
	waits() *bool
}

// turn is embedded by sources.
type turn struct{ waiting bool } // guarded by output.mu

func (t *turn) waits() *bool { return &t.waiting }

// Bounds of what is queued for a client, in bytes.
const (
	maxFed    = 512 << 10 // beyond it sources have to wait
	maxQueued = 2 << 20   // beyond it the client's own requests have to wait
)

// ready has the writer call s.feed, once for any number of calls before it does.
func (c *conn) ready(s source) {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if waiting := s.waits(); !*waiting {
		*waiting = true
		o.sources = append(o.sources, s)
		signal(o.wake)
	}
}

// hasRoom reports whether sources may queue more.
func (c *conn) hasRoom() bool { return c.out.size.Load() < maxFed }

// awaitRoom waits until the client has read enough of what it was sent.
func (c *conn) awaitRoom(ctx context.Context) error {
	for c.out.size.Load() > maxQueued {
		select {
		case <-c.out.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// write sends what is queued until the connection ends.
func (c *conn) write(ctx context.Context) {
	for {
		select {
		case <-c.out.wake:
		case <-ctx.Done():
			return
		}
		for {
			fed := c.feed()
			queued, last := c.out.take(fed)
			if queued.frames == nil {
				if last {
					return
				}
				break
			}
			err := c.sendChunk(queued)
			queued.frames.release()
			signal(c.out.room)
			if err != nil {
				c.abort(err)
				return
			}
		}
	}
}

// feed asks the sources that wait, each once at most, for as long as there is room. It
// reports whether all of them were asked.
func (c *conn) feed() bool {
	for range c.out.waiting() {
		if !c.hasRoom() {
			return false
		}
		if s := c.out.nextSource(); s != nil {
			s.feed()
		}
	}
	return true
}

func (o *output) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.sources)
}

func (o *output) nextSource() source {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.sources) == 0 {
		return nil
	}
	s := o.sources[0]
	*s.waits() = false
	o.sources[0] = nil
	if o.sources = o.sources[1:]; len(o.sources) == 0 {
		o.sources = nil
	}
	return s
}

// take takes everything that is queued. last is true when nothing will follow. fed says that
// the sources were all asked.
func (o *output) take(fed bool) (queued chunk, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last != nil && fed && !o.closed.Load() {
		o.endLocked(o.last)
	}
	queued, o.queued = o.queued, chunk{}
	if queued.frames != nil {
		o.usual = len(queued.frames.b)
	}
	o.size.Store(0)
	return queued, o.finished
}

// finish has the writer end when it has sent everything.
func (o *output) finish() {
	o.mu.Lock()
	o.finished = true
	o.mu.Unlock()
	signal(o.wake)
}

// sendChunk writes a chunk to the socket.
func (c *conn) sendChunk(q chunk) error {
	c.heart.sent.Add(1)
	if len(q.bodies) == 0 {
		_, err := c.nc.Write(q.frames.b)
		return err
	}
	bufs := make(net.Buffers, 0, 2*len(q.bodies)+1)
	from := 0
	for _, b := range q.bodies {
		bufs = append(bufs, q.frames.b[from:b.at], b.body)
		from = b.at
	}
	bufs = append(bufs, q.frames.b[from:])
	_, err := bufs.WriteTo(c.nc)
	return err
}
