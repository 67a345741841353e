package mqtt

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/router"
)

// conn is a connection. What is not said to be otherwise belongs to the goroutine of serve.
type conn struct {
	srv       *Server
	nc        net.Conn
	in        packetReader
	out       outbox
	remote    string
	principal router.Principal
	ended     chan struct{} // closed when the client id is free for another connection

	version     byte   // 0: no CONNECT was understood yet
	greeted     bool   // CONNACK has accepted it, and it has not ended; written with Server.mu held
	client      string // written before it is claimed
	clientBytes []byte
	keepAlive   time.Duration     // after which a silent client is gone; 0: never
	aliases     map[uint16]string // of topic names, the client's
	polite      bool              // the client took its will back
	logout      func()            // it does not end with its user any more; nil: it has not logged in
	pub         publisher
	auth        authentication
	session     *session
	lease       *router.Lease
	owns        bool // it has the lease; guarded by Server.mu

	since  time.Time
	listed func() // takes it off the list of clients; nil: it is not there

	endMu sync.Mutex    // guards cause
	cause *packets.Code // why we end it; nil: we do not
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{srv: s, nc: nc, remote: nc.RemoteAddr().String(), ended: make(chan struct{}), since: s.opts.Clock()}
	if host, _, err := net.SplitHostPort(c.remote); err == nil {
		c.principal.Host = host
	}
	c.in.nc, c.in.got = nc, s.metrics.bytesIn.Add
	c.out.init(nc, s.metrics, s.opts.WriteTimeout)
	c.out.failed = func(error) { c.cut() }
	c.pub.init(c)
	return c
}

// errDisconnected is the end of a connection that its client wished for.
var errDisconnected = errors.New("the client disconnected")

// serve runs the connection until its end.
func (c *conn) serve() {
	defer c.srv.unregister(c)
	told := c.end(c.run())
	if c.listed != nil {
		c.listed()
	}
	if c.logout != nil {
		c.logout()
	}
	close(c.ended)
	if told {
		c.linger()
	}
	_ = c.nc.Close()
	c.out.abandon()
	c.out.writers.Wait()
}

func (c *conn) run() error {
	if err := c.connect(); err != nil {
		return err
	}
	for {
		fh, body, err := c.in.next(c.srv.opts.MaxPacketBytes, c.wait)
		if err != nil {
			return err
		}
		c.srv.metrics.packetsIn.Add(1)
		pk := packets.Packet{FixedHeader: fh, ProtocolVersion: c.version}
		if err := decode(&pk, body); err != nil {
			return err
		}
		if err := c.handle(&pk); err != nil {
			return err
		}
		if !c.in.buffered() {
			c.pub.flush()
		}
	}
}

// wait prepares for a read that may take long.
func (c *conn) wait() {
	var until time.Time
	if c.keepAlive > 0 {
		until = time.Now().Add(c.keepAlive) // section 3.1.2.10
	}
	c.endMu.Lock()
	defer c.endMu.Unlock()
	if c.cause == nil {
		_ = c.nc.SetReadDeadline(until)
	}
}

// handle does what a packet says. Its strings and bytes are the reader's.
func (c *conn) handle(pk *packets.Packet) error {
	if pk.FixedHeader.Type == packets.Publish {
		return c.publish(pk)
	}
	c.pub.flush() // what was published before is stored before anything else is looked at
	err := c.handleOther(pk)
	if !c.session.keeps || err != nil && !errors.Is(err, errDisconnected) {
		return err
	}
	if owed := c.settleOwed(); err == nil {
		err = owed
	}
	return err
}

// handleOther is handle for all but a PUBLISH.
func (c *conn) handleOther(pk *packets.Packet) error {
	switch pk.FixedHeader.Type {
	case packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp:
		if pk.PacketID == 0 {
			return packets.ErrProtocolViolationNoPacketID
		}
	}
	switch pk.FixedHeader.Type {
	case packets.Puback:
		c.session.acked(pk.PacketID, pk.FixedHeader.Type)
	case packets.Pubrec:
		c.session.received(pk.PacketID, pk.ReasonCode)
	case packets.Pubcomp:
		c.session.acked(pk.PacketID, pk.FixedHeader.Type)
	case packets.Pubrel:
		c.pub.released(pk.PacketID)
	case packets.Subscribe:
		return c.subscribe(pk)
	case packets.Unsubscribe:
		return c.unsubscribe(pk)
	case packets.Pingreq:
		c.out.put(func(b []byte) []byte { return append(b, packets.Pingresp<<4, 0) })
	case packets.Disconnect:
		return c.disconnected(pk)
	case packets.Connect:
		return packets.ErrProtocolViolationSecondConnect // section 3.1, MQTT-3.1.0-2
	case packets.Auth:
		return c.authAgain(pk)
	default:
		return packets.ErrProtocolViolation
	}
	return nil
}

