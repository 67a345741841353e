package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"polylog/compat/harness"
	"polylog/compat/kafka/clients/proto"
)

// The failover: three nodes, and clients that were given any of them, each with an
// idempotent producer and a member of a group. The leader is stopped and killed in turns and
// comes back. In the end each record that was acknowledged is there once, in order, has been
// shown to the group, and the group's commits are at the end.

// failoverClients are one of each family of libraries that follow a leader by themselves.
var failoverClients = []string{"franz-go", "confluent-kafka", "java-4"}

const failoverParts = 3

// replica is one node's process.
type replica struct {
	harness.Polylog
	*harness.Broker
}

// up starts the node and waits until it takes part with a vote.
func (n *replica) up(ctx context.Context) error {
	b, err := n.Polylog.Start(ctx)
	if err != nil {
		return err
	}
	n.Broker = b
	for ctx.Err() == nil {
		resp, err := http.Get("http://" + b.HTTP + "/health/ready") //nolint:noctx // bounded by the loop's context
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		harness.Pause(ctx, 20*time.Millisecond)
	}
	return fmt.Errorf("%s is not ready: %w", b.HTTP, ctx.Err())
}

// startReplicas starts a cluster of three.
func startReplicas(o options) (all []*replica, err error) {
	var addrs []string
	for range 6 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	for i := range 3 {
		n := &replica{Polylog: harness.Polylog{
			Bin: o.bin, Dir: filepath.Join(o.work, fmt.Sprintf("n%d", i+1)), KafkaAddr: addrs[i],
			Args: []string{"--node-id", fmt.Sprintf("n%d", i+1), "--node-listen", addrs[3+i], "--broker-config", "group.initial.rebalance.delay.ms=0"},
		}}
		if i > 0 {
			n.Args = append(n.Args, "--join", addrs[3])
		}
		all = append(all, n)
	}
	return all, nil
}

// runFailover returns the number of clients that did not come through.
func runFailover(ctx context.Context, o options) (failed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	nodes, err := startReplicas(o)
	if err != nil {
		return 0, err
	}
	var addrs []string
	for _, n := range nodes {
		if err := n.up(ctx); err != nil {
			return 0, err
		}
		defer func() { n.Kill() }() // whichever process runs then
		addrs = append(addrs, n.KafkaAddr)
	}
	r, err := newReference(strings.Join(addrs, ","))
	if err != nil {
		return 0, err
	}
	defer r.close()
	p, err := startProbe(ctx, r)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	var subjects []*subject
	for _, c := range clients(o.cache) {
		if o.only != "" && !named(o.only, c.name) || o.only == "" && !slices.Contains(failoverClients, c.name) {
			continue
		}
		k := len(subjects) % len(addrs)
		s, err := startSubject(ctx, o, c, append(slices.Clone(addrs[k:]), addrs[:k]...), r)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", c.name, err)
		}
		defer s.stop()
		subjects = append(subjects, s)
	}
	for _, how := range []string{"stopped", "killed", "stopped", "killed"} {
		if err := changeLeader(ctx, nodes, r, p, subjects, how); err != nil {
			return 0, fmt.Errorf("after the leader was %s: %w", how, err)
		}
	}
	for _, s := range subjects {
		n, err := s.verify(ctx, r)
		fmt.Printf("%-16s %6d records %s\n", s.name, n, oneLine(err))
		if err != nil {
			failed++
		}
	}
	return failed, nil
}

// changeLeader ends the leader, waits until all go on with another one, and starts the node again.
func changeLeader(ctx context.Context, nodes []*replica, r *reference, p *probe, subjects []*subject, how string) error {
	leader, err := leaderOf(ctx, nodes, r)
	if err != nil {
		return err
	}
	p.begin()
	if how == "killed" {
		leader.Kill()
	} else if err := leader.Stop(30 * time.Second); err != nil {
		return err
	}
	if err := p.goesOn(ctx); err != nil {
		return err
	}
	gap := p.end()
	for _, s := range subjects {
		if err := s.goesOn(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	fmt.Printf("leader %s %s: no write was acknowledged for %v\n", filepath.Base(leader.Dir), how, gap.Round(time.Millisecond))
	return leader.up(ctx)
}

// leaderOf is the node that clients are told leads.
func leaderOf(ctx context.Context, nodes []*replica, r *reference) (*replica, error) {
	m, err := r.adm.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range m.Brokers {
		for _, n := range nodes {
			if b.NodeID == m.Controller && n.KafkaAddr == fmt.Sprintf("%s:%d", b.Host, b.Port) {
				return n, nil
			}
		}
	}
	return nil, fmt.Errorf("no node is controller %d of %v", m.Controller, m.Brokers)
}

// probe writes one record after the other and measures the longest time between two answers.
type probe struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	acked  atomic.Int64

	mu      sync.Mutex
	last    time.Time // of the last answer; guarded by mu
	longest time.Duration
}

func startProbe(ctx context.Context, r *reference) (*probe, error) {
	const topic = "failover-probe"
	if err := r.topic(ctx, topic, 1); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &probe{cancel: cancel, last: time.Now()}
	p.done.Go(func() {
		for i := int64(0); ctx.Err() == nil; i++ {
			if r.produce(ctx, topic, 1, i, 1) == nil {
				p.ack(time.Now())
			}
			harness.Pause(ctx, 5*time.Millisecond)
		}
	})
	return p, nil
}

func (p *probe) ack(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest = max(p.longest, now.Sub(p.last))
	p.last = now
	p.acked.Add(1)
}

// begin forgets what was measured before.
func (p *probe) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest = 0
}

