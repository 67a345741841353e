package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"polylog/cluster"
	"polylog/cluster/peer"
	"polylog/cmd/polylog/config"
	"polylog/core/certs"
	"polylog/core/vfs"
	"polylog/protocols/amqp"
	httpd "polylog/protocols/http"
	"polylog/protocols/http/webhook"
	"polylog/protocols/kafka"
	"polylog/router"
	"polylog/router/admin"
	"polylog/router/state"
)

// broker is a running broker: what serve wires together.
//
// It starts from the bottom up: the lock of the data directory, index, log and raft,
// router, listeners (start.go). The HTTP listener alone comes right after the lock, so
// that a long start can be watched; it says "not ready" until everything else is there.
// close takes the same steps backwards.
type broker struct {
	config    *config.Config
	log       *slog.Logger
	fs        vfs.FS
	metrics   *prometheus.Registry
	endpoints []endpoint      // set by start, fixed afterwards
	exposed   []endpoint      // for clients, which other machines can reach
	fatal     func(error)     // ends the process: storage failed; see cluster.Options.Fatal
	ending    context.Context // done when the broker must stop, also while it starts; its cause is why
	end       context.CancelCauseFunc

	home         *cluster.Home
	short        bool // the disk was full at the start
	fresh        bool // the data directory has no log yet
	nodeListener net.Listener
	http         *httpd.Server // nil: there is no listener
	webhooks     *webhook.Engine
	amqp         *amqp.Server // nil: neither AMQP nor its management has a listener
	tls          *peer.TLS    // of node-to-node connections; nil: none
	clientCerts  *certs.Certs // of TLS listeners for clients; nil: none is there yet
	state        *state.State
	router       *router.Router
	admin        *admin.Server
	clients      router.Clients
	kafka        *kafka.Server // nil: neither Kafka nor its REST interface has a listener

	phase atomic.Pointer[string]       // what it waits for; empty when it is ready
	node  atomic.Pointer[cluster.Node] // nil until it has started

	undo  []func(context.Context) error // what close does, last first
	loops sync.WaitGroup
}

// newBroker makes a broker that start brings up and that has to stop when ctx ends. fatal ends
// the process.
func newBroker(ctx context.Context, c *config.Config, log *slog.Logger, fatal func(error)) *broker {
	b := &broker{config: c, log: log, fs: vfs.Default, metrics: newRegistry(), fatal: fatal}
	b.ending, b.end = context.WithCancelCause(ctx)
	b.enter("not started")
	return b
}

// start brings the broker up. After an error, close takes down what is already up.
func (b *broker) start() error {
	begin := time.Now()
	for _, step := range []struct {
		phase string
		do    func(context.Context) error
	}{
		{"locking the data directory", b.lock},
		{"binding the HTTP listener", b.serveHTTP},
		{"trying the clients' listeners", b.probe},
		{"binding the node-to-node listener", b.bindNode},
		{"asking to join the cluster", b.settle},
		{"reserving disk space", b.reserve},
		{"opening the index", b.openIndex},
		{"reading the log", b.openNode},
		{"starting the router", b.openRouter},
		{"answering other nodes", b.serveAdmin},
		{"joining the cluster", b.join},
		{"asking the other members", b.checkIn},
		{"waiting for a leader", b.awaitLeader},
		{"making room on the disk", b.makeRoom},
		{"ending what its last run owned", b.endEarlierRun},
		{"binding the Kafka listener", b.serveKafka},
		{"binding the AMQP listener", b.serveAMQP},
		{"pushing webhooks", b.pushWebhooks},
		{"opening the REST interface", b.openHTTP},
		{"binding the management listener", b.serveManagement},
		{"binding the Kafka REST listener", b.serveKafkaREST},
		{"binding the NSQ listener", b.serveNSQ},
		{"binding the MQTT listeners", b.serveMQTT},
		{"announcing this node", b.announce},
		{"making the first user", b.firstUser},
	} {
		b.enter(step.phase)
		if err := step.do(b.ending); err != nil {
			return err
		}
	}
	b.warnOpen()
	b.enter("")
	attrs := []any{"version", build(), "took", time.Since(begin).Round(time.Millisecond), "flush", b.config.Flush}
	for _, e := range b.endpoints {
		attrs = append(attrs, e.name, e.addr)
	}
	b.log.Info("ready", attrs...)
	return nil
}

// close stops what start has started, in the opposite order, each part awaited; ctx
// bounds how long connections may take. Where this node leads, another one takes over
// first: writes stop for as long as that takes, and not until the connections are closed.
func (b *broker) close(ctx context.Context) error {
	b.enter(stopping)
	if n := b.node.Load(); n != nil {
		n.HandOver(ctx) // while clients are still here to be told
	}
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

// laterClose has close do c, which needs no context.
func (b *broker) laterClose(c func() error) { b.later(func(context.Context) error { return c() }) }

// now is the time of what is stored.
func (b *broker) now() time.Time { return time.Now().Add(b.config.ClockOffset) }

// stopping is the phase of a broker that is about to end.
const stopping = "stopping"

// enter says what the broker waits for.
func (b *broker) enter(phase string) { b.phase.Store(&phase) }

// notReady is why the broker cannot serve now.
func (b *broker) notReady() []string {
	if phase := *b.phase.Load(); phase != "" {
		return []string{phase}
	}
	var reasons []string
	n := b.node.Load()
	if _, ok := n.Leader(); !ok {
		reasons = append(reasons, "no leader is known")
	}
	switch {
	case !n.IsVoter():
		reasons = append(reasons, "it has no vote yet: it is catching up with the cluster")
	case !n.HasVote():
		reasons = append(reasons, "it has no vote yet: others have not told it yet that its data is not older than it was, or have told it that it is")
	}
	return reasons
}

// askToStop stops the broker in good order because somebody asked for it.
func (b *broker) askToStop(why string) { b.end(stopRequest(why)) }

// stopRequest is why a broker ends without a failure.
type stopRequest string

func (r stopRequest) Error() string { return string(r) }

// fail stops the broker for a reason that it cannot get over. The first one counts.
func (b *broker) fail(err error) { b.end(err) }

// bind binds the address of a listener, or gives nil where it is off. An address
// without a host means the loopback interface: nothing is open to other machines
// unless somebody wrote so.
func bind(ctx context.Context, name, addr string) (net.Listener, error) {
	if addr == config.Off {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if host == "" {
		addr = net.JoinHostPort("127.0.0.1", port)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s-listen: %w", name, err)
	}
	return ln, nil
}

// listen binds a listener and keeps its address.
func (b *broker) listen(ctx context.Context, name, addr string) (net.Listener, error) {
	ln, err := bind(ctx, name, addr)
	if ln == nil {
		return nil, err
	}
	if tcp, ok := ln.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		switch {
		case name != "node":
			b.exposed = append(b.exposed, endpoint{name: name, addr: ln.Addr().String()})
		case b.tls == nil:
			b.log.Warn("other machines can reach this listener, and it asks nobody who they are", "listener", name, "addr", ln.Addr().String())
		}
	}
	b.endpoints = append(b.endpoints, endpoint{name: name, addr: ln.Addr().String()})
	return ln, nil
}
