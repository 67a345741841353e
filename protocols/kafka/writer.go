package kafka

import (
	"context"
	"encoding/binary"
	"net"
	"time"

	"polylog/core"
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
	var parts []part
	from := 0 // start of what is in out but not yet in parts
	for _, p := range due {
		switch {
		case p.resp != nil:
			out.b = p.appendResponse(out.b, p.resp)
		case p.raw != nil:
			out.b = binary.BigEndian.AppendUint32(out.b, uint32(p.raw.size))
			parts = append(append(parts, part{bytes: out.b[from:]}), p.raw.parts...)
			from = len(out.b)
		}
	}
	if len(out.b) > from {
		parts = append(parts, part{bytes: out.b[from:]})
	}
	return c.send(parts)
}

// part is a part of what is sent: bytes, or n bytes at from of an extent.
type part struct {
	bytes   []byte
	extent  core.Extent
	from, n int64
}

func (p *part) len() int {
	if p.extent != nil {
		return int(p.n)
	}
	return len(p.bytes)
}

// send writes parts with a deadline for each writeStep, so that a slow client is given
// time in proportion and one that stopped reading is not. That also bounds how long an
// extent is held.
func (c *conn) send(parts []part) error {
	s := sender{conn: c}
	for i := range parts {
		p := &parts[i]
		err := s.addBytes(p.bytes)
		if p.extent != nil {
			err = s.extent(p)
		}
		if err != nil {
			return err
		}
	}
	return s.flush()
}

// sender sends parts in steps.
type sender struct {
	*conn
	bufs net.Buffers // of the next step
	size int         // of bufs, at most writeStep
}

func (s *sender) addBytes(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), writeStep-s.size)
		s.bufs, s.size = append(s.bufs, b[:n]), s.size+n
		b = b[n:]
		if s.size == writeStep {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush writes what was added.
func (s *sender) flush() error {
	if s.size == 0 {
		return nil
	}
	if err := s.extendDeadline(); err != nil {
		return err
	}
	bufs := s.bufs // WriteTo uses it up
	s.bufs, s.size = s.bufs[:0], 0
	_, err := bufs.WriteTo(s.nc)
	return err
}

// extent writes what was added, then a part of an extent.
func (s *sender) extent(p *part) error {
	if err := s.flush(); err != nil {
		return err
	}
	for from, left := p.from, p.n; left > 0; {
		if err := s.extendDeadline(); err != nil {
			return err
		}
		n, err := p.extent.SendTo(s.nc, from, min(left, writeStep))
		if err != nil {
			return err
		}
		from, left = from+n, left-n
	}
	return nil
}

// extendDeadline gives time for the next writeStep.
func (s *sender) extendDeadline() error {
	return s.nc.SetWriteDeadline(time.Now().Add(s.srv.opts.WriteTimeout))
}
