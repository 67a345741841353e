package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// section is a table of a view.
type section struct {
	head string
	rows int
	row  func(w io.Writer, i int)
}

// lines is a view as text, in up to height lines; 0 means any number.
func (v *view) lines(height int) []string {
	healthy := "healthy"
	if !v.Healthy {
		healthy = fmt.Sprintf("%d problems", len(v.Problems))
	}
	all := []string{
		fmt.Sprintf("cluster %s   leader %s   term %d   %s   %s", printable(v.Cluster), cmp.Or(printable(v.Leader), "none"), v.Term, healthy, v.Time.Format(time.TimeOnly)),
		fmt.Sprintf("in %s/s %s/s   out %s/s %s/s   publish %.1f ms   connections kafka %d  amqp %d  mqtt %d", amount(v.In), bytesText(int64(v.InBytes)),
			amount(v.Out), bytesText(int64(v.OutBytes)), v.PublishMs, v.Connections["kafka"], v.Connections["amqp"], v.Connections["mqtt"]),
	}
	for _, p := range v.Problems {
		all = append(all, "! "+printable(p))
	}
	sections := v.sections()
	room := shares(height-len(all), sections)
	for i, s := range sections {
		all = append(all, "")
		all = append(all, s.lines(room[i])...)
	}
	if height > 0 && len(all) > height {
		all = all[:height]
	}
	return all
}

func (v *view) sections() []section {
	return []section{
		{"NODE\tROLE\tSTATE\tBEHIND\tIN/S\tOUT/S\tCPU\tMEMORY\tLOG\tFREE", len(v.Nodes), func(w io.Writer, i int) {
			n := &v.Nodes[i]
			row(w, n.ID, n.Role, n.State, n.Behind, amount(n.In), amount(n.Out), fmt.Sprintf("%.0f%%", 100*n.CPU), bytesText(int64(n.Memory)), bytesText(n.LogBytes), bytesText(n.DiskFree))
		}},
		{"TOPIC\tPARTITIONS\tIN/S\tMESSAGES\tBYTES", len(v.Topics), func(w io.Writer, i int) {
			t := v.Topics[i]
			row(w, cell(t.Name, 50), t.Partitions, amount(t.In), t.Messages, bytesText(t.Bytes))
		}},
		{"QUEUE\tREADY\tUNSETTLED\tDELAYED\tCONSUMERS", len(v.Queues), func(w io.Writer, i int) {
			q := &v.Queues[i]
			row(w, cell(q.Name, 50), q.Ready, q.Unsettled, q.Delayed, q.Consumers)
		}},
		{"GROUP\tSTATE\tLAG", len(v.Groups), func(w io.Writer, i int) {
			g := v.Groups[i]
			row(w, cell(g.Name, 50), cmp.Or(g.State, "-"), g.Lag)
		}},
	}
}

// shares is how many rows each section may show, so that all fit into a height: what one does not need the others get.
// A section needs two lines beside its rows.
func shares(height int, all []section) []int {
	room := make([]int, len(all))
	left := height
	for i, s := range all {
		room[i] = s.rows
		left -= 2 + s.rows
	}
	if height <= 0 {
		return room
	}
	for left < 0 {
		most := 0
		for i := range room {
			if room[i] > room[most] {
				most = i
			}
		}
		if room[most] <= 1 {
			break
		}
		room[most]--
		left++
	}
	return room
}

// lines is a table, with up to limit rows; what is left out is counted in the last one.
func (s *section) lines(limit int) []string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, s.head)
	n := s.rows
	if n > limit {
		n = max(limit-1, 0)
	}
	for i := range n {
		s.row(w, i)
	}
	_ = w.Flush() // into memory
	all := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if n < s.rows {
		all = append(all, fmt.Sprintf("… and %d more", s.rows-n))
	}
	return all
}

// amount is a number for people.
func amount(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.2fM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.1fk", n/1e3)
	case n >= 10 || n == 0:
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.1f", n)
}
