package state

import (
	"strings"
	"testing"

	"polylog/core"
)

// endpointCommand has the commands about endpoints:
//
//	note-endpoint NAME created=MS [note=TEXT]
func (s *script) endpointCommand(name core.Name) (c core.Command, show func(core.Result) string) {
	text := func(option string) string {
		v, _ := s.option(option)
		return v
	}
	show = func(core.Result) string { return "" }
	switch s.d.Cmd {
	case "note-endpoint":
		c := NoteEndpoint{name, s.number(text("created")), []byte(text("note"))}
		return c.Command(), show
	}
	return c, nil
}

// What is to stay secret is in no description of a command.
func TestDescribeHidesSecrets(t *testing.T) {
	sub := SetSubscription{Name: core.TopicName("s"), Queue: 4, Config: AckConfig{Attributes: map[string]string{SecretAttribute: "whsec_1", "a": "b"}}}
	c := sub.Command()
	if got := Describe(c.Code, c.Head); strings.Contains(got, "whsec_1") || !strings.Contains(got, "a:b secrets:(7 bytes)") {
		t.Error(got)
	}
	described(t, (&NoteEndpoint{core.TopicName("s"), 5, []byte("x\n")}).Command(), `note endpoint name=s created=5 note="x\n"`)
}

// Whoever counts changes sees every batch that changed a subscription, and no other.
func TestSubscriptionChanges(t *testing.T) {
	m := newMachine(t)
	log := newEntries()
	apply := func(want uint64, c core.Command) {
		t.Helper()
		m.state.Apply(log.take(c))
		if got := m.state.SubscriptionChanges(); got != want {
			t.Fatalf("%d changes, want %d", got, want)
		}
	}
	apply(0, (&DeclareQueue{Name: core.TopicName("q")}).Command())
	id, err := m.state.Queue(core.TopicName("q"))
	m.must(err)
	set := SetSubscription{Name: core.TopicName("s"), Queue: id.ID, From: FromEnd}
	apply(1, set.Command())
	apply(1, (&NoteEndpoint{Name: core.TopicName("s"), Created: 1, Note: []byte("x")}).Command()) // of another time
	s, err := ReadSubscription(m.store, core.TopicName("s"))
	m.must(err)
	apply(2, (&NoteEndpoint{Name: core.TopicName("s"), Created: s.Created, Note: []byte("x")}).Command())
	apply(3, (&DeleteSubscription{Name: core.TopicName("s")}).Command())
	apply(3, (&DeleteSubscription{Name: core.TopicName("none")}).Command())
	if note, err := ReadEndpoint(m.store, core.TopicName("s")); note != nil || err != nil {
		t.Fatalf("%q, %v", note, err)
	}
}

// Whoever asks what changed is told of each change after the last time, or that more did than is remembered.
func TestSubscriptionsChanged(t *testing.T) {
	m := newMachine(t)
	log := newEntries()
	m.state.Apply(log.take((&DeclareQueue{Name: core.TopicName("q")}).Command()))
	id, err := m.state.Queue(core.TopicName("q"))
	m.must(err)
	set := func(names ...string) {
		for _, n := range names {
			m.state.Apply(log.take((&SetSubscription{Name: core.TopicName(n), Queue: id.ID, From: FromEnd}).Command()))
		}
	}
	changed := func(since uint64, want string) (now uint64) {
		t.Helper()
		names, now, known := m.state.SubscriptionsChanged(since)
		var got []string
		for _, n := range names {
			got = append(got, n.Name)
		}
		if text := strings.Join(got, " "); !known || text != want || now != m.state.SubscriptionChanges() {
			t.Fatalf("%q up to %d, known: %v; want %q", text, now, known, want)
		}
		return now
	}
	changed(0, "")
	set("a", "b")
	seen := changed(0, "a b")
	set("c", "a")
	changed(seen, "c a")
	changed(changed(seen, "c a"), "")
	for range maxRecentChanges {
		m.state.Apply(log.take((&SetSubscription{Name: core.TopicName("d"), Queue: id.ID, From: FromEnd}).Command(), (&SetSubscription{Name: core.TopicName("e"), Queue: id.ID, From: FromEnd}).Command()))
	}
	if names, now, known := m.state.SubscriptionsChanged(seen); known || len(names) > 0 || now != m.state.SubscriptionChanges() {
		t.Fatalf("%d names, up to %d, known: %v", len(names), now, known)
	}
	changed(m.state.SubscriptionChanges()-1, "d e")
}
