package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"polylog/cluster"
	"polylog/cluster/peer"
	"polylog/cmd/polylog/config"
	"polylog/core"
	"polylog/core/certs"
	"polylog/core/commitlog"
	"polylog/index"
	"polylog/protocols/amqp"
	httpd "polylog/protocols/http"
	"polylog/protocols/http/webhook"
	"polylog/protocols/kafka"
	"polylog/protocols/kafka/group"
	"polylog/router"
	"polylog/router/admin"
	"polylog/router/state"
)

// The steps of broker.start, in its order. Each has close undo what it did.

func (b *broker) lock(context.Context) error {
	home, err := cluster.LockHome(b.fs, b.config.DataDir, b.config.NodeID)
	if err != nil {
		return err
	}
	b.home = home
	b.laterClose(home.Close)
	return b.metrics.Register(diskFree(b.fs, b.config.DataDir))
}

// reserve gives the reserve up on a full disk, or makes it.
func (b *broker) reserve(context.Context) (err error) {
	if b.short, err = b.home.MakeRoom(); err != nil {
		b.log.Warn("no space is reserved for a full disk", "err", err)
	}
	if b.short {
		b.log.Warn("the disk is full: the reserve is given up, so that what has expired can be removed")
	}
	return nil
}

// probe finds out early what would otherwise fail after the broker has led: an address
// for clients that cannot be bound, a file for the addresses that cannot be there.
func (b *broker) probe(ctx context.Context) error {
	if b.config.AddrFile != "" {
		if _, err := os.Stat(filepath.Dir(b.config.AddrFile)); err != nil {
			return fmt.Errorf("addr-file: %w", err)
		}
	}
	for _, l := range []struct{ name, addr string }{
		{"kafka", b.config.KafkaListen}, {"amqp", b.config.AMQPListen}, {"amqps", b.config.AMQPSListen}, {"management", b.config.ManagementListen}, {"kafka-rest", b.config.KafkaRESTListen}, {"nsq", b.config.NSQListen}, {"mqtts", b.config.MQTTSListen}, {"mqtt", b.config.MQTTListen}, {"mqtt-ws", b.config.MQTTWSListen},
	} {
		ln, err := bind(ctx, l.name, l.addr)
		if err == nil && ln != nil {
			err = ln.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bindNode binds the node-to-node listener; it is served once the node is open.
func (b *broker) bindNode(ctx context.Context) error {
	if c := b.config; c.NodeTLSCert != "" {
		var err error
		if b.tls, err = peer.LoadTLS(certs.Files{Cert: c.NodeTLSCert, Key: c.NodeTLSKey, CA: c.NodeTLSCA}, b.log); err != nil {
			return fmt.Errorf("node-tls-cert, node-tls-key, node-tls-ca: %w", err)
		}
	}
	ln, err := b.listen(ctx, "node", b.config.NodeListen)
	if ln == nil {
		return err
	}
	b.nodeListener = ln
	b.laterClose(func() error {
		if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	if b.tls != nil {
		if err := b.tls.Names(b.nodeAddr()); err != nil {
			return fmt.Errorf("node-tls-cert: other nodes would refuse it at %s, this node's address (node-advertise, else node-listen): %w", b.nodeAddr(), err)
		}
	}
	return nil
}

func (b *broker) serveHTTP(ctx context.Context) error {
	ln, err := b.listen(ctx, "http", b.config.HTTPListen)
	if ln == nil {
		return err
	}
	page, err := b.console(ln)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	s := httpd.New(httpd.Options{
		Listener: ln, Ready: b.notReady, Registry: b.metrics, Logger: b.log, Clock: b.now,
		Clients: &b.clients, Console: page, Version: version, Coordinator: b.coordinator,
		Health:  func(ctx context.Context) (admin.Health, error) { return b.admin.Health(ctx) },
		MaxBody: int(b.config.HTTPMaxBody), BodyMemory: int64(b.config.HTTPRequestMemory),
	})
	b.http = s
	b.later(s.Close)
	b.loops.Go(func() {
		if err := s.Serve(); err != nil {
			b.fail(err)
		}
	})
	return nil
}

// pushWebhooks begins to push subscriptions to their endpoints, whenever this node leads.
func (b *broker) pushWebhooks(context.Context) (err error) {
	b.webhooks, err = webhook.New(webhook.Options{
		Router: b.router, Logger: b.log, Registerer: b.metrics, Guard: webhook.NewGuard(b.config.WebhookAllow),
		Version: version, Origin: b.config.WebhookOrigin, Clock: b.now,
	})
	if err != nil {
		return err
	}
	b.laterClose(func() error { b.webhooks.Close(); return nil })
	return nil
}

// openHTTP begins to serve what needs the router.
func (b *broker) openHTTP(context.Context) error {
	if b.http == nil {
		return nil
	}
	b.http.Open(b.router, b.webhooks)
	b.laterClose(func() error { b.http.CloseAPI(); return nil })
	return nil
}

func (b *broker) openIndex(context.Context) error {
	store, err := index.Open(index.Options{
		FS: b.fs, Dir: b.home.IndexDir(),
		CacheBytes: int64(b.config.IndexCache), Logger: b.log, Fatal: b.fatal,
	})
	if err != nil {
		return err
	}
	b.laterClose(store.Close)
	b.state, err = state.Open(store, state.Options{
		Fatal: b.fatal,
		Complain: func(err error) {
			b.log.Error("something in the log means less to this node than to others", "err", err)
		},
	})
	return err
}

func (b *broker) openNode(ctx context.Context) error {
	flush, err := commitlog.ParseFlushPolicy(b.config.Flush)
	if err != nil {
		return err
	}
	if flush != commitlog.FlushSync {
		b.log.Warn("writes are acknowledged before they are on the disk: a power cut can lose some", "flush", b.config.Flush)
	}
	node, err := cluster.Open(ctx, cluster.Options{
		FS: b.fs, Home: b.home, Listener: b.nodeListener, Advertise: b.config.NodeAdvertise, TLS: b.tls, Machine: b.state, Admit: b.state.Supports, Held: router.Held(b.state), Reluctant: b.reluctant, Heir: b.servesKafka, Logger: b.log, Fatal: b.fatal,
		Restart: b.restart, FilesRate: int64(b.config.CatchUpRate), Clock: b.now,
		ScrubInterval: b.config.ScrubInterval, ScrubRate: int64(b.config.ScrubRate),
		CommitLog: commitlog.Options{
			SegmentBytes: int64(b.config.SegmentSize), Flush: flush,
			FlushInterval: b.config.FlushInterval, CacheBytes: int64(b.config.LogCache),
		},
	})
	if err != nil {
		return err
	}
	b.node.Store(node)
	b.laterClose(node.Close)
	return b.metrics.Register(nodeCollector{node})
}

// awaitLeader waits until this node leads or follows, and has applied everything that was
// acknowledged before it did: what its clients see then is never older.
func (b *broker) awaitLeader(ctx context.Context) error {
	n := b.node.Load()
	if err := n.Ready(ctx); err != nil {
		return err
	}
	b.enter("catching up with the cluster")
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		err := n.ReadIndex(ctx)
		if k := core.KindOf(err); ctx.Err() != nil || k != core.Unavailable && k != core.NotLeader {
			return err
		}
		pause.Reset(catchUpPause)
		select {
		case <-ctx.Done():
			return err
		case <-pause.C:
		}
	}
}

// catchUpPause is between tries to learn from a leader how far it is.
const catchUpPause = 100 * time.Millisecond

func (b *broker) openRouter(context.Context) error {
	r, err := router.New(router.Options{
		Log: b.node.Load(), State: b.state, Logger: b.log, Registerer: b.metrics, Defaults: b.config.BrokerConfig,
		Clock: b.now, AnonymousUser: b.config.AnonymousUser, RequireUsers: b.config.FirstUserPasswordFile != "",
	})
	if err != nil {
		return err
	}
	b.router = r
	b.laterClose(func() error { r.Close(); return nil })
	return nil
}

// makeRoom drops what has expired where the disk was full, before clients fill what room
// there is.
func (b *broker) makeRoom(ctx context.Context) error {
	if b.short && b.node.Load().IsLeader() {
		return b.router.EnforceRetention(ctx)
	}
	return nil
}

func (b *broker) serveKafka(ctx context.Context) error {
	ln, err := b.listen(ctx, "kafka", b.config.KafkaListen)
	if err != nil || ln == nil && b.config.KafkaRESTListen == config.Off {
		return err
	}
	o := kafkaOptions(b.config, b.router.BrokerConfig())
	o.Router, o.Logger, o.Registerer, o.Clock = b.router, b.log, b.metrics, b.now
	o.Clients = &b.clients
	if ln != nil {
		o.Listeners = []net.Listener{ln}
	}
	s, err := kafka.New(o)
	if err != nil {
		return errors.Join(err, closeAll(o.Listeners))
	}
	b.kafka = s
	b.later(s.Close)
	s.Serve()
	return nil
}

// endEarlierRun ends exclusive queues and client ids of the run before, if that was killed. Where
// the leader is lost just now, the next one sees to it.
func (b *broker) endEarlierRun(ctx context.Context) error {
	err := b.router.EndEarlierRun(ctx)
	if k := core.KindOf(err); k == core.Unavailable || k == core.NotLeader || k == core.Uncertain {
		b.log.Warn("what the last run of this node owned ends later", "err", err)
		return ctx.Err()
	}
	return err
}

func (b *broker) serveAMQP(ctx context.Context) error {
	lns, err := b.plainAndTLS(ctx, "amqp", b.config.AMQPListen, "amqps", b.config.AMQPSListen)
	if err != nil || len(lns) == 0 && b.config.ManagementListen == config.Off {
		return err
	}
	s, err := amqp.NewServer(amqp.Options{
		Router: b.router, NodeID: b.home.NodeID(), ClusterName: b.node.Load().ClusterID(),
		Logger: b.log, Registerer: b.metrics, Clock: b.now, Clients: &b.clients,
		MaxConnections: b.config.MaxConnections, MessageMemory: int64(b.config.MessageMemory),
		ConsumerTimeout: b.config.AMQPConsumerTimeout,
	})
	if err != nil {
		return errors.Join(err, closeAll(lns))
	}
	b.amqp = s
	b.later(s.Close)
	for _, ln := range lns {
		s.Serve(ln)
	}
	return nil
}

// kafkaOptions are the limits of the Kafka listener: our own settings, and those that
// Kafka has names for. The latter are taken as they are at the start.
func kafkaOptions(c *config.Config, k router.BrokerConfig) kafka.Options {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	o := kafka.Options{
		Advertised:     c.KafkaAdvertise,
		DataDir:        c.DataDir,
		MaxConnections: min(c.MaxConnections, k.MaxConnections),
		RequestMemory:  int64(c.RequestMemory),
		FetchMemory:    int(c.FetchMemory),
		IdleTimeout:    ms(k.ConnectionsMaxIdleMS),
		Groups: group.Config{
			InitialDelay:     ms(k.GroupInitialRebalanceMS),
			MinSession:       ms(k.GroupMinSessionTimeoutMS),
			MaxSession:       ms(k.GroupMaxSessionTimeoutMS),
			MaxSize:          k.GroupMaxSize,
			ConsumerMaxSize:  k.ConsumerGroupMaxSize,
			ConsumerSession:  ms(k.ConsumerSessionTimeoutMS),
			ConsumerInterval: ms(k.ConsumerHeartbeatIntervalMS),
		},
	}
	if o.Groups.InitialDelay == 0 {
		o.Groups.InitialDelay = -1 // 0 would mean the default
	}
	return o
}
