package peer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"polylog/core"
)

// Whatever comes instead of a greeting ends the connection, with one line, and nobody
// else notices.
func TestGarbage(t *testing.T) {
	hi := func(h hello) string { return string(h.encode()) }
	ok := hello{version: 1, use: streams, cluster: testCluster, node: "x", wanted: "b"}
	foreign, stranger, old, use, lost := ok, ok, ok, ok, ok
	foreign.cluster, stranger.cluster, old.version, use.use, lost.wanted = "Zm9yZWlnbiBjbHVzdGVyIQ", "", 0, 9, "c"
	stranger.use = Raft
	for name, c := range map[string]struct{ send, line string }{
		"http":          {"GET / HTTP/1.1\r\n\r\n", "no polylog node"},
		"tls":           {"\x16\x03\x01\x02\x00\x01\x00", "speaks TLS"},
		"zeros":         {strings.Repeat("\x00", 100), "no polylog node"},
		"huge greeting": {"PLNW\x01\x02\xff\xff", "greeting of 65535 bytes"},
		"huge text":     {"PLNW\x01\x02\x00\x05\xff\xff\xff\xff\x7f", "input ends inside"},
		"foreign":       {hi(foreign), `node "x" belongs to cluster "Zm9yZWlnbiBjbHVzdGVyIQ", node "b" to cluster "` + testCluster + `"`},
		"stranger":      {hi(stranger), `belongs to cluster ""`},
		"version 0":     {hi(old), "protocol version 0"},
		"unknown use":   {hi(use), "use 9"},
		"other node":    {hi(lost), `wants node "c", but this is node "b"`},
	} {
		t.Run(name, func(t *testing.T) {
			b, log := serving(t, "b", nil)
			conn := dial(t, b)
			if _, err := conn.Write([]byte(c.send)); err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(conn) // until it is closed, or reset
			if len(got) > 0 {
				a, err := readAnswer(bytes.NewReader(got))
				if err != nil || a.kind == core.OK || a.message == "" {
					t.Errorf("answer %+v, %v", a, err)
				}
			}
			log.refusedBy(t, slogQuoted(c.line))
			if err := works(t, node(t, "a", nil), b); err != nil {
				t.Errorf("after that a good node gets %v", err)
			}
		})
	}
}

// slogQuoted is text as it stands in a quoted attribute.
func slogQuoted(text string) string { return strings.ReplaceAll(text, `"`, `\"`) }

func dial(tb testing.TB, n *Network) net.Conn {
	tb.Helper()
	c, err := net.Dial("tcp", n.o.Advertise)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// After a right greeting, garbage reaches gRPC: it closes the connection.
func TestGarbageAfterTheGreeting(t *testing.T) {
	t.Parallel() // it waits for time-outs
	b, _ := serving(t, "b", nil)
	for _, garbage := range []string{
		strings.Repeat("\xff", 1000),
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\xff", 100), // a frame of 16 MiB
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x05\x00\x00\x00\x00\x00\x07\x00\xff\xff\xff\xff", // data of no stream
	} {
		c := dial(t, b)
		h := hello{version: 1, use: streams, cluster: testCluster, node: "x", wanted: "b"}
		if _, err := c.Write(h.encode()); err != nil {
			t.Fatal(err)
		}
		if a, err := readAnswer(c); err != nil || a.kind != core.OK {
			t.Fatalf("%+v, %v", a, err)
		}
		_, _ = c.Write([]byte(garbage))
		_, _ = io.Copy(io.Discard, c)
	}
	if err := works(t, node(t, "a", nil), b); err != nil {
		t.Fatalf("after that a good node gets %v", err)
	}
}

// Nodes of no cluster reach what is for them, and nothing else.
func TestStrangers(t *testing.T) {
	b := node(t, "b", nil)
	b.Handle("echo", echo)
	b.HandleAny("join", echo)
	s := node(t, "s", func(o *Options) { o.ClusterID = "" })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for service, want := range map[string]core.Kind{"join": core.OK, "echo": core.Denied} {
		st, err := s.Open(ctx, "", b.o.Advertise, service)
		if err == nil {
			err = st.Send([]byte("x"))
		}
		if err == nil || want != core.OK {
			_, err = st.Recv()
		}
		wantKind(t, err, want)
	}
}

// A foreign node is told why, on every attempt; the line is logged once.
func TestForeignCluster(t *testing.T) {
	b, log := serving(t, "b", nil)
	a := node(t, "a", func(o *Options) { o.ClusterID = "Zm9yZWlnbiBjbHVzdGVyIQ" })
	for range 3 {
		_, err := a.Dial(t.Context(), b.o.Advertise, Raft, "b")
		wantKind(t, err, core.Conflict)
		if !strings.Contains(err.Error(), `belongs to cluster "Zm9yZWlnbiBjbHVzdGVyIQ"`) {
			t.Fatal(err)
		}
	}
	wantKind(t, works(t, a, b), core.Conflict)
	log.refusedBy(t, "belongs to cluster")
	if m, ok := b.Mistaken(); !ok || m.Node != "a" || m.Cluster != "Zm9yZWlnbiBjbHVzdGVyIQ" {
		t.Errorf("mistaken by %+v, %v", m, ok)
	}
	_, err := a.Dial(t.Context(), a.o.Advertise, Raft, "b")
	if _, ok := a.Mistaken(); ok || err == nil {
		t.Errorf("mistaken for b: %v, %v", ok, err)
	}
}

// Connections that say nothing are few of one host at most, and for a while only; they keep no
// other host out.
func TestHalfOpenConnections(t *testing.T) {
	t.Parallel() // it waits for time-outs
	b, _ := serving(t, "b", nil)
	for range maxGreetings {
		dial(t, b)
	}
	waitFor(t, func() bool { return len(b.slots) == maxGreetings })
	last := dial(t, b)
	if _, err := last.Read(make([]byte, 1)); err == nil {
		t.Fatal("one connection too many stays open")
	}
	elsewhere := node(t, "c", func(o *Options) {
		o.DialFunc = func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext(ctx, "tcp", addr)
		}
	})
	if err := works(t, elsewhere, b); err != nil {
		t.Fatalf("a node of another host gets %v", err)
	}
	a := node(t, "a", nil)
	waitFor(t, func() bool { return works(t, a, b) == nil }) // by greetingTimeout
}

