package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"polylog/cmd/polylog/config"
	"polylog/core"
	"polylog/router"
)

// benchBroker is a whole broker without listeners, with a topic.
func benchBroker(b *testing.B, flush string) (*router.Router, []core.QueueID) {
	b.Helper()
	c := config.Default()
	c.DataDir, c.Flush = b.TempDir(), flush
	c.ManagementListen = config.Off
	c.KafkaListen, c.AMQPListen, c.HTTPListen, c.NodeListen = config.Off, config.Off, config.Off, config.Off
	c.MQTTListen, c.MQTTWSListen, c.KafkaRESTListen, c.NSQListen = config.Off, config.Off, config.Off, config.Off
	br := newBroker(b.Context(), c, slog.New(slog.DiscardHandler), func(err error) { b.Error(err) })
	if err := br.start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := br.close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	t, err := br.router.CreateTopic(b.Context(), router.Principal{}, router.TopicSpec{Name: core.TopicName("bench"), Partitions: 6})
	if err != nil {
		b.Fatal(err)
	}
	return br.router, t.Partitions
}

func smallBatch(b *testing.B) []byte {
	b.Helper()
	var builder core.BatchBuilder
	builder.Add(time.Now().UnixMilli(), nil, make([]byte, 100))
	batch, err := builder.Build(nil, core.BatchOptions{Producer: core.Nobody})
	if err != nil {
		b.Fatal(err)
	}
	return batch
}

// BenchmarkProposals is how many messages of 100 bytes, each a proposal of its own, go through
// router, raft, CommitLog and index a second, with a thousand on the way.
func BenchmarkProposals(b *testing.B) {
	for _, flush := range []string{"os", "sync"} {
		b.Run(flush, func(b *testing.B) {
			r, queues := benchBroker(b, flush)
			batch := smallBatch(b)
			window := make(chan struct{}, 1000)
			var wg sync.WaitGroup
			begin := time.Now()
			n := 0
			for b.Loop() {
				window <- struct{}{}
				wg.Add(1)
				r.Publish(router.Principal{}, queues[n%len(queues)], batch, func(p router.PublishResult) {
					if p.Err != nil {
						b.Error(p.Err)
					}
					<-window
					wg.Done()
				})
				n++
			}
			wg.Wait()
			b.ReportMetric(float64(n)/time.Since(begin).Seconds(), "proposals/s")
		})
	}
}

// BenchmarkOneAtATime is the latency of such a message when each waits for the last one.
func BenchmarkOneAtATime(b *testing.B) {
	for _, flush := range []string{"os", "sync"} {
		b.Run(flush, func(b *testing.B) {
			r, queues := benchBroker(b, flush)
			batch := smallBatch(b)
			done := make(chan error, 1)
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				r.Publish(router.Principal{}, queues[0], batch, func(p router.PublishResult) { done <- p.Err })
				if err := <-done; err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-µs")
		})
	}
}
