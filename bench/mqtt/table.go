package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// sample is one round's figures of one side.
type sample struct {
	rate    float64       // deliveries/s; connections or sessions made each second
	cpu     float64       // server CPU µs for each of these
	each    float64       // resident bytes of each
	rss     int64         // of all
	ready   time.Duration // from the start of the process with the sessions to its first connection
	idleCPU float64       // cores, with the sessions
}

type table struct {
	rounds  int
	samples map[[2]string][]sample // row and side
}

func (t *table) add(row, side string, s sample) {
	k := [2]string{row, side}
	t.samples[k] = append(t.samples[k], s)
	fmt.Printf("  %-9s %-9s %9.0f/s %7.2f CPU µs %6.0f B each %5d MiB ready %v idle %.4f cores\n", row, side, s.rate, s.cpu, s.each, s.rss>>20, s.ready.Round(time.Millisecond), s.idleCPU)
}

// of is the median of a figure, with the least and the most.
func (t *table) of(row, side string, f func(sample) float64) (median, least, most float64) {
	var all []float64
	for _, s := range t.samples[[2]string{row, side}] {
		all = append(all, f(s))
	}
	if len(all) == 0 {
		return 0, 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[0], all[len(all)-1]
}

func (t *table) cell(row, side string, f func(sample) float64, format string) string {
	m, lo, hi := t.of(row, side, f)
	switch {
	case m == 0 && hi == 0:
		return "–"
	case lo == hi:
		return fmt.Sprintf(format, m)
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", m, lo, hi)
}

func rate(s sample) float64    { return s.rate }
func cpu(s sample) float64     { return s.cpu }
func each(s sample) float64    { return s.each }
func ready(s sample) float64   { return s.ready.Seconds() }
func idleCPU(s sample) float64 { return s.idleCPU }

func (t *table) markdown(b *bench) string {
	var s strings.Builder
	fmt.Fprintf(&s, `Written by `+"`make bench-mqtt`"+`: Polylog against Mosquitto 2.0 with persistence on, medians of %d rounds in which they take
turns, on %d cores shared by broker and client; ranges in parentheses. Polylog with flush `+"`os`"+` acknowledges from the page cache,
with `+"`sync`"+` after fdatasync; Mosquitto from memory, and writes to disk each half hour. Payloads of %d bytes.

| deliveries/s | Polylog, os | Mosquitto | Polylog, sync | os to Mosquitto | goal | CPU µs each: Polylog, os | Mosquitto | ratio |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
`, t.rounds, runtime.NumCPU(), payloadSize)
	for _, f := range flows {
		if len(t.samples[[2]string{f.name, "polylog"}]) == 0 {
			continue
		}
		goal := "≥ 1×"
		if f.subscribers > 1 {
			goal = "≥ 1.5×"
		}
		fmt.Fprintf(&s, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", f.title,
			t.cell(f.name, "polylog", rate, "%.0f"), t.cell(f.name, "mosquitto", rate, "%.0f"), t.cell(f.name, "sync", rate, "%.0f"),
			t.ratio(f.name, rate), goal,
			t.cell(f.name, "polylog", cpu, "%.1f"), t.cell(f.name, "mosquitto", cpu, "%.1f"), t.ratio(f.name, cpu))
	}
	s.WriteString("\n| | | Polylog | Mosquitto | goal |\n| --- | --- | --- | --- | --- |\n")
	row := func(row, title, what string, f func(sample) float64, format, goal string) {
		if len(t.samples[[2]string{row, "polylog"}]) > 0 {
			fmt.Fprintf(&s, "| %s | %s | %s | %s | %s |\n", title, what, t.cell(row, "polylog", f, format), t.cell(row, "mosquitto", f, format), goal)
		}
	}
	row("idle", fmt.Sprintf("%d idle connections", b.idleConns), "resident bytes each", each, "%.0f", "≤ 16,384")
	row("idle", "", "connects with SUBSCRIBE/s", rate, "%.0f", "")
	row("sessions", fmt.Sprintf("%d disconnected sessions", b.sessionCount), "resident bytes each, after a restart", each, "%.0f", "≤ 300")
	row("sessions", "", "restart to ready, s", ready, "%.2f", "≤ 10 for a million")
	row("sessions", "", "cores used while idle", idleCPU, "%.4f", "none")
	row("sessions", "", "made/s", rate, "%.0f", "")
	row("sessions", "", "CPU µs to make one", cpu, "%.0f", "")
	fmt.Fprintf(&s, `
How it is measured:

- One client for both, of raw packets that are made once: one thread writes what the window allows, one takes everything by epoll.
  With QoS 1 the window is of publishes without PUBACK, with QoS 2 of those without PUBCOMP (%s), and subscribers
  acknowledge each message. Stored sessions are such as outlive their connections; the others end with theirs.
- CPU is the server process's user and system time from /proc over %g s after a warm-up of %v, divided by the deliveries in them.
- Each broker starts with an empty directory, one at a time, in turn. Mosquitto runs with max_queued_messages 0 and
  max_inflight_messages 1000; otherwise it would leave messages out.
- Idle connections and sessions have one subscription each, of a filter of its own. RSS before is subtracted; of the
  sessions, that of the same broker without data.
`, windows(), b.seconds, warmUp)
	return s.String()
}

func (t *table) ratio(row string, f func(sample) float64) string {
	ours, _, _ := t.of(row, "polylog", f)
	theirs, _, _ := t.of(row, "mosquitto", f)
	if theirs == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f×", ours/theirs)
}

// windows says those of the fan-outs.
func windows() string {
	var all []string
	for _, f := range flows {
		if f.subscribers > 1 && f.qos > 0 && !f.stored {
			all = append(all, fmt.Sprintf("%d for 1 → %d", f.window, f.subscribers))
		}
	}
	return strings.Join(all, ", ")
}
