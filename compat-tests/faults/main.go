// Command faults runs a cluster of Polylog on a network and on disks that fail, with clients that
// never stop, and looks for broken promises: what was acknowledged is there, once, in order, at its
// offset, on every node; offsets of groups never go back; operations on offsets and topics are
// linearizable; a minority that fails is a short pause; all nodes agree soon after.
//
// Nodes are processes of the real binary, each in a network namespace of its own (netsim), on a
// file system of its own (volume.go) behind a layer that fails on demand (disk). The schedule of
// faults (plan.go, kinds.go) is drawn from a seed, which repeats it. It needs root.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"polylog/compat/harness"
	"polylog/compat/harness/ledger"
)

type options struct {
	bin, dir, names, segment, flush string
	nodes, faults, rate             int
	messages, volume                int64
	duration                        time.Duration
	seed                            uint64
	patient                         bool
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "../../bin/polylog", "Polylog's binary")
	flag.StringVar(&o.dir, "dir", "../../.cache/faults", "folder that gets one for each run: the history, and what the nodes leave when something was wrong")
	flag.IntVar(&o.nodes, "nodes", 3, "how many nodes")
	flag.IntVar(&o.faults, "faults", 40, "how many faults")
	flag.DurationVar(&o.duration, "duration", 8*time.Minute, "how long it takes; faults are spread over it")
	flag.Int64Var(&o.messages, "messages", 0, "how many acknowledged messages it takes at least")
	flag.IntVar(&o.rate, "rate", 4000, "messages a second")
	flag.StringVar(&o.names, "kinds", "", "kinds of faults, with commas between them; empty is all")
	flag.StringVar(&o.segment, "segment-size", "4MiB", "size of the log's files: small, so that faults fall on their changes")
	flag.StringVar(&o.flush, "flush", "sync", "flush policy; with a weaker one power-all must fail, which proves that the disk loses something")
	flag.Int64Var(&o.volume, "volume", 16<<30, "size of each node's file system in bytes")
	flag.BoolVar(&o.patient, "patient", false, "judge what is lost, not how long anything takes: for a machine that may have other work to do")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of the schedule and the load")
	flag.Parse()
	if err := keepFiles(); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(2)
	}
	if os.Getenv(isolated) == "" {
		code, err := isolate()
		if err != nil {
			fmt.Fprintln(os.Stderr, "faults:", err)
			code = 2
		}
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed, err := o.run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) (failed bool, err error) {
	chosen, err := choose(kinds, o.nodes, o.names)
	if err != nil {
		return false, err
	}
	if o.dir, err = filepath.Abs(filepath.Join(o.dir, fmt.Sprintf("%s-%d", time.Now().Format("20060102-150405"), o.seed))); err != nil {
		return false, err
	}
	h, err := newHistory(filepath.Join(o.dir, "history"))
	if err != nil {
		return false, err
	}
	r := &run{options: o, ctx: ctx, ledger: ledger.New(), history: h, gaps: &gaps{}, measured: map[string][]time.Duration{}}
	r.load = &records{Load: ledger.Load{Ledger: r.ledger}, history: h, gaps: r.gaps, rate: o.rate, seed: o.seed}
	say("seed %d, %d nodes, %d faults in %v, history in %s", o.seed, o.nodes, o.faults, o.duration, h.dir)
	h.event("begin", "seed", o.seed, "nodes", o.nodes, "faults", o.faults, "duration", o.duration.String(), "rate", o.rate)
	defer func() {
		if e := r.tearDown(); e != nil && err == nil {
			err = e
		}
		if e := h.close(); e != nil && err == nil {
			err = e
		}
		for _, n := range r.nodes {
			if err == nil && !failed {
				err = os.RemoveAll(n.dir)
			}
		}
	}()
	go r.machine.watch(ctx)
	if err := r.setUp(); err != nil {
		return false, err
	}
	if err := r.work(plan(o.seed, o.faults, chosen)); err != nil {
		return false, err
	}
	r.report()
	return r.failed > 0, nil
}

