package main

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"polylog/protocols/amqp/manage"
)

// processStarted is when the process began.
var processStarted = time.Now()

// serveManagement serves RabbitMQ's management API.
func (b *broker) serveManagement(ctx context.Context) error {
	ln, err := b.listen(ctx, "management", b.config.ManagementListen)
	if ln == nil {
		return err
	}
	s := manage.New(manage.Options{
		Listener: ln, Router: b.router, AMQP: b.amqp, Listeners: b.rabbitListeners, Ready: b.notReady,
		Started: processStarted, Logger: b.log, MaxBody: int(b.config.HTTPMaxBody),
	})
	b.later(s.Close)
	b.loops.Go(func() {
		if err := s.Serve(); err != nil {
			b.fail(err)
		}
	})
	return nil
}

// rabbitListeners are the listeners under RabbitMQ's names for their protocols.
func (b *broker) rabbitListeners() (all []manage.Listener) {
	names := map[string]string{"node": "clustering", "management": "http", "http": "rest", "mqtt-ws": "http/web-mqtt", "amqps": "amqp/ssl", "mqtts": "mqtt/ssl"}
	for _, e := range b.endpoints {
		addr, err := netip.ParseAddrPort(e.addr)
		if err != nil {
			continue
		}
		name, ok := names[e.name]
		if !ok {
			name = e.name
		}
		all = append(all, manage.Listener{Protocol: name, Addr: addr, TLS: strings.HasSuffix(name, "/ssl")})
	}
	return all
}
