// Package crash kills a broker under load, again and again, and looks for what was lost. What the load
// is and what it was promised is the caller's affair.
package crash

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
)

// Load is what goes on against the broker while it is killed: it never stops to wait for it.
type Load interface {
	// Start makes what the load needs and begins. It may call kill, which kills the broker and
	// starts it again.
	Start(ctx context.Context, kill func() error) error
	// Progress waits until the load has got on: a kill before that proves nothing.
	Progress(ctx context.Context) error
	// Killed tells that the broker was killed just now.
	Killed()
	// Check looks at what a broker holds that has just started.
	Check(ctx context.Context) error
	// Finish ends the load and looks at everything.
	Finish(ctx context.Context) error
	Summary() string

	Fail(format string, args ...any)
	Wrong() (total int, first []string)
}

type options struct {
	bin, dir, flush string
	kills           int
	seed            uint64
	args            []string // further flags of the broker
}

// Main is the main function of a command: it reads the flags, kills the broker so many times or as
// the flag says, and exits with 1 where a promise was broken, 2 where it could not be tried. begin
// makes the load on a broker, which keeps its addresses and is started with these further flags.
func Main(bin string, kills int, begin func(b *harness.Broker, seed uint64) Load, args ...string) {
	o := options{args: args}
	flag.StringVar(&o.bin, "bin", bin, "Polylog's binary")
	flag.StringVar(&o.dir, "dir", "", "folder for the broker's data; empty is a new temporary one, removed when all went well")
	flag.StringVar(&o.flush, "flush", "sync", "flush policy")
	flag.IntVar(&o.kills, "kills", kills, "how many times to kill")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of the load and of the kills' times")
	flag.Parse()
	failed, err := o.run(context.Background(), begin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context, begin func(*harness.Broker, uint64) Load) (failed bool, err error) {
	if o.kills < 1 {
		return false, fmt.Errorf("%d kills: nothing would be tried", o.kills)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.kills)*20*time.Second+2*time.Minute)
	defer cancel()
	temporary := o.dir == ""
	if temporary {
		if o.dir, err = os.MkdirTemp("", "polylog-crash-"); err != nil {
			return false, err
		}
	}
	// Small segments, so that kills fall on segment changes too.
	polylog := harness.Polylog{Bin: o.bin, Dir: o.dir, Flush: o.flush, Args: append([]string{"--segment-size", "4MiB"}, o.args...)}
	broker, err := start(ctx, polylog)
	if err != nil {
		return false, err
	}
	defer func() { broker.Kill() }()
	polylog = polylog.At(broker)
	l := begin(broker, o.seed)
	restart := func() error {
		broker.Kill()
		l.Killed()
		next, err := start(ctx, polylog)
		if err == nil {
			broker = next
		}
		return err
	}
	if err := l.Start(ctx, restart); err != nil {
		return false, err
	}

	rng := rand.New(rand.NewPCG(o.seed, 0))
	var ready []time.Duration
	survived := 0
	for kill := 1; kill <= o.kills; kill++ {
		if err := l.Progress(ctx); err != nil {
			return false, fmt.Errorf("before kill %d: %w", kill, err)
		}
		harness.Pause(ctx, time.Duration(rng.IntN(800))*time.Millisecond)
		before, _ := l.Wrong()
		if kill%5 == 0 { // a start is killed as well, wherever it has come to
			broker.Kill()
			l.Killed()
			if err := startBriefly(polylog, time.Duration(rng.IntN(120))*time.Millisecond); err != nil {
				return false, err
			}
		}
		if err := restart(); err != nil {
			return false, fmt.Errorf("restart after kill %d: %w", kill, err)
		}
		ready = append(ready, broker.Ready)
		check, stop := context.WithTimeout(ctx, time.Minute)
		if err := l.Check(check); err != nil {
			l.Fail("check after kill %d: %v", kill, err)
		}
		stop()
		if after, _ := l.Wrong(); after == before {
			survived++
		}
		fmt.Printf("kill %2d: ready after %v, %s\n", kill, broker.Ready.Round(time.Millisecond), l.Summary())
	}
	if err := l.Finish(ctx); err != nil {
		l.Fail("%v", err)
	}
	if err := broker.Stop(30 * time.Second); err != nil {
		l.Fail("stop: %v", err)
	}
	if out, err := exec.CommandContext(ctx, o.bin, "check", "--data-dir", filepath.Join(o.dir, "data")).CombinedOutput(); err != nil {
		l.Fail("polylog check: %v: %s", err, out)
	}
	faults, wrong := l.Wrong()
	for _, f := range wrong {
		fmt.Println("FAULT", f)
	}
	slices.Sort(ready)
	fmt.Printf("%s, flush=%s, ready after p50 %v max %v, seed %d\n", l.Summary(), o.flush,
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

func start(ctx context.Context, p harness.Polylog) (*harness.Broker, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return p.Start(ctx)
}

// startBriefly starts a broker without waiting for it, and kills it after some time.
func startBriefly(p harness.Polylog, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	b, err := p.Start(ctx)
	if err == nil {
		b.Kill()
	} else if ctx.Err() == nil {
		return fmt.Errorf("a start that was to be killed failed by itself: %w", err)
	}
	return nil
}
