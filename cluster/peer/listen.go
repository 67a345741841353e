package peer

import (
	"errors"
	"io"
	"net"
	"time"

	"polylog/core"
)

const (
	// maxConnections bounds the connections that others have here.
	maxConnections = 512
	// maxGreetings bounds those of one host whose greeting is under way, or whoever says nothing
	// would keep the other nodes out.
	maxGreetings = 64
	// greetingTimeout bounds TLS and the greeting, on either side.
	greetingTimeout = 5 * time.Second
	// acceptPause is how long nothing is accepted after an error, as when the process
	// is out of file descriptors.
	acceptPause = 50 * time.Millisecond
)

func (n *Network) acceptLoop() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		c, err := n.o.Listener.Accept()
		if err != nil {
			pause.Reset(acceptPause)
			select {
			case <-n.ctx.Done():
				return
			case <-pause.C:
				continue
			}
		}
		select {
		case n.slots <- struct{}{}:
			n.loops.Go(func() { n.receive(&slotConn{Conn: c, slots: n.slots}) })
		default:
			n.refuse(c, core.E(core.Limit, "%d connections are open already", maxConnections))
		}
	}
}

// receive greets a connection and leads it to its use.
func (n *Network) receive(c net.Conn) {
	if err := n.beginGreeting(c); err != nil {
		n.refuse(c, err)
		return
	}
	conn, use, err := n.greet(c)
	n.mu.Lock()
	delete(n.greeted, c)
	n.mu.Unlock()
	switch {
	case errors.Is(err, io.EOF): // a probe that connects and says nothing
		_ = c.Close()
	case err != nil:
		n.refuse(c, err)
	case use == Raft:
		n.raft.Hand(conn)
	default:
		n.streams.Hand(conn)
	}
}

// beginGreeting has Close end the greeting of c.
func (n *Network) beginGreeting(c net.Conn) error {
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return net.ErrClosed
	}
	same := 0
	for _, other := range n.greeted {
		if other == host {
			same++
		}
	}
	if same >= maxGreetings {
		return core.E(core.Limit, "%d connections of %s have said nothing yet", same, host)
	}
	n.greeted[c] = host
	return nil
}

// refuse closes c and logs why.
func (n *Network) refuse(c net.Conn, err error) {
	_ = c.Close()
	if n.ctx.Err() != nil {
		return
	}
	addr := c.RemoteAddr().String()
	host, _, _ := net.SplitHostPort(addr)
	n.refused.say(host, addr, err)
}

// greet does the listener's half of the greeting.
func (n *Network) greet(c net.Conn) (*Conn, Use, error) {
	if err := c.SetDeadline(time.Now().Add(greetingTimeout)); err != nil {
		return nil, 0, err
	}
	var err error
	if n.o.TLS != nil {
		if c, err = n.o.TLS.accept(n.ctx, c); err != nil {
			return nil, 0, err
		}
	}
	h, err := readHello(c)
	if err != nil {
		return nil, 0, err
	}
	refusal := n.judge(h)
	if h.cluster != "" && h.cluster != n.o.ClusterID && h.wanted == n.o.NodeID {
		n.noteMistake(h)
	}
	a := answer{version: min(version, h.version), cluster: n.o.ClusterID, node: n.o.NodeID}
	if refusal != nil {
		a.kind, a.message = refusal.Kind, refusal.Msg
	}
	if _, err := c.Write(a.encode()); err != nil {
		return nil, 0, err
	}
	if refusal != nil {
		return nil, 0, refusal
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return nil, 0, err
	}
	return &Conn{Conn: c, Cluster: h.cluster, Node: h.node}, h.use, nil
}

// judge is why a caller is refused, or nil.
func (n *Network) judge(h *hello) *core.Error {
	switch {
	case h.version < 1:
		return core.E(core.Unsupported, "node-to-node protocol version %d of node %q, this node speaks 1 to %d", h.version, h.node, version)
	case h.use != Raft && h.use != streams:
		return core.E(core.Unsupported, "node %q wants a connection of use %d, which this node does not know", h.node, h.use)
	case h.cluster == "" && h.use == streams: // for HandleAny
	case h.cluster != n.o.ClusterID:
		return core.E(core.Conflict, "node %q belongs to cluster %q, node %q to cluster %q", h.node, h.cluster, n.o.NodeID, n.o.ClusterID)
	}
	if h.wanted != "" && h.wanted != n.o.NodeID {
		return core.E(core.Conflict, "node %q wants node %q, but this is node %q", h.node, h.wanted, n.o.NodeID)
	}
	return nil
}

// Mistake is that a node of another cluster took this one for a member of its own, by id and
// address: this one may have lost its data, and begun a cluster anew.
type Mistake struct {
	Cluster, Node string // whose
	at            time.Time
}

// mistakenFor is how long a mistake counts that is not made again. A leader tries every few seconds.
const mistakenFor = time.Minute

func (n *Network) noteMistake(h *hello) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mistaken = Mistake{h.cluster, h.node, time.Now()}
}

// Mistaken is the last such mistake of the last minute.
func (n *Network) Mistaken() (Mistake, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mistaken, !n.mistaken.at.IsZero() && time.Since(n.mistaken.at) < mistakenFor
}

// Conn is a connection whose other end has said who it is.
type Conn struct {
	net.Conn
	Cluster string // empty: it belongs to none
	Node    string
}

// slotConn gives its slot back when it is closed.
type slotConn struct {
	net.Conn
	slots  chan struct{}
	closed onceFlag
}

// Close implements net.Conn.
func (c *slotConn) Close() error {
	if c.closed.set() {
		<-c.slots
	}
	return c.Conn.Close()
}
