package cluster

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// transport is raft's network transport without the heartbeat fast path (guard 1).
// Heartbeats take the way through raft's main goroutine, like everything else, and
// so may wait there for a disk write: the time-outs allow for that.
type transport struct {
	*raft.NetworkTransport
	streams *streams
}

// SetHeartbeatHandler does nothing, on purpose.
func (transport) SetHeartbeatHandler(func(raft.RPC)) {}

// Close closes every connection, in either direction, and the listener.
func (t transport) Close() error {
	t.CloseStreams()
	return t.NetworkTransport.Close()
}

const rpcTimeout = 10 * time.Second

// newTransport serves raft on l; nil makes the transport of a node that nobody else
// can reach. addr is what other nodes dial.
func newTransport(l net.Listener, addr string, logger hclog.Logger) transport {
	s := newStreams(l, addr)
	return transport{streams: s, NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:          s,
		MaxPool:         2,
		MaxRPCsInFlight: 1, // guard 5: no pipelining
		Timeout:         rpcTimeout,
		Logger:          logger,
	})}
}

// streams is raft's stream layer. It knows every connection that it accepted, so
// that closing ends their goroutines, and leads a node's calls to itself through a
// pipe, so that they need no network.
type streams struct {
	listener net.Listener // nil: unreachable for others
	addr     address
	accepted chan net.Conn
	done     chan struct{}
	wg       sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{} // guarded by mu
	closed bool                  // guarded by mu
}

type address string

// Network implements net.Addr.
func (address) Network() string { return "tcp" }

// String implements net.Addr.
func (a address) String() string { return string(a) }

func newStreams(l net.Listener, addr string) *streams {
	s := &streams{
		listener: l,
		addr:     address(addr),
		accepted: make(chan net.Conn),
		done:     make(chan struct{}),
		conns:    map[net.Conn]struct{}{},
	}
	if l != nil {
		s.wg.Go(s.acceptLoop)
	}
	return s
}

func (s *streams) acceptLoop() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			select {
			case <-s.done:
				return
			case <-time.After(50 * time.Millisecond): // out of file descriptors, say
				continue
			}
		}
		s.hand(conn)
	}
}

// hand gives a connection to raft, which closes it when it is done with it.
func (s *streams) hand(conn net.Conn) {
	tracked := &trackedConn{Conn: conn, s: s}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.conns[tracked] = struct{}{}
	}
	s.mu.Unlock()
	if !closed {
		select {
		case s.accepted <- tracked:
			return
		case <-s.done:
		}
	}
	_ = tracked.Close()
}

// Accept implements net.Listener.
func (s *streams) Accept() (net.Conn, error) {
	select {
	case conn := <-s.accepted:
		return conn, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (s *streams) Addr() net.Addr { return s.addr }

// Dial implements raft.StreamLayer.
func (s *streams) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if string(to) == string(s.addr) {
		near, far := net.Pipe()
		s.wg.Go(func() { s.hand(far) })
		return near, nil
	}
	return net.DialTimeout("tcp", string(to), timeout)
}

// Close ends the listener and every accepted connection.
func (s *streams) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	conns := s.conns
	s.conns = nil
	s.mu.Unlock()
	close(s.done)
	var err error
	if s.listener != nil {
		err = s.listener.Close()
	}
	for conn := range conns {
		_ = conn.Close()
	}
	s.wg.Wait()
	return err
}

// trackedConn leaves the streams' set when it is closed.
type trackedConn struct {
	net.Conn
	s *streams
}

// Close implements net.Conn.
func (c *trackedConn) Close() error {
	c.s.mu.Lock()
	delete(c.s.conns, c)
	c.s.mu.Unlock()
	return c.Conn.Close()
}
