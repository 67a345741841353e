package simtest

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// network carries bytes between hosts, in memory: in order, with a delay for each
// direction of each pair of hosts. What is sent into a cut direction waits there until
// the cut heals, as TCP would send it again; nobody is told. A write never blocks.
type network struct {
	mu        sync.Mutex // guards everything here and in its connections
	rnd       *rand.Rand
	links     [][]link // from, to
	listeners map[string]*listener
	conns     map[*conn]struct{}
	changed   chan struct{} // closed, and replaced, when a link changes
}

// link is one direction between two hosts.
type link struct {
	cut      bool
	min, max time.Duration // a packet's delay
}

const (
	shortDelay = 100 * time.Microsecond
	usualDelay = time.Millisecond
)

func newNetwork(hosts int, rnd *rand.Rand) *network {
	n := &network{rnd: rnd, listeners: map[string]*listener{}, conns: map[*conn]struct{}{}, changed: make(chan struct{})}
	for range hosts {
		n.links = append(n.links, make([]link, hosts))
	}
	n.heal()
	return n
}

// heal makes every link what it was in the beginning.
func (n *network) heal() {
	n.change(func(_, _ int, l *link) { *l = link{min: shortDelay, max: usualDelay} })
}

// change lets fn set each link between two hosts.
func (n *network) change(fn func(from, to int, l *link)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for from := range n.links {
		for to := range n.links[from] {
			if from != to {
				fn(from, to, &n.links[from][to])
			}
		}
	}
	close(n.changed)
	n.changed = make(chan struct{})
	for c := range n.conns {
		c.wakeLocked()
	}
}

func (n *network) delayLocked(from, to int) time.Duration {
	l := n.links[from][to]
	return l.min + time.Duration(n.rnd.Int64N(int64(l.max-l.min)+1))
}

// listener is a host's open port. owner is the process that has it.
type listener struct {
	n       *network
	host    int
	owner   *process
	addr    addr
	backlog chan net.Conn
	done    chan struct{}
	once    sync.Once
}

func (n *network) listen(host int, owner *process, at string) *listener {
	l := &listener{n: n, host: host, owner: owner, addr: addr(at), backlog: make(chan net.Conn, 128), done: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[at] = l
	return l
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.n.mu.Lock()
		defer l.n.mu.Unlock()
		if l.n.listeners[string(l.addr)] == l {
			delete(l.n.listeners, string(l.addr))
		}
	})
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }

// dial connects a process to whoever listens at an address. It waits while either
// direction is cut.
func (n *network) dial(ctx context.Context, from *process, to string, host int) (net.Conn, error) {
	for {
		n.mu.Lock()
		up, changed := !n.links[from.node.host][host].cut && !n.links[host][from.node.host].cut, n.changed
		trip := n.delayLocked(from.node.host, host) + n.delayLocked(host, from.node.host)
		n.mu.Unlock()
		if up {
			select {
			case <-time.After(trip):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			return n.connect(from, to)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (n *network) connect(from *process, to string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.listeners[to]
	if l == nil || from.cutOff {
		return nil, syscall.ECONNREFUSED
	}
	near := &conn{n: n, owner: from, local: addr(from.node.addr), remote: l.addr, changed: make(chan struct{})}
	far := &conn{n: n, owner: l.owner, local: l.addr, remote: near.local, changed: make(chan struct{})}
	near.peer, far.peer = far, near
	select {
	case l.backlog <- far:
	default:
		return nil, syscall.ECONNREFUSED
	}
	n.conns[near], n.conns[far] = struct{}{}, struct{}{}
	return near, nil
}

// sever ends a process's part in the network: it sends and hears nothing more. Others
// are told so when tell is set (the operating system lives), or by reboot.
func (n *network) sever(p *process, tell bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.cutOff = true
	for c := range n.conns {
		if c.owner != p {
			continue
		}
		c.err = net.ErrClosed
		c.wakeLocked()
		delete(n.conns, c)
		if tell {
			c.peer.resetLocked()
		}
	}
	for at, l := range n.listeners {
		if l.owner == p {
			delete(n.listeners, at)
		}
	}
}

// reboot resets the connections that others still have to processes of a host that are
// gone.
func (n *network) reboot(host int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.peer.owner.node.host == host && c.peer.owner.cutOff {
			c.resetLocked()
		}
	}
}

// conn is one end of a connection.
type conn struct {
	n             *network
	owner         *process
	peer          *conn
	local, remote addr

	in       []packet
	err      error // of every call from now on
	deadline time.Time
	changed  chan struct{} // closed, and replaced, when something above has changed
}

// packet is what one Write has sent; without bytes it is the end.
type packet struct {
	b  []byte
	at time.Time // when it arrives
}

func (c *conn) wakeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *conn) resetLocked() {
	if c.err == nil {
		c.err = syscall.ECONNRESET
		c.wakeLocked()
	}
	delete(c.n.conns, c)
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	for {
		c.n.mu.Lock()
		k, wait, err := c.readLocked(b)
		changed := c.changed
		c.n.mu.Unlock()
		if k > 0 || err != nil {
			return k, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// readLocked takes what is there, or says how long to wait.
func (c *conn) readLocked(b []byte) (k int, wait time.Duration, err error) {
	now := time.Now()
	wait = time.Hour
	if c.err != nil {
		return 0, 0, c.err
	}
	if !c.deadline.IsZero() {
		if wait = min(wait, c.deadline.Sub(now)); wait <= 0 {
			return 0, 0, os.ErrDeadlineExceeded
		}
	}
	if len(c.in) == 0 || c.n.links[c.peer.owner.node.host][c.owner.node.host].cut {
		return 0, wait, nil
	}
	p := &c.in[0]
	if p.at.After(now) {
		return 0, min(wait, p.at.Sub(now)), nil
	}
	if len(p.b) == 0 {
		return 0, 0, io.EOF
	}
	k = copy(b, p.b)
	if p.b = p.b[k:]; len(p.b) == 0 {
		c.in = c.in[1:]
	}
	return k, 0, nil
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	if len(b) > 0 {
		c.peer.arriveLocked(append([]byte(nil), b...))
	}
	return len(b), nil
}

func (c *conn) arriveLocked(b []byte) {
	at := time.Now().Add(c.n.delayLocked(c.peer.owner.node.host, c.owner.node.host))
	if last := len(c.in) - 1; last >= 0 && c.in[last].at.After(at) {
		at = c.in[last].at
	}
	c.in = append(c.in, packet{b, at})
	c.wakeLocked()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if errors.Is(c.err, net.ErrClosed) {
		return nil
	}
	if c.err == nil {
		c.peer.arriveLocked(nil)
	}
	c.err = net.ErrClosed
	c.wakeLocked()
	delete(c.n.conns, c)
	return nil
}

// SetDeadline implements net.Conn. Only reads have one: writes never wait.
func (c *conn) SetDeadline(t time.Time) error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	c.deadline = t
	c.wakeLocked()
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

type addr string

// Network implements net.Addr.
func (addr) Network() string { return "tcp" }

// String implements net.Addr.
func (a addr) String() string { return string(a) }
