package state

import (
	"fmt"
	"testing"

	"polylog/core"
)

// A dead letter goes to all queues that its exchange has for it, however many, also where one
// of them is full and makes a letter of its own.
func TestLettersOfTakenMessagesAreNotCounted(t *testing.T) {
	m, e := newMachine(t), newEntries()
	apply := func(cs ...core.Command) core.Result { t.Helper(); return m.done(e.take(cs...)) }
	dead := DeclareExchange{Name: core.TopicName("dead"), Config: ExchangeConfig{Type: "fanout"}}
	dying := QueueLimits{HasDeadLetter: true, DeadLetterExchange: "dead"}
	source := DeclareQueue{Name: core.TopicName("source"), Config: QueueConfig{Limits: dying}}
	dying.HasMaxLength, dying.Overflow = true, RejectPublishDLX // for nothing at all
	full := DeclareQueue{Name: core.TopicName("full"), Config: QueueConfig{Limits: dying}}
	apply(dead.Command(), source.Command(), full.Command())
	bind := func(queue string) core.Command {
		b := Bind{Binding{Source: core.TopicName("dead"), Destination: core.TopicName(queue)}}
		return b.Command()
	}
	apply(bind("full"))
	const queues = maxRefusedArrivals + 1
	for i := range queues {
		name := fmt.Sprint("q", i)
		d := DeclareQueue{Name: core.TopicName(name)}
		apply(d.Command(), bind(name))
	}
	apply(PublishCommand(core.TopicName(""), []string{"source"}, batch(t, 1, 1, core.Nobody)))
	q, err := ReadQueue(m.store, core.TopicName("source"))
	m.must(err)
	expire := Settle{Term: 1, Groups: []GroupSettle{{Queue: q.ID, Expired: []core.Offset{0}, Letters: []Letter{{Keys: []string{"k"}}}}}}
	apply(expire.Command())
	for i := range queues {
		q, err := ReadQueue(m.store, core.TopicName(fmt.Sprint("q", i)))
		m.must(err)
		if head, _, err := m.store.Queue(q.ID); err != nil || head.End < 1 {
			t.Fatalf("queue %d of %d ends at %d: %v", i, queues, head.End, err)
		}
	}
}
