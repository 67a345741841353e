// Command amqp puts real AMQP 0-9-1 clients through the same scenarios against a broker that it
// starts (Polylog's binary, or RabbitMQ as Debian packages it) or finds at an address, runs the
// applications that come with kombu and Celery, and writes a table of client × scenario.
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

	"polylog/compat/harness"
)

type options struct {
	target, bin, cache, work, doc, only, scenario string
	verbose                                       bool
}

func main() {
	var o options
	flag.StringVar(&o.target, "target", "polylog", "polylog, rabbitmq, or the address of a running broker")
	flag.StringVar(&o.bin, "bin", "../../bin/polylog", "Polylog's binary")
	flag.StringVar(&o.cache, "cache", "../../.cache/amqp", "where install.sh has put the clients")
	flag.StringVar(&o.work, "work", "", "folder for data and outputs; empty is a new temporary one")
	flag.StringVar(&o.doc, "doc", "", "file whose section of AMQP clients is written anew, as Markdown")
	flag.StringVar(&o.only, "only", "", "comma-separated clients; empty is all")
	flag.StringVar(&o.scenario, "scenario", "", "comma-separated scenarios; empty is all")
	flag.BoolVar(&o.verbose, "v", false, "tell each outcome's time as it comes")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	failed, err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(2)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (failed int, err error) {
	temporary := o.work == ""
	if temporary {
		if o.work, err = os.MkdirTemp("", "polylog-amqp-"); err != nil {
			return 0, err
		}
	}
	for _, p := range []*string{&o.bin, &o.cache, &o.work} {
		if *p, err = filepath.Abs(*p); err != nil {
			return 0, err
		}
	}
	if err := os.MkdirAll(o.work, 0o755); err != nil {
		return 0, err
	}
	begin := time.Now()
	addr, stopBroker, err := target(ctx, o)
	if err != nil {
		return 0, err
	}
	t := &results{rows: runClients(ctx, o, addr)}
	if err := stopBroker(); err != nil {
		return 0, fmt.Errorf("stop the broker: %w", err)
	}
	if o.doc != "" {
		if err := harness.WriteSection(o.doc, "make compat-amqp", t.markdown()); err != nil {
			return 0, err
		}
	}
	fmt.Print(t.text())
	passed, failed := t.count()
	fmt.Printf("took %.0f s", time.Since(begin).Seconds())
	if failed == 0 && temporary {
		err = os.RemoveAll(o.work)
		fmt.Println()
	} else {
		fmt.Println("; outputs of the broker and the clients:", o.work)
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	return failed, err
}

// target starts the broker that is asked for and returns its address and how to stop it.
func target(ctx context.Context, o options) (string, func() error, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dir := filepath.Join(o.work, "broker")
	var b *harness.Broker
	var err error
	switch o.target {
	case "polylog":
		b, err = harness.Polylog{Bin: o.bin, Dir: dir}.Start(ctx)
	case "rabbitmq":
		b, err = harness.RabbitMQ{Dir: dir}.Start(ctx)
	default:
		return o.target, func() error { return nil }, nil
	}
	if err != nil {
		return "", nil, err
	}
	return b.AMQP, func() error { return b.Stop(time.Minute) }, nil
}

func named(list, name string) bool {
	for s := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(s) == name {
			return true
		}
	}
	return false
}
