package dispatch

import (
	"math"
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
	limits    Limits
	returns   int
	now       int64
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

	at, seq  int // back: goes before the fresh offset at, and after lower ones of that place
	priority int // that it has now
	rank     int // that it came with
	expiry   int64
	size     int64
}

// fixed is what of a place stays for ever.
func (p *place) fixed() place {
	return place{priority: p.rank, rank: p.rank, expiry: p.expiry, size: p.size}
}

type modelConsumer struct {
	Consumer
	cancelled bool
	yielded   bool
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
	if c.cancelled || c.Getter || c.Credit == 0 || c.Prefetch > 0 && m.holds(c) >= c.Prefetch {
		return false
	}
	if !m.single {
		return true
	}
	for _, o := range m.consumers {
		if !o.cancelled && !o.Getter && o.Priority > c.Priority {
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
		if !c.cancelled && !c.Getter && (best == nil || c.Priority > best.Priority) {
			best = c
		}
	}
	if a := m.active; a == nil || a.yielded || m.holds(a) == 0 && (a.cancelled || best.Priority > a.Priority) {
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
	if o, some := m.head(anyPriority); some && o < m.mark && !m.over(o, m.now) {
		return o, c
	}
	return 0, nil
}

// over reports whether the time of a message is over that no ready consumer may get then.
func (m *model) over(o core.Offset, now int64) bool {
	at := m.offsets[o].expiry
	return at <= now && (at != Immediately || m.offsets[o].state == back)
}

// Messages are of these priorities, the highest first.
var priorities = [...]int{ahead, 3, 2, 1, 0, -1, -2}

const anyPriority = math.MinInt

// head is the message that is to go first, of a priority or of all.
func (m *model) head(priority int) (first core.Offset, some bool) {
	key := func(o int) [3]int {
		p := &m.offsets[o]
		if p.state == fresh {
			return [3]int{-p.priority, o, 1 << 30}
		}
		return [3]int{-p.priority, p.at, p.seq}
	}
	for o := range m.offsets {
		p := &m.offsets[o]
		if p.state != fresh && p.state != back || priority != anyPriority && p.priority != priority {
			continue
		}
		a, b := key(o), key(int(first))
		if !some || slices.Compare(a[:], b[:]) < 0 {
			first, some = core.Offset(o), true
		}
	}
	return first, some
}

// expire is what is to be taken out because its time is over.
func (m *model) expire(now int64) (gone []core.Offset) {
	for _, p := range priorities {
		for {
			o, some := m.head(p)
			if !some || m.offsets[o].expiry > now || m.offsets[o].expiry == Immediately && o >= m.mark && len(m.line) > 0 {
				break
			}
			m.offsets[o].state = open
			gone = append(gone, o)
		}
	}
	return gone
}

// overflow is what is to be taken out because there is too much.
func (m *model) overflow() (gone []core.Offset) {
	for {
		var n, bytes int64
		for _, p := range m.offsets {
			if p.state == fresh || p.state == back {
				n++
				bytes += p.size
			}
		}
		if n == 0 || (m.limits.MaxLength < 0 || n <= m.limits.MaxLength) && (m.limits.MaxBytes < 0 || bytes <= m.limits.MaxBytes) {
			return gone
		}
		o, _ := m.head(anyPriority)
		m.offsets[o].state = open
		gone = append(gone, o)
	}
}

func (m *model) deliver(t *rapid.T, d Delivery, now int64) {
	o, c := m.next(d.Consumer)
	if c == nil {
		t.Fatalf("delivered %+v, but nothing can be", d)
	}
	m.handOver(t, d, o, c, now)
}

// handOver makes the model's delivery, which is to be d.
func (m *model) handOver(t *rapid.T, d Delivery, o core.Offset, c *modelConsumer, now int64) {
	p := &m.offsets[o]
	want := Delivery{c.ID, o, d.Serial, p.attempts, p.state == back || o < m.before}
	if d != want {
		t.Fatalf("delivered %+v, want %+v", d, want)
	}
	if c.Credit > 0 {
		c.Credit--
	}
	p.state, p.by, p.serial, p.due = out, c, d.Serial, 0
	if c.Lease > 0 {
		p.due = now + c.Lease
	}
	m.line = slices.DeleteFunc(m.line, func(w *modelConsumer) bool { return w == c })
	m.settleDown()
}

// give makes an offset one that waits.
func (m *model) give(p *place, attempts int, due int64) {
	was := *p
	*p = was.fixed()
	p.state, p.attempts = back, attempts
	if due > 0 {
		p.state, p.due = later, due
		return
	}
	m.place(p)
}

// place is where an offset waits that came back.
func (m *model) place(p *place) {
	p.state, p.due = back, 0
	for o := range m.offsets {
		if p == &m.offsets[o] {
			p.at = o
		}
	}
	switch m.limits.Returns {
	case ToOldPlace:
		return
	case ToFront:
		p.priority, p.at = ahead, 0
	case ToBack:
		p.priority, p.at = 0, len(m.offsets)
	}
	m.returns++
	p.seq = m.returns
}

// fail is a failure that counts; await where the message may be dead.
func (m *model) fail(p *place, due int64) (await bool) {
	if m.limits.Failures > 0 && p.attempts+1 > m.limits.Failures {
		p.state = open
		return true
	}
	m.give(p, p.attempts+1, due)
	return false
}

// TestAgainstModel gives the same inputs to a Group and to the model. Each delivery must be
// the model's; so nothing is with two consumers, nothing is lost, the order is kept, and no
// credit is exceeded.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{single: rapid.IntRange(0, 3).Draw(t, "single") == 0}
		m.limits = NoLimits
		m.limits.Failures = rapid.IntRange(0, 2).Draw(t, "limit")
		m.limits.Returns = ReturnOrder(rapid.IntRange(0, 2).Draw(t, "returns"))
		if rapid.IntRange(0, 2).Draw(t, "bounded") == 0 {
			m.limits.MaxLength = int64(rapid.IntRange(-1, 6).Draw(t, "max-length"))
			m.limits.MaxBytes = int64(rapid.IntRange(-1, 12).Draw(t, "max-bytes"))
		}
		start := Start{Settled: new(ackset.Set), SingleActive: m.single, Limits: m.limits, Known: Known{
			Expiry: func(o core.Offset) int64 { return m.offsets[o].expiry },
			Size:   func(o core.Offset) int64 { return m.offsets[o].size },
		}}
		n := rapid.IntRange(0, 12).Draw(t, "backlog")
		m.grow(t, n, 0)
		start.End = core.Offset(n)
		for o := range m.offsets {
			switch rapid.IntRange(0, 4).Draw(t, "past") {
			case 0:
				start.Settled.Add(core.Offset(o), core.Offset(o+1))
				m.offsets[o].state = gone
			case 1:
				f := Failed{core.Offset(o), rapid.IntRange(0, 2).Draw(t, "attempts"), int64(rapid.IntRange(0, 5).Draw(t, "due"))}
				start.Failed = append(start.Failed, f)
				m.give(&m.offsets[o], f.Attempts, f.Due)
			}
		}
		start.Mark = core.Offset(rapid.IntRange(0, 15).Draw(t, "mark"))
		m.before = min(start.Mark, start.End)
		g := New(start)
		m.rank(t, g, 0)
		run(t, g, m)
	})
}

