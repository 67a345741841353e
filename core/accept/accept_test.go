package accept

import (
	"errors"
	"log/slog"
	"net"
	"testing"
)

// script is a listener whose Accept does one step after the other.
type script struct {
	net.Listener
	steps []func() (net.Conn, error)
}

func (s *script) Addr() net.Addr { return &net.TCPAddr{} }

func (s *script) Accept() (net.Conn, error) {
	do := s.steps[0]
	s.steps = s.steps[1:]
	return do()
}

// conn notes that it was closed.
type conn struct {
	net.Conn
	closed bool
}

func (c *conn) Close() error { c.closed = true; return nil }

func TestLoop(t *testing.T) {
	stop := make(chan struct{})
	a, late := new(conn), new(conn)
	var served []net.Conn
	l := &script{steps: []func() (net.Conn, error){
		func() (net.Conn, error) { return nil, errors.New("too many open files") },
		func() (net.Conn, error) { return a, nil },
		func() (net.Conn, error) { close(stop); return late, nil },
	}}
	Loop(l, stop, slog.New(slog.DiscardHandler), func(c net.Conn) { served = append(served, c) })
	if len(served) != 1 || served[0] != a || a.closed || !late.closed {
		t.Errorf("served %v; the late one closed: %t", served, late.closed)
	}
	Loop(&script{steps: []func() (net.Conn, error){
		func() (net.Conn, error) { return nil, net.ErrClosed },
	}}, make(chan struct{}), slog.New(slog.DiscardHandler), nil)
}