// work runs the load and the faults, and then all checks.
func (r *run) work(schedule []fault) error {
	consuming, stopConsuming := context.WithCancel(r.ctx)
	defer stopConsuming()
	r.load.addrs = r.addrs()
	r.ops = &ops{addrs: r.addrs(), history: r.history, seed: r.seed}
	r.gaps.ack(time.Now())
	for _, start := range []func(context.Context) error{r.load.start, r.ops.start, r.watch} {
		if err := start(consuming); err != nil {
			return err
		}
	}
	r.queues.Start(r.ctx, r.seed)
	if err := r.devices.Start(r.ctx, r.seed); err != nil {
		return err
	}
	begin := time.Now()
	if err := r.converged(r.convergence(), true); err != nil {
		return fmt.Errorf("the load does not begin: %w", err)
	}
	for i, f := range schedule {
		slot := begin.Add(r.duration * time.Duration(i) / time.Duration(len(schedule)))
		harness.Pause(r.ctx, time.Until(slot))
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		r.inject(i+1, f)
	}
	harness.Pause(r.ctx, time.Until(begin.Add(r.duration)))
	for r.load.Acked.Load() < r.messages && harness.Pause(r.ctx, 100*time.Millisecond) {
	}
	r.load.Stop()
	ctx, cancel := context.WithTimeout(r.ctx, 15*time.Minute)
	defer cancel()
	r.judge("the group is shown every acknowledged record", func() error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		for {
			n := r.ledger.Missing(topic, ledger.Group)
			if n == 0 {
				return nil
			}
			if !harness.Pause(ctx, 200*time.Millisecond) {
				return fmt.Errorf("%d are missing", n)
			}
		}
	})
	r.judge("queues: what was confirmed was delivered, in order, flagged, and not after its transaction", func() error {
		return r.drain("queues", r.queues.Finish(ctx), r.queues.Ledger)
	})
	r.judge("devices: what was acknowledged was delivered, in order, with QoS 2 once, and no session is gone", func() error {
		return r.drain("devices", r.devices.Finish(ctx), r.devices.Ledger)
	})
	stopConsuming()
	r.load.consuming.Wait()
	r.ops.wg.Wait()
	r.judge("everything is there, once, in order, whoever leads", func() error { return r.everyLeader(ctx) })
	r.judge("replicas are the same and sound", func() error { return r.replicas(ctx) })
	r.judge(fmt.Sprintf("%d operations on offsets and topics are linearizable", len(r.ops.done)), r.linearizable)
	return nil
}

// drain takes over what the ledger of a load has found that has finished with err.
func (r *run) drain(what string, err error, found interface {
	Wrong() (int, []string)
	Summary() string
},
) error {
	_, wrong := found.Wrong()
	for _, w := range wrong {
		r.ledger.Fail("%s: %s", what, w)
	}
	say("%s: %s", what, found.Summary())
	return err
}

func (r *run) report() {
	fmt.Println("write gaps, seconds:")
	for _, kind := range slices.Sorted(maps.Keys(r.measured)) {
		g := slices.Sorted(slices.Values(r.measured[kind]))
		say("  %-9s %3d times, median %5.2f, longest %5.2f", kind, len(g), g[len(g)/2].Seconds(), g[len(g)-1].Seconds())
	}
	var ready []time.Duration
	for _, n := range r.nodes {
		ready = append(ready, n.ready...)
	}
	slices.Sort(ready)
	say("%d starts, ready after median %.2fs, longest %.2fs", len(ready), ready[len(ready)/2].Seconds(), ready[len(ready)-1].Seconds())
	say("%d records acknowledged of %d sent, seed %d", r.ledger.Acked(), r.load.Sent.Load(), r.seed)
	say("%d passed, %d failed", r.passed, r.failed)
}
