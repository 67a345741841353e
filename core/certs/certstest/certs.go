// Package certstest makes certificates for tests of TLS.
package certstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority is an authority of its own.
func NewAuthority(tb testing.TB, name string) *Authority {
	tb.Helper()
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a := &Authority{}
	a.cert, a.key = sign(tb, t, t, nil)
	return a
}

func sign(tb testing.TB, t, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &key.PublicKey, by)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return cert, key
}

// Files writes PEM files into dir: the certificate of a node at 127.0.0.1, valid until end,
// its key, and the certificates of the authorities that the node trusts.
func (a *Authority) Files(tb testing.TB, dir string, end time.Time, trusts ...*Authority) (certFile, keyFile, caFile string) {
	tb.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		tb.Fatal(err)
	}
	cert, key := sign(tb, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "node"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, a.key)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	var authorities []byte
	for _, t := range trusts {
		authorities = append(authorities, block("CERTIFICATE", t.cert.Raw)...)
	}
	certFile, keyFile, caFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	for name, b := range map[string][]byte{certFile: block("CERTIFICATE", cert.Raw), keyFile: block("EC PRIVATE KEY", der), caFile: authorities} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return certFile, keyFile, caFile
}

func block(kind string, b []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}) }
