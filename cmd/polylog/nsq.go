package main

import (
	"context"
	"errors"

	"polylog/protocols/http/nsq"
)

// serveNSQ serves nsqd's HTTP interface.
func (b *broker) serveNSQ(ctx context.Context) error {
	ln, err := b.listen(ctx, "nsq", b.config.NSQListen)
	if ln == nil {
		return err
	}
	s, err := nsq.New(nsq.Options{
		Listener: ln, Router: b.router, Logger: b.log, Registerer: b.metrics, Clients: &b.clients, Ready: b.notReady,
		Clock: b.now, Version: build(), MaxBody: int(b.config.HTTPMaxBody), BodyMemory: int64(b.config.HTTPRequestMemory),
	})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	b.later(s.Close)
	b.loops.Go(func() {
		if err := s.Serve(); err != nil {
			b.fail(err)
		}
	})
	return nil
}
