// Package probe asks a broker what it does in some two hundred situations, with a client library
// where that can say it and with raw frames where it cannot. An outcome is text without anything
// that differs from run to run (generated names, times, ports), so that outcomes of two brokers,
// or of a broker and a record, can be compared.
package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Probe is one situation.
type Probe struct {
	Name string
	run  func(e *env)
}

// Outcome is what a broker did: lines of text.
type Outcome struct {
	Name string
	Text string
}

// All are the probes, in the order of the record.
func All() []Probe {
	groups := []struct {
		name   string
		probes []Probe
	}{
		{"connection", connection},
		{"frames", frames},
		{"declare", declares()},
		{"redeclare", redeclares},
		{"exchange", exchanges},
		{"routing", routing},
		{"publish", publishing},
		{"content", content},
		{"consume", consuming},
		{"settle", settling()},
		{"limits", limits},
		{"deaths", deaths},
		{"quorum", quorum},
		{"stream", streams},
		{"tx", transactions},
		{"reply-to", replyTo},
		{"known", known},
	}
	var all []Probe
	for _, g := range groups {
		for _, p := range g.probes {
			p.Name = g.name + ": " + p.Name
			all = append(all, p)
		}
	}
	return all
}

// patience is how long a probe waits for what should come. It is far more than anything takes.
const patience = 10 * time.Second

// limit is how long one probe may take in all.
const limit = time.Minute

// atOnce is how many probes run side by side: most of them wait.
const atOnce = 8

// Run puts the probes to the broker at host:port, and gives their outcomes in order.
func Run(ctx context.Context, addr string, probes []Probe) []Outcome {
	out := make([]Outcome, len(probes))
	next := make(chan int)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for i := range next {
				out[i] = Outcome{Name: probes[i].Name, Text: probes[i].put(ctx, addr, i)}
			}
		})
	}
	for i := range probes {
		next <- i
	}
	close(next)
	workers.Wait()
	return out
}

// cannot ends a probe that could not be set up; it is what must panics with.
type cannot struct{ err error }

func (p Probe) put(ctx context.Context, addr string, _ int) (text string) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	e := &env{ctx: ctx, addr: addr, prefix: slug(p.Name) + "."}
	defer e.close()
	defer context.AfterFunc(ctx, e.close)() // one that no answer comes to ends too
	defer func() {
		if r := recover(); r != nil {
			c, ok := r.(cannot)
			if !ok {
				panic(r)
			}
			e.say("the probe ended: %s", describe(c.err))
			text = strings.Join(e.lines, "\n")
		}
	}()
	p.run(e)
	return strings.Join(e.lines, "\n")
}

// slug makes of a probe's name the names of its queues and exchanges.
func slug(name string) string {
	keep := func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return '-'
	}
	return strings.Trim(strings.Map(keep, strings.ToLower(name)), "-")
}

// Record writes outcomes as text that Read takes back.
func Record(outcomes []Outcome) string {
	var s strings.Builder
	for _, o := range outcomes {
		fmt.Fprintf(&s, "== %s\n", o.Name)
		for line := range strings.Lines(o.Text) {
			fmt.Fprintf(&s, "   %s\n", strings.TrimRight(line, "\n"))
		}
	}
	return s.String()
}

// Read takes back what Record wrote.
func Read(text string) ([]Outcome, error) {
	var out []Outcome
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "== "); ok {
			out = append(out, Outcome{Name: name})
			continue
		}
		if len(out) == 0 {
			return nil, errors.New("a record begins with a line ==")
		}
		o := &out[len(out)-1]
		if o.Text != "" {
			o.Text += "\n"
		}
		o.Text += strings.TrimPrefix(line, "   ")
	}
	return out, nil
}

// Named is the outcome of that name, if there is one.
func Named(outcomes []Outcome, name string) (Outcome, bool) {
	i := slices.IndexFunc(outcomes, func(o Outcome) bool { return o.Name == name })
	if i < 0 {
		return Outcome{}, false
	}
	return outcomes[i], true
}
