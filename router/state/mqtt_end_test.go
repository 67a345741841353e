package state

import (
	"testing"

	"polylog/core"
)

// TestEndMQTT: an ended client's lease is lost to nobody, and nothing of its session is left, but its
// will, which is due; whoever is not asked for it may not, and nobody twice.
func TestEndMQTT(t *testing.T) {
	m := newMachine(t)
	e := newEntries()
	name := core.TopicName("c")
	topic, open := CreateTopic{Name: core.TopicName("t"), Partitions: 1}, OpenSession{"n1", "r"}
	m.done(e.take(topic.Command(), open.Command()))
	at, _ := m.state.Topic(topic.Name)
	node := m.state.Sessions()["n1"].Number
	acquire := AcquireLeaseFor{AcquireLease{"n1", node, 1, MQTTLease(name), true}, "u"}
	token, err := DecodeNumber(m.done(e.take(acquire.Command())).Body)
	if err != nil {
		t.Fatal(err)
	}
	l := MQTTLeased{MQTTLease(name), token}
	message := MQTTMessage{Queue: at.Queues[0], Name: "t/x", Batch: batch(t, 1, 7, core.Nobody)}
	begin := OpenMQTT{MQTTLeased: l, Expiry: 100, Will: &MQTTWill{Delay: 50, MQTTMessage: message}}
	subscribe := SubscribeMQTT{MQTTLeased: l, MaxQueued: 3, MaxQueuedBytes: 9, Subscriptions: []MQTTSubscription{{Filter: "t/#", Options: 2}, {Filter: "t", Share: "s"}}}
	publish := PublishMQTT{MQTTLeased: l, PacketID: 5, MQTTMessage: message}
	m.done(e.take(begin.Command(), subscribe.Command(), publish.Command()))
	if c, err := m.state.MQTTClient(name); err != nil || c == nil || c.Node != "n1" || c.User != "u" || len(c.Session.Subscriptions) != 2 || len(c.Session.Received) != 1 {
		t.Fatalf("%+v, %v", c, err)
	}

	var events []LeaseEvent
	m.state.OnLeases(func(es []LeaseEvent) { events = append(events, es...) })
	end := func(user string, want core.Kind) {
		t.Helper()
		cmd := EndMQTT{name, user}
		if res := m.state.Apply(e.take(cmd.Command()))[0][0]; kindOf(res) != want {
			t.Fatalf("by user %q: %v, want %v", user, res.Err, want)
		}
	}
	end("other", core.Denied)
	if len(events) != 0 {
		t.Fatalf("%+v", events)
	}
	end("u", core.OK)
	if len(events) != 1 || events[0] != (LeaseEvent{Node: "n1", Session: node, Claim: 1, Name: l.Lease, Lost: true, Ended: true}) {
		t.Fatalf("%+v", events)
	}
	end("u", core.NotFound)
	end("", core.NotFound)
	late := CloseMQTT{MQTTLeased: l, Expiry: 100, Will: true}
	if res := m.state.Apply(e.take(late.Command()))[0][0]; kindOf(res) != core.Fenced {
		t.Fatalf("the connection that was ended: %v", res.Err)
	}
	sweep := Sweep{Work: 100}
	m.done(e.take(sweep.Command()))
	due, err := m.state.MQTTDue().Scan(m.store, 0, nil, e.time, 10, nil)
	if err != nil || len(due) != 1 || due[0].Due != e.time {
		t.Fatalf("due: %+v, %v; want the will, now", due, err)
	}
	publishDue := PublishDue{ID: due[0].ID, Due: due[0].Due, Batch: message.Batch}
	m.done(e.take(publishDue.Command()))
	for _, prefix := range [][]byte{{prefixMQTT}, leaseKey("")} {
		if err := m.store.Scan(prefix, after(prefix), func(k, v []byte) bool {
			t.Errorf("%q = %x is left", k, v)
			return true
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n := m.state.mqtt.space(core.DefaultNamespace).tree.Len(); n != 0 {
		t.Errorf("%d filters are left", n)
	}
}

// kindOf is the kind of a result's error.
func kindOf(r core.Result) core.Kind {
	if r.Err == nil {
		return core.OK
	}
	return r.Err.Kind
}

// TestMQTTClients lists those that are connected and those that have sessions by client id, in pages of any size.
func TestMQTTClients(t *testing.T) {
	m := newMachine(t)
	e := newEntries()
	one, two := OpenSession{"n1", "r"}, OpenSession{"n2", "r"}
	m.done(e.take(one.Command(), two.Command()))
	claim := uint64(0)
	connect := func(node, id string, stored, stays bool) {
		t.Helper()
		claim++
		session := m.state.Sessions()[node].Number
		l := MQTTLeased{Lease: MQTTLease(core.TopicName(id))}
		acquire := AcquireLease{node, session, claim, l.Lease, true}
		var err error
		if l.Token, err = DecodeNumber(m.done(e.take(acquire.Command())).Body); err != nil {
			t.Fatal(err)
		}
		if stored {
			open := OpenMQTT{MQTTLeased: l, Expiry: MQTTNoExpiry}
			m.done(e.take(open.Command()))
		}
		if !stays {
			release := ReleaseLease{node, session, claim, l.Lease}
			m.done(e.take(release.Command()))
		}
	}
	connect("n1", "both", true, true)
	connect("n1", "clean", false, true)
	connect("n1", "a", true, false)
	connect("n1", "z", true, false)
	connect("n2", "lost", false, true)
	connect("n2", "lost-stored", true, true)
	over := EndSession{"n2", m.state.Sessions()["n2"].Number}
	m.done(e.take(over.Command()))
	want := []string{"a@", "both@n1", "clean@n1", "lost-stored@", "z@"}
	for limit := 1; limit <= len(want)+1; limit++ {
		var got []string
		for from := ""; ; {
			page, err := m.state.MQTTClients(core.DefaultNamespace, from, limit)
			if err != nil || len(page) > limit {
				t.Fatalf("%d clients, %v; want %d at most", len(page), err, limit)
			}
			for _, c := range page {
				from = c.Name.Name
				if got = append(got, from+"@"+c.Node); (c.Session == nil) != (from == "clean") || c.Session != nil && c.Session.Client != c.Name {
					t.Errorf("%s: session %+v", from, c.Session)
				}
			}
			if len(page) < limit {
				break
			}
		}
		if len(got) != len(want) {
			t.Fatalf("limit %d: %q, want %q", limit, got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("limit %d: %q, want %q", limit, got, want)
			}
		}
	}
}
