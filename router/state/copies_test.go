package state

import (
	"fmt"
	"slices"
	"testing"

	"polylog/core"
)

// Queues that are each other's dead letter exchange make no more than so many copies of a
// message, however often they give them up; without a bound it would be 8! of it.
func TestCopiesAreBounded(t *testing.T) {
	m, e := newMachine(t), newEntries()
	apply := func(cs ...core.Command) core.Result { t.Helper(); return m.done(e.take(cs...)) }
	round := DeclareExchange{Name: core.TopicName("round"), Config: ExchangeConfig{Type: "fanout"}}
	apply(round.Command())
	const queues = 8
	for i := range queues {
		n := core.TopicName(fmt.Sprint("q", i))
		q := DeclareQueue{Name: n, Config: QueueConfig{Limits: QueueLimits{HasDeadLetter: true, DeadLetterExchange: "round"}}}
		b := Bind{Binding{Source: round.Name, Destination: n}}
		apply(q.Command(), b.Command())
	}
	apply(PublishCommand(round.Name, []string{"k"}, batch(t, 1, 1, core.Nobody)))
	seen := make([]core.Offset, queues)
	total := 0
	for again := true; again; {
		again = false
		for i := range seen {
			q, err := ReadQueue(m.store, core.TopicName(fmt.Sprint("q", i)))
			m.must(err)
			head, _, err := m.store.Queue(q.ID)
			m.must(err)
			expire := GroupSettle{Queue: q.ID}
			for ; seen[i] < head.End && len(expire.Expired) < 1000; seen[i]++ {
				expire.Expired = append(expire.Expired, seen[i])
				expire.Letters = append(expire.Letters, Letter{Offset: seen[i], Keys: []string{"k"}})
			}
			if len(expire.Expired) > 0 {
				again = true
				total += len(expire.Expired)
				settle := Settle{Term: 1, Groups: []GroupSettle{expire}}
				apply(settle.Command())
			}
		}
	}
	if total < maxCopies/queues || total > 2*queues*maxCopies {
		t.Errorf("%d copies of one message", total)
	}
}

// A consumer that gives a message up again and again may have it copied each time.
func TestSpread(t *testing.T) {
	var h History
	for _, c := range []struct {
		n      int
		why    DeathReason
		on     bool
		copies int64
	}{
		{20_000, DeathExpired, true, 20_000}, // bindings that somebody made
		{1, DeathExpired, true, 20_000},
		{2, DeathMaxLen, false, 20_000},
		{2, DeathRejected, true, 2},
		{5_000, DeathExpired, true, 10_000},
		{2, DeathExpired, false, 10_000},
		{0, DeathExpired, true, 10_000},
		{3, DeathLimit, true, 3},
	} {
		if on := h.spread(c.n, c.why); on != c.on || h.Copies != c.copies {
			t.Errorf("%+v: %t, %d copies", c, on, h.Copies)
		}
	}
	h.Deaths = []Death{{Queue: core.TopicName("q"), Reason: DeathExpired, Count: 1, First: true}}
	if got, err := decodeHistory(h.encode()); err != nil || got.Copies != 3 || len(got.Deaths) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// What one settle's dead letters lead to is bounded: what was not done for that reason is done when it
// is proposed again.
func TestLettersOfASettleAreBounded(t *testing.T) {
	m, e := newMachine(t), newEntries()
	apply := func(cs ...core.Command) core.Result { t.Helper(); return m.done(e.take(cs...)) }
	wide := DeclareExchange{Name: core.TopicName("wide"), Config: ExchangeConfig{Type: "fanout"}}
	apply(wide.Command())
	const queues, messages = 1000, 260
	var last core.Name
	for i := range queues {
		last = core.TopicName(fmt.Sprint("q", i))
		q := DeclareQueue{Name: last}
		b := Bind{Binding{Source: wide.Name, Destination: last}}
		apply(q.Command(), b.Command())
	}
	from := DeclareQueue{Name: core.TopicName("from"), Config: QueueConfig{Limits: QueueLimits{HasDeadLetter: true, DeadLetterExchange: "wide"}}}
	apply(from.Command())
	for range messages {
		apply(PublishCommand(core.TopicName(""), []string{"from"}, batch(t, 1, 1, core.Nobody)))
	}
	source, err := ReadQueue(m.store, from.Name)
	m.must(err)
	letters := func(from core.Offset) (rejected []core.Offset, all []Letter) {
		for o := from; o < messages; o++ {
			rejected = append(rejected, o)
			all = append(all, Letter{Offset: o, Keys: []string{"k"}})
		}
		return rejected, all
	}
	left, done := core.Offset(0), []int64{}
	for left < messages {
		g := GroupSettle{Queue: source.ID}
		g.Rejected, g.Letters = letters(left)
		c := Settle{Term: 1, Groups: []GroupSettle{g}}
		res := apply(c.Command())
		outs, err := DecodeSettled(res.Body)
		m.must(err)
		begun := left
		for i, fate := range outs[0].Rejected {
			switch {
			case fate == Moved && begun+core.Offset(i) == left:
				left++
			case fate != Later:
				t.Fatalf("message %d: fate %d", i, fate)
			}
		}
		if outs[0].Settled != int64(left-begun) || left == begun {
			t.Fatalf("%d settled, of %d moved", outs[0].Settled, left-begun)
		}
		done = append(done, outs[0].Settled)
	}
	if want := int64((maxLetterWork + queues) / (queues + 1)); len(done) != 2 || done[0] != want {
		t.Errorf("%d messages went at once, want %d first", done, want)
	}
	q, err := ReadQueue(m.store, last)
	m.must(err)
	if head, _, err := m.store.Queue(q.ID); err != nil || head.End != messages {
		t.Errorf("%s got %d messages, want %d: %v", last, head.End, messages, err)
	}
}

// A transaction is done whole, wherever its dead letters lead.
func TestLettersOfATransactionAreNotPutOff(t *testing.T) {
	m, e := newMachine(t), newEntries()
	apply := func(cs ...core.Command) core.Result { t.Helper(); return m.done(e.take(cs...)) }
	wide := DeclareExchange{Name: core.TopicName("wide"), Config: ExchangeConfig{Type: "fanout"}}
	apply(wide.Command())
	const queues, messages = 500, maxLetterWork/500 + 10
	for i := range queues {
		q := DeclareQueue{Name: core.TopicName(fmt.Sprint("q", i))}
		b := Bind{Binding{Source: wide.Name, Destination: q.Name}}
		apply(q.Command(), b.Command())
	}
	from := DeclareQueue{Name: core.TopicName("from"), Config: QueueConfig{Limits: QueueLimits{HasDeadLetter: true, DeadLetterExchange: "wide"}}}
	apply(from.Command())
	source, err := ReadQueue(m.store, from.Name)
	m.must(err)
	g := GroupSettle{Queue: source.ID}
	for o := range core.Offset(messages) {
		apply(PublishCommand(core.TopicName(""), []string{"from"}, batch(t, 1, 1, core.Nobody)))
		g.Rejected = append(g.Rejected, o)
		g.Letters = append(g.Letters, Letter{Offset: o, Keys: []string{"k"}})
	}
	var told []Transacted
	m.state.OnTransacted(func(ts []Transacted) { told = append(told, ts...) })
	c := Transact{Settle: Settle{Term: 1, Groups: []GroupSettle{g}}}
	apply(c.Command())
	if len(told) != 1 || told[0].Outcome.Settled != messages || slices.Contains(told[0].Outcome.Rejected, Later) {
		t.Errorf("%+v", told)
	}
}
