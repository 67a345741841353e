// Command crash kills the broker under MQTT load, again and again, and looks for what was lost: devices
// publish and subscribe with QoS 1 and 2, over sessions that outlive their connections (package load
// says what must hold), and others have wills, delayed and retained messages in the broker when it is
// killed (survive.go).
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"polylog/compat/harness"
	"polylog/compat/mqtt/load"
)

type options struct {
	bin, dir, flush string
	kills           int
	seed            uint64
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "../../../bin/polylog", "Polylog's binary")
	flag.StringVar(&o.dir, "dir", "", "folder for the broker's data; empty is a new temporary one, removed when all went well")
	flag.StringVar(&o.flush, "flush", "sync", "flush policy")
	flag.IntVar(&o.kills, "kills", 20, "how many times to kill")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of the load and of the kills' times")
	flag.Parse()
	failed, err := run(context.Background(), o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (failed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.kills)*20*time.Second+2*time.Minute)
	defer cancel()
	temporary := o.dir == ""
	if temporary {
		if o.dir, err = os.MkdirTemp("", "polylog-mqtt-crash-"); err != nil {
			return false, err
		}
	}
	start := func(addr string) (*harness.Broker, error) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return o.broker(addr).Start(ctx)
	}
	broker, err := start("")
	if err != nil {
		return false, err
	}
	defer func() { broker.Kill() }()
	addr := broker.MQTT
	l := load.New(addr)
	w, err := watchSurvivors(l)
	if err != nil {
		return false, err
	}
	if err := l.Start(ctx, o.seed); err != nil {
		return false, err
	}

	rng := rand.New(rand.NewPCG(o.seed, 0))
	var ready []time.Duration
	survived := 0
	for kill := 1; kill <= o.kills; kill++ {
		// The load must have got somewhere, or the kill proves nothing.
		if err := l.Progress(ctx, 500); err != nil {
			return false, fmt.Errorf("before kill %d: %w", kill, err)
		}
		before, _ := l.Ledger.Wrong()
		if err := w.make(kill); err != nil {
			return false, fmt.Errorf("before kill %d: %w", kill, err)
		}
		pause(ctx, time.Duration(rng.IntN(700))*time.Millisecond)
		broker.Kill()
		w.killed()
		if broker, err = start(addr); err != nil {
			return false, fmt.Errorf("restart after kill %d: %w", kill, err)
		}
		ready = append(ready, broker.Ready)
		if err := l.Progress(ctx, 200); err != nil {
			return false, fmt.Errorf("after kill %d: %w", kill, err)
		}
		if after, _ := l.Ledger.Wrong(); after == before {
			survived++
		}
		fmt.Printf("kill %2d: ready after %v, %s\n", kill, broker.Ready.Round(time.Millisecond), l.Ledger.Summary())
	}
	if err := l.Finish(ctx); err != nil {
		l.Ledger.Fail("%v", err)
	}
	w.judge()
	if err := broker.Stop(30 * time.Second); err != nil {
		l.Ledger.Fail("stop: %v", err)
	}
	if out, err := exec.CommandContext(ctx, o.bin, "check", "--data-dir", filepath.Join(o.dir, "data")).CombinedOutput(); err != nil {
		l.Ledger.Fail("polylog check: %v: %s", err, out)
	}
	faults, wrong := l.Ledger.Wrong()
	for _, f := range wrong {
		fmt.Println("FAULT", f)
	}
	slices.Sort(ready)
	fmt.Printf("%s, flush=%s, ready after p50 %v max %v, seed %d\n", l.Ledger.Summary(), o.flush,
		ready[len(ready)/2].Round(time.Millisecond), ready[len(ready)-1].Round(time.Millisecond), o.seed)
	if faults > 0 {
		fmt.Println("data and output:", o.dir)
		survived = min(survived, o.kills-1)
	} else if temporary {
		err = os.RemoveAll(o.dir)
	}
	fmt.Printf("%d passed, %d failed\n", survived, o.kills-survived)
	return faults > 0, err
}

// broker has small segments, so that kills fall on segment changes too, and room for all that waits.
func (o options) broker(addr string) harness.Polylog {
	return harness.Polylog{
		Bin: o.bin, Dir: o.dir, MQTTAddr: addr, Flush: o.flush,
		Args: []string{"--segment-size", "4MiB", "--mqtt-max-queued", "1000000"},
	}
}

// pause waits; false tells that ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
