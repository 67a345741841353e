package state

import (
	"fmt"
	"testing"

	"polylog/core"
	"polylog/core/message"
)

// What becomes due at once and leads to very many places does so in several commands.
func TestTicksAreBounded(t *testing.T) {
	m, e := newMachine(t), newEntries()
	apply := func(cs ...core.Command) core.Result { t.Helper(); return m.done(e.take(cs...)) }
	later := DeclareExchange{Name: core.TopicName("later"), Config: ExchangeConfig{
		Type: TypeDelayed, Arguments: message.Table{{Name: argDelayedType, Value: message.String("fanout")}},
	}}
	apply(later.Command())
	const queues, messages = 2_000, 250 // 500,000 places
	for i := range queues {
		n := core.TopicName(fmt.Sprint("q", i))
		q := DeclareQueue{Name: n}
		b := Bind{Binding{Source: later.Name, Destination: n}}
		apply(q.Command(), b.Command())
	}
	for range messages {
		msg := message.Message{Value: []byte("v"), Priority: -1, Headers: message.Table{{Name: headerDelay, Value: message.Int(message.KindInt32, 1)}}}
		b, err := msg.Batch(nil)
		m.must(err)
		apply(PublishCommand(later.Name, []string{"k"}, b))
	}
	e.time += 1000
	tick := Tick{Work: maxTick}
	var fired []int64
	for total := int64(0); total < messages; {
		n, err := DecodeCount(apply(tick.Command()).Body)
		m.must(err)
		if n == 0 {
			t.Fatalf("%d of %d timers fired", total, messages)
		}
		total += n
		fired = append(fired, n)
	}
	const most = maxTapWork/queues + 1
	for i, n := range fired {
		if n > most || i < len(fired)-1 && n != most {
			t.Errorf("timers fired: %d, want %d at a time", fired, most)
		}
	}
	for i := range queues {
		q, err := ReadQueue(m.store, core.TopicName(fmt.Sprint("q", i)))
		m.must(err)
		if head, _, err := m.store.Queue(q.ID); err != nil || head.End != messages {
			t.Fatalf("queue %d ends at %d: %v", i, head.End, err)
		}
	}
}
