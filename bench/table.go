package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// The rows. A produce row has a class: what an acknowledgement promises.
const (
	rowBareWrite   = "socket → preallocated file"
	rowBareSync    = "socket → preallocated file → fdatasync"
	rowBareRead    = "file → socket"
	rowFdatasync   = "fdatasync of 4 KiB, p50"
	rowFdatasync99 = "fdatasync of 4 KiB, p99"
	rowCatchUp     = "catch-up fetch, 1 KiB"
	rowConsume     = "official consume, cached"
	rowConsumeDisk = "official consume, disk"
	rowOne         = "one at a time, sync, p50"
	rowOne99       = "one at a time, sync, p99"
	rowReady       = "empty broker ready"
	rowRestart     = "restart after kill -9"
)

func produceRow(kind, class string) string { return kind + " produce, " + class }

// sample is one round's number of one side.
type sample struct {
	value float64 // MB/s, or µs or ms where the row says so
	cpu   float64 // server CPU µs a record
	rss   int64
}

type table struct {
	b       *bench
	rounds  int                    // that are whole
	samples map[[2]string][]sample // row and side
}

func newTable(b *bench) *table { return &table{b: b, samples: map[[2]string][]sample{}} }

func (t *table) add(row, side string, value, cpu float64, rss int64) {
	k := [2]string{row, side}
	t.samples[k] = append(t.samples[k], sample{value, cpu, rss})
	fmt.Printf("  %-8s %-38s %9.0f %7.2f CPU µs/record %5d MiB\n", side, row, value, cpu, rss>>20)
}

