package main

import (
	"fmt"
	"strings"
)

// table is what came out: a row a client, a cell a scenario.
type table struct {
	rows []row
}

type row struct {
	name, version string
	broken        error // the client could not even be started
	cells         map[string]cell
}

type cell struct {
	ran, unsupported bool
	err              error
}

func (c cell) mark() string {
	switch {
	case !c.ran:
		return ""
	case c.unsupported:
		return "–"
	case c.err != nil:
		return "fail"
	}
	return "pass"
}

// count counts cells; a client that did not start is one failure.
func (t *table) count() (passed, failed int) {
	for _, r := range t.rows {
		if r.broken != nil {
			failed++
		}
		for _, c := range r.cells {
			switch c.mark() {
			case "pass":
				passed++
			case "fail":
				failed++
			}
		}
	}
	return passed, failed
}

func (t *table) failures() []string {
	var s []string
	for _, r := range t.rows {
		if r.broken != nil {
			s = append(s, fmt.Sprintf("%s did not start: %s", r.name, oneLine(r.broken)))
		}
		for _, sc := range scenarios {
			if c := r.cells[sc.name]; c.mark() == "fail" {
				s = append(s, fmt.Sprintf("%s, %s: %s", r.name, sc.name, oneLine(c.err)))
			}
		}
	}
	return s
}

// text is the table for a terminal.
func (t *table) text() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%-24s", "")
	for _, sc := range scenarios {
		fmt.Fprintf(&s, " %-*s", max(4, len(sc.name)), sc.name)
	}
	s.WriteByte('\n')
	for _, r := range t.rows {
		fmt.Fprintf(&s, "%-24s", r.name+" "+r.version)
		for _, sc := range scenarios {
			mark := r.cells[sc.name].mark()
			fmt.Fprintf(&s, " %s%*s", mark, max(4, len(sc.name))-len([]rune(mark)), "")
		}
		s.WriteByte('\n')
	}
	for _, f := range t.failures() {
		fmt.Fprintf(&s, "failed: %s\n", f)
	}
	return s.String()
}

// markdown is a section of the project's documentation.
func (t *table) markdown() string {
	passed, failed := t.count()
	var s strings.Builder
	// Neither date nor time: the page changes when an outcome does.
	fmt.Fprintf(&s, `%d passed, %d failed. A dash is something that the client library does not have.

`, passed, failed)
	s.WriteString("| client | version |")
	for _, sc := range scenarios {
		fmt.Fprintf(&s, " %s |", sc.name)
	}
	s.WriteString("\n| --- | --- |" + strings.Repeat(" --- |", len(scenarios)) + "\n")
	for _, r := range t.rows {
		fmt.Fprintf(&s, "| %s | %s |", r.name, r.version)
		for _, sc := range scenarios {
			fmt.Fprintf(&s, " %s |", r.cells[sc.name].mark())
		}
		s.WriteByte('\n')
	}
	if f := t.failures(); len(f) > 0 {
		s.WriteString("\n### What failed\n\n")
		for _, line := range f {
			fmt.Fprintf(&s, "- %s\n", line)
		}
	}
	s.WriteString(scenarioNotes)
	return s.String()
}

// scenarioNotes tells what stands behind each column.
const scenarioNotes = `
### What each scenario does

- **none, gzip, snappy, lz4, zstd**: 300 records with keys, headers and timestamps to three partitions with that codec.
  A second client reads all of them back and checks every byte, dense offsets, timestamps, and that the batches are still
  compressed as the producer had them; then the client itself reads a partition.
- **idempotent**: one idempotent producer, 1,000 records in two goes; each is there once.
- **group**: three members come and one goes while records arrive. Whenever the group has settled its members hold all
  six partitions, each once and nobody idle; every record is shown; at the end all ends are committed.
- **cooperative**: the same with incremental cooperative rebalancing.
- **static**: a member with an instance id goes and comes back: the group stays stable, nobody else's assignment changes,
  it gets its own partitions again.
- **seek offset, seek time**: reading from an offset; from times between records, at one, and one millisecond after one.
- **topics**: create with a configuration, create again (refused), describe, list, delete. **partitions**: from 2 to 5.
- **configs**: a default read, a value set and read back.
- **groups**: list, describe, read and reset offsets (a new member starts there), delete.
- **delete records**: up to an offset; the bounds move, reading goes on after it.
`
