package main

import (
	"fmt"
	"runtime"
	"strings"
)

// sample is one round's figures of one side.
type sample struct {
	in, out  float64 // messages/s
	p50, p99 float64 // ms from publish to delivery
	cpu      float64 // server CPU µs a message, in and out
	rss      int64
}

type table struct {
	rounds  int
	samples map[[2]string][]sample // row and side
}

func (t *table) add(row, side string, s sample) {
	k := [2]string{row, side}
	t.samples[k] = append(t.samples[k], s)
	fmt.Printf("  %-8s %-8s in %8.0f/s out %8.0f/s p50 %8.2f ms p99 %8.2f ms %7.2f CPU µs %5d MiB\n", side, row, s.in, s.out, s.p50, s.p99, s.cpu, s.rss>>20)
}

func (t *table) of(row, side string, f func(sample) float64) float64 {
	return median(t.samples[[2]string{row, side}], f)
}

func (t *table) has(row, side string) bool { return len(t.samples[[2]string{row, side}]) > 0 }

func in(s sample) float64  { return s.in }
func out(s sample) float64 { return s.out }
func p50(s sample) float64 { return s.p50 }
func p99(s sample) float64 { return s.p99 }
func cpu(s sample) float64 { return s.cpu }
func rss(s sample) float64 { return float64(s.rss >> 20) }

// spread is the lowest and highest sample around the median.
func (t *table) spread(row, side string, f func(sample) float64, format string) string {
	lo, hi := f(t.samples[[2]string{row, side}][0]), 0.0
	for _, s := range t.samples[[2]string{row, side}] {
		lo, hi = min(lo, f(s)), max(hi, f(s))
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", t.of(row, side, f), lo, hi)
}

// column is one figure of a row: more is better, or less.
type column struct {
	name, format string
	f            func(sample) float64
	less         bool
	goal         string // against the better of RabbitMQ's queue types, or absolute
}

func columns(row string) []column {
	switch row {
	case "paced":
		return []column{{"p50, ms", "%.2f", p50, true, ""}, {"p99, ms", "%.2f", p99, true, "≤ 0.5×"}, {"CPU µs/message", "%.1f", cpu, true, ""}}
	case "one":
		return []column{{"out, messages/s", "%.0f", out, false, "≥ 2×"}}
	case "idle":
		return []column{{"declares/s", "%.0f", in, false, "≥ 10,000"}, {"resident bytes each", "%.0f", out, true, "≤ 200"}, {"file descriptors each", "%.2f", p50, true, "0"}}
	case "backlog":
		return []column{{"in, messages/s", "%.0f", in, false, ""}, {"drained, messages/s", "%.0f", out, false, "≥ half of 1-1"}, {"RSS with the backlog, MiB", "%.0f", rss, true, "≤ 200"}}
	}
	return []column{
		{"in, messages/s", "%.0f", in, false, "≥ 5×"}, {"out, messages/s", "%.0f", out, false, "≥ 5×"}, {"CPU µs/message", "%.1f", cpu, true, "≤ 15"}, {"RSS, MiB", "%.0f", rss, true, "≤ ⅓×"},
	}
}

var rows = []struct{ name, title string }{
	{"1-1", "1 producer → 1 consumer"},
	{"8-8", "8 producers → 8 consumers"},
	{"paced", "5,000 messages/s"},
	{"one", "one message at a time"},
	{"idle", "idle durable queues"},
	{"backlog", "backlog in one queue"},
}

func (t *table) markdown(b *bench) string {
	var s strings.Builder
	fmt.Fprintf(&s, `Written by `+"`make bench-amqp`"+`: Polylog against RabbitMQ 3.10.8's classic and quorum queues, medians of %d rounds in which
they take turns, on %d cores shared by broker and client. Messages of 1 KiB, persistent; publisher confirms with 200 in flight a
producer; each message acknowledged by itself, prefetch 100. Polylog syncs before it confirms, as quorum queues do. Ranges in parentheses.

| | | Polylog | classic | quorum | to classic | to quorum | goal |
| --- | --- | --- | --- | --- | --- | --- | --- |
`, t.rounds, runtime.NumCPU())
	for _, r := range rows {
		if !t.has(r.name, "polylog") {
			continue
		}
		title := r.title
		switch r.name {
		case "idle":
			title = fmt.Sprintf("%d %s (RabbitMQ: %d)", b.idle, title, b.idle/50)
		case "backlog":
			title = fmt.Sprintf("%s, %d messages", title, b.backlog)
		}
		for _, c := range columns(r.name) {
			fmt.Fprintf(&s, "| %s | %s |", title, c.name)
			title = ""
			for _, side := range sides {
				if t.has(r.name, side.name) {
					fmt.Fprintf(&s, " %s |", t.spread(r.name, side.name, c.f, c.format))
				} else {
					s.WriteString(" – |")
				}
			}
			for _, side := range sides[1:] {
				if theirs := t.of(r.name, side.name, c.f); theirs > 0 {
					fmt.Fprintf(&s, " %.2f× |", t.of(r.name, "polylog", c.f)/theirs)
				} else {
					s.WriteString(" – |")
				}
			}
			fmt.Fprintf(&s, " %s |\n", c.goal)
		}
	}
	fmt.Fprintf(&s, `
How it is measured:

- perf-test 2.22.1, RabbitMQ's own load generator, a JVM of its own for each run. It tells its figures each second; the first %d seconds
  do not count, and a run's figure is the median of the %d that follow (p50 and p99 are medians of the seconds' own). Latency is from
  publish to delivery.
- CPU is the server process's user and system time from /proc over those seconds, divided by the messages that came out. RSS is after the run.
- Each broker starts with an empty directory, one at a time, in turn; before that a ballast file fills the page cache (see above).
- Idle queues are declared over 64 connections, every one waiting for its answer. The backlog is published and drained by amqp091-go.
`, warmUp, b.seconds)
	return s.String()
}
