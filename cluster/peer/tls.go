package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"

	"polylog/core"
	"polylog/core/certs"
)

// TLS is mutual TLS, 1.3. Whoever has a certificate of the authorities counts as a node: they
// should sign nothing else.
type TLS struct{ certs *certs.Certs }

// LoadTLS reads the files, all three of them. It refuses what no other node could accept, such as
// an expired certificate.
func LoadTLS(files certs.Files, log *slog.Logger) (*TLS, error) {
	if files.CA == "" {
		return nil, core.E(core.Invalid, "nodes need the certificates of their authorities")
	}
	c, err := certs.Load(files, log)
	if err != nil {
		return nil, err
	}
	return &TLS{c}, nil
}

// Names is nil where other nodes, who dial addr, find its host in the certificate.
func (t *TLS) Names(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	return t.certs.Fresh().Cert.Leaf.VerifyHostname(host)
}

func config(m *certs.Material) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{m.Cert},
		SessionTicketsDisabled: true, // a resumed session would outlive a change of authorities
	}
}

// setBoth is what to do where one side speaks TLS and the other does not.
const setBoth = "set node-tls-cert, node-tls-key and node-tls-ca on both or on neither"

// accept does the listener's half of a handshake.
func (t *TLS) accept(ctx context.Context, c net.Conn) (net.Conn, error) {
	m := t.certs.Fresh()
	o := config(m)
	o.ClientAuth, o.ClientCAs = tls.RequireAndVerifyClientCert, m.Authorities
	return handshake(ctx, tls.Server(c, o))
}

// dial does the caller's half; the certificate must name the host of addr.
func (t *TLS) dial(ctx context.Context, c net.Conn, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	m := t.certs.Fresh()
	o := config(m)
	o.ServerName, o.RootCAs = host, m.Authorities
	// Whatever the listener says that it takes: its refusal then tells why.
	o.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &m.Cert, nil }
	return handshake(ctx, tls.Client(c, o))
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
