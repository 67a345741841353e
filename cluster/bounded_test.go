package cluster

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"polylog/cluster/peer"
	"polylog/core"
)

// Calls may be as long as the limit, each anew; one that is longer ends its connection.
func TestCallsAreBounded(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _ = near.Close() }()
	c := newBoundedConn(far)
	c.limit, c.left, c.wait = 10, 10, time.Hour
	send := func(n int) { go func() { _, _ = near.Write([]byte(strings.Repeat("x", n))) }() }
	for range 3 {
		send(10)
		_, err := io.ReadFull(c, make([]byte, 10))
		must(t, err)
		go func() { _, _ = near.Read(make([]byte, 1)) }()
		_, err = c.Write([]byte{1})
		must(t, err)
	}
	send(11)
	n, err := io.ReadFull(c, make([]byte, 11))
	if n != 10 || core.KindOf(err) != core.TooLarge {
		t.Fatalf("%d bytes, %v", n, err)
	}
}

// Half a call is waited for only so long; none for ever.
func TestHalfACall(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _ = near.Close() }()
	c := newBoundedConn(far)
	c.wait = time.Nanosecond
	go func() { _, _ = near.Write([]byte{0}) }()
	_, err := io.ReadFull(c, make([]byte, 2))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
}

// The bounds are those of the connections that raft accepts.
func TestRaftsConnectionsAreBounded(t *testing.T) {
	l := listen(t)
	b := peer.New(peer.Options{ClusterID: testCluster, NodeID: "b", Listener: l})
	a := peer.New(peer.Options{ClusterID: testCluster, NodeID: "a"})
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	out, err := a.Dial(t.Context(), l.Addr().String(), peer.Raft, "b")
	must(t, err)
	defer func() { _ = out.Close() }()
	in, err := (&streamLayer{Listener: b.Raft()}).Accept()
	must(t, err)
	if c, ok := in.(*boundedConn); !ok || c.left != maxCallBytes || c.wait != rpcTimeout {
		t.Fatalf("%T: %+v", in, in)
	}
}
