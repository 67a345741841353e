package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"polylog/cmd/polylog/config"
	"polylog/core/certs"
)

// listenTLS is listen for clients that speak TLS. A handshake happens with the first byte that is
// read.
func (b *broker) listenTLS(ctx context.Context, name, addr string) (net.Listener, error) {
	if addr == config.Off {
		return nil, nil
	}
	if b.clientCerts == nil {
		c := b.config
		var err error
		if b.clientCerts, err = certs.Load(certs.Files{Cert: c.TLSCert, Key: c.TLSKey, CA: c.TLSClientCA}, b.log); err != nil {
			return nil, fmt.Errorf("tls-cert, tls-key, tls-client-ca: %w", err)
		}
	}
	ln, err := b.listen(ctx, name, addr)
	if err != nil {
		return nil, err
	}
	return tls.NewListener(ln, b.clientCerts.Server(b.config.TLSClientAuth == "required")), nil
}

// plainAndTLS binds the listeners of a protocol that are not off.
func (b *broker) plainAndTLS(ctx context.Context, plain, plainAddr, secure, secureAddr string) (lns []net.Listener, err error) {
	ln, err := b.listen(ctx, plain, plainAddr)
	if err != nil {
		return nil, err
	}
	if ln != nil {
		lns = append(lns, ln)
	}
	if ln, err = b.listenTLS(ctx, secure, secureAddr); err != nil {
		return nil, errors.Join(err, closeAll(lns))
	}
	if ln != nil {
		lns = append(lns, ln)
	}
	return lns, nil
}
