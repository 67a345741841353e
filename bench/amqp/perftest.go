package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"polylog/compat/harness"
)

// load is a way to run the load generator: 1 KiB, persistent, confirms, each message acknowledged.
type load struct {
	name string
	args []string
}

var loads = []load{
	{"1-1", []string{"-x", "1", "-y", "1", "-c", "200", "-q", "100"}},
	{"8-8", []string{"-x", "8", "-y", "8", "-c", "200", "-q", "100"}},
	{"paced", []string{"-x", "1", "-y", "1", "-c", "200", "-q", "100", "-r", "5000"}},
	{"one", []string{"-x", "1", "-y", "1", "-c", "1", "-q", "1"}},
}

// warmUp is how many seconds of each run do not count: a JVM has to get going.
const warmUp = 8

// second is what the load generator says of one second.
type second struct {
	sent, received float64 // messages/s
	p50, p99       float64 // ms, from publish to delivery
}

var (
	line      = regexp.MustCompile(`time [\d.]+ s, sent: ([\d.]+) msg/s.*received: ([\d.]+) msg/s`)
	latencies = regexp.MustCompile(`consumer latency: (\d+)/(\d+)/(\d+)/(\d+)/(\d+) µs`)
)

// perfTest runs the load generator and adds the medians of its seconds after the warm-up, with what
// the server used meanwhile.
func (b *bench) perfTest(ctx context.Context, s side, broker *harness.Broker, l load) error {
	args := append([]string{
		"-Xmx1g", "-cp", filepath.Join(b.libs, "*"), "com.rabbitmq.perf.PerfTest",
		"-h", "amqp://guest:guest@" + broker.AMQP, "-u", "bench-" + l.name, "-ad", "false", "-s", "1024", "-f", "persistent",
		"-i", "1", "-z", strconv.Itoa(warmUp + b.seconds),
	}, l.args...)
	if s.quorum {
		args = append(args, "--quorum-queue")
	}
	cmd := exec.CommandContext(ctx, "java", args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var complaints strings.Builder
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		return err
	}
	var seconds []second
	var before harness.Usage
	lines, n := bufio.NewScanner(out), 0
	for lines.Scan() {
		m := line.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		if n++; n == warmUp {
			if before, err = broker.Usage(); err != nil {
				return err
			}
		}
		if n <= warmUp || len(seconds) == b.seconds {
			continue
		}
		one, err := parse(m, lines.Text())
		if err != nil {
			return err
		}
		seconds = append(seconds, one)
	}
	after, err := broker.Usage()
	if err := errors.Join(lines.Err(), cmd.Wait(), err); err != nil {
		return fmt.Errorf("perf-test: %w: %s", err, complaints.String())
	}
	if len(seconds) < b.seconds/2 {
		return fmt.Errorf("perf-test told of %d seconds: %s", len(seconds), complaints.String())
	}
	received := 0.0
	for _, one := range seconds {
		received += one.received
	}
	middle := func(f func(second) float64) float64 { return median(seconds, f) }
	b.table.add(l.name, s.name, sample{
		in: middle(func(s second) float64 { return s.sent }), out: middle(func(s second) float64 { return s.received }),
		p50: middle(func(s second) float64 { return s.p50 }), p99: middle(func(s second) float64 { return s.p99 }),
		cpu: float64((after.CPU - before.CPU).Microseconds()) / received, rss: after.RSS,
	})
	return nil
}

func parse(m []string, text string) (one second, err error) {
	var errs [4]error
	one.sent, errs[0] = strconv.ParseFloat(m[1], 64)
	one.received, errs[1] = strconv.ParseFloat(m[2], 64)
	if l := latencies.FindStringSubmatch(text); l != nil {
		one.p50, errs[2] = strconv.ParseFloat(l[2], 64)
		one.p99, errs[3] = strconv.ParseFloat(l[5], 64)
	}
	one.p50, one.p99 = one.p50/1000, one.p99/1000
	return one, errors.Join(errs[:]...)
}

func median[T any](of []T, f func(T) float64) float64 {
	if len(of) == 0 {
		return 0
	}
	var all []float64
	for _, s := range of {
		all = append(all, f(s))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// settle lets a broker come to rest before its memory is read.
func settle(ctx context.Context) error {
	select {
	case <-time.After(3 * time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
