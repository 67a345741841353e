package main

import (
	"context"
	"errors"

	"polylog/protocols/http/kafkarest"
)

// serveKafkaREST serves what Confluent's REST proxy does.
func (b *broker) serveKafkaREST(ctx context.Context) error {
	ln, err := b.listen(ctx, "kafka-rest", b.config.KafkaRESTListen)
	if ln == nil {
		return err
	}
	s, err := kafkarest.New(kafkarest.Options{
		Listener: ln, Router: b.router, Kafka: b.kafka, Advertised: b.config.KafkaRESTAdvertise,
		Logger: b.log, Registerer: b.metrics, Clients: &b.clients, Clock: b.now,
		MaxBody: int(b.config.HTTPMaxBody), BodyMemory: int64(b.config.HTTPRequestMemory),
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
