// Command http compares the broker's HTTP interfaces with a bare echo on the same server library and with nsqd,
// by wrk, and measures how fast webhooks go out. The sides take turns, every number is a median over
// the rounds, and each rate has the server's CPU time beside it, which other work on the machine changes least.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"polylog/bench/command"
	"polylog/bench/prime"
	"polylog/compat/harness"
)

type bench struct {
	bin, nsqd, work, doc, only string
	rounds                     int
	seconds                    int
	dead                       int
	webhooks                   int
	prime                      bool
	table                      *table
}

func main() {
	var b bench
	echo := flag.String("echo", "", "only answer at this address with what comes")
	flag.StringVar(&b.bin, "bin", "../../bin/polylog", "Polylog's binary")
	flag.StringVar(&b.nsqd, "nsqd", "", "nsqd's binary; empty leaves it out")
	flag.StringVar(&b.work, "work", "../../bench-data", "folder for data; its disk is what is measured")
	flag.StringVar(&b.doc, "doc", "", "file whose section is written anew, as Markdown")
	flag.StringVar(&b.only, "only", "", "comma-separated rows (one, batch, webhooks); empty is all")
	flag.IntVar(&b.rounds, "rounds", 5, "rounds; every number is the median of these")
	flag.IntVar(&b.seconds, "seconds", 4, "seconds of each run that count, after one that does not")
	flag.IntVar(&b.dead, "dead", 10_000, "endpoints that refuse connections, beside the live one")
	flag.IntVar(&b.webhooks, "webhooks", 50_000, "messages that are pushed to the live endpoint")
	flag.BoolVar(&b.prime, "prime", true, "fill the page cache before each broker starts")
	flag.Parse()
	if *echo != "" {
		command.End(serveEcho(*echo))
		return
	}
	command.Main(b.run)
}

// side is a server that takes requests.
type side struct {
	name  string
	start func(b *bench, ctx context.Context, dir string) (*harness.Broker, error)
}

func polylog(flush string) func(*bench, context.Context, string) (*harness.Broker, error) {
	return func(b *bench, ctx context.Context, dir string) (*harness.Broker, error) {
		return harness.Polylog{Bin: b.bin, Dir: dir, Flush: flush, Args: []string{"--webhook-allow", "127.0.0.0/8"}}.Start(ctx)
	}
}

var sides = []side{
	{"echo", func(_ *bench, ctx context.Context, dir string) (*harness.Broker, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return harness.Server{Name: "echo", Dir: dir, Command: func(addr, _ string) *exec.Cmd {
			return exec.Command(self, "-echo", addr)
		}}.Start(ctx)
	}},
	{"os", polylog("os")},
	{"nsqd", func(b *bench, ctx context.Context, dir string) (*harness.Broker, error) {
		return harness.Server{Name: "nsqd", Dir: dir, Command: func(addr, other string) *exec.Cmd {
			return exec.Command(b.nsqd, "-data-path", dir, "-http-address", addr, "-tcp-address", other, "-https-address", "", "-log-level", "error")
		}}.Start(ctx)
	}},
	{"sync", polylog("sync")},
}

func (b *bench) run(ctx context.Context) error {
	if err := command.Absolute(&b.bin, &b.work); err != nil {
		return err
	}
	if err := os.MkdirAll(b.work, 0o755); err != nil {
		return err
	}
	b.table = &table{samples: map[string][]sample{}}
	for round := 1; round <= b.rounds; round++ {
		fmt.Printf("round %d of %d\n", round, b.rounds)
		for _, s := range sides {
			if s.name == "nsqd" && b.nsqd == "" {
				continue
			}
			if err := b.contend(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		b.table.rounds = round
		if b.doc != "" { // what there is, should the rest not come
			if err := harness.WriteSection(b.doc, "make bench-http", b.table.markdown(b)); err != nil {
				return err
			}
		}
	}
	fmt.Print(b.table.markdown(b))
	return nil
}

// contend starts one server with no data and takes one sample of each of its rows.
func (b *bench) contend(ctx context.Context, s side) (err error) {
	if b.prime {
		if err := prime.Fill(b.work); err != nil {
			return err
		}
	}
	dir := filepath.Join(b.work, "http-"+s.name)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	server, err := s.start(b, ctx, dir)
	if err != nil {
		return err
	}
	defer func() {
		server.Kill()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	for _, l := range loads {
		if l.side != s.name || !command.Wanted(b.only, l.row) {
			continue
		}
		one, err := l.measure(ctx, server, b.seconds, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", l.title, err)
		}
		b.table.add(l.name(), one)
	}
	if s.name == "os" && command.Wanted(b.only, "webhooks") {
		return b.measureWebhooks(ctx, server)
	}
	return nil
}
