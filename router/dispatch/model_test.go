package dispatch

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"polylog/core"
	"polylog/core/ackset"
)

// The model says the same as Group with a list of everything and no cleverness.
type model struct {
	offsets   []place // by offset
	mark      core.Offset
	before    core.Offset
	consumers []*modelConsumer // in the order of Attach
	line      []*modelConsumer // who can take something, in turn, all priorities
	inputs    int
	single    bool
	limit     int
	active    *modelConsumer
}

type state uint8

const (
	fresh state = iota // never taken
	back               // came back
	later              // came back, not before due
	out                // with a consumer
	open               // its fate is awaited
	gone               // settled
)

type place struct {
	state    state
	by       *modelConsumer
	serial   uint64
	due      int64 // later: when; out: end of the lease, 0 none
	attempts int
}

type modelConsumer struct {
	Consumer
	cancelled bool
	since     int // the input that put it in line
}

func (m *model) holds(c *modelConsumer) (n int) {
	for _, p := range m.offsets {
		if p.state == out && p.by == c {
			n++
		}
	}
	return n
}

func (m *model) takes(c *modelConsumer) bool {
	if c.cancelled || c.Credit == 0 || c.Prefetch > 0 && m.holds(c) >= c.Prefetch {
		return false
	}
	if !m.single {
		return true
	}
	for _, o := range m.consumers {
		if !o.cancelled && o.Priority > c.Priority {
			return false
		}
	}
	return m.active == c
}

// settleDown does after each input what follows from it: consumers leave, the active one
// changes, the line has who can take something.
func (m *model) settleDown() {
	m.consumers = slices.DeleteFunc(m.consumers, func(c *modelConsumer) bool { return c.cancelled && m.holds(c) == 0 })
	if m.active != nil && !slices.Contains(m.consumers, m.active) {
		m.active = nil
	}
	var best *modelConsumer
	for _, c := range m.consumers {
		if !c.cancelled && (best == nil || c.Priority > best.Priority) {
			best = c
		}
	}
	if a := m.active; a == nil || m.holds(a) == 0 && (a.cancelled || best.Priority > a.Priority) {
		m.active = best
	}
	m.inputs++
	m.line = slices.DeleteFunc(m.line, func(c *modelConsumer) bool { return !m.takes(c) })
	for _, c := range m.consumers {
		if m.takes(c) && !slices.Contains(m.line, c) {
			c.since = m.inputs
			m.line = append(m.line, c)
		}
	}
}

// next is what the model would deliver, and to whom: to prefer, where it is one of several
// that one input put in line.
func (m *model) next(prefer ConsumerID) (o core.Offset, c *modelConsumer) {
	for _, w := range m.line {
		if c == nil || w.Priority > c.Priority || w.Priority == c.Priority && w.since == c.since && w.ID == prefer {
			c = w
		}
	}
	for o := range core.Offset(len(m.offsets)) {
		if s := m.offsets[o].state; s == fresh || s == back {
			if o >= m.mark {
				c = nil
			}
			return o, c
		}
	}
	return 0, nil
}

func (m *model) deliver(t *rapid.T, d Delivery, now int64) {
	o, c := m.next(d.Consumer)
	if c == nil {
		t.Fatalf("delivered %+v, but nothing can be", d)
	}
	p := &m.offsets[o]
	want := Delivery{c.ID, o, d.Serial, p.attempts, p.state == back || o < m.before, c.NoAck}
	if d != want {
		t.Fatalf("delivered %+v, want %+v", d, want)
	}
	if c.Credit > 0 {
		c.Credit--
	}
	*p = place{out, c, d.Serial, 0, p.attempts}
	if c.Lease > 0 {
		p.due = now + c.Lease
	}
	if c.NoAck {
		*p = place{state: gone}
	}
	m.line = slices.DeleteFunc(m.line, func(w *modelConsumer) bool { return w == c })
	m.settleDown()
}

// give makes an offset one that waits.
func (p *place) give(attempts int, due int64) {
	*p = place{state: back, attempts: attempts}
	if due > 0 {
		p.state, p.due = later, due
	}
}

// fail is a failure that counts; await where the message may be dead.
func (m *model) fail(p *place, due int64) (await bool) {
	if m.limit > 0 && p.attempts+1 > m.limit {
		*p = place{state: open, attempts: p.attempts}
		return true
	}
	p.give(p.attempts+1, due)
	return false
}

