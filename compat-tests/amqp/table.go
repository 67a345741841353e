package main

import (
	"fmt"
	"strings"
)

// results is what came out: a row a client, a cell a scenario or an application's step.
type results struct {
	rows []row
}

type row struct {
	name, version string
	application   bool
	broken        error // the client could not even be started, or ended before its time
	cells         map[string]cell
	steps         []string // of an application, in order
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
func (t *results) count() (passed, failed int) {
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

func (t *results) failures() []string {
	var s []string
	for _, r := range t.rows {
		if r.broken != nil {
			s = append(s, fmt.Sprintf("%s: %s", r.name, oneLine(r.broken)))
		}
		for name, c := range r.cells {
			if c.mark() == "fail" {
				s = append(s, fmt.Sprintf("%s, %s: %s", r.name, name, oneLine(c.err)))
			}
		}
	}
	return s
}

// text is the table for a terminal.
func (t *results) text() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%-20s", "")
	for _, sc := range scenarios {
		fmt.Fprintf(&s, " %-*s", max(4, len(sc.name)), sc.name)
	}
	s.WriteByte('\n')
	for _, r := range t.rows {
		fmt.Fprintf(&s, "%-20s", r.name+" "+r.version)
		if r.application {
			for _, step := range r.steps {
				fmt.Fprintf(&s, " %s: %s;", step, r.cells[step].mark())
			}
		} else {
			for _, sc := range scenarios {
				mark := r.cells[sc.name].mark()
				fmt.Fprintf(&s, " %s%*s", mark, max(4, len(sc.name))-len([]rune(mark)), "")
			}
		}
		s.WriteByte('\n')
	}
	for _, f := range t.failures() {
		fmt.Fprintf(&s, "failed: %s\n", f)
	}
	return s.String()
}

// markdown has neither date nor time: the page changes when an outcome does.
func (t *results) markdown() string {
	passed, failed := t.count()
	var s strings.Builder
	fmt.Fprintf(&s, "\n%d passed, %d failed. A dash is something that the client library does not have.\n\n| client | version |", passed, failed)
	for _, sc := range scenarios {
		fmt.Fprintf(&s, " %s |", sc.name)
	}
	s.WriteString("\n| --- | --- |" + strings.Repeat(" --- |", len(scenarios)) + "\n")
	for _, r := range t.rows {
		if r.application {
			continue
		}
		fmt.Fprintf(&s, "| %s | %s |", r.name, r.version)
		for _, sc := range scenarios {
			fmt.Fprintf(&s, " %s |", r.cells[sc.name].mark())
		}
		s.WriteByte('\n')
	}
	s.WriteString("\n| application | version | steps |\n| --- | --- | --- |\n")
	for _, r := range t.rows {
		if !r.application {
			continue
		}
		var steps []string
		for _, step := range r.steps {
			steps = append(steps, step+": "+r.cells[step].mark())
		}
		fmt.Fprintf(&s, "| %s | %s | %s |\n", r.name, r.version, strings.Join(steps, "; "))
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
- **properties**: every property and a header table of every type that the library has come back as they were sent.
- **confirms**: 200 messages, each confirmed and there; an unroutable one is confirmed too. **returns**: mandatory, routable or not.
- **consume**: two consumers with prefetch 10; each of 300 messages once, in order for each. **requeue**: nack, reject, a closed
  channel; flags and order. **dead letters**: rejected, expired, dropped, with their histories.
- **exchanges**: topic, fanout, headers, exchange to exchange, alternate. **limits**: lengths with both overflow modes, times to
  live, purge. **priorities**. **tx**: commit and rollback of publishes and acks.
- **quorum**: delivery limit, counts, dead letter. **stream**: from the first, from an offset, from a time.
- **reply-to**: questions and answers by direct reply-to. **cancel notify**: a queue that is deleted tells its consumers.
- **errors**: 403, 404, 406, and a new channel after each. **delayed**: an exchange of type x-delayed-message.
- **large**: bodies up to 3 MB. **channels**: 60 on one connection. **heartbeats**: five idle seconds with heartbeats each second.
`
