package webhook

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"polylog/core"
)

// Addresses that are not the internet's are refused when they are said, in all spellings.
func TestGuardRefusesURLs(t *testing.T) {
	g := NewGuard(nil)
	for _, host := range []string{
		"127.0.0.1", "localhost", "localhost.", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:10.0.0.1]", "[::]", "0.0.0.0",
		"10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "198.18.0.1", "192.0.2.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"[fe80::1]", "[fe80::1%25eth0]", "[fc00::1]", "[64:ff9b::7f00:1]", "[2001:db8::1]", "[2002:7f00:1::]", "[::127.0.0.1]",
		"2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "127.0.1", "017700000001", "1.2.3.4.", "0x7F.0.0.0x1", "127.0.0.1.",
	} {
		err := g.CheckURL(t.Context(), "http://"+host+"/x")
		if k := core.KindOf(err); host != "1.2.3.4." && k != core.Denied && k != core.Invalid {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, host := range []string{"1.1.1.1", "[2606:4700::1111]", "nope.invalid", "1.1.1.1:8443"} {
		if err := g.CheckURL(t.Context(), "https://"+host+"/x"); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	all := NewGuard([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")})
	if err := all.CheckURL(t.Context(), "http://[::ffff:127.0.0.1]/"); err != nil {
		t.Error(err)
	}
	for _, host := range []string{"169.254.169.254", "[::ffff:169.254.169.254]", "100.100.100.200", "[fd00:ec2::254]"} {
		if err := all.CheckURL(t.Context(), "http://"+host+"/"); core.KindOf(err) != core.Denied {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// What a name leads to is looked at when it is connected to: nothing reaches the server.
func TestGuardRefusesAtDial(t *testing.T) {
	reached := make(chan struct{}, 10)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- struct{}{} }))
	defer s.Close()
	get := func(g *Guard) error {
		client := newClient(g)
		defer client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		return err
	}
	if err := get(NewGuard(nil)); !errors.Is(err, ErrAddress) || classOf(err) != ClassAddress || len(reached) > 0 {
		t.Errorf("%v, %d requests", err, len(reached))
	}
	if err := get(NewGuard([]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")})); err != nil || len(reached) != 1 {
		t.Errorf("%v, %d requests", err, len(reached))
	}
}

func TestBreaker(t *testing.T) {
	now := time.UnixMilli(0)
	var b breaker
	for i := range breakerFailures {
		if ok, _ := b.allow(now); !ok || b.open() {
			t.Fatalf("open after %d", i)
		}
		if opened := b.failed(now); opened != (i == breakerFailures-1) {
			t.Fatalf("opened after %d: %v", i, opened)
		}
	}
	ok, again := b.allow(now)
	if ok || again != now.Add(breakerRest) {
		t.Fatal(ok, again)
	}
	b.failed(now) // of a request from before
	now = now.Add(breakerRest)
	if ok, _ := b.allow(now); !ok {
		t.Fatal("no probe")
	}
	if ok, _ := b.allow(now); ok {
		t.Fatal("two probes")
	}
	b.failed(now)
	if ok, again := b.allow(now); ok || again != now.Add(2*breakerRest) {
		t.Fatal(ok, again.Sub(now))
	}
	for range 20 {
		now = now.Add(breakerMaxRest)
		if ok, _ := b.allow(now); !ok {
			t.Fatal("it rests for too long")
		}
		b.failed(now)
	}
	now = now.Add(breakerMaxRest)
	b.allow(now)
	b.succeeded()
	if ok, _ := b.allow(now); !ok || b.open() || b.suspect() {
		t.Fatal("not closed")
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "5": 5 * time.Second, "-5": 0, "999999": maxRetryAfter, "99999999999999999999": maxRetryAfter, "soon": 0,
		"Thu, 01 Jan 2026 00:01:00 GMT": time.Minute, "Wed, 31 Dec 2025 00:00:00 GMT": time.Second,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	for attempts, d := range schedule {
		if got := rest(nil, attempts); got < d*8/10 || got > d*12/10 {
			t.Errorf("%d: %s", attempts, got)
		}
	}
}
