package mqtt

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/core/topicfilter"
	"polylog/router"
)

const (
	// maxClientID is the length of the longest client id, in bytes.
	maxClientID = 1000
	// maxConnectBytes bounds a CONNECT, so that who is not known yet costs little.
	maxConnectBytes = 256 << 10
	// maxAliases is how many topic aliases a client may have.
	maxAliases = 32
	// leaseTimeout bounds how long a client id is fought for, and given up.
	leaseTimeout = 10 * time.Second
)

// connect reads CONNECT (section 3.1) and answers it. After an error the client has been
// told, where the specification wants that.
func (c *conn) connect() error {
	late := time.Now().Add(c.srv.opts.ConnectTimeout)
	fh, body, err := c.in.next(min(maxConnectBytes, c.srv.opts.MaxPacketBytes), func() { c.waitUntil(late) })
	if err != nil {
		return err
	}
	c.srv.metrics.packetsIn.Add(1)
	if fh.Type != packets.Connect {
		return packets.ErrProtocolViolationRequireFirstConnect // MQTT-3.1.0-1
	}
	pk := &packets.Packet{FixedHeader: fh}
	if err := decode(pk, bytes.Clone(body)); err != nil {
		if pk.ProtocolVersion == 5 {
			c.refuse(5, codeOf(err))
		}
		return err
	}
	if code := checkConnect(pk); code != packets.CodeSuccess {
		if code != packets.ErrProtocolViolationProtocolName { // it may be no MQTT at all
			c.refuse(pk.ProtocolVersion, code)
		}
		return code
	}
	proof, err := c.logIn(pk, late)
	if err != nil {
		return err
	}
	assigned := pk.Connect.ClientIdentifier == ""
	if assigned {
		pk.Connect.ClientIdentifier = "auto-" + rand.Text()
	}
	c.client = pk.Connect.ClientIdentifier
	c.clientBytes = []byte(c.client)
	will, code := c.storedWill(pk)
	if code != packets.CodeSuccess {
		c.refuse(pk.ProtocolVersion, code)
		return code
	}
	if code := c.own(); code != packets.CodeSuccess {
		c.refuse(pk.ProtocolVersion, code)
		return code
	}
	return c.accept(pk, will, assigned, proof)
}

func (c *conn) waitUntil(t time.Time) {
	c.endMu.Lock()
	defer c.endMu.Unlock()
	if c.cause == nil {
		_ = c.nc.SetReadDeadline(t)
	}
}

// checkConnect is what is wrong with a CONNECT that was decoded, or success.
func checkConnect(pk *packets.Packet) packets.Code {
	p := &pk.Connect
	switch {
	case string(p.ProtocolName) == "MQTT":
		if pk.ProtocolVersion != 4 && pk.ProtocolVersion != 5 {
			return packets.ErrUnsupportedProtocolVersion // MQTT-3.1.2-2
		}
	case string(p.ProtocolName) == "MQIsdp":
		if pk.ProtocolVersion != 3 {
			return packets.ErrUnsupportedProtocolVersion
		}
	default:
		return packets.ErrProtocolViolationProtocolName // MQTT-3.1.2-1
	}
	switch {
	case pk.ReservedBit != 0:
		return packets.ErrProtocolViolationReservedBit // MQTT-3.1.2-3
	case p.WillQos > 2, !p.WillFlag && (p.WillQos != 0 || p.WillRetain):
		return packets.ErrProtocolViolationQosOutOfRange // MQTT-3.1.2-11 to 13
	case p.PasswordFlag && !p.UsernameFlag && pk.ProtocolVersion < 5:
		return packets.ErrProtocolViolationFlagNoUsername // MQTT 3.1.1, MQTT-3.1.2-22
	case len(p.ClientIdentifier) > maxClientID:
		return packets.ErrClientIdentifierNotValid
	case p.ClientIdentifier == "" && pk.ProtocolVersion < 5 && !p.Clean:
		return packets.ErrClientIdentifierNotValid // MQTT 3.1.1, MQTT-3.1.3-8
	case p.WillFlag && topicfilter.CheckName(p.WillTopic) != nil:
		return packets.ErrTopicNameInvalid
	case pk.Properties.AuthenticationMethod == "" && pk.Properties.AuthenticationData != nil:
		return packets.ErrProtocolViolation // section 3.1.2.11.10
	}
	return packets.CodeSuccess
}

// refuse answers CONNECT with a reason.
func (c *conn) refuse(version byte, why packets.Code) {
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connack}, ProtocolVersion: version, ReasonCode: why.Code}
	if version == 5 {
		pk.Properties.ReasonString = why.Reason
	} else {
		pk.ReasonCode = connack3(why)
	}
	c.out.put(func(b []byte) []byte { return appendPacket(b, &pk) })
}

