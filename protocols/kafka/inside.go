package kafka

import (
	"context"
	"errors"
	"net"
	"sync"

	"polylog/core"
	"polylog/core/wire"
	"polylog/router"
)

// Other protocols of the broker may be members of Kafka's groups, too: they speak to the
// coordinator over connections that never leave the cluster, which are in memory on the node that
// leads and go over a stream between the nodes elsewhere. Who is on such a connection was
// authenticated by the protocol that opened it.

// insideService is the name of the streams among nodes. A stream begins with a message that says
// for whom it is (encodeCaller); the others are pieces of a Kafka connection.
const insideService = "kafka"

// insidePiece is how much is read for one message of a stream, in bytes.
const insidePiece = 32 << 10

// Caller is for whom another protocol opens a connection.
type Caller struct {
	Principal router.Principal
	From      string // the client's address, host:port
}

// String is the address. With Network it makes a Caller a net.Addr.
func (c Caller) String() string { return c.From }

// Network implements net.Addr.
func (Caller) Network() string { return "tcp" }

func (c Caller) encode() []byte {
	return c.Principal.AppendLogin(wire.AppendString(nil, c.From))
}

func decodeCaller(b []byte) (c Caller, err error) {
	r := wire.NewReader(b)
	c.From, c.Principal = r.String(), router.ReadLogin(&r)
	if err := r.Close(); err != nil {
		return c, core.E(core.Invalid, "who opens a stream to the Kafka server: %v", err)
	}
	return c, nil
}

// insideConn is the server's end of such a connection.
type insideConn struct {
	net.Conn
	caller Caller
}

// RemoteAddr implements net.Conn.
func (c insideConn) RemoteAddr() net.Addr { return c.caller }

// DialCoordinator connects to the Kafka server of the node that coordinates the groups. The
// connection ends with ctx, and has to be closed. Error kinds: Unavailable, where no leader is
// known, or it cannot be reached.
func (s *Server) DialCoordinator(ctx context.Context, who Caller) (net.Conn, error) {
	info := s.router.Cluster()
	switch {
	case s.isStopping():
		return nil, core.E(core.Closed, "the Kafka server is stopping")
	case !info.HasLeader:
		return nil, router.ErrNoLeader
	}
	client, server := net.Pipe()
	c := &insideClient{Conn: client}
	ctx, c.cancel = context.WithCancel(ctx)
	if info.Leader.ID == info.NodeID {
		s.startConn(insideConn{server, who})
	} else {
		stream, err := s.router.OpenPeer(ctx, info.Leader.ID, insideService)
		if err == nil {
			err = stream.Send(who.encode())
		}
		if err != nil {
			c.cancel()
			return nil, err
		}
		c.wg.Go(func() { receive(stream, server) })
		c.wg.Go(func() { send(stream, server); c.cancel() })
	}
	c.stop = context.AfterFunc(ctx, func() { _ = client.Close() })
	return c, nil
}

// insideClient is the caller's end.
type insideClient struct {
	net.Conn
	cancel context.CancelFunc
	stop   func() bool
	wg     sync.WaitGroup
}

// Close ends the connection and waits for what carries it.
func (c *insideClient) Close() error {
	c.cancel()
	c.stop()
	err := c.Conn.Close()
	c.wg.Wait()
	return err
}

// serveInside serves a connection that comes over a stream from another node.
func (s *Server) serveInside(_ string, stream core.Stream) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	who, err := decodeCaller(first)
	if err != nil {
		return err
	}
	near, server := net.Pipe()
	go receive(stream, near) // ends with the stream, which ends when this returns
	s.startConn(insideConn{server, who})
	send(stream, near)
	return nil
}

// receive writes what comes over a stream to nc, and closes nc at its end.
func receive(s core.Stream, nc net.Conn) {
	defer func() { _ = nc.Close() }()
	for {
		b, err := s.Recv()
		if err == nil {
			_, err = nc.Write(b)
		}
		if err != nil {
			return
		}
	}
}

// send sends what is written to nc's other end over a stream, until either ends, and closes nc.
func send(s core.Stream, nc net.Conn) {
	defer func() { _ = nc.Close() }()
	buf := make([]byte, insidePiece)
	for {
		n, err := nc.Read(buf)
		if n > 0 {
			err = errors.Join(err, s.Send(buf[:n]))
		}
		if err != nil {
			return
		}
	}
}
