package amqp

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"time"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
)

// What is connected to this node, for whoever lists it, and connections in memory for who speaks
// AMQP from inside.

// ConnectionInfo is an open connection.
type ConnectionInfo struct {
	Name       string // client's address -> server's
	VHost      string
	User       string
	Mechanism  string
	Client     netip.AddrPort
	Server     netip.AddrPort
	Connected  time.Time
	Properties message.Table // that the client gave
	ChannelMax int
	FrameMax   int
	Heartbeat  time.Duration
	Received   int64 // bytes
	Blocked    bool
	TLS        *tls.ConnectionState // nil: none
	Channels   []ChannelInfo        // by number
}

// ChannelInfo is an open channel of a connection.
type ChannelInfo struct {
	Number        uint16
	Prefetch      int // of consumers to come
	Confirms      bool
	Transactional bool
	Unconfirmed   int
	Unacked       int
	Consumers     []ConsumerInfo // by tag
}

// ConsumerInfo is a consumer of a channel.
type ConsumerInfo struct {
	Tag       string
	Queue     string // or stream
	NoAck     bool
	Exclusive bool
	Prefetch  int
	Arguments message.Table
}

// isClient reports whether a connection is open, and a client's.
func (c *conn) isClient() bool { return c.where.Load() != nil && !c.inside }

// Connections are the clients' open connections, by name.
func (s *Server) Connections() []ConnectionInfo {
	var all []ConnectionInfo
	for _, c := range s.all() {
		if c.isClient() {
			all = append(all, c.info())
		}
	}
	slices.SortFunc(all, func(a, b ConnectionInfo) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Connection is the open connection of a name; false where there is none.
func (s *Server) Connection(name string) (ConnectionInfo, bool) {
	for _, c := range s.all() {
		if c.isClient() && c.listedName() == name {
			return c.info(), true
		}
	}
	return ConnectionInfo{}, false
}

// CloseConnection tells a connection that it is closed by an administrator. It is false where
// there is none of that name.
func (s *Server) CloseConnection(name, reason string) bool {
	found := false
	for _, c := range s.all() {
		if c.isClient() && c.listedName() == name {
			found = true
			c.close(hard(spec.ConnectionForced, "%s", reason))
		}
	}
	return found
}

// Dial connects to the server in memory. from is where the server takes the client to be.
func (s *Server) Dial(from net.Addr) net.Conn {
	client, server := net.Pipe()
	s.startConn(insideConn{server, from})
	return client
}

// insideConn is a connection of this process's own.
type insideConn struct {
	net.Conn
	from net.Addr
}

// RemoteAddr implements net.Conn.
func (c insideConn) RemoteAddr() net.Addr { return c.from }

func (c *conn) listedName() string {
	return c.nc.RemoteAddr().String() + " -> " + c.nc.LocalAddr().String()
}

func addrPort(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		p := tcp.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	}
	return netip.AddrPort{}
}

// info is what is known of a connection that is open: what it was opened with does not change.
func (c *conn) info() ConnectionInfo {
	i := ConnectionInfo{
		Name: c.listedName(), VHost: c.vhost, User: c.principal.Name, Mechanism: c.user.mechanism,
		Client: addrPort(c.nc.RemoteAddr()), Server: addrPort(c.nc.LocalAddr()), Connected: c.connected,
		Properties: c.properties, ChannelMax: c.channelMax, FrameMax: c.frameMax,
		Heartbeat: time.Duration(c.heart.period.Load()), Received: c.heart.bytes.Load(), Blocked: c.blocked.Load(),
	}
	if t, ok := c.nc.(*tls.Conn); ok {
		state := t.ConnectionState()
		i.TLS = &state
	}
	c.out.mu.Lock()
	channels := make([]*channel, 0, len(c.channels))
	for _, ch := range c.channels {
		if ch.isOpen() {
			channels = append(channels, ch)
		}
	}
	c.out.mu.Unlock()
	for _, ch := range channels {
		i.Channels = append(i.Channels, ch.info())
	}
	slices.SortFunc(i.Channels, func(a, b ChannelInfo) int { return cmp.Compare(a.Number, b.Number) })
	return i
}

func (ch *channel) info() ChannelInfo {
	i := ChannelInfo{Number: ch.id}
	ch.confirms.mu.Lock()
	i.Confirms, i.Unconfirmed = ch.confirms.on, len(ch.confirms.pending)
	ch.confirms.mu.Unlock()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	i.Prefetch, i.Transactional = ch.prefetch, ch.tx != nil
	i.Unacked = len(ch.unacked.list) - ch.unacked.gone
	for _, k := range ch.consumers {
		i.Consumers = append(i.Consumers, ConsumerInfo{k.tag, k.queue.Name.Name, k.noAck, k.exclusive, k.prefetch, k.arguments})
	}
	for _, k := range ch.streams {
		i.Consumers = append(i.Consumers, ConsumerInfo{Tag: k.tag, Queue: k.topic.Name.Name, Prefetch: k.prefetch, Arguments: k.arguments})
	}
	slices.SortFunc(i.Consumers, func(a, b ConsumerInfo) int { return cmp.Compare(a.Tag, b.Tag) })
	return i
}
