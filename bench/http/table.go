package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// sample is one round's figures of one row.
type sample struct {
	requests float64
	rate     float64 // messages/s
	cpu      float64 // server CPU µs for each message
	p50, p99 time.Duration
}

type table struct {
	rounds  int
	samples map[string][]sample // by row
}

func (t *table) add(row string, s sample) {
	t.samples[row] = append(t.samples[row], s)
	fmt.Printf("  %-32s %9.0f/s %7.2f CPU µs  p50 %v p99 %v\n", row, s.rate, s.cpu, s.p50, s.p99)
}

// of is the median of a figure, with the least and the most; 0 where there is none.
func (t *table) of(row string, f func(sample) float64) (median, least, most float64) {
	var all []float64
	for _, s := range t.samples[row] {
		all = append(all, f(s))
	}
	if len(all) == 0 {
		return 0, 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[0], all[len(all)-1]
}

func (t *table) cell(row string, f func(sample) float64, format string) string {
	m, lo, hi := t.of(row, f)
	switch {
	case m == 0 && hi == 0:
		return "–"
	case lo == hi:
		return fmt.Sprintf(format, m)
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", m, lo, hi)
}

func rate(s sample) float64 { return s.rate }
func cpu(s sample) float64  { return s.cpu }
func p50(s sample) float64  { return s.p50.Seconds() * 1000 }
func p99(s sample) float64  { return s.p99.Seconds() * 1000 }

// ratio is a row's rate to another one's.
func (t *table) ratio(row, other string) string {
	a, _, _ := t.of(row, rate)
	if b, _, _ := t.of(other, rate); b > 0 && row != other {
		return fmt.Sprintf("%.2f×", a/b)
	}
	return "–"
}

// goals are those of the rows that have one.
var goals = map[string]string{
	loads[1].title: "≥ 0.5× of the echo",
	loads[2].title: "≥ 1× of nsqd",
	loads[6].title: "≥ 200,000",
	beside:         "≥ 5,000, and as many as alone",
}

func (t *table) markdown(b *bench) string {
	var s strings.Builder
	fmt.Fprintf(&s, `Written by `+"`make bench-http`"+`: wrk with %d connections, each with one request at a time, that is answered when its messages
are committed. Medians of the rounds (%d) in which the sides take turns, on %d cores shared by server and client; ranges in
parentheses. Flush `+"`os`"+` confirms from the page cache, `+"`sync`"+` after fdatasync; nsqd from memory. Messages of %d bytes.

| | messages/s | to the echo | to nsqd | goal | CPU µs a message | p50, ms | p99, ms |
| --- | --- | --- | --- | --- | --- | --- | --- |
`, connections, t.rounds, runtime.NumCPU(), payloadSize)
	row := func(title, echo, nsqd string) {
		if len(t.samples[title]) > 0 {
			fmt.Fprintf(&s, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", title, t.cell(title, rate, "%.0f"), t.ratio(title, echo), t.ratio(title, nsqd),
				goals[title], t.cell(title, cpu, "%.2f"), t.cell(title, p50, "%.2f"), t.cell(title, p99, "%.2f"))
		}
	}
	for i, l := range loads {
		first := i / 5 * 5 // of its kind: the echo; nsqd is the fourth
		row(l.title, loads[first].title, loads[first+3].title)
	}
	row(alone, "", "")
	row(beside, "", "")
	fmt.Fprintf(&s, `
How it is measured:

- The echo is fasthttp, which serves the broker's HTTP, and answers with what came. nsqd is 1.3.0 with its defaults, without a channel.
- CPU is the server process's user and system time from /proc over %d s after a warm-up of 1 s, divided by the messages in them.
- Webhooks: a subscription with 64 requests in flight is made on a topic with %d messages, and the time is taken until an endpoint on this
  machine has had them all; then once more, beside %d endpoints at an address that refuses connections, with three messages each.
- Each server starts with an empty directory, one at a time, in turn.
`, b.seconds, b.webhooks, b.dead)
	return s.String()
}
