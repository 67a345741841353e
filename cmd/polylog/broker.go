package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"polylog/cmd/polylog/config"
	httpd "polylog/protocols/http"
)

// broker is a running broker: what serve wires together.
//
// It starts from the bottom up: the lock of the data directory, index, log and raft,
// router, listeners. The HTTP listener alone comes right after the lock, so that a long
// start can be watched; it says "not ready" until everything else is there. close takes
// the same steps backwards.
type broker struct {
	config    *config.Config
	log       *slog.Logger
	metrics   *prometheus.Registry
	endpoints []endpoint // set by start, fixed afterwards
	failed    chan error // gets the reason why a running broker cannot go on
	phase     atomic.Pointer[string]
	undo      []func(context.Context) error // what close does, last first
	loops     sync.WaitGroup
}

func newBroker(c *config.Config, log *slog.Logger) *broker {
	b := &broker{config: c, log: log, metrics: prometheus.NewRegistry(), failed: make(chan error, 1)}
	b.metrics.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "polylog_build_info", Help: "Always 1; the label says what runs.",
			ConstLabels: prometheus.Labels{"version": version, "revision": revision},
		}, func() float64 { return 1 }),
	)
	return b
}

// start brings the broker up. After an error, close takes down what is already up.
func (b *broker) start(ctx context.Context) error {
	begin := time.Now()
	b.enter("opening the data directory")
	if err := b.serveHTTP(); err != nil {
		return err
	}
	b.enter("")
	attrs := []any{"version", build(), "took", time.Since(begin).Round(time.Millisecond)}
	for _, e := range b.endpoints {
		attrs = append(attrs, e.name, e.addr)
	}
	b.log.Info("ready", attrs...)
	return ctx.Err()
}

// close stops what start has started, in the opposite order, each part awaited; ctx
// bounds how long connections may take.
func (b *broker) close(ctx context.Context) error {
	b.enter("stopping")
	var err error
	for len(b.undo) > 0 {
		last := len(b.undo) - 1
		err = errors.Join(err, b.undo[last](ctx))
		b.undo = b.undo[:last]
	}
	b.loops.Wait()
	return err
}

// later has close do undo.
func (b *broker) later(undo func(context.Context) error) { b.undo = append(b.undo, undo) }

// enter says what the broker waits for; nothing means that it is ready.
func (b *broker) enter(phase string) { b.phase.Store(&phase) }

// notReady is why the broker cannot serve now.
func (b *broker) notReady() []string {
	if phase := *b.phase.Load(); phase != "" {
		return []string{phase}
	}
	return nil
}

// fail ends the broker for a reason that it cannot get over.
func (b *broker) fail(err error) {
	select {
	case b.failed <- err:
	default: // the first reason is the one that counts
	}
}

// listen binds the address of a listener, or gives nil where it is off.
func (b *broker) listen(ctx context.Context, name, addr string) (net.Listener, error) {
	if addr == config.Off {
		return nil, nil
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	b.endpoints = append(b.endpoints, endpoint{name: name, addr: ln.Addr().String()})
	return ln, nil
}

func (b *broker) serveHTTP() error {
	ln, err := b.listen(context.Background(), "http", b.config.HTTPListen)
	if ln == nil {
		return err
	}
	s := httpd.New(httpd.Options{Listener: ln, Ready: b.notReady, Registry: b.metrics, Logger: b.log})
	b.later(s.Close)
	b.loops.Go(func() {
		if err := s.Serve(); err != nil {
			b.fail(err)
		}
	})
	return nil
}