// end is the longest time without an answer since begin.
func (p *probe) end() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.longest
}

func (p *probe) goesOn(ctx context.Context) error { return goesOn(ctx, &p.acked, 20) }

func (p *probe) stop() {
	p.cancel()
	p.done.Wait()
}

// goesOn waits until n has grown by more.
func goesOn(ctx context.Context, n *atomic.Int64, more int64) error {
	for want := n.Load() + more; n.Load() < want; harness.Pause(ctx, 5*time.Millisecond) {
		if ctx.Err() != nil {
			return fmt.Errorf("at %d, want %d: %w", n.Load(), want, ctx.Err())
		}
	}
	return nil
}

// subject is a client under test: its driver writes to a topic and reads it in a group.
type subject struct {
	name, topic string
	d           *driver
	log         *os.File
	cancel      context.CancelFunc
	done        sync.WaitGroup
	acked       atomic.Int64 // records 0..acked-1 were acknowledged
	err         error        // of the writer; set when done
}

func startSubject(ctx context.Context, o options, c client, addrs []string, r *reference) (*subject, error) {
	s := &subject{name: c.name, topic: c.name + "-failover"}
	if err := r.topic(ctx, s.topic, failoverParts); err != nil {
		return nil, err
	}
	var err error
	if s.log, err = os.Create(filepath.Join(o.work, c.name+".log")); err != nil {
		return nil, err
	}
	if s.d, err = startDriver(strings.Join(addrs, ","), s.log, c.command...); err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	if _, err := s.d.call(ctx, "join", proto.Args{"member": "m", "group": s.topic, "topic": s.topic}); err != nil {
		return nil, err
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.done.Go(func() { s.err = s.write(ctx) })
	return s, goesOn(ctx, &s.acked, 60)
}

// write produces, a few records at a time, until it is stopped.
func (s *subject) write(ctx context.Context) error {
	for ctx.Err() == nil {
		from := s.acked.Load()
		_, err := s.d.call(context.WithoutCancel(ctx), "produce", proto.Args{
			"topic": s.topic, "codec": "none", "idempotent": "1", "parts": proto.Itoa(failoverParts),
			"from": proto.Itoa(from), "count": "30",
		})
		if err != nil {
			s.cancel()
			return err
		}
		s.acked.Add(30)
		harness.Pause(ctx, 20*time.Millisecond)
	}
	return nil
}

func (s *subject) goesOn(ctx context.Context) error { return goesOn(ctx, &s.acked, 60) }

// verify stops the writer and compares what there is with what was promised.
func (s *subject) verify(ctx context.Context, r *reference) (int64, error) {
	s.cancel()
	s.done.Wait()
	n := s.acked.Load()
	if s.err != nil {
		return n, s.err
	}
	if err := r.expect(ctx, s.topic, failoverParts, n, "none", 0); err != nil {
		return n, err
	}
	err := s.d.await(ctx, fmt.Sprintf("all %d records", n), func(ms map[string]*member) bool {
		return int64(len(ms["m"].seen)) == n
	})
	if err != nil {
		return n, err
	}
	// A member that is still on its way to the new coordinator commits when it is there.
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for err = r.drained(ctx, s.topic, s.topic); err != nil && ctx.Err() == nil; {
		harness.Pause(ctx, 50*time.Millisecond)
		if again := r.drained(ctx, s.topic, s.topic); ctx.Err() == nil {
			err = again
		}
	}
	return n, errors.Join(err, leave(ctx, s.d, "m"))
}

func (s *subject) stop() {
	s.cancel()
	s.done.Wait()
	s.d.stop()
	_ = s.log.Close()
}
