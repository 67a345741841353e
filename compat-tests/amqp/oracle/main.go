// Command oracle asks two brokers the same questions (see package probe) and prints every
// difference between their answers: RabbitMQ, as Debian packages it, and Polylog's binary. What
// differs on purpose is in testdata/intended.txt, each with what Polylog answers and why; anything else is a
// failure. RabbitMQ's answers are kept in testdata, so that Polylog can be compared where there is no
// RabbitMQ.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"polylog/compat/amqp/probe"
	"polylog/compat/harness"
)

type options struct {
	bin, record, intended, pending, only, addr, because string
	live, write, verbose                                bool
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "../../../bin/polylog", "Polylog's binary")
	flag.StringVar(&o.record, "record", "testdata/rabbitmq-3.10.8.txt", "RabbitMQ's answers")
	flag.StringVar(&o.intended, "intended", "testdata/intended.txt", "what differs on purpose")
	flag.StringVar(&o.pending, "pending", "testdata/pending.txt", "probes of what is not there yet, one a line")
	flag.StringVar(&o.only, "only", "", "probes whose names contain this; empty is all")
	flag.StringVar(&o.addr, "addr", "", "host:port of a running broker to ask instead of Polylog's binary")
	flag.BoolVar(&o.live, "live", false, "ask RabbitMQ too, instead of reading its answers")
	flag.BoolVar(&o.write, "write", false, "with -live: ask nobody else, and write the answers down")
	flag.StringVar(&o.because, "because", "", "add the differences of the probes chosen with -only to those on purpose, for this reason")
	flag.BoolVar(&o.verbose, "v", false, "print Polylog's answers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	failed, err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(2)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (failed int, err error) {
	probes := chosen(o.only)
	work, err := os.MkdirTemp("", "polylog-oracle-")
	if err != nil {
		return 0, err
	}
	defer func() {
		if failed == 0 && err == nil {
			err = os.RemoveAll(work)
		} else {
			fmt.Println("data and outputs of the brokers:", work)
		}
	}()
	intended, err := readIntended(o.intended)
	if err != nil {
		return 0, err
	}
	pending, err := os.ReadFile(o.pending)
	if err != nil {
		return 0, err
	}
	theirs, err := rabbit(ctx, o, work, probes)
	if err != nil {
		return 0, fmt.Errorf("rabbitmq: %w", err)
	}
	if o.write {
		return 0, os.WriteFile(o.record, []byte(probe.Record(theirs)), 0o644)
	}
	ours, err := polylog(ctx, o, work, probes)
	if err != nil {
		return 0, fmt.Errorf("polylog: %w", err)
	}
	if o.because != "" {
		return 0, intend(o.intended, o.because, theirs, ours, intended)
	}
	return compare(probes, theirs, ours, intended, strings.Split(string(pending), "\n"), o.verbose), nil
}

func chosen(only string) []probe.Probe {
	var some []probe.Probe
	for _, p := range probe.All() {
		if strings.Contains(p.Name, only) {
			some = append(some, p)
		}
	}
	return some
}

func rabbit(ctx context.Context, o options, work string, probes []probe.Probe) ([]probe.Outcome, error) {
	if !o.live {
		text, err := os.ReadFile(o.record)
		if err != nil {
			return nil, err
		}
		return probe.Read(string(text))
	}
	b, err := harness.RabbitMQ{Dir: filepath.Join(work, "rabbitmq")}.Start(ctx)
	return ask(ctx, b, err, probes)
}

func polylog(ctx context.Context, o options, work string, probes []probe.Probe) ([]probe.Outcome, error) {
	if o.addr != "" {
		return probe.Run(ctx, o.addr, probes), nil
	}
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return nil, err
	}
	b, err := harness.Polylog{Bin: bin, Dir: filepath.Join(work, "polylog")}.Start(ctx)
	return ask(ctx, b, err, probes)
}

// ask puts the probes to a broker that was started, and stops it.
func ask(ctx context.Context, b *harness.Broker, err error, probes []probe.Probe) ([]probe.Outcome, error) {
	if err != nil {
		return nil, err
	}
	out := probe.Run(ctx, b.AMQP, probes)
	return out, b.Stop(time.Minute)
}
