package peer

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"

	"google.golang.org/grpc"

	"polylog/core"
)

// Options say who a node is and how it is reached.
type Options struct {
	ClusterID string // empty: none yet; such a node reaches services of HandleAny alone
	NodeID    string
	// Listener takes other nodes' connections; the Network closes it. Without one
	// nobody reaches this node.
	Listener net.Listener
	// Advertise is the address that others dial.
	Advertise string
	TLS       *TLS // nil: none
	// DialFunc opens TCP connections, an ordinary dialer when nil.
	DialFunc func(ctx context.Context, addr string) (net.Conn, error)
	Logger   *slog.Logger
}

// Network is one node's end of all its conversations. It is safe for concurrent use.
type Network struct {
	o       Options
	raft    *Listener
	streams *Listener
	server  *grpc.Server
	refused *refusals

	ctx    context.Context // ends with the Network, as do its goroutines in loops
	cancel context.CancelFunc
	loops  sync.WaitGroup
	slots  chan struct{} // one for each connection that others have here

	mu       sync.Mutex
	handlers map[string]service  // guarded by mu, as is all below
	clients  map[string]*client  // by node id
	greeted  map[net.Conn]string // whose greeting is under way, and their hosts
	mistaken Mistake
	closed   bool
}

// New starts a network: it listens, and refuses every stream until its handler is there.
func New(o Options) *Network {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.DialFunc == nil {
		o.DialFunc = func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		}
	}
	n := &Network{
		o:        o,
		raft:     newListener(address(o.Advertise)),
		streams:  newListener(address(o.Advertise)),
		refused:  newRefusals(o.Logger),
		slots:    make(chan struct{}, maxConnections),
		handlers: map[string]service{},
		clients:  map[string]*client{},
		greeted:  map[net.Conn]string{},
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.server = newServer(n)
	if o.Listener != nil {
		n.loops.Go(n.acceptLoop)
		n.loops.Go(func() { _ = n.server.Serve(n.streams) }) // ends with the listener
	}
	return n
}

// Raft gives the connections that other nodes' rafts have opened.
func (n *Network) Raft() *Listener { return n.raft }

// Close ends every connection and stream and waits for their handlers. It may be called
// twice.
func (n *Network) Close() error {
	n.mu.Lock()
	closed, clients, greeted := n.closed, n.clients, n.greeted
	n.closed, n.clients, n.greeted = true, nil, nil
	n.mu.Unlock()
	n.cancel()
	if closed {
		n.loops.Wait()
		return nil
	}
	var err error
	if n.o.Listener != nil {
		err = n.o.Listener.Close()
	}
	for c := range greeted {
		_ = c.Close()
	}
	for _, c := range clients {
		_ = c.conn.Close()
	}
	_ = n.raft.Close()
	_ = n.streams.Close()
	n.server.Stop()
	n.loops.Wait()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}

// errClosed is what a Network that is closed answers.
func errClosed() error { return core.E(core.Closed, "this node is shutting down") }
