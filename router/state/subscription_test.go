package state

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"polylog/core"
)

// subscriptionCommand has the commands about subscriptions:
//
//	subscribe NAME topic=TOPIC|queue=QUEUE [from=end] [limit=N] [dead=NAME] [note=TEXT]
//	unsubscribe NAME
//	seek NAME [from=end] [PARTITION@OFFSET]…
func (s *script) subscriptionCommand() (core.Command, func(core.Result) string) {
	from := FromStart
	if v, _ := s.option("from"); v == "end" {
		from = FromEnd
	}
	name := scriptName(s.first())
	switch s.d.Cmd {
	case "subscribe":
		c := SetSubscription{Name: name, From: from, Config: s.ackConfig()}
		if topic, ok := s.option("topic"); ok {
			t, _ := s.state.Topic(core.TopicName(topic))
			c.Topic = core.TopicID{1}
			if t != nil {
				c.Topic = t.ID
			}
		}
		if queue, ok := s.option("queue"); ok {
			c.Queue = s.queue("@" + queue)
		}
		if note, ok := s.option("note"); ok {
			c.Config.Attributes = map[string]string{"note": note}
		}
		return c.Command(), func(r core.Result) string { return fmt.Sprintf(" created=%v", r.Body[0] == 1) }
	case "unsubscribe":
		c := DeleteSubscription{name}
		return c.Command(), nil
	case "seek":
		c := SeekSubscription{Name: name, From: from}
		for _, a := range s.d.CmdArgs[1:] {
			if q, o, ok := strings.Cut(a.Key, "@"); ok {
				c.To = append(c.To, SeekTo{core.QueueID(s.number(q)), core.Offset(s.number(o))})
			}
		}
		return c.Command(), nil
	}
	if s.d.Cmd == "once" {
		return s.onceCommand()
	}
	if c, show := s.endpointCommand(name); show != nil {
		return c, show
	}
	if c, show := s.userCommand(); show != nil {
		return c, show
	}
	if c, show := s.hookCommand(name); show != nil {
		return c, show
	}
	return s.mqttCommand()
}

// everySubscriptionCommand has one of each kind.
func everySubscriptionCommand() []core.Command {
	set := SetSubscription{Name: core.TopicName("s"), Queue: 4, From: FromEnd, Config: AckConfig{DeliveryLimit: 2}}
	bad := SetSubscription{Name: core.TopicName("b"), Topic: core.TopicID{1}, From: FromStart}
	seek := SeekSubscription{Name: core.TopicName("s"), From: FromStart, To: []SeekTo{{1, 1}}}
	drop := DeleteSubscription{Name: core.TopicName("s")}
	return []core.Command{set.Command(), bad.Command(), seek.Command(), set.Command(), drop.Command(), set.Command()}
}

// everyHTTPCommand has one of each kind that HTTP needs.
func everyHTTPCommand(t testing.TB) []core.Command {
	once := PublishOnce{Key: "k", Window: 1000, Batches: []QueueBatch{{1, batch(t, 1, 7, core.Nobody)}, {2, batch(t, 2, 7, core.Nobody)}}}
	other := PublishOnce{Key: "k", Digest: [16]byte{1}, Window: 1000, Batches: []QueueBatch{{1, batch(t, 1, 7, core.Nobody)}}}
	note := NoteEndpoint{Name: core.TopicName("s"), Created: 1, Note: []byte("failing")}
	hook, drop := SetHook{Name: core.TopicName("h"), Settings: "{}", Secrets: "s"}, DeleteHook{Name: core.TopicName("h")}
	return append(everySubscriptionCommand(), once.Command(), once.Command(), other.Command(),
		note.Command(), hook.Command(), hook.Command(), drop.Command(), hook.Command())
}

// dumpSubscriptions shows the subscriptions and the hooks, by name.
func (m *machine) dumpSubscriptions(b *strings.Builder) {
	m.dumpUsers(b)
	m.dumpHooks(b)
	all, err := ReadSubscriptions(m.store, core.DefaultNamespace, "", 1000)
	m.must(err)
	for _, s := range all {
		fmt.Fprintf(b, "subscription %s created=%d group=%q", s.Name, s.Created, s.Group)
		note, err := ReadEndpoint(m.store, s.Name)
		m.must(err)
		if note != nil {
			fmt.Fprintf(b, " endpoint=%q", note)
		}
		if s.Queue != 0 {
			fmt.Fprintf(b, " queue=%d", s.Queue)
		}
		for k, v := range s.Attributes {
			fmt.Fprintf(b, " %s=%s", k, v)
		}
		b.WriteString("\n")
		t, ok := m.state.TopicByID(s.Topic)
		if !ok {
			continue
		}
		for _, q := range t.Queues {
			acks, err := m.state.Acks(q, s.Group)
			if err != nil {
				fmt.Fprintf(b, "  queue %d: %v\n", q, err)
				continue
			}
			groups, err := m.state.AckGroups(q)
			m.must(err)
			fmt.Fprintf(b, "  queue %d: floor=%d limit=%d dead=%s, of %d groups\n", q, acks.Settled.Floor(), acks.DeliveryLimit, acks.DeadLetter.Name, len(groups))
		}
	}
}

func FuzzSubscriptionValues(f *testing.F) {
	s := Subscription{Name: core.TopicName("s"), Created: 5, Topic: core.TopicID{1}, Group: "g", AckConfig: AckConfig{DeliveryLimit: 1}}
	f.Add(s.encode())
	f.Fuzz(func(t *testing.T, v []byte) {
		s, err := decodeSubscription(v)
		if err != nil {
			return
		}
		if got, err := decodeSubscription(s.encode()); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%+v became %+v, %v", s, got, err)
		}
	})
}
