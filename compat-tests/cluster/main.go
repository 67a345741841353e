// Command cluster lives through what an operator does to a cluster of three processes, while
// producers that wait for all acknowledgements go on against it: nodes join, are upgraded one after
// the other, are killed, removed, replaced, wiped; what must not take part is refused with one line.
// At the end every acknowledged record must be there, once, in its producer's order, and what each
// node has on its disk must be sound.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"polylog/compat/harness/ledger"
)

type options struct {
	bin, old string
	dir      string
	short    bool
	seed     uint64
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "../../bin/polylog", "Polylog's binary")
	flag.StringVar(&o.old, "old", "", "an earlier version's binary, which the nodes are upgraded from; empty: -bin")
	flag.StringVar(&o.dir, "dir", "", "folder for the nodes' data; empty is a new temporary one, removed when all went well")
	flag.BoolVar(&o.short, "short", false, "leave out what takes long")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of the load")
	flag.Parse()
	failed, err := run(context.Background(), o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(2)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (failed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	temporary := o.dir == ""
	if temporary {
		if o.dir, err = os.MkdirTemp("", "polylog-cluster-"); err != nil {
			return 0, err
		}
	}
	c, err := newCluster(o)
	if err != nil {
		return 0, err
	}
	defer c.killAll()
	led := ledger.New()
	l := &load{Load: ledger.Load{Ledger: led}, seeds: c.kafkaAddrs(), seed: o.seed}
	passed := 0
	for _, s := range scenarios {
		if s.long && o.short {
			continue
		}
		begin, before := time.Now(), l.Acked.Load()
		err := s.do(ctx, c, l)
		verdict := "ok"
		if err != nil {
			verdict = "FAILED: " + err.Error()
			failed++
		} else {
			passed++
		}
		fmt.Printf("%-34s %6.1fs  %6d acknowledged  %s\n", s.name, time.Since(begin).Seconds(), l.Acked.Load()-before, verdict)
		if err != nil {
			break // what follows builds on it
		}
	}
	faults, wrong := led.Wrong()
	for _, w := range wrong {
		fmt.Println("FAULT", w)
	}
	failed += faults
	fmt.Printf("%d records acknowledged of %d sent, seed %d\n%d passed, %d failed\n", led.Acked(), l.Sent.Load(), o.seed, passed, failed)
	if failed > 0 {
		fmt.Println("data and output:", o.dir)
		return failed, nil
	}
	if temporary {
		c.killAll()
		err = os.RemoveAll(o.dir)
	}
	return 0, err
}