// Who does not read holds up the sender, and the memory for what is on its way is bounded.
func TestSlowReader(t *testing.T) {
	b := node(t, "b", nil)
	release := make(chan struct{})
	received := make(chan int, 1)
	b.Handle("slow", func(_ string, s core.Stream) error {
		select {
		case <-release:
		case <-s.Context().Done():
		}
		n := 0
		for {
			m, err := s.Recv()
			if errors.Is(err, io.EOF) {
				received <- n
				return nil
			}
			if err != nil {
				return err
			}
			n += len(m)
		}
	})
	a := node(t, "a", nil)
	s := open(t, a, b, "slow")
	const total = 64
	sent := make(chan int, total)
	ended := make(chan error, 1)
	go func() {
		msg := make([]byte, core.MaxStreamMessage)
		for i := range total {
			if err := s.Send(msg); err != nil {
				ended <- err
				return
			}
			sent <- i
		}
		ended <- s.CloseSend()
	}()
	<-sent
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	// The sender has come to a stop when it makes no progress any more.
	stalled := 0
	for last := -1; stalled < 20; {
		if len(sent) == last {
			stalled++
		} else {
			last, stalled = len(sent), 0
		}
		pause := time.NewTimer(10 * time.Millisecond)
		<-pause.C
	}
	runtime.ReadMemStats(&now)
	if len(sent) > 8 {
		t.Errorf("%d MiB were sent that nobody reads", len(sent))
	}
	if grown := int64(now.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n := <-received; n != total*core.MaxStreamMessage {
		t.Fatalf("%d bytes received", n)
	}
}

// When a node goes away, those who speak with it are told.
func TestNodeGoesAway(t *testing.T) {
	a := node(t, "a", nil)
	b := New(Options{ClusterID: testCluster, NodeID: "b", Listener: listen(t), Logger: slog.New(slog.DiscardHandler)})
	b.o.Advertise = b.o.Listener.Addr().String()
	handler := make(chan error, 1)
	b.Handle("wait", func(_ string, s core.Stream) error {
		if err := s.Send(nil); err != nil {
			return err
		}
		_, err := s.Recv()
		handler <- err
		return err
	})
	s := open(t, a, b, "wait")
	if _, err := s.Recv(); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	wantKind(t, <-handler, core.Unavailable)
	_, err := s.Recv()
	wantKind(t, err, core.Unavailable)
	_, err = a.Open(t.Context(), "b", b.o.Advertise, "wait")
	wantKind(t, err, core.Unavailable)
	_, err = b.Open(t.Context(), "b", "", "wait")
	wantKind(t, err, core.Closed)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

func FuzzGreeting(f *testing.F) {
	f.Add((&hello{version: 1, use: Raft, cluster: testCluster, node: "a", wanted: "b"}).encode())
	f.Add((&answer{version: 1, kind: core.Conflict, cluster: testCluster, node: "a", message: "no"}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHello(bytes.NewReader(b))
		a, err2 := readAnswer(bytes.NewReader(b))
		if (err == nil) != (err2 == nil) {
			t.Fatalf("%v, %v", err, err2)
		}
		if err != nil {
			return
		}
		again, err := readHello(bytes.NewReader(h.encode()))
		if err != nil || *again != *h {
			t.Fatalf("%+v, again %+v, %v", h, again, err)
		}
		if len(a.message) > len(b) {
			t.Fatal("more than came")
		}
	})
}

// Silent is who takes connections and says nothing, nobody else.
func TestSilent(t *testing.T) {
	a, b := node(t, "a", nil), node(t, "b", nil)
	mute, err := net.Listen("tcp", "127.0.0.1:0") // its backlog takes them
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	for name, c := range map[string]struct {
		addr string
		want bool
	}{
		"mute": {mute.Addr().String(), true},
		"node": {b.o.Advertise, false},
		"gone": {gone.Addr().String(), false},
	} {
		timeout := time.Minute
		if c.want {
			timeout = 50 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		if got := a.Silent(ctx, c.addr); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		cancel()
	}
}