// grow adds messages of any kind.
func (m *model) grow(t *rapid.T, n int, now int64) {
	for range n {
		p := place{expiry: Never, size: int64(rapid.IntRange(0, 3).Draw(t, "size"))}
		switch rapid.IntRange(0, 9).Draw(t, "expires") {
		case 0:
			p.expiry = Immediately
		case 1, 2:
			p.expiry = now + int64(rapid.IntRange(0, 6).Draw(t, "ttl"))
			p.expiry = max(p.expiry, 1)
		}
		m.offsets = append(m.offsets, p)
	}
}

// rank gives offsets from one on a priority.
func (m *model) rank(t *rapid.T, g *Group, from int) {
	for o := from; o < len(m.offsets); o++ {
		if p := &m.offsets[o]; p.state != gone && rapid.IntRange(0, 2).Draw(t, "ranked") == 0 {
			p.rank = rapid.SampledFrom(priorities[1:]).Draw(t, "rank")
			if p.state != back || m.limits.Returns == ToOldPlace {
				p.priority = p.rank
			}
			g.Rank(core.Offset(o), p.rank)
		}
	}
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
		switch rapid.IntRange(0, 14).Draw(t, "step") {
		case 0, 1:
			grow := rapid.IntRange(1, 4).Draw(t, "grow")
			m.grow(t, grow, now)
			g.Grow(core.Offset(len(m.offsets)))
			m.rank(t, g, len(m.offsets)-grow)
		case 2, 3:
			c := Consumer{
				ID: id, Priority: rapid.IntRange(0, 2).Draw(t, "priority"), Prefetch: rapid.IntRange(0, 3).Draw(t, "prefetch"),
				Credit: int64(rapid.IntRange(-1, 4).Draw(t, "credit")), Exclusive: rapid.IntRange(0, 7).Draw(t, "exclusive") == 0,
				Lease: int64(rapid.IntRange(0, 1).Draw(t, "lease") * 5),
			}
			if c.Getter = rapid.IntRange(0, 5).Draw(t, "getter") == 0; c.Getter {
				c.Exclusive = false
			}
			others := slices.DeleteFunc(slices.Clone(m.consumers), func(c *modelConsumer) bool { return c.Getter || c.yielded })
			allowed := i < 0 && (c.Getter || len(others) == 0 || !c.Exclusive && !others[0].Exclusive)
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
				c := m.consumers[i]
				c.cancelled, c.yielded = true, c.cancelled
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
				var held []*place
				for o := range m.offsets {
					if p := &m.offsets[o]; p.state == out && p.by == c {
						held = append(held, p)
					}
				}
				slices.SortFunc(held, func(a, b *place) int { return int(a.serial) - int(b.serial) })
				for _, p := range held {
					if counts {
						t.Fatalf("delivery %d was not given back", p.serial)
					}
					m.give(p, p.attempts, 0)
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
				p.state = gone
			case mine && outcome == Release && due == 0:
				expect(t, verdict, Handled)
				m.give(p, p.attempts, 0)
			case mine && outcome == Release:
				expect(t, verdict, Propose)
				m.give(p, p.attempts, due)
			case mine && outcome == Fail:
				want := Propose
				if m.fail(p, due) {
					want = Await
				}
				expect(t, verdict, want)
			case mine:
				expect(t, verdict, Await)
				p.state = open
			default:
				expect(t, verdict, Stale)
			}
		case 10:
			for o := range m.offsets {
				if p := &m.offsets[o]; p.state == open {
					again := rapid.Bool().Draw(t, "again")
					if g.Decided(core.Offset(o), again); again {
						m.give(p, p.attempts, 0)
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
			for _, p := range priorities {
				if o, some := m.head(p); some {
					want = min(want, m.offsets[o].expiry)
				}
			}
			if at, ok := g.Due(); want <= now && (!ok || at != want) {
				t.Fatalf("due at %d, %v, want %d", at, ok, want)
			}
			failed := g.Tick(now, nil)
			var ended []core.Offset // leases and delays, in the order of their times
			for o := range m.offsets {
				if p := &m.offsets[o]; (p.state == later || p.state == out) && p.due > 0 && p.due <= now {
					ended = append(ended, core.Offset(o))
				}
			}
			slices.SortStableFunc(ended, func(a, b core.Offset) int { return int(m.offsets[a].due - m.offsets[b].due) })
			for _, o := range ended {
				p := &m.offsets[o]
				if p.state == later {
					m.give(p, p.attempts, 0)
					continue
				}
				if len(failed) == 0 || failed[0].Offset != o {
					t.Fatalf("the lease of offset %d ended, and nobody was told", o)
				}
				opened(failed[:1])
				failed = failed[1:]
			}
			if len(failed) > 0 {
				t.Fatalf("%+v", failed)
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
					p.state = gone
				}
			}
		case 14:
			serial++
			d, ok := g.Get(id, now, serial)
			o, some := m.head(anyPriority)
			want := i >= 0 && m.consumers[i].Getter && !m.consumers[i].cancelled && some && o < m.mark && !m.over(o, now)
			if ok != want {
				t.Fatalf("got %+v, %v", d, ok)
			}
			if ok {
				m.handOver(t, d, o, m.consumers[i], now)
			}
		}
		m.now = now
		m.settleDown()
		if mark, ok := g.WantMark(); ok {
			wanted = mark
		}
		if wanted > m.mark && rapid.IntRange(0, 3).Draw(t, "committed") > 0 {
			m.mark = wanted
			g.Marked(wanted)
		}
		for more := true; more; {
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
			expired := g.Expire(now, 1000, nil)
			if want := m.expire(now); !slices.Equal(expired, want) {
				t.Fatalf("%v expired, want %v", expired, want)
			}
			more = len(expired) > 0
		}
		if dropped, want := g.Overflow(1000, nil), m.overflow(); !slices.Equal(dropped, want) {
			t.Fatalf("%v dropped, want %v", dropped, want)
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
	var ready, bytes, unsettled, delayed int64
	for _, p := range m.offsets {
		switch p.state {
		case fresh, back:
			ready++
			bytes += p.size
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
	if g.Bytes() != bytes {
		t.Fatalf("%d bytes ready, want %d", g.Bytes(), bytes)
	}
	active := 0
	for _, c := range m.consumers {
		if !c.cancelled && !c.Getter {
			active++
		}
	}
	if g.Active() != active {
		t.Fatalf("%d active consumers, want %d", g.Active(), active)
	}
	if g.Consumers() != len(m.consumers) {
		t.Fatalf("%d consumers, want %d", g.Consumers(), len(m.consumers))
	}
	if g.Idle() && (unsettled > 0 || len(m.consumers) > 0) {
		t.Fatal("idle")
	}
}
