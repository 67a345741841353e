package manage

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTLSOfConnection(t *testing.T) {
	none := object{
		"ssl": false, "ssl_protocol": nil, "ssl_key_exchange": nil, "ssl_cipher": nil, "ssl_hash": nil,
		"peer_cert_subject": nil, "peer_cert_issuer": nil, "peer_cert_validity": nil,
	}
	if d := cmp.Diff(none, jsonOfTLS(nil)); d != "" {
		t.Error(d)
	}
	day := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: "shop"}, Issuer: pkix.Name{CommonName: "root"}, NotBefore: day, NotAfter: day.AddDate(1, 0, 0)}
	got := jsonOfTLS(&tls.ConnectionState{Version: tls.VersionTLS13, CipherSuite: tls.TLS_AES_128_GCM_SHA256, PeerCertificates: []*x509.Certificate{cert}})
	want := object{
		"ssl": true, "ssl_protocol": "tlsv1.3", "ssl_key_exchange": nil, "ssl_cipher": "TLS_AES_128_GCM_SHA256", "ssl_hash": nil,
		"peer_cert_subject": "CN=shop", "peer_cert_issuer": "CN=root", "peer_cert_validity": "2026-01-02T03:04:05Z - 2027-01-02T03:04:05Z",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A channel is found by its own name, and by no other one that begins alike.
func TestChannelByName(t *testing.T) {
	f := start(t)
	f.connect()
	all := fetch[[]object](f, "channels")
	if len(all) != 1 {
		t.Fatalf("channels: %v", all)
	}
	name, _ := all[0]["name"].(string)
	if got := fetch[object](f, "channels/"+escape(name)); got["name"] != name {
		t.Errorf("channel %q: %v", name, got)
	}
	for _, other := range []string{name + "1", name[:len(name)-1], "x" + name, "1", " ("} {
		if status, answer, _ := f.do("GET", "channels/"+escape(other), ""); status != 404 {
			t.Errorf("channel %q: %d %s", other, status, answer)
		}
	}
}
