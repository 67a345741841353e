package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/compat/amqp/load"
	"polylog/compat/faults/disk"
	"polylog/compat/faults/netsim"
	"polylog/compat/harness"
	"polylog/compat/harness/ledger"
	mqtt "polylog/compat/mqtt/load"
)

// convergence is how long after a fault everything may take to be well again, with all nodes up to date.
func (o *options) convergence() time.Duration {
	if o.patient {
		return 2 * time.Minute
	}
	return 30 * time.Second
}

// A node that has to fetch the log of others may take fetchTime longer, and a second more for each fetchRate bytes, while
// they go on writing.
const (
	fetchTime = time.Minute
	fetchRate = 8 << 20
)

// run is one run: nodes, what is done to them, and what became of it.
type run struct {
	options
	ctx     context.Context
	net     *netsim.Network
	nodes   []*node
	ledger  *ledger.Ledger
	history *history
	gaps    *gaps
	machine machine
	load    *records
	queues  *load.Load
	devices *mqtt.Load
	ops     *ops

	passed, failed int
	replaced       int                        // nodes so far
	measured       map[string][]time.Duration // write gaps by kind of fault
}

// setUp makes network, disks and nodes, and waits until the cluster serves.
func (r *run) setUp() error {
	var err error
	if r.net, err = netsim.New(r.options.nodes); err != nil {
		return err
	}
	for i := range r.options.nodes {
		n := &node{host: i + 1, dir: filepath.Join(r.dir, fmt.Sprintf("n%d", i+1)), history: r.history, wrong: r.ledger.Fail}
		if n.volume, err = newVolume(n.dir, r.volume); err != nil {
			return err
		}
		data := filepath.Join(n.dir, "data")
		if n.disk, err = disk.Mount(n.volume.dir, data, r.seed+uint64(i)); err != nil {
			return err
		}
		addr := func(port int) string { return fmt.Sprintf("%s:%d", r.net.Addr(n.host), port) }
		n.polylog = harness.Polylog{
			Bin: r.bin, Dir: n.dir, Data: data, KafkaAddr: addr(kafkaPort), AMQPAddr: amqpAddr, HTTPAddr: addr(httpPort),
			MQTTAddr: mqttAddr, Flush: r.flush,
			In: func(start func() error) error { return r.net.Do(n.host, start) },
		}
		if n.polylog.Under, err = n.boot(); err != nil {
			return err
		}
		r.identify(n, fmt.Sprintf("n%d", i+1), i > 0)
		r.nodes = append(r.nodes, n)
	}
	if err := keepFiles(); err != nil { // the disks'
		return err
	}
	for _, n := range r.nodes {
		n.up()
	}
	if err := r.converged(60*time.Second, false); err != nil {
		return fmt.Errorf("the cluster does not come up: %w", err)
	}
	r.queues = load.New(slices.Repeat([]string{amqpAddr}, len(r.nodes))...)
	r.queues.In = func(i int, dial func() error) error { return r.net.Do(r.nodes[i].host, dial) }
	r.queues.Pace = 40 * time.Millisecond
	r.devices = mqtt.New(slices.Repeat([]string{mqttAddr}, len(r.nodes))...)
	r.devices.In, r.devices.Pace = r.queues.In, 100*time.Millisecond
	return errors.Join(r.createTopic(), r.queues.Declare())
}

// identify gives a node its id; one that joins looks for the cluster at the other nodes.
func (r *run) identify(n *node, id string, joins bool) {
	n.id = id
	n.polylog.Args = []string{"--segment-size", r.segment, "--scrub-interval", scrubInterval.String(), "--scrub-rate", strconv.Itoa(scrubRate), "--mqtt-max-queued", "1000000"}
	if r.options.nodes > 1 {
		n.polylog.Args = append(n.polylog.Args, "--node-id", id, "--node-listen", r.nodeAddr(n.host))
	}
	if joins {
		n.polylog.Args = append(n.polylog.Args, "--join", r.others(n))
	}
}

func (r *run) nodeAddr(host int) string { return fmt.Sprintf("%s:%d", r.net.Addr(host), nodePort) }

// others are the node-to-node addresses of all nodes but one, as flags want them.
func (r *run) others(n *node) string {
	var addrs []string
	for host := 1; host <= r.options.nodes; host++ {
		if host != n.host {
			addrs = append(addrs, r.nodeAddr(host))
		}
	}
	return strings.Join(addrs, ",")
}

func (r *run) tearDown() (err error) {
	for _, n := range r.nodes {
		n.kill()
		if n.disk != nil {
			err = errors.Join(err, n.disk.Unmount())
		}
		if n.volume != nil {
			err = errors.Join(err, n.volume.unmount())
		}
	}
	if r.net != nil {
		err = errors.Join(err, r.net.Close())
	}
	return err
}

func (r *run) addrs() []string {
	var a []string
	for _, n := range r.nodes {
		a = append(a, n.polylog.KafkaAddr)
	}
	return a
}

func (r *run) createTopic() error {
	cl, err := kgo.NewClient(impatient(r.addrs())...)
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Second)
	defer cancel()
	_, err = kadm.NewClient(cl).CreateTopic(ctx, parts, -1, nil, topic)
	return err
}

// leader is the node that leads, as it says itself, or nil. Of two that say so the one with the
// newer term is right.
func (r *run) leader() *node {
	var leader *node
	var term int64
	for _, n := range r.nodes {
		if n.running() == nil {
			continue
		}
		if s, err := n.status(); err == nil && s.leader && s.term > term {
			leader, term = n, s.term
		}
	}
	return leader
}

