package kafka

import (
	"context"
	"encoding/binary"
	"net"
	"time"
)

// writeStep is the number of bytes that one write deadline covers.
const writeStep = 1 << 20

// write sends responses as they become due, all that are due together, until the
// connection ends.
func (c *conn) write(ctx context.Context) {
	var due []*call
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return
		}
		due = c.takeDue(due[:0])
		if len(due) == 0 {
			continue
		}
		err := c.writeAll(due)
		c.retire(due)
		if err != nil {
			c.close(err)
			return
		}
	}
}

// takeDue returns the finished calls at the front of pending. They stay pending until
// they are written, so that their number and size remain bounded.
func (c *conn) takeDue(due []*call) []*call {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pending {
		if !p.done {
			break
		}
		due = append(due, p)
	}
	if len(due) > 0 {
		c.writing = len(due)
	}
	return due
}

// retire drops written calls from pending and lets the reader go on.
func (c *conn) retire(due []*call) {
	c.mu.Lock()
	if !c.closed {
		for _, p := range due {
			c.pendingBytes -= int(p.hold.held)
		}
		n := copy(c.pending, c.pending[len(due):])
		clear(c.pending[n:])
		c.pending = c.pending[:n]
	}
	c.writing = 0
	more := len(c.pending) > 0 && c.pending[0].done
	c.mu.Unlock()
	for _, p := range due {
		p.end()
	}
	signal(c.room)
	if more {
		signal(c.wake)
	}
}

// writeAll encodes and sends the answers of due.
func (c *conn) writeAll(due []*call) error {
	out := getBuffer(1 << minClass)
	defer func() { out.release() }()
	var bufs net.Buffers
	from := 0 // start of what is in out but not yet in bufs
	for _, p := range due {
		switch {
		case p.resp != nil:
			out.b = p.appendResponse(out.b, p.resp)
		case p.raw != nil:
			out.b = binary.BigEndian.AppendUint32(out.b, uint32(p.raw.size))
			bufs = append(append(bufs, out.b[from:]), p.raw.bufs...)
			from = len(out.b)
		}
	}
	if len(out.b) > from {
		bufs = append(bufs, out.b[from:])
	}
	return c.send(bufs)
}

// send writes bufs with a deadline for each writeStep, so that a slow client is given
// time in proportion and one that stopped reading is not.
func (c *conn) send(bufs net.Buffers) error {
	for len(bufs) > 0 {
		if b := bufs[0]; len(b) > writeStep {
			bufs[0] = b[writeStep:]
			if err := c.sendStep(net.Buffers{b[:writeStep]}); err != nil {
				return err
			}
			continue
		}
		n, size := 0, 0
		for n < len(bufs) && (n == 0 || size+len(bufs[n]) <= writeStep) {
			size += len(bufs[n])
			n++
		}
		if err := c.sendStep(bufs[:n:n]); err != nil {
			return err
		}
		bufs = bufs[n:]
	}
	return nil
}

func (c *conn) sendStep(step net.Buffers) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.srv.opts.WriteTimeout)); err != nil {
		return err
	}
	_, err := step.WriteTo(c.nc)
	return err
}
