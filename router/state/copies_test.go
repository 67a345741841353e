package state

import (
	"fmt"
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
