package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"polylog/compat/harness"
)

// Rows of webhooks.
const (
	alone  = "webhooks, one endpoint"
	beside = "webhooks, beside the dead"
)

// sink is an endpoint that takes everything.
type sink struct {
	ln    net.Listener
	srv   fasthttp.Server
	count atomic.Int64
	want  int64
	full  chan struct{} // closed when want came
	ended chan error
}

func newSink(want int) (*sink, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sink{ln: ln, want: int64(want), full: make(chan struct{}), ended: make(chan error, 1)}
	s.srv.Handler = func(*fasthttp.RequestCtx) {
		if s.count.Add(1) == s.want {
			close(s.full)
		}
	}
	go func() { s.ended <- s.srv.Serve(ln) }()
	return s, nil
}

func (s *sink) close() error { return errors.Join(s.ln.Close(), <-s.ended) }

// call makes one call of the broker's REST interface.
func call(ctx context.Context, server *harness.Broker, method, path, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+server.HTTP+"/v1/"+path, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %d %s %w", method, path, res.StatusCode, text, err)
	}
	return nil
}

// measureWebhooks pushes a topic's backlog to a live endpoint, alone and then beside many that refuse
// every connection and have messages waiting.
func (b *bench) measureWebhooks(ctx context.Context, server *harness.Broker) error {
	defer http.DefaultClient.CloseIdleConnections()
	if err := call(ctx, server, "PUT", "topics/hooked", `{"partitions":4}`); err != nil {
		return err
	}
	for range b.webhooks / batchSize {
		if err := call(ctx, server, "POST", "topics/hooked/messages", batch()); err != nil {
			return err
		}
	}
	one, err := b.push(ctx, server, "alone")
	if err != nil {
		return fmt.Errorf("%s: %w", alone, err)
	}
	b.table.add(alone, one)
	if err := b.bury(ctx, server); err != nil {
		return fmt.Errorf("dead endpoints: %w", err)
	}
	if one, err = b.push(ctx, server, "beside"); err != nil {
		return fmt.Errorf("%s: %w", beside, err)
	}
	b.table.add(beside, one)
	return nil
}

// push makes a subscription that begins at the start of the topic, and waits for all of it.
func (b *bench) push(ctx context.Context, server *harness.Broker, name string) (s sample, err error) {
	all := b.webhooks / batchSize * batchSize
	to, err := newSink(all)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, to.close()) }()
	before, err := server.Usage()
	if err != nil {
		return s, err
	}
	begin := time.Now()
	spec := fmt.Sprintf(`{"topic":"hooked","from":"start","push":{"url":"http://%s/","maxInFlight":64}}`, to.ln.Addr())
	if err := call(ctx, server, "PUT", "subscriptions/"+name, spec); err != nil {
		return s, err
	}
	select {
	case <-to.full:
	case <-ctx.Done():
		return s, ctx.Err()
	case <-time.After(10 * time.Minute):
		return s, fmt.Errorf("%d of %d came in ten minutes", to.count.Load(), all)
	}
	took := time.Since(begin)
	after, err := server.Usage()
	if err != nil {
		return s, err
	}
	if err := call(ctx, server, "DELETE", "subscriptions/"+name, ""); err != nil {
		return s, err
	}
	n := float64(all)
	return sample{requests: n, rate: n / took.Seconds(), cpu: float64((after.CPU - before.CPU).Nanoseconds()) / 1e3 / n}, nil
}

// bury makes the dead endpoints, at an address that nobody listens on, with a message for each.
func (b *bench) bury(ctx context.Context, server *harness.Broker) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	nobody := ln.Addr()
	if err := errors.Join(ln.Close(), call(ctx, server, "PUT", "topics/dead", `{"partitions":1}`)); err != nil {
		return err
	}
	group, all := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range b.dead {
		group.Go(func() error {
			return call(all, server, "PUT", fmt.Sprintf("subscriptions/dead-%d", i),
				fmt.Sprintf(`{"topic":"dead","push":{"url":"http://%s/%d"}}`, nobody, i))
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return call(ctx, server, "POST", "topics/dead/messages", `{"messages":[{"value":"1"},{"value":"2"},{"value":"3"}]}`)
}
