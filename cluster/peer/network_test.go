package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"polylog/core"
)

const testCluster = "Y2x1c3RlcidzIHRlc3Rpbg"

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// node is a network with a listener, closed at the test's end.
func node(tb testing.TB, id string, change func(*Options)) *Network {
	tb.Helper()
	l := listen(tb)
	o := Options{ClusterID: testCluster, NodeID: id, Listener: l, Advertise: l.Addr().String()}
	if change != nil {
		change(&o)
	}
	n := New(o)
	tb.Cleanup(func() {
		if err := n.Close(); err != nil {
			tb.Error(err)
		}
	})
	return n
}

// open opens a stream from a to b and ends it with the test.
func open(tb testing.TB, a, b *Network, service string) core.Stream {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	tb.Cleanup(cancel)
	s, err := a.Open(ctx, b.o.NodeID, b.o.Advertise, service)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func wantKind(tb testing.TB, err error, k core.Kind) {
	tb.Helper()
	if core.KindOf(err) != k {
		tb.Fatalf("got %v, want an error of kind %q", err, k.Error())
	}
}

// echo answers each message with the caller's id and the message.
func echo(from string, s core.Stream) error {
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if string(m) == "fail" {
			return core.E(core.Fenced, "as you wish, %s: %s", from, "ünïcode\n")
		}
		if err := s.Send(append([]byte(from+" "), m...)); err != nil {
			return err
		}
	}
}

func TestStreams(t *testing.T) {
	a, b := node(t, "a", nil), node(t, "b", nil)
	for _, n := range []*Network{a, b} {
		n.Handle("echo", echo)
	}
	for _, to := range []*Network{a, b} { // itself too
		s := open(t, a, to, "echo")
		for _, m := range []string{"x", "", string(make([]byte, core.MaxStreamMessage-2))} {
			if err := s.Send([]byte(m)); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Recv(); err != nil || string(got) != "a "+m {
				t.Fatalf("got %.20q, %v", got, err)
			}
		}
		wantKind(t, s.Send(make([]byte, core.MaxStreamMessage+1)), core.TooLarge)

		s = open(t, a, to, "echo")
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Fatalf("ended well with %v", err)
		}
		s = open(t, a, to, "echo")
		if err := s.Send([]byte("fail")); err != nil {
			t.Fatal(err)
		}
		_, err := s.Recv()
		wantKind(t, err, core.Fenced)
		if err.Error() != "as you wish, a: ünïcode\n" {
			t.Fatalf("text %q", err)
		}
	}
	_, err := open(t, a, b, "nothing").Recv()
	wantKind(t, err, core.Unavailable)
}
