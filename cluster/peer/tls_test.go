package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/certs"
	"polylog/core/certs/certstest"
)

// logBuffer takes log lines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.b.String()), "\n")
}

// refusedBy waits for the one line of a refusal.
func (l *logBuffer) refusedBy(tb testing.TB, text string) {
	tb.Helper()
	waitFor(tb, func() bool { return strings.Contains(strings.Join(l.lines(), "\n"), text) })
	if got := l.lines(); len(got) != 1 || !strings.Contains(got[0], "node-to-node connection refused") {
		tb.Errorf("log: %q", got)
	}
}

func waitFor(tb testing.TB, is func() bool) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			tb.Fatal("waited for a minute in vain")
		}
	}
}

// works says whether a stream from a to b comes through.
func works(tb testing.TB, a, b *Network) error {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	s, err := a.Open(ctx, b.o.NodeID, b.o.Advertise, "echo")
	if err == nil {
		err = s.Send([]byte("x"))
	}
	if err == nil {
		_, err = s.Recv()
	}
	return err
}

// serving is a node that echoes and keeps what it logs.
func serving(tb testing.TB, id string, t *TLS) (*Network, *logBuffer) {
	tb.Helper()
	log := &logBuffer{}
	n := node(tb, id, func(o *Options) {
		o.TLS = t
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	n.Handle("echo", echo)
	return n, log
}

// files are those of a new node's certificate.
func files(tb testing.TB, dir string, a *certstest.Authority, end time.Time, trusts ...*certstest.Authority) certs.Files {
	tb.Helper()
	var f certs.Files
	f.Cert, f.Key, f.CA = a.Files(tb, dir, end, trusts...)
	return f
}

// good is a node's TLS by a, which trusts a.
func good(tb testing.TB, a *certstest.Authority) *TLS {
	tb.Helper()
	return load(tb, files(tb, tb.TempDir(), a, time.Now().Add(time.Hour), a))
}

func load(tb testing.TB, f certs.Files) *TLS {
	tb.Helper()
	t, err := LoadTLS(f, slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func TestTLS(t *testing.T) {
	ours, other := certstest.NewAuthority(t, "ours"), certstest.NewAuthority(t, "other")
	hour := time.Now().Add(time.Hour)
	dir := t.TempDir()
	expiring := load(t, files(t, dir, ours, hour, ours))
	files(t, dir, ours, time.Now().Add(-time.Minute), ours) // as if time had passed
	if err := os.Chtimes(filepath.Join(dir, "cert.pem"), time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		name     string
		caller   *TLS
		listener *TLS
		says     string // part of the caller's error
		logs     string // part of the listener's one line
	}{
		{"both", good(t, ours), good(t, ours), "", ""},
		{"neither", nil, nil, "", ""},
		{"wrong authority", load(t, files(t, t.TempDir(), other, hour, ours)), good(t, ours), "unknown certificate authority", "unknown authority"},
		{"listener of a wrong authority", good(t, ours), load(t, files(t, t.TempDir(), other, hour, ours)), "unknown authority", "bad certificate"},
		{"expired", expiring, good(t, ours), "expired certificate", "expired"},
		{"expired listener", good(t, ours), expiring, "expired", "bad certificate"},
		{"only the listener", nil, good(t, ours), "may want TLS", "does not speak TLS"},
		{"only the caller", good(t, ours), nil, "may not speak TLS", "speaks TLS and this node does not"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, log := serving(t, "b", c.listener)
			a := node(t, "a", func(o *Options) { o.TLS = c.caller })
			err := works(t, a, b)
			if c.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantKind(t, err, core.Unavailable)
			if !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the caller is told %q, want %q in it", err, c.says)
			}
			log.refusedBy(t, c.logs)
			fine := node(t, "c", func(o *Options) { o.TLS = c.listener })
			if c.name != "listener of a wrong authority" && c.name != "expired listener" {
				if err := works(t, fine, b); err != nil {
					t.Errorf("after that a good node gets %v", err)
				}
			}
		})
	}
}

// A caller without a certificate is refused, before anything that it says is read.
func TestTLSWithoutCertificate(t *testing.T) {
	ours := certstest.NewAuthority(t, "ours")
	b, log := serving(t, "b", good(t, ours))
	c, err := tls.Dial("tcp", b.o.Advertise, &tls.Config{RootCAs: good(t, ours).certs.Fresh().Authorities}) //nolint:gosec // as an attacker would
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // the end
	_, _ = c.Write((&hello{version: 1, use: streams, cluster: testCluster, node: "x"}).encode())
	if got, err := io.ReadAll(c); err == nil || len(got) > 0 {
		t.Fatalf("read %q, %v", got, err)
	}
	log.refusedBy(t, "didn't provide a certificate")
}

// New certificates are used without a restart; while the files do not fit, the old ones.
func TestTLSReload(t *testing.T) {
	old, next := certstest.NewAuthority(t, "old"), certstest.NewAuthority(t, "next")
	hour := time.Now().Add(time.Hour)
	dir := t.TempDir()
	f := files(t, dir, old, hour, old)
	b, _ := serving(t, "b", load(t, f))
	if err := works(t, node(t, "a", func(o *Options) { o.TLS = good(t, old) }), b); err != nil {
		t.Fatal(err)
	}
	newcomer := node(t, "c", func(o *Options) { o.TLS = load(t, files(t, t.TempDir(), next, hour, next)) })
	wantKind(t, works(t, newcomer, b), core.Unavailable)

	if err := os.WriteFile(f.Key, []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := works(t, node(t, "d", func(o *Options) { o.TLS = good(t, old) }), b); err != nil {
		t.Fatalf("while the files are being replaced: %v", err)
	}
	files(t, dir, next, hour, next)
	waitFor(t, func() bool { return works(t, newcomer, b) == nil })
	wantKind(t, works(t, node(t, "e", func(o *Options) { o.TLS = good(t, old) }), b), core.Unavailable)
}

func TestCertificateNames(t *testing.T) {
	tls := good(t, certstest.NewAuthority(t, "ours")) // of 127.0.0.1
	if err := tls.Names("127.0.0.1:7420"); err != nil {
		t.Error(err)
	}
	if err := tls.Names("n1.example.org:7420"); err == nil {
		t.Error("it names a host that it does not")
	}
}

func TestLoadTLSRefuses(t *testing.T) {
	ours := certstest.NewAuthority(t, "ours")
	hour := time.Now().Add(time.Hour)
	log := slog.New(slog.DiscardHandler)
	for name, c := range map[string]struct {
		spoil func(*certs.Files)
		end   time.Time
		text  string
	}{
		"expired":      {func(*certs.Files) {}, time.Now().Add(-time.Minute), "valid from"},
		"missing":      {func(f *certs.Files) { f.CA += "x" }, hour, "no such file"},
		"not a key":    {func(f *certs.Files) { f.Key = f.Cert }, hour, "key"},
		"no authority": {func(f *certs.Files) { f.CA = f.Key }, hour, "holds no certificate"},
	} {
		f := files(t, t.TempDir(), ours, c.end, ours)
		c.spoil(&f)
		if _, err := LoadTLS(f, log); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
