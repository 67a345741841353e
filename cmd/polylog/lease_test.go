package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"polylog/cmd/polylog/config"
	"polylog/core"
	"polylog/router"
	"polylog/router/state"
)

// leaseBroker is a whole broker that serves no clients; join may be empty.
func leaseBroker(t *testing.T, id, dir, join string) *broker {
	t.Helper()
	c := config.Default()
	c.DataDir, c.NodeID = dir, id
	c.ManagementListen = config.Off
	c.KafkaListen, c.AMQPListen, c.HTTPListen, c.NodeListen = config.Off, config.Off, config.Off, "127.0.0.1:0"
	c.MQTTListen, c.MQTTWSListen, c.KafkaRESTListen, c.NSQListen = config.Off, config.Off, config.Off, config.Off
	if join != "" {
		c.Join = []string{join}
	}
	b := newBroker(t.Context(), c, slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	return b
}

func closeBroker(t *testing.T, b *broker) {
	t.Helper()
	if err := b.close(context.Background()); err != nil {
		t.Error(err)
	}
}

// Leases through raft and the network: a node's are taken over by another one, and it is
// told.
func TestLeasesInCluster(t *testing.T) {
	n1 := leaseBroker(t, "n1", t.TempDir(), "")
	defer func() { closeBroker(t, n1) }()
	n2 := leaseBroker(t, "n2", t.TempDir(), n1.nodeAddr())
	defer func() { closeBroker(t, n2) }()
	eventually(t, func() bool {
		return n1.router.FeatureLevel() == state.MaxLevel && n2.router.FeatureLevel() == state.MaxLevel
	}, func() string { return "the feature level does not rise" })
	acquire := func(b *broker, name string, takeover bool) (*router.Lease, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return b.router.AcquireLease(ctx, name, takeover)
	}
	x, err := acquire(n2, "x", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(n1, "x", false); core.KindOf(err) != core.Conflict {
		t.Fatalf("owned by n2: %v", err)
	}
	if err := x.Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	// What the leader asks a node to see that it still runs.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := n1.node.Load().OpenStream(ctx, "n2", "lease-run")
	if err != nil {
		t.Fatal(err)
	}
	if run, err := s.Recv(); err != nil || string(run) != n1.state.Sessions()["n2"].Run {
		t.Fatalf("run %q, %v", run, err)
	}
	taken, err := acquire(n1, "x", true)
	if err != nil || taken.Token() <= x.Token() {
		t.Fatalf("token %d after %d: %v", taken.Token(), x.Token(), err)
	}
	<-x.Lost()
	select {
	case <-taken.Lost():
		t.Error("the new owner has lost it")
	default:
	}
}

// A run that was killed has left its session open; the next one ends it before clients come.
func TestEarlierRunOwnsNothing(t *testing.T) {
	n := leaseBroker(t, "n1", t.TempDir(), "")
	defer closeBroker(t, n)
	if n.router.FeatureLevel() < state.MaxLevel {
		t.Fatal("a lone node is at level", n.router.FeatureLevel())
	}
	if _, err := n.router.AcquireLease(t.Context(), "x", false); err != nil {
		t.Fatal(err)
	}
	next, err := router.New(router.Options{Log: n.node.Load(), State: n.state})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := next.EndEarlierRun(t.Context()); err != nil {
		t.Fatal(err)
	}
	if node, _, err := next.LeaseOwner("x"); core.KindOf(err) != core.NotFound {
		t.Fatalf("x belongs to %q: %v", node, err)
	}
	if err := next.EndEarlierRun(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := next.AcquireLease(t.Context(), "x", false); err != nil {
		t.Fatal(err)
	}
}