func median[N int64 | float64](of []sample, f func(sample) N) N {
	if len(of) == 0 {
		return 0
	}
	var all []N
	for _, s := range of {
		all = append(all, f(s))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func (t *table) value(row, side string) float64 {
	return median(t.samples[[2]string{row, side}], func(s sample) float64 { return s.value })
}

func (t *table) cpu(row, side string) float64 {
	return median(t.samples[[2]string{row, side}], func(s sample) float64 { return s.cpu })
}

func (t *table) rss(row, side string) int64 {
	return median(t.samples[[2]string{row, side}], func(s sample) int64 { return s.rss })
}

// spread is the lowest and highest sample.
func (t *table) spread(row, side string) string {
	of := t.samples[[2]string{row, side}]
	lo, hi := of[0].value, of[0].value
	for _, s := range of {
		lo, hi = min(lo, s.value), max(hi, s.value)
	}
	return fmt.Sprintf("%.0f (%.0f–%.0f)", t.value(row, side), lo, hi)
}

// goal is a ratio that a row is to reach against Apache Kafka, and against which of the machine's
// limits.
type goal struct {
	row        string
	kafka      float64 // at least so many times Kafka's rate
	cpu        float64 // at most this part of Kafka's CPU time
	limit      string
	ofLimit    float64 // at least this part of the limit
	lessIsMore bool    // for times: at most ofLimit times the limit
	unit       string
}

func goals() []goal {
	return []goal{
		{row: produceRow("replay 1 KiB", "os"), kafka: 3, limit: rowBareWrite, unit: "MB/s"},
		{row: produceRow("replay 1 KiB", "sync"), kafka: 3, limit: rowBareSync, ofLimit: 0.5, unit: "MB/s"},
		{row: produceRow("replay 100 B", "os"), kafka: 3, limit: rowBareWrite, unit: "MB/s"},
		{row: produceRow("replay 100 B", "sync"), kafka: 3, limit: rowBareSync, unit: "MB/s"},
		{row: rowCatchUp, limit: rowBareRead, ofLimit: 0.7, unit: "MB/s"},
		{row: produceRow("official", "os"), kafka: 1.2, cpu: 0.5, unit: "MB/s"},
		{row: produceRow("official", "sync"), kafka: 1.2, cpu: 0.5, unit: "MB/s"},
		{row: rowConsume, kafka: 1.2, cpu: 0.5, unit: "MB/s"},
		{row: rowConsumeDisk, kafka: 1.2, cpu: 0.5, unit: "MB/s"},
		{row: rowOne, limit: rowFdatasync, ofLimit: 2, lessIsMore: true, unit: "µs"},
		{row: rowOne99, limit: rowFdatasync99, lessIsMore: true, unit: "µs"},
	}
}

func (t *table) has(row, side string) bool { return len(t.samples[[2]string{row, side}]) > 0 }

func (t *table) markdown() string {
	var s strings.Builder
	fmt.Fprintf(&s, `# Benchmarks

Written by `+"`make bench`"+`: Polylog against Apache Kafka 4.3.1 and against what this machine can do at all,
medians of %d rounds in which they take turns, on %d cores shared by broker and client.
How it is measured is below the tables. `+"`os`"+` acknowledges from the page cache, as Kafka does by default;
`+"`sync`"+` after fdatasync (Kafka: log.flush.interval.messages=1).

## Ratios

| | to Kafka | goal | CPU a record, to Kafka's | goal | to the machine's limit | goal |
| --- | --- | --- | --- | --- | --- | --- |
`, t.rounds, runtime.NumCPU())
	for _, g := range goals() {
		if t.has(g.row, "polylog") {
			fmt.Fprintf(&s, "| %s | %s |\n", g.row, strings.Join(t.ratios(g), " | "))
		}
	}
	s.WriteString("\n## Rates\n\n| | unit | Polylog (range) | Kafka (range) | limit | Polylog CPU µs/record | Kafka's | Polylog RSS MiB | Kafka's |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, g := range goals() {
		if !t.has(g.row, "polylog") {
			continue
		}
		fmt.Fprintf(&s, "| %s | %s | %s |", g.row, g.unit, t.spread(g.row, "polylog"))
		if t.has(g.row, "kafka") {
			fmt.Fprintf(&s, " %s |", t.spread(g.row, "kafka"))
		} else {
			s.WriteString(" – |")
		}
		if g.limit != "" && t.has(g.limit, "bare") {
			fmt.Fprintf(&s, " %.0f |", t.value(g.limit, "bare"))
		} else {
			s.WriteString(" – |")
		}
		for _, side := range []string{"polylog", "kafka"} {
			s.WriteString(dash(t.cpu(g.row, side), "%.2f"))
		}
		for _, side := range []string{"polylog", "kafka"} {
			s.WriteString(dash(float64(t.rss(g.row, side)>>20), "%.0f"))
		}
		s.WriteString("\n")
	}
	s.WriteString("\n## Starting\n\n| | Polylog (range) | RSS MiB | Kafka (range) | RSS MiB | goal |\n| --- | --- | --- | --- | --- | --- |\n")
	if t.has(rowReady, "polylog") {
		fmt.Fprintf(&s, "| %s | %s ms | %d |", rowReady, t.spread(rowReady, "polylog"), t.rss(rowReady, "polylog")>>20)
		if t.has(rowReady, "kafka") {
			fmt.Fprintf(&s, " %s ms | %d |", t.spread(rowReady, "kafka"), t.rss(rowReady, "kafka")>>20)
		} else {
			s.WriteString(" – | – |")
		}
		s.WriteString(" 300 ms, 60 MiB |\n")
	}
	if t.has(rowRestart, "polylog") {
		fmt.Fprintf(&s, "| %s with a log of %d GiB, to the first produce and fetch | %s ms | %d | – | – | 3000 ms |\n",
			rowRestart, t.b.restartBytes>>30, t.spread(rowRestart, "polylog"), t.rss(rowRestart, "polylog")>>20)
	}
	s.WriteString(method)
	return s.String()
}

func dash(v float64, format string) string {
	if v == 0 {
		return " – |"
	}
	return " " + fmt.Sprintf(format, v) + " |"
}

// ratios are the six cells of a row.
func (t *table) ratios(g goal) []string {
	cells := []string{"–", "–", "–", "–", "–", "–"}
	if t.has(g.row, "kafka") {
		cells[0] = fmt.Sprintf("%.2f×", t.value(g.row, "polylog")/t.value(g.row, "kafka"))
		if g.kafka > 0 {
			cells[1] = fmt.Sprintf("≥ %g×", g.kafka)
		}
		if k := t.cpu(g.row, "kafka"); k > 0 {
			cells[2] = fmt.Sprintf("%.2f×", t.cpu(g.row, "polylog")/k)
		}
		if g.cpu > 0 {
			cells[3] = fmt.Sprintf("≤ %g×", g.cpu)
		}
	}
	if g.limit != "" && t.has(g.limit, "bare") {
		r := t.value(g.row, "polylog") / t.value(g.limit, "bare")
		switch {
		case g.lessIsMore:
			cells[4] = fmt.Sprintf("%.2f×", r)
		default:
			cells[4] = fmt.Sprintf("%.0f %%", r*100)
		}
		switch {
		case g.ofLimit > 0 && g.lessIsMore:
			cells[5] = fmt.Sprintf("≤ %g×", g.ofLimit)
		case g.ofLimit > 0:
			cells[5] = fmt.Sprintf("≥ %.0f %%", g.ofLimit*100)
		}
	}
	return cells
}

var method = fmt.Sprintf(`
## How it is measured

- Memory that a virtual machine has given back to its host is several times slower than warm memory. Before each broker
  a ballast file fills the page cache, so that new pages are warm for everyone.
- Each broker starts with an empty directory, one at a time, in turn: Polylog os, Kafka os, Polylog sync, Kafka sync,
  and again. Kafka runs as one KRaft node with 1 GiB of heap and G1, as its own start script has it.
- replay: a client that sends the same pre-encoded, uncompressed batch of %d KiB over %d connections with %d requests in
  flight on each, to %d partitions, acks=all. It costs next to nothing, which official clients do not: they need more CPU
  than either broker.
- catch-up fetch: one connection a partition reads everything from offset 0 and throws it away. The data are in the page cache.
- official: Kafka's ProducerPerformance and ConsumerPerformance, 1 KiB records, %d partitions, acks=all. "disk" is after the
  broker's files were synced and dropped from the page cache; the ballast and the programs stay in it.
- The limits: a process that only copies socket → preallocated file (fdatasync for whatever has come together, then the
  answers), with the same pieces in flight; and one that only copies file → socket.
- CPU is the server process's user and system time from /proc over the run, divided by its records. RSS is after the run.
`, batchBytes>>10, connections, inFlight, partitions, partitions)
