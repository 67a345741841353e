package manage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
)

// client is a connection to the AMQP server in this process, with channel 1 open: what is wanted
// of it is said as any client would. The first error ends it.
type client struct {
	nc      net.Conn
	br      *bufio.Reader
	decoder spec.Decoder
	most    int // bytes of a body in one frame
	stop    func() bool
}

// protocolHeader is what a client begins with (section 4.2.2).
const protocolHeader = "AMQP\x00\x00\x09\x01"

// dial logs in as the call's user. close has to be called.
func (c *call) dial(vhost string) (*client, error) {
	return open(c.ctx, c.opts.AMQP.Dial(c.RemoteAddr()), c.user, c.password, vhost)
}

// open logs in and opens channel 1. It owns the connection from now on, which ends with ctx.
func open(ctx context.Context, nc net.Conn, user, password, vhost string) (*client, error) {
	k := &client{nc: nc, br: bufio.NewReader(nc)}
	k.stop = context.AfterFunc(ctx, func() { _ = nc.Close() })
	if err := k.open(user, password, vhost); err != nil {
		k.stop()
		_ = nc.Close()
		return nil, err
	}
	return k, nil
}

func (k *client) open(user, password, vhost string) error {
	if _, err := io.WriteString(k.nc, protocolHeader); err != nil {
		return fmt.Errorf("connect to the AMQP server: %w", err)
	}
	if _, err := next[*spec.ConnectionStart](k, 0); err != nil {
		return err
	}
	caps := message.Table{{Name: "authentication_failure_close", Value: message.Bool(true)}}
	tune, err := ask[*spec.ConnectionTune](k, 0, &spec.ConnectionStartOk{
		ClientProperties: message.Table{{Name: "capabilities", Value: message.Nested(caps)}},
		Mechanism:        "PLAIN", Response: []byte("\x00" + user + "\x00" + password), Locale: "en_US",
	})
	if err != nil {
		return err
	}
	k.most = int(tune.FrameMax) - spec.FrameOverhead
	if err := k.send(0, &spec.ConnectionTuneOk{ChannelMax: 1, FrameMax: tune.FrameMax}); err != nil {
		return err
	}
	if _, err := ask[*spec.ConnectionOpenOk](k, 0, &spec.ConnectionOpen{VirtualHost: vhost}); err != nil {
		return err
	}
	_, err = ask[*spec.ChannelOpenOk](k, 1, &spec.ChannelOpen{})
	return err
}

// close ends the connection. What it held is given back when it returns, unless an error ended it.
func (k *client) close() {
	_, _ = ask[*spec.ConnectionCloseOk](k, 0, &spec.ConnectionClose{ReplyCode: uint16(spec.ReplySuccess)})
	k.stop()
	_ = k.nc.Close()
}

// send sends a method.
func (k *client) send(channel uint16, m spec.Method) error {
	_, err := k.nc.Write(spec.AppendMethod(nil, channel, m))
	return err
}

// publish sends a message. What becomes of it is told afterwards.
func (k *client) publish(m *spec.BasicPublish, p *spec.Properties, body []byte) error {
	b := spec.AppendHeader(spec.AppendMethod(nil, 1, m), 1, len(body), p)
	for len(body) > 0 {
		n := min(len(body), k.most)
		b = spec.AppendBody(b, 1, body[:n])
		body = body[n:]
	}
	_, err := k.nc.Write(b)
	return err
}

// ask sends a method and waits for the answer.
func ask[M spec.Method](k *client, channel uint16, m spec.Method) (answer M, err error) {
	if err := k.send(channel, m); err != nil {
		return answer, err
	}
	return next[M](k, channel)
}

// next is the next method, which has to be of type M.
func next[M spec.Method](k *client, channel uint16) (m M, err error) {
	got, err := k.method()
	if err != nil {
		return m, err
	}
	m, ok := got.(M)
	if !ok {
		return m, fmt.Errorf("the AMQP server says %s on channel %d", got.ID(), channel)
	}
	return m, nil
}

// method is the next method; an amqpError where it closes channel or connection.
func (k *client) method() (spec.Method, error) {
	payload, err := k.frame(spec.FrameMethod)
	if err != nil {
		return nil, err
	}
	m, err := k.decoder.Method(payload)
	if err != nil {
		return nil, err
	}
	switch m := m.(type) {
	case *spec.ChannelClose:
		return nil, errors.Join(&amqpError{spec.Code(m.ReplyCode), m.ReplyText}, k.send(1, &spec.ChannelCloseOk{}))
	case *spec.ConnectionClose:
		return nil, errors.Join(&amqpError{spec.Code(m.ReplyCode), m.ReplyText}, k.send(0, &spec.ConnectionCloseOk{}))
	}
	return m, nil
}

// frame is the payload of the next frame that is no heartbeat, which has to be of a type.
func (k *client) frame(want uint8) ([]byte, error) {
	for {
		var head [spec.FrameHeadLen]byte
		if _, err := io.ReadFull(k.br, head[:]); err != nil {
			return nil, fmt.Errorf("the AMQP server: %w", err)
		}
		h := spec.ParseFrameHead(head[:])
		payload := make([]byte, h.Size+1) // with the octet that ends the frame
		if _, err := io.ReadFull(k.br, payload); err != nil {
			return nil, fmt.Errorf("the AMQP server: %w", err)
		}
		switch h.Type {
		case want:
			return payload[:h.Size], nil
		case spec.FrameHeartbeat:
		default:
			return nil, fmt.Errorf("the AMQP server: a frame of type %d, want %d", h.Type, want)
		}
	}
}

// content is the content that follows a method.
func (k *client) content() (g gotten, err error) {
	payload, err := k.frame(spec.FrameHeader)
	if err != nil {
		return g, err
	}
	g.headed = len(payload)
	_, size, err := k.decoder.Header(payload, &g.props)
	for err == nil && uint64(len(g.payload)) < size {
		if payload, err = k.frame(spec.FrameBody); err == nil {
			g.payload = append(g.payload, payload...)
		}
	}
	return g, err
}

// as runs fn with a connection to a virtual host.
func (c *call) as(vhost string, fn func(k *client) error) error {
	k, err := c.dial(vhost)
	if err != nil {
		return err
	}
	defer k.close()
	return fn(k)
}
