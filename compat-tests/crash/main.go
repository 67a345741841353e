// Command crash kills the broker under load, again and again, and looks for what was lost. The
// load goes on through every kill: idempotent and plain producers that wait for all
// acknowledgements, and a consumer group that commits what it was shown. After each restart, and of
// everything at the end:
//
//   - each acknowledged record is at the offset that its acknowledgement told;
//   - offsets are dense from 0, and what was ever seen at an offset is there still;
//   - a record of an idempotent producer is there once, in its producer's order;
//   - committed group offsets are not behind what was acknowledged.
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

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/compat/harness"
	"polylog/compat/harness/ledger"
)

type options struct {
	bin, dir, flush string
	kills           int
	seed            uint64
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "../../bin/polylog", "Polylog's binary")
	flag.StringVar(&o.dir, "dir", "", "folder for the broker's data; empty is a new temporary one, removed when all went well")
	flag.StringVar(&o.flush, "flush", "sync", "flush policy")
	flag.IntVar(&o.kills, "kills", 30, "how many times to kill")
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
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.kills)*15*time.Second+2*time.Minute)
	defer cancel()
	temporary := o.dir == ""
	if temporary {
		if o.dir, err = os.MkdirTemp("", "polylog-crash-"); err != nil {
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
	addr := broker.Addr
	if err := createTopics(ctx, addr); err != nil {
		return false, err
	}
	led := ledger.New()
	l := &load{addr: addr, Load: ledger.Load{Ledger: led}}
	producing, consuming := context.WithCancel(ctx)
	defer consuming()
	for i, topic := range []string{idempotentTopic, idempotentTopic, plainTopic, plainTopic} {
		if err := l.produce(ctx, int64(i+1), topic, o.seed); err != nil {
			return false, err
		}
	}
	for i := range 2 {
		if err := l.consume(producing, i+1); err != nil {
			return false, err
		}
	}

	rng := rand.New(rand.NewPCG(o.seed, 0))
	v := &verifier{addr: addr, ledger: led, upTo: map[ledger.Partition]int64{}}
	var ready []time.Duration
	survived := 0
	for kill := 1; kill <= o.kills; kill++ {
		// The load must have got somewhere, or the kill proves nothing.
		for least := l.Acked.Load() + 200; l.Acked.Load() < least; {
			if !pause(ctx, 10*time.Millisecond) {
				_, wrong := led.Wrong()
				return false, fmt.Errorf("the load does not get on: %d records acknowledged; %v", l.Acked.Load(), wrong)
			}
		}
		pause(ctx, time.Duration(rng.IntN(800))*time.Millisecond)
		broker.Kill()
		if kill%5 == 0 { // a start is killed as well, wherever it has come to
			if b, err := startBriefly(o, addr, time.Duration(rng.IntN(120))*time.Millisecond); err != nil {
				return false, err
			} else if b != nil {
				b.Kill()
			}
		}
		if broker, err = start(addr); err != nil {
			return false, fmt.Errorf("restart after kill %d: %w", kill, err)
		}
		ready = append(ready, broker.Ready)
		before, _ := led.Wrong()
		check, stop := context.WithTimeout(ctx, time.Minute)
		err := v.check(check, false)
		stop()
		if err != nil {
			led.Fail("check after kill %d: %v", kill, err)
		}
		after, _ := led.Wrong()
		if after == before {
			survived++
		}
		fmt.Printf("kill %2d: ready after %v, %d records acknowledged, %d faults\n", kill, broker.Ready.Round(time.Millisecond), l.Acked.Load(), after)
	}
	l.Stop()
	for led.Missing(idempotentTopic, ledger.Group) > 0 && pause(ctx, 50*time.Millisecond) {
	}
	if n := led.Missing(idempotentTopic, ledger.Group); n > 0 {
		led.Fail("%d acknowledged records were never shown to the group", n)
	}
	consuming()
	l.consumer.Wait()
	if err := v.check(ctx, true); err != nil {
		led.Fail("last check: %v", err)
	}
	if err := broker.Stop(30 * time.Second); err != nil {
		led.Fail("stop: %v", err)
	}
	if out, err := exec.CommandContext(ctx, o.bin, "check", "--data-dir", filepath.Join(o.dir, "data")).CombinedOutput(); err != nil {
		led.Fail("polylog check: %v: %s", err, out)
	}
	faults, wrong := led.Wrong()
	for _, f := range wrong {
		fmt.Println("FAULT", f)
	}
	slices.Sort(ready)
	fmt.Printf("%d records acknowledged of %d sent, flush=%s, ready after p50 %v max %v, seed %d\n", led.Acked(), l.Sent.Load(), o.flush,
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

// broker has small segments, so that kills fall on segment changes too.
func (o options) broker(addr string) harness.Polylog {
	return harness.Polylog{Bin: o.bin, Dir: o.dir, KafkaAddr: addr, Flush: o.flush, Args: []string{"--segment-size", "4MiB"}}
}

// startBriefly starts a broker without waiting for it, and gives it some time.
func startBriefly(o options, addr string, d time.Duration) (*harness.Broker, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	b, err := o.broker(addr).Start(ctx)
	if err != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("a start that was to be killed failed by itself: %w", err)
	}
	return b, nil
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

func createTopics(ctx context.Context, addr string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	r, err := kadm.NewClient(cl).CreateTopics(ctx, parts, 1, nil, idempotentTopic, plainTopic)
	if err != nil {
		return err
	}
	return r.Error()
}
