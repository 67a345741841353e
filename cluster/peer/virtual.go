package peer

import (
	"net"
	"sync"
)

// Listener gives the connections of one use. It knows every connection that it has
// given out, and closes them with itself.
type Listener struct {
	addr     net.Addr
	accepted chan net.Conn
	done     chan struct{}

	mu     sync.Mutex
	conns  map[*tracked]struct{} // guarded by mu; nil: closed
	closed sync.Once
}

func newListener(addr net.Addr) *Listener {
	return &Listener{addr: addr, accepted: make(chan net.Conn), done: make(chan struct{}), conns: map[*tracked]struct{}{}}
}

// Hand gives c to whoever accepts next, and waits for that.
func (l *Listener) Hand(c net.Conn) {
	t := &tracked{Conn: c, l: l}
	l.mu.Lock()
	open := l.conns != nil
	if open {
		l.conns[t] = struct{}{}
	}
	l.mu.Unlock()
	if open {
		select {
		case l.accepted <- t:
			return
		case <-l.done:
		}
	}
	_ = t.Close()
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.addr }

// Close implements net.Listener, and closes the connections that were accepted too.
func (l *Listener) Close() error {
	l.closed.Do(func() {
		close(l.done)
		l.mu.Lock()
		conns := l.conns
		l.conns = nil
		l.mu.Unlock()
		for c := range conns {
			_ = c.Close()
		}
	})
	return nil
}

// tracked leaves its listener's set when it is closed.
type tracked struct {
	net.Conn
	l *Listener
}

// Close implements net.Conn.
func (c *tracked) Close() error {
	c.l.mu.Lock()
	delete(c.l.conns, c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// address is a net.Addr of a text.
type address string

// Network implements net.Addr.
func (address) Network() string { return "tcp" }

// String implements net.Addr.
func (a address) String() string { return string(a) }
