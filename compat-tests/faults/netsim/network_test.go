package netsim

import (
	"bufio"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"
)

// pair is a connection from host 1 to host 2.
func pair(t *testing.T, w *Network) (client, server net.Conn) {
	t.Helper()
	var ln net.Listener
	must(t, w.Do(2, func() (err error) {
		ln, err = net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(w.Addr(2), 0)))
		return err
	}))
	defer func() { must(t, ln.Close()) }()
	must(t, w.Do(1, func() (err error) {
		client, err = net.DialTCP("tcp4", nil, ln.Addr().(*net.TCPAddr))
		return err
	}))
	server, err := ln.Accept()
	must(t, err)
	t.Cleanup(func() { must(t, errors.Join(client.Close(), server.Close())) })
	return client, server
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func network(t *testing.T) *Network {
	t.Helper()
	var w *Network
	ns, err := newNamespace()
	must(t, err)
	must(t, ns.do(func() (err error) { w, err = New(2); return err }))
	t.Cleanup(func() { must(t, errors.Join(w.Close(), ns.file.Close())) })
	return w
}

func say(t *testing.T, c net.Conn, line string) {
	t.Helper()
	_, err := c.Write([]byte(line + "\n"))
	must(t, err)
}

// hears says whether the next line comes within the time.
func hears(t *testing.T, c net.Conn, want string, within time.Duration) bool {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(within)))
	got, err := bufio.NewReader(c).ReadString('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	must(t, err)
	if got != want+"\n" {
		t.Fatalf("heard %q, want %q", got, want)
	}
	return true
}

func TestHostsReachEachOther(t *testing.T) {
	client, server := pair(t, network(t))
	say(t, client, "there")
	say(t, server, "back")
	if !hears(t, server, "there", 10*time.Second) || !hears(t, client, "back", 10*time.Second) {
		t.Fatal("nothing arrived")
	}
}

// A cut from 1 to 2 must hold back that direction, and only that one.
func TestCutOneWay(t *testing.T) {
	w := network(t)
	client, server := pair(t, w)
	w.Set(1, 2, Link{Cut: true})
	say(t, client, "lost")
	if hears(t, server, "lost", 200*time.Millisecond) {
		t.Fatal("a cut link passed something on")
	}
	say(t, server, "other way")
	if !hears(t, client, "other way", 10*time.Second) {
		t.Fatal("the other direction is cut too")
	}
	w.Heal()
	if !hears(t, server, "lost", 30*time.Second) { // TCP sends it again
		t.Fatal("nothing arrived after the heal")
	}
}

func TestDelay(t *testing.T) {
	w := network(t)
	client, server := pair(t, w)
	w.Set(1, 2, Link{Delay: 200 * time.Millisecond, Vary: 10 * time.Millisecond})
	begin := time.Now()
	say(t, client, "late")
	if !hears(t, server, "late", 10*time.Second) {
		t.Fatal("nothing arrived")
	}
	if d := time.Since(begin); d < 200*time.Millisecond {
		t.Fatalf("arrived after %v", d)
	}
}

func TestDestination(t *testing.T) {
	w := &Network{prefix: netip.MustParsePrefix("10.99.0.0/24"), hosts: make([]*host, 3)}
	p := make([]byte, 20)
	p[0] = 0x45
	for _, c := range []struct {
		to   [4]byte
		host int
		ok   bool
	}{{[4]byte{10, 99, 0, 1}, 0, true}, {[4]byte{10, 99, 0, 3}, 2, true}, {[4]byte{10, 99, 0, 4}, 3, false}, {[4]byte{10, 98, 0, 1}, 0, false}, {[4]byte{10, 99, 0, 0}, -1, false}} {
		copy(p[16:], c.to[:])
		if host, ok := w.destination(p); ok != c.ok || ok && host != c.host {
			t.Errorf("%v is for host %d, %v", c.to, host, ok)
		}
	}
	if _, ok := w.destination(p[:10]); ok {
		t.Error("a short packet has a destination")
	}
}
