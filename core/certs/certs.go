// Package certs holds certificates that are read again when their files have changed. Connections
// that are open keep what they began with.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"polylog/core"
)

// Files are the names of PEM files: a certificate (with its chain) and its key, and the
// certificates of the authorities that sign those of the other side; CA may be empty for none.
type Files struct{ Cert, Key, CA string }

// Certs is what the files hold.
type Certs struct {
	files Files
	log   *slog.Logger

	mu      sync.Mutex
	stamps  [3]stamp // guarded by mu, as is all below; of the files when they were last tried
	current *Material
}

// Material is what the files held at a time.
type Material struct {
	Cert        tls.Certificate
	Authorities *x509.CertPool // nil: there is no file of them
}

// stamp tells whether a file has changed.
type stamp struct {
	size     int64
	modified time.Time
}

// Load reads the files. It refuses what the other side could not accept, such as an expired
// certificate.
func Load(files Files, log *slog.Logger) (*Certs, error) {
	t := &Certs{files: files, log: log}
	stamps, err := files.stamps()
	if err != nil {
		return nil, err
	}
	m, err := files.load()
	if err != nil {
		return nil, err
	}
	leaf := m.Cert.Leaf
	if now := time.Now(); now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return nil, core.E(core.Invalid, "%s: the certificate is valid from %s to %s only",
			files.Cert, leaf.NotBefore.Format(time.RFC3339), leaf.NotAfter.Format(time.RFC3339))
	}
	t.stamps, t.current = stamps, m
	return t, nil
}

func (f Files) stamps() (s [3]stamp, err error) {
	for i, name := range []string{f.Cert, f.Key, f.CA} {
		if name == "" {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return s, err
		}
		s[i] = stamp{size: info.Size(), modified: info.ModTime()}
	}
	return s, nil
}

func (f Files) load() (*Material, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	m := &Material{Cert: cert}
	if f.CA == "" {
		return m, nil
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, err
	}
	m.Authorities = x509.NewCertPool()
	if !m.Authorities.AppendCertsFromPEM(pem) {
		return nil, core.E(core.Invalid, "%s holds no certificate", f.CA)
	}
	return m, nil
}

// Fresh is what the files hold now, or held when they could last be read: while they
// are being replaced, certificate and key may not fit.
func (t *Certs) Fresh() *Material {
	t.mu.Lock()
	defer t.mu.Unlock()
	stamps, err := t.files.stamps()
	if err == nil && stamps == t.stamps {
		return t.current
	}
	var m *Material
	if err == nil {
		t.stamps = stamps // what cannot be read is tried again when it has changed
		m, err = t.files.load()
	}
	if err != nil {
		t.log.Warn("certificates not reloaded", "cert", t.files.Cert, "err", err)
		return t.current
	}
	t.current = m
	t.log.Info("certificates reloaded", "cert", t.files.Cert, "expires", m.Cert.Leaf.NotAfter)
	return m
}

// Server is the configuration of a listener for clients: TLS 1.2 or 1.3. A certificate that a
// client shows must be one that the authorities have signed; with required it must show one.
func (t *Certs) Server(required bool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			m := t.Fresh()
			c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{m.Cert}, ClientCAs: m.Authorities}
			switch {
			case m.Authorities == nil:
			case required:
				c.ClientAuth = tls.RequireAndVerifyClientCert
			default:
				c.ClientAuth = tls.VerifyClientCertIfGiven
			}
			if m.Authorities != nil {
				c.SessionTicketsDisabled = true // a resumed session would outlive a change of authorities
			}
			return c, nil
		},
	}
}

// Subject is whom the certificate names that a client has shown and that an authority of the listener
// has signed: its subject (RFC 2253), as RabbitMQ calls the user. It is empty where there is none. The
// handshake must be over.
func Subject(nc net.Conn) string {
	t, ok := nc.(*tls.Conn)
	if !ok {
		return ""
	}
	chains := t.ConnectionState().VerifiedChains
	if len(chains) == 0 {
		return ""
	}
	return chains[0][0].Subject.String()
}
