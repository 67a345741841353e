package amqp

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"polylog/core/certs"
	"polylog/core/certs/certstest"
	"polylog/protocols/amqp/spec"
)

// serveTLS has the fixture serve TLS on another port, with certificates of an authority, and
// returns what a client with such a certificate, or without one, dials with.
func (f *fixture) serveTLS(a *certstest.Authority) (addr string, with, without *tls.Config) {
	f.t.Helper()
	var files certs.Files
	files.Cert, files.Key, files.CA = a.Files(f.t, f.t.TempDir(), time.Now().Add(time.Hour), a)
	c, err := certs.Load(files, slog.New(slog.DiscardHandler))
	if err != nil {
		f.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	f.server.Serve(tls.NewListener(l, c.Server(false)))
	ca, err := os.ReadFile(files.CA)
	if err != nil {
		f.t.Fatal(err)
	}
	without = &tls.Config{RootCAs: x509.NewCertPool()}
	without.RootCAs.AppendCertsFromPEM(ca)
	with = without.Clone()
	with.Certificates = []tls.Certificate{c.Fresh().Cert}
	return l.Addr().String(), with, without
}

// dialTLS is a connection that has received connection.start, and its mechanisms.
func (f *fixture) dialTLS(addr string, o *tls.Config) (*client, string) {
	f.t.Helper()
	nc, err := tls.Dial("tcp", addr, o)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		f.t.Fatal(err)
	}
	c := &client{t: f.t, nc: nc, br: bufio.NewReader(nc)}
	c.write(protocolHeader)
	return c, string(recv[*spec.ConnectionStart](c, 0).Mechanisms)
}

func (c *client) login(m *spec.ConnectionStartOk) {
	c.t.Helper()
	c.send(0, m)
	recv[*spec.ConnectionTune](c, 0)
	c.send(0, &spec.ConnectionTuneOk{ChannelMax: maxChannels, FrameMax: maxFrame})
	c.send(0, &spec.ConnectionOpen{VirtualHost: "/"})
	recv[*spec.ConnectionOpenOk](c, 0)
}

func byCertificate() *spec.ConnectionStartOk {
	return &spec.ConnectionStartOk{ClientProperties: clientProperties(allCapabilities), Mechanism: mechExternal, Locale: "en_US"}
}

// TestTLS carries large messages both ways, logs in by password and by certificate, and stops in
// good order.
func TestTLS(t *testing.T) {
	f := start(t, nil)
	addr, with, without := f.serveTLS(certstest.NewAuthority(t, "ours"))
	c, mechanisms := f.dialTLS(addr, with)
	if !strings.HasSuffix(mechanisms, " EXTERNAL") {
		t.Errorf("mechanisms %s", mechanisms)
	}
	c.login(byCertificate())
	c.openChannel(1)
	c.declare(1, &spec.QueueDeclare{Queue: "q", Durable: true})
	c.confirmed(1)
	body := make([]byte, 3<<20)
	for i := range body {
		body[i] = byte(i >> 8)
	}
	c.publish(1, &spec.BasicPublish{RoutingKey: "q"}, &spec.Properties{Present: spec.HasUserID, UserID: "CN=node"}, body)
	recv[*spec.BasicAck](c, 1) // its user is the certificate's subject

	other, mechanisms := f.dialTLS(addr, without)
	if strings.Contains(mechanisms, "EXTERNAL") {
		t.Errorf("mechanisms %s", mechanisms)
	}
	other.login(plain("guest", "guest"))
	other.openChannel(1)
	for _, i := range f.server.Connections() {
		if one, ok := f.server.Connection(i.Name); !ok || one.TLS == nil || one.TLS.Version < tls.VersionTLS12 {
			t.Errorf("%s is listed with %+v", i.Name, one.TLS)
		}
	}
	other.consume(1, &spec.BasicConsume{Queue: "q", NoAck: true})
	recv[*spec.BasicDeliver](other, 1)
	if p, got := other.content(1); string(got) != string(body) || p.UserID != "CN=node" {
		t.Errorf("%d bytes of %s came back", len(got), p.UserID)
	}

	go func() { _ = f.server.Close(t.Context()) }()
	for _, c := range []*client{c, other} {
		if m := recv[*spec.ConnectionClose](c, 0); m.ReplyCode != uint16(spec.ConnectionForced) {
			t.Errorf("%+v", m)
		}
		c.send(0, &spec.ConnectionCloseOk{})
		c.gone()
	}
}

// TestExternalWithoutCertificate refuses who has shown none, on either listener.
func TestExternalWithoutCertificate(t *testing.T) {
	f := start(t, nil)
	addr, _, without := f.serveTLS(certstest.NewAuthority(t, "ours"))
	secure, _ := f.dialTLS(addr, without)
	for _, c := range []*client{secure, f.greeted()} {
		c.send(0, byCertificate())
		c.told(spec.AccessRefused, "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. For details see the broker logfile.", 0)
	}
}

// TestForeignCertificate does not get through the handshake, and plain bytes do not either.
func TestForeignCertificate(t *testing.T) {
	f := start(t, nil)
	addr, with, _ := f.serveTLS(certstest.NewAuthority(t, "ours"))
	_, foreign, _ := f.serveTLS(certstest.NewAuthority(t, "other"))
	cert := foreign.Certificates[0]
	foreign = &tls.Config{
		RootCAs:              with.RootCAs, // whatever the listener says that it takes
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil },
	}
	nc, err := tls.Dial("tcp", addr, foreign)
	if err == nil { // TLS 1.3 tells a client of it with what it reads
		_, err = nc.Read(make([]byte, 1))
		_ = nc.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "unknown certificate authority") {
		t.Errorf("%v", err)
	}
	plain, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	if _, err := plain.Write(protocolHeader); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return f.conns() == 0 })
	f.works()
}
