package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"polylog/core"
)

// TLSFiles are the names of PEM files: this node's certificate (with its chain) and
// key, and the certificates of the authorities that sign the nodes' certificates.
// Whoever has a certificate of theirs counts as a node: they should sign nothing else.
type TLSFiles struct{ Cert, Key, CA string }

// TLS is mutual TLS, 1.3, with certificates that are read again when their files have
// changed. Connections that are open keep what they began with.
type TLS struct {
	files TLSFiles
	log   *slog.Logger

	mu      sync.Mutex
	stamps  [3]stamp // guarded by mu, as is all below; of the files when they were last tried
	current *material
}

// material is what the files held.
type material struct {
	cert        tls.Certificate
	authorities *x509.CertPool
}

// stamp tells whether a file has changed.
type stamp struct {
	size     int64
	modified time.Time
}

// LoadTLS reads the files. It refuses what no other node could accept, such as an
// expired certificate.
func LoadTLS(files TLSFiles, log *slog.Logger) (*TLS, error) {
	t := &TLS{files: files, log: log}
	stamps, err := files.stamps()
	if err != nil {
		return nil, err
	}
	m, err := files.load()
	if err != nil {
		return nil, err
	}
	leaf := m.cert.Leaf
	if now := time.Now(); now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return nil, core.E(core.Invalid, "%s: the certificate is valid from %s to %s only",
			files.Cert, leaf.NotBefore.Format(time.RFC3339), leaf.NotAfter.Format(time.RFC3339))
	}
	t.stamps, t.current = stamps, m
	return t, nil
}

func (f TLSFiles) stamps() (s [3]stamp, err error) {
	for i, name := range []string{f.Cert, f.Key, f.CA} {
		info, err := os.Stat(name)
		if err != nil {
			return s, err
		}
		s[i] = stamp{size: info.Size(), modified: info.ModTime()}
	}
	return s, nil
}

func (f TLSFiles) load() (*material, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, err
	}
	m := &material{cert: cert, authorities: x509.NewCertPool()}
	if !m.authorities.AppendCertsFromPEM(pem) {
		return nil, core.E(core.Invalid, "%s holds no certificate", f.CA)
	}
	return m, nil
}

// fresh is what the files hold now, or held when they could last be read: while they
// are being replaced, certificate and key may not fit.
func (t *TLS) fresh() *material {
	t.mu.Lock()
	defer t.mu.Unlock()
	stamps, err := t.files.stamps()
	if err == nil && stamps == t.stamps {
		return t.current
	}
	var m *material
	if err == nil {
		t.stamps = stamps // what cannot be read is tried again when it has changed
		m, err = t.files.load()
	}
	if err != nil {
		t.log.Warn("node certificates not reloaded", "err", err)
		return t.current
	}
	t.current = m
	t.log.Info("node certificates reloaded", "cert", t.files.Cert, "expires", m.cert.Leaf.NotAfter)
	return m
}

func (m *material) config() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{m.cert},
		SessionTicketsDisabled: true, // a resumed session would outlive a change of authorities
	}
}

// setBoth is what to do where one side speaks TLS and the other does not.
const setBoth = "set node-tls-cert, node-tls-key and node-tls-ca on both or on neither"

// accept does the listener's half of a handshake.
func (t *TLS) accept(ctx context.Context, c net.Conn) (net.Conn, error) {
	m := t.fresh()
	config := m.config()
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, m.authorities
	return handshake(ctx, tls.Server(c, config))
}

// dial does the caller's half; the certificate must name the host of addr.
func (t *TLS) dial(ctx context.Context, c net.Conn, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	m := t.fresh()
	config := m.config()
	config.ServerName, config.RootCAs = host, m.authorities
	// Whatever the listener says that it takes: its refusal then tells why.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &m.cert, nil }
	return handshake(ctx, tls.Client(c, config))
}

func handshake(ctx context.Context, c *tls.Conn) (net.Conn, error) {
	err := c.HandshakeContext(ctx)
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return nil, core.E(core.Invalid, "the other side does not speak TLS and this node does: %s", setBoth)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}
