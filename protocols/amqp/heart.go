package amqp

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// heart is the socket as the reader sees it, which counts what goes by, and what the server's
// sweep knows of it. Heartbeats and time-outs so need no timer for each connection, and no
// look at the clock for each frame.
type heart struct {
	nc      net.Conn
	onStop  func() error // what the reader does when stop has woken it; an error is the end
	reading atomic.Bool  // the reader waits for bytes; else silence is our own fault
	bytes   atomic.Int64 // read
	sent    atomic.Int64 // writes
	period  atomic.Int64 // ns between heartbeats, of the client's choice; 0: none

	// The sweep's own.
	read, written       int64
	readTime, writeTime time.Time
}

func (h *heart) init(nc net.Conn) { h.nc = nc }

// begin starts heartbeats; 0 means none.
func (h *heart) begin(period time.Duration) { h.period.Store(int64(period)) }

// Read implements io.Reader.
func (h *heart) Read(b []byte) (int, error) {
	for {
		h.reading.Store(true)
		n, err := h.nc.Read(b)
		h.reading.Store(false)
		h.bytes.Add(int64(n))
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if err := h.onStop(); err != nil {
			return 0, err
		}
	}
}

// look says what is to be done at a time: send a heartbeat after half a period without any
// other frame, or give the client up after two and a half without any from it (section 4.2.7).
func (h *heart) look(now time.Time) (beat, silent bool) {
	if n := h.bytes.Load(); n != h.read || !h.reading.Load() || h.readTime.IsZero() {
		h.read, h.readTime = n, now
	}
	if n := h.sent.Load(); n != h.written || h.writeTime.IsZero() {
		h.written, h.writeTime = n, now
	}
	period := time.Duration(h.period.Load())
	if period == 0 {
		return false, false
	}
	return now.Sub(h.writeTime) >= period/2, now.Sub(h.readTime) >= period*5/2
}

// sweep looks after all connections until the server stops.
func (s *Server) sweep() {
	tick := time.NewTicker(s.opts.heartbeatUnit / 4)
	defer tick.Stop()
	var looked, timed time.Time // for deleted virtual hosts, and for overdue acknowledgements
	for {
		select {
		case <-s.stopped:
			return
		case now := <-tick.C:
			cs := s.all()
			for _, c := range cs {
				c.look(now)
			}
			s.giveUpStalled(now)
			if now.Sub(timed) >= overdueInterval {
				timed = now
				s.closeOverdue(cs)
			}
			if now.Sub(looked) >= vhostInterval {
				looked = now
				s.leaveDeleted(cs)
			}
		}
	}
}

// look sends the connection's heartbeat when it is due, and aborts it when its time is over.
func (c *conn) look(now time.Time) {
	if at := c.deadline.Load(); at != 0 && now.UnixNano() >= at {
		c.abort(errTimeout)
		return
	}
	beat, silent := c.heart.look(now)
	if silent {
		c.srv.metrics.silent.Add(1)
		c.abort(errSilent)
		return
	}
	if beat {
		c.heartbeat()
	}
}