// other is a node other than n.
func (r *run) other(n *node, rng *rand.Rand) *node {
	i := rng.IntN(len(r.nodes) - 1)
	if r.nodes[i] == n {
		i = len(r.nodes) - 1
	}
	return r.nodes[i]
}

// converged waits until all nodes are ready, one leads, all have applied what it had applied, and,
// where writes are going on, one was acknowledged since. The error tells what is missing.
func (r *run) converged(within time.Duration, writes bool) error {
	ctx, cancel := context.WithTimeout(r.ctx, within)
	defer cancel()
	goal, acked := int64(-1), r.load.Acked.Load()
	for {
		missing := r.missing(&goal)
		if missing == "" && writes && r.load.Acked.Load() == acked {
			missing = "no write is acknowledged"
		}
		if missing == "" {
			return nil
		}
		if !harness.Pause(ctx, 200*time.Millisecond) {
			return errors.New(missing)
		}
	}
}

// missing tells what is not well. goal is what the leader had applied when it was first asked: its
// own entries that nothing is applied from may have been committed since.
func (r *run) missing(goal *int64) string {
	leaders := 0
	applied := map[string]int64{}
	for _, n := range r.nodes {
		if n.running() == nil {
			return n.id + " is not ready"
		}
		s, err := n.status()
		if err != nil {
			return fmt.Sprintf("%s says nothing: %v", n.id, err)
		}
		if int(s.members) != len(r.nodes) {
			return fmt.Sprintf("%s knows of %d members", n.id, s.members)
		}
		if s.voters != s.members { // the next fault could take the majority
			return fmt.Sprintf("%s knows of %d voters", n.id, s.voters)
		}
		if s.leader {
			leaders++
			if *goal < 0 {
				*goal = s.applied
			}
		}
		applied[n.id] = s.applied
	}
	if leaders != 1 {
		return fmt.Sprintf("%d nodes lead", leaders)
	}
	for id, a := range applied {
		if a < *goal {
			return fmt.Sprintf("%s has applied up to entry %d, not %d", id, a, *goal)
		}
	}
	return ""
}

// inject does one fault and judges what came of it.
func (r *run) inject(num int, f fault) {
	k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == f.Kind })]
	rng := rand.New(rand.NewPCG(f.Seed, 0))
	harness.Pause(r.ctx, f.Rest)
	n := r.nodes[rng.IntN(len(r.nodes))]
	if l := r.leader(); l != nil {
		n = l
		if !f.Leader && len(r.nodes) > 1 {
			n = r.other(l, rng)
		}
	}
	before, _ := r.ledger.Wrong()
	r.gaps.begin()
	r.slowest()
	begin := r.history.now()
	r.history.event("fault", "num", num, "kind", f.Kind, "node", n.id, "leader", f.Leader, "hold", f.Hold.Round(time.Millisecond).String())
	if k.excused {
		n.excuse(true)
	}
	heal, err := k.do(r, n, rng)
	if err == nil {
		harness.Pause(r.ctx, f.Hold)
		err = heal()
	}
	r.history.event("healed", "num", num)
	healed := time.Now()
	if err != nil {
		r.ledger.Fail("fault %d, %v: %v", num, f, err)
	}
	patience := r.convergence()
	if k.fetch {
		_, size, _ := r.other(n, rng).log() // it is measured, and what cannot be measured is small
		patience += fetchTime + atRate(size, fetchRate)
	}
	if err := r.converged(patience, true); err != nil {
		r.ledger.Fail("fault %d, %v: not well %v after the end: %v", num, f, patience, err)
	}
	n.excuse(false)
	gap, well := r.gaps.end(time.Now()), time.Since(healed)
	r.measured[f.Kind] = append(r.measured[f.Kind], gap)
	stood, slow := r.slowest(), ""
	if stood > time.Second {
		slow = fmt.Sprintf(", the machine stood still for %.1fs", stood.Seconds())
	}
	if len(r.nodes) >= 3 && k.limit > 0 && gap-stood > k.limit && !r.patient {
		r.ledger.Fail("fault %d, %v: nothing was written for %v%s", num, f, gap.Round(time.Millisecond), slow)
	}
	r.verdict(before, "%4d  %7v  %-9s %-3s %-8s held %5.1fs  write gap %5.2fs  well after %5.2fs  %9d acknowledged%s",
		num, begin.Round(time.Second), f.Kind, n.id, role(f), f.Hold.Seconds(), gap.Seconds(), well.Seconds(), r.load.Acked.Load(), slow)
}

// slowest is for how long the machine has kept us or a disk from working, since the last call.
func (r *run) slowest() time.Duration {
	slow := r.machine.stalled()
	for _, n := range r.nodes {
		slow = max(slow, n.disk.Slowest())
	}
	return slow
}

func role(f fault) string {
	if f.Leader {
		return "leader"
	}
	return "follower"
}

// verdict counts something that was done when before promises were broken: it failed if there are
// more of them now. It prints a line, and what was wrong.
func (r *run) verdict(before int, format string, args ...any) {
	after, wrong := r.ledger.Wrong()
	line := fmt.Sprintf(format, args...)
	if after == before {
		r.passed++
		say("ok    %s", line)
	} else {
		r.failed++
		say("FAIL  %s", line)
	}
	r.history.event("verdict", "ok", after == before, "line", line)
	for _, w := range wrong[min(before, len(wrong)):] {
		say("      WRONG %s", w)
		r.history.event("wrong", "what", w)
	}
}

// say prints a line for whoever watches.
func say(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) }
