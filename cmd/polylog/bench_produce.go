package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/cmd/polylog/rest"
)

// sender publishes a request of so many messages, and returns when it is confirmed.
type sender func(ctx context.Context, messages int) error

// runProduce has clients publish until there are enough messages or the time is over.
func (f *benchFlags) runProduce(ctx context.Context, c *rest.Client, topic string) error {
	open, done, err := f.senders(ctx, c, topic)
	if err != nil {
		return err
	}
	defer done()
	base, fail := context.WithCancelCause(ctx) // until a client fails
	defer fail(nil)
	run := base
	if f.messages == 0 {
		var cancel context.CancelFunc
		run, cancel = context.WithTimeout(base, f.duration)
		defer cancel()
	}
	bar := newBar(f.process, "messages", f.messages)
	defer bar.end()
	var h histogram
	var sent, asked atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for range f.clients {
		send := open()
		wg.Go(func() {
			for {
				n := f.share(&asked)
				if n == 0 || !f.paced(run, begin, asked.Load()) {
					return
				}
				at := time.Now()
				// What is under way when the time is over is waited for: it is part of the load.
				if err := send(ctx, n); err != nil {
					fail(err)
					return
				}
				h.add(time.Since(at))
				sent.Add(int64(n))
			}
		})
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-over:
			running = false
		case <-tick.C:
			bar.at(sent.Load())
		}
	}
	took := time.Since(begin)
	bar.end()
	if err := context.Cause(base); err != nil && (ctx.Err() == nil || sent.Load() == 0) {
		return err
	}
	return f.report(sent.Load(), sent.Load()*int64(f.size), took, &h)
}

// share is how many messages the next request has; 0 when there are enough.
func (f *benchFlags) share(asked *atomic.Int64) int {
	to := asked.Add(int64(f.batch))
	if f.messages == 0 || to <= f.messages {
		return f.batch
	}
	return int(max(0, int64(f.batch)-(to-f.messages)))
}

// paced waits until it is time for message n; it is false when the run is over.
func (f *benchFlags) paced(ctx context.Context, begin time.Time, n int64) bool {
	due := time.Duration(0)
	if f.rate > 0 {
		due = time.Until(begin.Add(time.Duration(float64(n-int64(f.batch)) / float64(f.rate) * float64(time.Second))))
	}
	if due <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(due)
	defer timer.Stop()
	return wait(ctx, timer.C, nil)
}

// payload is what every message has: letters that no codec makes much shorter.
func (f *benchFlags) payload() []byte {
	b := make([]byte, (f.size+1)/2)
	_, _ = rand.Read(b) // never fails
	return []byte(hex.EncodeToString(b)[:f.size])
}

// senders opens clients of the protocol; done ends them.
func (f *benchFlags) senders(ctx context.Context, c *rest.Client, topic string) (open func() sender, done func(), err error) {
	value := f.payload()
	if f.protocol == "http" {
		line := append(append([]byte(`{"value":"`), value...), "\"}\n"...)
		return func() sender { return httpSender(c.Clone(), topic, value, line) }, func() {}, nil
	}
	b := brokerFlags{process: f.process, as: f.as, addr: f.broker, timeout: f.timeout}
	opts := []kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation(), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression())}
	login, err := b.login()
	if err != nil {
		return nil, nil, err
	}
	first, err := b.client(ctx, opts...)
	if err != nil {
		return nil, nil, err
	}
	all := []*kgo.Client{first}
	open = func() sender {
		own := []kgo.Opt{kgo.SeedBrokers(b.seeds()...), kgo.ClientID("polylog-bench"), kgo.RecordDeliveryTimeout(f.timeout)}
		k, err := kgo.NewClient(slices.Concat(opts, login, own)...)
		if err != nil {
			return func(context.Context, int) error { return err }
		}
		all = append(all, k)
		return func(ctx context.Context, n int) error {
			records := make([]*kgo.Record, n)
			for i := range records {
				records[i] = &kgo.Record{Value: value}
			}
			return k.ProduceSync(ctx, records...).FirstErr()
		}
	}
	return open, func() {
		for _, k := range all {
			k.Close()
		}
	}, nil
}

// httpSender publishes one message as it is, or several as lines of JSON.
func httpSender(c *rest.Client, topic string, value, line []byte) sender {
	path := c.Path("topics", topic, "messages")
	return func(ctx context.Context, n int) error {
		r := rest.Request{Method: http.MethodPost, Path: path, Query: url.Values{"raw": {""}}, Body: &rest.Body{Type: "application/octet-stream", Data: value}}
		if n > 1 {
			r.Query, r.Body = nil, &rest.Body{Type: "application/x-ndjson", Data: bytes.Repeat(line, n)}
		}
		var answer struct{ Results []struct{ Detail string } }
		if err := c.Do(ctx, r, &answer); err != nil {
			return err
		}
		for _, one := range answer.Results {
			if one.Detail != "" {
				return errors.New(strings.TrimSpace(one.Detail))
			}
		}
		return nil
	}
}
