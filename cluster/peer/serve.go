package peer

import (
	"context"
	"io"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"

	"polylog/core"
)

const (
	// windowBytes is how much of a stream may be under way that nobody has read yet.
	// A connection as a whole may have as much as all its streams.
	windowBytes     = 1 << 20
	connWindowBytes = 16 << 20
	// maxStreams bounds the streams that one connection may have open here.
	maxStreams = 1000
	// A connection that was silent for keepaliveTime is asked for a sign of life, and
	// closed when none comes within keepaliveTimeout.
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 5 * time.Second
	maxHeaderBytes   = 16 << 10
	methodPrefix     = "/polylog/"
)

// gRPC's own log, which is of the whole process, says nothing that the errors of
// streams do not say.
func init() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
}

// service is a handler of streams.
type service struct {
	fn  func(node string, s core.Stream) error
	any bool // for nodes of no cluster too
}

// Handle has fn serve the streams that other nodes open for the service; node is the
// id of the other. fn runs on a goroutine of its own for each stream, which ends with
// its return, and has to return soon after the stream's context has ended. A second
// handler replaces the first, for new streams.
func (n *Network) Handle(name string, fn func(node string, s core.Stream) error) {
	n.handle(name, service{fn: fn})
}

// HandleAny is Handle for a service that nodes which belong to no cluster yet may use.
// With TLS they have shown a certificate, without it nothing.
func (n *Network) HandleAny(name string, fn func(node string, s core.Stream) error) {
	n.handle(name, service{fn: fn, any: true})
}

func (n *Network) handle(name string, s service) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handlers[name] = s
}

// find is the handler for a stream of node, which is of a cluster or of none.
func (n *Network) find(name string, isMember bool) (service, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, ok := n.handlers[name]
	switch {
	case n.closed:
		return s, errClosed()
	case !ok:
		return s, core.E(core.Unavailable, "node %q does not serve %q, or not yet", n.o.NodeID, name)
	case !isMember && !s.any:
		return s, core.E(core.Denied, "service %q is for nodes of cluster %q only", name, n.o.ClusterID)
	}
	return s, nil
}

func newServer(n *Network) *grpc.Server {
	return grpc.NewServer(
		grpc.Creds(greeted{}),
		grpc.ForceServerCodecV2(codec{}),
		grpc.UnknownServiceHandler(n.serveStream),
		grpc.MaxRecvMsgSize(core.MaxStreamMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.StaticStreamWindowSize(windowBytes),
		grpc.StaticConnWindowSize(connWindowBytes),
		grpc.ConnectionTimeout(greetingTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	)
}

// serveStream is the handler of every stream.
func (n *Network) serveStream(_ any, t grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(t)
	var from identity
	if p, ok := peer.FromContext(t.Context()); ok {
		from, _ = p.AuthInfo.(identity)
	}
	s, err := n.find(strings.TrimPrefix(method, methodPrefix), from.cluster != "")
	if err == nil {
		err = s.fn(from.node, &stream{t: t, closeSend: func() error { return nil }})
	}
	trailer, st := encodeError(err)
	t.SetTrailer(trailer)
	return st
}

// identity is what the greeting said.
type identity struct{ cluster, node string }

// AuthType implements credentials.AuthInfo.
func (identity) AuthType() string { return "greeting" }

// greeted are the credentials of connections that have been greeted already: there is
// nothing left to shake hands about.
type greeted struct{}

func (greeted) handshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if t, ok := c.(*tracked); ok {
		c = t.Conn
		if g, ok := c.(*Conn); ok {
			return t, identity{cluster: g.Cluster, node: g.Node}, nil
		}
	}
	if g, ok := c.(*Conn); ok {
		return c, identity{cluster: g.Cluster, node: g.Node}, nil
	}
	return nil, nil, core.E(core.Internal, "a %T was not greeted", c)
}

// ClientHandshake implements credentials.TransportCredentials.
func (g greeted) ClientHandshake(_ context.Context, _ string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return g.handshake(c)
}

// ServerHandshake implements credentials.TransportCredentials.
func (g greeted) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return g.handshake(c)
}

// Info implements credentials.TransportCredentials.
func (greeted) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "greeting"}
}

// Clone implements credentials.TransportCredentials.
func (g greeted) Clone() credentials.TransportCredentials { return g }

// OverrideServerName implements credentials.TransportCredentials, deprecated there.
func (greeted) OverrideServerName(string) error { return nil }