// own makes this connection the only one of its client id in the cluster (section 3.1.4,
// MQTT-3.1.4-3).
func (c *conn) own() packets.Code {
	old, ok := c.srv.claim(c)
	if !ok {
		return errAnothers
	}
	if old != nil {
		old.kick(codeTakenOver)
		<-old.ended
	}
	ctx, cancel := context.WithTimeout(c.srv.ctx, leaseTimeout)
	defer cancel()
	lease, err := c.srv.router.AcquireLeaseFor(ctx, router.MQTTLease(c.clientName()), c.owner())
	if core.KindOf(err) == core.Denied {
		return errAnothers
	}
	if err != nil {
		c.srv.log.Warn("mqtt client id cannot be owned", "client", c.client, "err", err)
		return packets.ErrServerUnavailable
	}
	c.lease = lease
	c.srv.mu.Lock()
	c.owns = true
	c.srv.mu.Unlock()
	lease.WhenLost(func() { c.kick(c.whyLost()) })
	return packets.CodeSuccess
}

// whyLost is why the client id is not this connection's any more.
func (c *conn) whyLost() packets.Code {
	if c.lease.Ended() {
		return codeEnded
	}
	return codeTakenOver
}

// failed ends the connection, for what it asked the log for has failed. That may be because the client
// id is lost, which is then the reason.
func (c *conn) failed(err error) {
	if c.lost() {
		c.kick(c.whyLost())
	} else {
		c.kick(reasonOf(err))
	}
}

// lost reports whether this node knows that the client id is not this connection's any more.
func (c *conn) lost() bool {
	select {
	case <-c.lease.Lost():
		return true
	default:
		return false
	}
}

// errAnothers is that a client id is another user's (section 5.4.2).
var errAnothers = packets.Code{Code: packets.ErrNotAuthorized.Code, Reason: "the client id is another user's"}

// owner is the user whose the session is; empty while there are no users.
func (c *conn) owner() string {
	if !c.srv.router.HasUsers() {
		return ""
	}
	return c.principal.Name
}

// leave gives the client id up.
func (c *conn) leave() {
	if c.lease == nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.srv.ctx, leaseTimeout)
	defer cancel()
	if err := c.lease.Release(ctx); err != nil {
		c.srv.log.Debug("mqtt client id is given up later", "client", c.client, "err", err)
	}
}

// accept begins the session and answers with CONNACK (section 3.2).
func (c *conn) accept(pk *packets.Packet, will *router.MQTTWill, assigned bool, proof []byte) error {
	p := &pk.Properties
	c.version = pk.ProtocolVersion
	keepAlive, told := pk.Connect.Keepalive, false
	if longest := c.srv.opts.MaxKeepAlive; longest > 0 && (keepAlive == 0 || time.Duration(keepAlive)*time.Second > longest) {
		keepAlive, told = uint16(longest/time.Second), true
	}
	c.keepAlive = time.Duration(keepAlive) * 3 * time.Second / 2
	c.session = newSession(c, p)
	if c.version < 5 && !pk.Connect.Clean {
		c.session.expiry = router.MQTTNoExpiry
	}
	asked := c.session.expiry
	c.session.expiry = c.srv.opts.sessionExpiry(asked)
	stored, present, err := c.open(pk.Connect.Clean, will)
	if err != nil {
		c.srv.log.Warn("mqtt session cannot be opened", "client", c.client, "err", err)
		c.refuse(c.version, reasonOf(err))
		return reasonOf(err)
	}
	c.session.keeps = present || c.session.expiry > 0
	c.out.onRoom(c.session.refill)
	ack := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connack}, ProtocolVersion: c.version, SessionPresent: present}
	if c.version == 5 {
		a := &ack.Properties
		a.ReceiveMaximum = uint16(c.srv.opts.ReceiveMaximum)
		a.TopicAliasMaximum = maxAliases
		a.MaximumPacketSize = uint32(c.srv.opts.MaxPacketBytes)
		a.AuthenticationMethod, a.AuthenticationData = c.auth.method, proof // MQTT-4.12.0-7
		if assigned {
			a.AssignedClientID = c.client // MQTT-3.1.3-7
		}
		if told {
			a.ServerKeepAlive, a.ServerKeepAliveFlag = keepAlive, true // MQTT-3.2.2-21
		}
		if c.session.expiry != asked {
			a.SessionExpiryInterval, a.SessionExpiryIntervalFlag = c.session.expiry, true // section 3.2.2.3.2
		}
	}
	c.srv.mu.Lock()
	c.greeted = true
	c.srv.mu.Unlock()
	c.out.put(func(b []byte) []byte { return appendPacket(b, &ack) })
	c.resume(stored)
	c.listed = c.srv.opts.Clients.Add(c.describe)
	return nil
}

// sessionExpiry is the Session Expiry Interval, in seconds, that a client gets which asks for this one.
func (o *Options) sessionExpiry(asked uint32) uint32 {
	if o.MaxSessionExpiry <= 0 {
		return asked
	}
	longest := (o.MaxSessionExpiry + time.Second - 1) / time.Second
	return uint32(min(time.Duration(asked), longest)) //nolint:gosec // no more than asked
}

// isEOF reports whether an error of a read is just the connection's end.
func isEOF(err error) bool {
	return slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed}, func(e error) bool { return errors.Is(err, e) })
}
