package peer

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"polylog/core"
)

// client is the one connection to another node that all streams to it share. It is
// made when the first stream wants it and made again when it was lost, with pauses
// that grow to maxPause; meanwhile streams are refused at once.
type client struct {
	addr    string
	conn    *grpc.ClientConn
	refusal atomic.Pointer[core.Error] // why the last attempt to connect failed; nil: it did not
}

// dial is what the connection is made with.
func (c *client) dial(ctx context.Context, n *Network, node string) (net.Conn, error) {
	conn, err := n.Dial(ctx, c.addr, streams, node)
	if err != nil {
		c.refusal.Store(core.E(core.KindOf(err), "%v", err))
		return nil, err
	}
	c.refusal.Store(nil)
	return conn, nil
}

const (
	minPause = 50 * time.Millisecond
	maxPause = time.Second
)

var streamDesc = grpc.StreamDesc{ClientStreams: true, ServerStreams: true}

// Open opens a stream for a service of the node at addr. Where that is this node
// itself the stream stays within the process. Where the node cannot be reached the
// error is of kind Unavailable, where it refuses the connection of the refusal's; where it
// does not serve the service Recv says so.
func (n *Network) Open(ctx context.Context, node, addr, name string) (core.Stream, error) {
	if node == n.o.NodeID {
		return n.openOwn(ctx, name)
	}
	c, err := n.client(node, addr)
	if err != nil {
		return nil, err
	}
	cs, err := c.conn.NewStream(ctx, &streamDesc, methodPrefix+name)
	if err != nil {
		if why := c.refusal.Load(); why != nil && status.Code(err) == codes.Unavailable {
			return nil, why // in our words
		}
		return nil, (&stream{}).failure(err)
	}
	return &stream{t: cs, trailer: cs.Trailer, closeSend: cs.CloseSend}, nil
}

// openOwn opens a stream to this node's own service.
func (n *Network) openOwn(ctx context.Context, name string) (core.Stream, error) {
	s, err := n.find(name, true)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(n.ctx, cancel)
	near, serve := core.NewStreamPipe(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		cancel()
		return nil, errClosed()
	}
	n.loops.Go(func() {
		defer cancel()
		defer stop()
		serve(func(far core.Stream) error { return s.fn(n.o.NodeID, far) })
	})
	return near, nil
}

// client is the connection to a node, a new one where its address has changed.
func (n *Network) client(node, addr string) (*client, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errClosed()
	}
	key := node
	if node == "" {
		key = "@" + addr
	}
	if c := n.clients[key]; c != nil {
		if c.addr == addr {
			return c, nil
		}
		_ = c.conn.Close()
	}
	c := &client{addr: addr}
	var err error
	c.conn, err = grpc.NewClient("passthrough:///"+addr,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return c.dial(ctx, n, node) }),
		grpc.WithTransportCredentials(greeted{}),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(codec{}),
			grpc.MaxCallRecvMsgSize(core.MaxStreamMessage),
			grpc.MaxCallSendMsgSize(core.MaxStreamMessage),
		),
		grpc.WithStaticStreamWindowSize(windowBytes),
		grpc.WithStaticConnWindowSize(connWindowBytes),
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: minPause, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxPause},
			MinConnectTimeout: greetingTimeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true}),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableHealthCheck(),
		grpc.WithNoProxy(),
	)
	if err != nil {
		return nil, core.E(core.Internal, "connection to node %q: %v", node, err)
	}
	n.clients[key] = c
	return c, nil
}