// TestAgainstModel gives the same inputs to a Group and to the model. Each delivery must be
// the model's; so nothing is with two consumers, nothing is lost, the order is kept, and no
// credit is exceeded.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{single: rapid.IntRange(0, 3).Draw(t, "single") == 0}
		m.limit = rapid.IntRange(0, 2).Draw(t, "limit")
		start := Start{Settled: new(ackset.Set), SingleActive: m.single, Limit: m.limit}
		n := rapid.IntRange(0, 12).Draw(t, "backlog")
		m.offsets = make([]place, n)
		start.End = core.Offset(n)
		for o := range m.offsets {
			switch rapid.IntRange(0, 4).Draw(t, "past") {
			case 0:
				start.Settled.Add(core.Offset(o), core.Offset(o+1))
				m.offsets[o].state = gone
			case 1:
				f := Failed{core.Offset(o), rapid.IntRange(0, 2).Draw(t, "attempts"), int64(rapid.IntRange(0, 5).Draw(t, "due"))}
				start.Failed = append(start.Failed, f)
				m.offsets[o].give(f.Attempts, f.Due)
			}
		}
		start.Mark = core.Offset(rapid.IntRange(0, 15).Draw(t, "mark"))
		m.before = min(start.Mark, start.End)
		run(t, New(start), m)
	})
}

