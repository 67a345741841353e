package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"polylog/cmd/polylog/config"
)

// open brings a node up in this process; what undoes it takes it down. joining is nil for the first.
func open(t *testing.T, dir, id string, joining *broker) *broker {
	t.Helper()
	b := newBroker(t.Context(), quiet(dir, id, joining), slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	return b
}

func quiet(dir, id string, joining *broker) *config.Config {
	c := config.Default()
	c.DataDir, c.NodeID, c.NodeListen = dir, id, "127.0.0.1:0"
	c.KafkaListen, c.AMQPListen, c.HTTPListen = config.Off, config.Off, config.Off
	c.MQTTListen, c.MQTTWSListen, c.ManagementListen, c.KafkaRESTListen, c.NSQListen = config.Off, config.Off, config.Off, config.Off, config.Off
	if joining != nil {
		c.Join = []string{joining.nodeAddr()}
	}
	return c
}

func (b *broker) down(t *testing.T) {
	t.Helper()
	if err := b.close(context.Background()); err != nil {
		t.Error(err)
	}
}

// A node that asks for admission again in its first process, after it was cut off, must not
// be taken for one that has lost its data.
func TestJoinedNodeIsNotNew(t *testing.T) {
	n1 := open(t, t.TempDir(), "n1", nil)
	defer n1.down(t)
	n2 := open(t, t.TempDir(), "n2", n1)
	defer n2.down(t)
	if c := n2.candidate(); !n2.fresh || c.New {
		t.Errorf("fresh %t, new %t; want a fresh one that is not new any more", n2.fresh, c.New)
	}
	if err := n2.checkIn(t.Context()); err != nil {
		t.Errorf("check-in of a member: %v", err)
	}
}

// What ends a running broker ends one that starts as well: a node that was removed may learn it
// while it waits for a leader, which it will never have.
func TestEndsWhileItStarts(t *testing.T) {
	dir := t.TempDir()
	n1 := open(t, t.TempDir(), "n1", nil)
	n2 := open(t, dir, "n2", n1)
	n2.down(t)
	n1.down(t)
	for name, end := range map[string]func(b *broker){
		"removed": func(b *broker) { b.fail(errors.New("removed")) },
		"drained": func(b *broker) { b.askToStop("drained") },
	} {
		b := newBroker(t.Context(), quiet(dir, "n2", nil), slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
		started := make(chan error, 1)
		go func() { started <- b.start() }()
		eventually(t, func() bool { return *b.phase.Load() == "waiting for a leader" }, func() string { return *b.phase.Load() })
		end(b)
		if err := <-started; err == nil || context.Cause(b.ending).Error() != name {
			t.Errorf("%s: started with %v, ended by %v", name, err, context.Cause(b.ending))
		}
		b.down(t)
	}
}

// A member that lost its data and began a cluster anew keeps no other member from starting, as
// long as one of those to join is of the old cluster; where none is the data is refused.
func TestOneOfThoseToJoinWentAstray(t *testing.T) {
	dir := t.TempDir()
	n1 := open(t, t.TempDir(), "n1", nil)
	defer n1.down(t)
	open(t, dir, "n2", n1).down(t)
	astray := open(t, t.TempDir(), "n3", nil)
	defer astray.down(t)
	for _, c := range []struct {
		join config.Addresses
		ok   bool
	}{{config.Addresses{astray.nodeAddr(), n1.nodeAddr()}, true}, {config.Addresses{astray.nodeAddr()}, false}} {
		conf := quiet(dir, "n2", n1)
		conf.Join = c.join
		b := newBroker(t.Context(), conf, slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
		err := b.start()
		if (err == nil) != c.ok {
			t.Errorf("join %s: %v", c.join, err)
		}
		b.down(t)
	}
}
