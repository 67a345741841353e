// Command mqtt compares Polylog with Mosquitto, by one client for both: the brokers take turns
// (A B A B), every number is a median over the rounds, and each rate has the server's CPU time
// beside it, which other work on the machine changes least.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"polylog/bench/command"
	"polylog/bench/prime"
	"polylog/compat/harness"
)

type bench struct {
	bin, work, doc, only, sides string
	rounds                      int
	seconds                     float64
	idleConns, sessionCount     int
	prime                       bool
	table                       *table
}

func main() {
	var b bench
	flag.StringVar(&b.bin, "bin", "../../bin/polylog", "Polylog's binary")
	flag.StringVar(&b.work, "work", "../../bench-data", "folder for data; its disk is what is measured")
	flag.StringVar(&b.doc, "doc", "", "file whose section is written anew, as Markdown")
	flag.StringVar(&b.only, "only", "", "comma-separated rows (q0, q1-20, q1-1000, q2-20, q2-1000, q0x100, q1x100, q1x100s, q0x1000, q1x1000, q1x1000s, idle, sessions); empty is all")
	flag.StringVar(&b.sides, "sides", "", "comma-separated columns (polylog, sync, mosquitto); empty is all")
	flag.IntVar(&b.rounds, "rounds", 5, "rounds; every number is the median of these")
	flag.Float64Var(&b.seconds, "seconds", 4, "seconds of each run that count, after its warm-up")
	flag.IntVar(&b.idleConns, "idle", 10_000, "idle connections")
	flag.IntVar(&b.sessionCount, "sessions", 100_000, "disconnected sessions")
	flag.BoolVar(&b.prime, "prime", true, "fill the page cache before each broker starts")
	flag.Parse()
	command.Main(b.run)
}

func (b *bench) want(part string) bool { return command.Wanted(b.only, part) }

// side is one column of the table.
type side struct {
	name, title string
	flush       string // Polylog's; empty: it is Mosquitto
}

var allSides = []side{{"polylog", "Polylog, os", "os"}, {"mosquitto", "Mosquitto", ""}, {"sync", "Polylog, sync", "sync"}}

func (s side) start(ctx context.Context, bin, dir string) (*harness.Broker, error) {
	if s.flush != "" {
		return harness.Polylog{Bin: bin, Dir: dir, Flush: s.flush, Args: []string{"--max-connections", "19000"}}.Start(ctx)
	}
	// Its own limits would have it leave messages out, or wait for each twenty acknowledgements.
	return harness.Mosquitto{Dir: dir, Conf: "max_queued_messages 0\nmax_inflight_messages 1000"}.Start(ctx)
}

func (b *bench) run(ctx context.Context) error {
	if err := command.Absolute(&b.bin, &b.work); err != nil {
		return err
	}
	if err := os.MkdirAll(b.work, 0o755); err != nil {
		return err
	}
	b.table = &table{samples: map[[2]string][]sample{}}
	for round := 1; round <= b.rounds; round++ {
		fmt.Printf("round %d of %d\n", round, b.rounds)
		for _, s := range allSides {
			if !command.Wanted(b.sides, s.name) {
				continue
			}
			if err := b.contend(ctx, s, round); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		b.table.rounds = round
		if b.doc != "" { // what there is, should the rest not come
			if err := harness.WriteSection(b.doc, "make bench-mqtt", b.table.markdown(b)); err != nil {
				return err
			}
		}
	}
	fmt.Print(b.table.markdown(b))
	return nil
}

// contend starts one broker with no data and takes one sample of each row.
func (b *bench) contend(ctx context.Context, s side, round int) (err error) {
	if b.prime {
		if err := prime.Fill(b.work); err != nil {
			return err
		}
	}
	dir := filepath.Join(b.work, "mqtt-"+s.name)
	if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(dir+"-empty")); err != nil {
		return err
	}
	broker, err := s.start(ctx, b.bin, dir)
	if err != nil {
		return err
	}
	defer func() {
		if broker != nil { // sessions could not start it again
			broker.Kill()
		}
		err = errors.Join(err, os.RemoveAll(dir), os.RemoveAll(dir+"-empty"))
	}()
	if b.want("idle") && s.name != "sync" {
		one, err := b.idle(broker)
		if err != nil {
			return fmt.Errorf("idle connections: %w", err)
		}
		b.table.add("idle", s.name, one)
	}
	for _, f := range flows {
		if !b.want(f.name) {
			continue
		}
		one, err := f.measure(broker, b.seconds)
		if err != nil {
			return fmt.Errorf("%s: %w", f.title, err)
		}
		b.table.add(f.name, s.name, one)
	}
	// Once only, with a minute's worth of connects.
	if b.want("sessions") && s.name != "sync" && round == 1 {
		var one sample
		if one, broker, err = b.sessions(ctx, s, broker, dir); err != nil {
			return fmt.Errorf("sessions: %w", err)
		}
		b.table.add("sessions", s.name, one)
	}
	return nil
}