// disconnected is the client's DISCONNECT (section 3.14).
func (c *conn) disconnected(pk *packets.Packet) error {
	if c.version == 5 && pk.Properties.SessionExpiryIntervalFlag && pk.Properties.SessionExpiryInterval > 0 &&
		c.session.expiry == 0 {
		return packets.ErrProtocolViolationZeroNonZeroExpiry // section 3.14.2.2.2
	}
	if c.version == 5 && pk.Properties.SessionExpiryIntervalFlag {
		c.session.expiry = c.srv.opts.sessionExpiry(pk.Properties.SessionExpiryInterval)
	}
	if pk.ReasonCode == packets.CodeDisconnect.Code {
		c.polite = true // section 3.14.4
	}
	return errDisconnected
}

// kick ends the connection for a reason, which the client is told. It may be called from any
// goroutine, and does not wait.
func (c *conn) kick(why packets.Code) {
	if why.Code == codeTakenOver.Code {
		c.pub.intact.End() // what is not stored yet would come behind what the client publishes over its next connection
	}
	c.endMu.Lock()
	defer c.endMu.Unlock()
	if c.cause == nil {
		c.cause = &why
		_ = c.nc.SetReadDeadline(time.Now()) // serve wakes
		c.out.wake()
	}
}

// cut closes the connection.
func (c *conn) cut() {
	_ = c.nc.Close()
	c.out.abandon()
}

// farewell bounds how long the last packet may take.
const farewell = time.Second

// linger reads on for a while after the last packet: closing a socket that has unread bytes
// resets it, and the client would lose what it was told.
func (c *conn) linger() {
	if half, ok := c.nc.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	if c.nc.SetReadDeadline(time.Now().Add(2*farewell)) == nil {
		_, _ = io.Copy(io.Discard, c.nc)
	}
}

// end ends the connection whose run ended with err, and says whether the client was told.
func (c *conn) end(err error) (told bool) {
	c.pub.flush()
	c.endMu.Lock()
	kicked := c.cause != nil
	var why packets.Code
	if kicked {
		why = *c.cause
	}
	c.cause = &why
	c.endMu.Unlock()
	var netErr net.Error
	tell := false
	switch {
	case kicked:
		tell = true
	case errors.Is(err, errDisconnected):
	case errors.Is(err, errLoginRefused): // CONNACK has told it
		tell = true
	case errors.Is(err, os.ErrDeadlineExceeded):
		why, tell = packets.ErrKeepAliveTimeout, true
	case errors.As(err, &netErr), isEOF(err):
	default:
		why, tell = codeOf(err), true
		c.srv.metrics.broken.Add(1)
		c.srv.log.LogAttrs(c.srv.ctx, slog.LevelInfo, "mqtt client made an error",
			slog.String("client", c.client), slog.String("remote", c.remote), slog.Any("err", err))
	}
	if c.session != nil {
		c.session.close()
	}
	if tell && c.greeted && c.version == 5 {
		c.out.put(func(b []byte) []byte {
			return appendPacket(b, &packets.Packet{
				FixedHeader: packets.FixedHeader{Type: packets.Disconnect}, ProtocolVersion: 5, ReasonCode: why.Code,
				Properties: packets.Properties{ReasonString: why.Reason},
			})
		})
	}
	late := time.AfterFunc(farewell, c.cut)
	c.out.flush()
	late.Stop()
	if c.version != 0 {
		c.closeStored()
		c.leave()
	}
	c.srv.mu.Lock()
	c.greeted = false // before its client sees the end
	c.srv.mu.Unlock()
	return tell
}