func run(t *rapid.T, g *Group, m *model) {
	now, serial, deliveries := int64(0), uint64(0), 0
	var wanted core.Offset
	offset := func() core.Offset { return core.Offset(rapid.IntRange(0, len(m.offsets)).Draw(t, "offset")) }
	held := func() (core.Offset, *place) { // most of the time one that is out
		var all []core.Offset
		for o := range m.offsets {
			if m.offsets[o].state == out {
				all = append(all, core.Offset(o))
			}
		}
		if len(all) == 0 || rapid.IntRange(0, 9).Draw(t, "any") == 0 {
			o := offset()
			if int(o) == len(m.offsets) {
				return o, &place{state: gone}
			}
			return o, &m.offsets[o]
		}
		o := rapid.SampledFrom(all).Draw(t, "held")
		return o, &m.offsets[o]
	}
	opened := func(failed []Failure) {
		for _, f := range failed {
			p := &m.offsets[f.Offset]
			if p.state != out {
				t.Fatalf("offset %d failed, but is %d", f.Offset, p.state)
			}
			if m.fail(p, 0) != f.Await {
				t.Fatalf("%+v", f)
			}
		}
	}
	for range rapid.IntRange(1, 150).Draw(t, "steps") {
		id := ConsumerID(rapid.IntRange(1, 4).Draw(t, "consumer"))
		i := slices.IndexFunc(m.consumers, func(c *modelConsumer) bool { return c.ID == id })
		switch rapid.IntRange(0, 13).Draw(t, "step") {
		case 0, 1:
			grow := rapid.IntRange(1, 4).Draw(t, "grow")
			m.offsets = append(m.offsets, make([]place, grow)...)
			g.Grow(core.Offset(len(m.offsets)))
		case 2, 3:
			c := Consumer{
				ID: id, Priority: rapid.IntRange(0, 2).Draw(t, "priority"), Prefetch: rapid.IntRange(0, 3).Draw(t, "prefetch"),
				Credit: int64(rapid.IntRange(-1, 4).Draw(t, "credit")), Exclusive: rapid.IntRange(0, 7).Draw(t, "exclusive") == 0,
				NoAck: rapid.IntRange(0, 7).Draw(t, "no-ack") == 0, Lease: int64(rapid.IntRange(0, 1).Draw(t, "lease") * 5),
			}
			allowed := i < 0 && (len(m.consumers) == 0 || !c.Exclusive && !m.consumers[0].Exclusive)
			if err := g.Attach(c); (err == nil) != allowed {
				t.Fatalf("attach %+v: %v", c, err)
			}
			if allowed {
				m.consumers = append(m.consumers, &modelConsumer{Consumer: c})
			}
		case 4:
			credit := int64(rapid.IntRange(1, 3).Draw(t, "grant"))
			g.Grant(id, credit)
			if i >= 0 && m.consumers[i].Credit != Unlimited {
				m.consumers[i].Credit += credit
			}
		case 5:
			g.Cancel(id)
			if i >= 0 {
				m.consumers[i].cancelled = true
			}
		case 6:
			counts := rapid.Bool().Draw(t, "counts")
			failed := g.Detach(id, counts, nil)
			if counts {
				opened(failed)
			}
			if i >= 0 {
				c := m.consumers[i]
				c.cancelled = true
				for o := range m.offsets {
					if p := &m.offsets[o]; p.state == out && p.by == c {
						if counts {
							t.Fatalf("offset %d was not given back", o)
						}
						p.give(p.attempts, 0)
					}
				}
			}
		case 7, 8, 9:
			o, p := held()
			outcome := Outcome(rapid.IntRange(0, 3).Draw(t, "outcome"))
			due := int64(0)
			if outcome != Done && rapid.Bool().Draw(t, "delay") {
				due = now + 3
			}
			s := p.serial
			if rapid.IntRange(0, 9).Draw(t, "stale") == 0 {
				s += 1000
			}
			verdict := g.Settle(o, s, outcome, due)
			mine := p.state == out && s == p.serial
			late := p.state == fresh || p.state == back || p.state == later
			switch {
			case mine && outcome == Done, late && outcome == Done:
				expect(t, verdict, Propose)
				*p = place{state: gone}
			case mine && outcome == Release && due == 0:
				expect(t, verdict, Handled)
				p.give(p.attempts, 0)
			case mine && outcome == Release:
				expect(t, verdict, Propose)
				p.give(p.attempts, due)
			case mine && outcome == Fail:
				want := Propose
				if m.fail(p, due) {
					want = Await
				}
				expect(t, verdict, want)
			case mine:
				expect(t, verdict, Await)
				*p = place{state: open, attempts: p.attempts}
			default:
				expect(t, verdict, Stale)
			}
		case 10:
			for o := range m.offsets {
				if p := &m.offsets[o]; p.state == open {
					again := rapid.Bool().Draw(t, "again")
					if g.Decided(core.Offset(o), again); again {
						p.give(p.attempts, 0)
					} else {
						*p = place{state: gone}
					}
				}
			}
		case 11:
			now += int64(rapid.IntRange(1, 4).Draw(t, "time"))
			want := now + 1
			for o := range m.offsets {
				if p := &m.offsets[o]; (p.state == later || p.state == out) && p.due > 0 {
					want = min(want, p.due)
				}
			}
			if at, ok := g.Due(); want <= now && (!ok || at != want) {
				t.Fatalf("due at %d, %v, want %d", at, ok, want)
			}
			opened(g.Tick(now, nil))
			for o := range m.offsets {
				p := &m.offsets[o]
				if p.due > now || p.due == 0 {
					continue
				}
				switch p.state {
				case later:
					p.give(p.attempts, 0)
				case out:
					t.Fatalf("the lease of offset %d ended, and nobody was told", o)
				default:
				}
			}
		case 12:
			o, p := held()
			extended := g.Extend(o, p.serial, now+10)
			if want := p.state == out && p.due > 0; extended != want {
				t.Fatalf("extend offset %d: %v", o, extended)
			}
			if extended {
				p.due = now + 10
			}
		case 13:
			if rapid.IntRange(0, 4).Draw(t, "purge") > 0 {
				break
			}
			var purged ackset.Set
			for _, sp := range g.Purge(nil) {
				if purged.Add(sp.First, sp.End) == 0 {
					t.Fatalf("span %v", sp)
				}
			}
			for o := range m.offsets {
				p := &m.offsets[o]
				waits := p.state == fresh || p.state == back || p.state == later
				if waits != purged.Contains(core.Offset(o)) {
					t.Fatalf("offset %d, state %d: purged %v", o, p.state, !waits)
				}
				if waits {
					*p = place{state: gone}
				}
			}
		}
		m.settleDown()
		if mark, ok := g.WantMark(); ok {
			wanted = mark
		}
		if wanted > m.mark && rapid.IntRange(0, 3).Draw(t, "committed") > 0 {
			m.mark = wanted
			g.Marked(wanted)
		}
		for {
			serial++
			d, ok := g.Next(now, serial)
			if !ok {
				break
			}
			deliveries++
			m.deliver(t, d, now)
		}
		if o, c := m.next(0); c != nil {
			t.Fatalf("offset %d could be delivered to consumer %d", o, c.ID)
		}
		check(t, g, m)
	}
}

func expect(t *rapid.T, got, want Verdict) {
	t.Helper()
	if got != want {
		t.Fatalf("verdict %d, want %d", got, want)
	}
}

func check(t *rapid.T, g *Group, m *model) {
	t.Helper()
	var ready, unsettled, delayed int64
	for _, p := range m.offsets {
		switch p.state {
		case fresh, back:
			ready++
		case later:
			delayed++
		case out, open:
			unsettled++
		case gone:
		}
	}
	if r, u, d := g.Counts(); r != ready || u != unsettled || d != delayed {
		t.Fatalf("%d ready, %d unsettled, %d delayed, want %d, %d, %d", r, u, d, ready, unsettled, delayed)
	}
	if g.Consumers() != len(m.consumers) {
		t.Fatalf("%d consumers, want %d", g.Consumers(), len(m.consumers))
	}
	if g.Idle() && (unsettled > 0 || len(m.consumers) > 0) {
		t.Fatal("idle")
	}
}
