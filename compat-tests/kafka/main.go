// Command kafka puts real Kafka clients through the same scenarios against a broker that it
// starts (Polylog's binary, or Apache Kafka from its jars) or finds at an address, and writes a
// table of client × scenario.
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
	verbose, failover, sasl                       bool
}

func main() {
	var o options
	flag.StringVar(&o.target, "target", "polylog", "polylog, apache, or the address of a running broker")
	flag.StringVar(&o.bin, "bin", "../../bin/polylog", "Polylog's binary")
	flag.StringVar(&o.cache, "cache", "../../.cache/kafka", "where install.sh has put the clients")
	flag.StringVar(&o.work, "work", "", "folder for data and outputs; empty is a new temporary one")
	flag.StringVar(&o.doc, "doc", "", "file whose section of Kafka clients is written anew, as Markdown")
	flag.StringVar(&o.only, "only", "", "comma-separated clients; empty is all")
	flag.StringVar(&o.scenario, "scenario", "", "comma-separated scenarios; empty is all")
	flag.BoolVar(&o.failover, "failover", false, "three nodes whose leader is stopped and killed, instead of the table")
	flag.BoolVar(&o.sasl, "sasl", false, "clients that log in to a broker with users, instead of the table")
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
		if o.work, err = os.MkdirTemp("", "polylog-compat-"); err != nil {
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
	if o.failover || o.sasl {
		special := runFailover
		if o.sasl {
			special = runSASL
		}
		failed, err := special(ctx, o)
		if failed == 0 && err == nil && temporary {
			return 0, os.RemoveAll(o.work)
		}
		fmt.Println("outputs of the nodes and the clients:", o.work)
		return failed, err
	}
	begin := time.Now()
	addr, stopBroker, err := target(ctx, o)
	if err != nil {
		return 0, err
	}
	r, err := newReference(addr)
	if err != nil {
		return 0, err
	}
	t := &table{}
	for _, c := range clients(o.cache) {
		if o.only != "" && !named(o.only, c.name) {
			continue
		}
		t.rows = append(t.rows, runClient(ctx, o, c, addr, r))
	}
	r.close()
	if err := stopBroker(); err != nil {
		return 0, fmt.Errorf("stop the broker: %w", err)
	}
	if o.doc != "" {
		if err := harness.WriteSection(o.doc, "make compat-kafka", t.markdown()); err != nil {
			return 0, err
		}
	}
	fmt.Print(t.text())
	passed, failed := t.count()
	if failed == 0 && temporary {
		err = os.RemoveAll(o.work)
		fmt.Printf("took %.0f s\n", time.Since(begin).Seconds())
	} else {
		fmt.Printf("took %.0f s; outputs of the broker and the clients: %s\n", time.Since(begin).Seconds(), o.work)
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
		// As the oracle has it: tests need not wait for members that might come.
		b, err = harness.Polylog{Bin: o.bin, Dir: dir, Args: []string{"--broker-config", "group.initial.rebalance.delay.ms=0"}}.Start(ctx)
	case "apache":
		b, err = harness.Apache{Libs: filepath.Join(o.cache, "tools"), Dir: dir}.Start(ctx)
	default:
		return o.target, func() error { return nil }, nil
	}
	if err != nil {
		return "", nil, err
	}
	return b.Addr, func() error { return b.Stop(30 * time.Second) }, nil
}

func named(list, name string) bool {
	for s := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(s) == name {
			return true
		}
	}
	return false
}
