package state

import (
	"math"
	"math/rand/v2"
	"testing"

	"polylog/core"
)

// randomMQTTCommand is any command about the sessions of two clients, in the topics of
// randomCommand.
func randomMQTTCommand(rnd *rand.Rand, s *State) core.Command {
	one := func(all ...string) string { return all[rnd.IntN(len(all))] }
	lease := MQTTLease(core.TopicName(one("c", "d")))
	client, _ := MQTTClientOf(lease)
	leased := MQTTLeased{Lease: lease}
	m, err := s.MQTTSession(client)
	if err != nil || m == nil {
		m = new(MQTTSession)
	}
	n := rnd.IntN(100)
	node := one("g", "h", "i")
	switch l, err := s.Lease(lease); {
	case rnd.IntN(20) == 0: // whatever comes of it
	case s.sessions[node].Number == 0:
		c := OpenSession{node, "r"}
		return c.Command()
	case err != nil || l == nil:
		n = 0 // a lease
	case m.token != l.Token:
		n = 20 // a connection
		fallthrough
	default:
		leased.Token = l.Token
	}
	packet := func() uint16 { return uint16(1 + rnd.IntN(3)) }
	assigned := func() (as []MQTTAssigned) {
		if rnd.IntN(3) == 0 { // of no queue: it was retained
			as = append(as, MQTTAssigned{PacketID: packet(), Group: "retained:a/#", Offset: core.Offset(rnd.IntN(8))})
		}
		for _, u := range m.Subscriptions {
			if u.Queue != 0 {
				as = append(as, MQTTAssigned{PacketID: packet(), Queue: u.Queue, Group: u.Group, Offset: core.Offset(rnd.IntN(8))})
			}
		}
		return as
	}
	will := MQTTWill{Delay: uint32(rnd.IntN(2)), MQTTMessage: MQTTMessage{Name: one("a/x", "b/x", "x"), Retain: rnd.IntN(3) == 0}}
	if t, ok := s.Topic(core.TopicName(one("a", "b"))); ok {
		will.Queue = t.Queues[0]
	}
	var bb core.BatchBuilder
	bb.Add(int64(rnd.IntN(9)), []byte(will.Name), []byte("v"))
	will.Batch, _ = bb.Build(nil, core.BatchOptions{Producer: core.Nobody})
	expiry := [...]uint32{0, 1, 3, MQTTNoExpiry}[rnd.IntN(4)]
	switch {
	case n < 5:
		c := AcquireLease{node, s.sessions[node].Number, uint64(1 + rnd.IntN(3)), lease, true}
		return c.Command()
	case n < 8:
		c := ReleaseLease{node, s.sessions[node].Number, uint64(1 + rnd.IntN(3)), lease}
		return c.Command()
	case n < 22:
		c := OpenMQTT{MQTTLeased: leased, Clean: rnd.IntN(6) == 0, Expiry: expiry}
		if rnd.IntN(2) == 0 {
			c.Will = &will
		}
		return c.Command()
	case n < 26:
		c := CloseMQTT{MQTTLeased: leased, Expiry: expiry, Will: rnd.IntN(2) == 0, Sent: assigned()}
		return c.Command()
	case n < 40:
		c := SubscribeMQTT{MQTTLeased: leased, MaxQueued: uint32(3 + rnd.IntN(2)), MaxQueuedBytes: uint64(rnd.IntN(3))}
		for range 1 + rnd.IntN(3) {
			u := MQTTSubscription{Filter: one("a/#", "a/+", "+/x", "b", "#"), Options: byte(rnd.IntN(3) | rnd.IntN(2)<<7), ID: uint32(rnd.IntN(2))}
			if rnd.IntN(3) == 0 {
				u.Share = one("s", "t")
			}
			c.Subscriptions = append(c.Subscriptions, u)
		}
		return c.Command()
	case n < 44:
		c := UnsubscribeMQTT{MQTTLeased: leased}
		for _, u := range m.Subscriptions {
			if rnd.IntN(2) == 0 {
				c.Subscriptions = append(c.Subscriptions, MQTTSubscription{Filter: u.Filter, Share: u.Share})
			}
		}
		return c.Command()
	case n < 70:
		c := PublishMQTT{MQTTLeased: leased, PacketID: uint16(rnd.IntN(4)), Delay: uint32(rnd.IntN(4) / 3), MQTTMessage: will.MQTTMessage}
		return c.Command()
	case n < 92:
		c := FlowMQTT{MQTTLeased: leased, Step: MQTTStep(1 + rnd.IntN(5))}
		if c.Step == MQTTAssign {
			c.Assigned = assigned()
		} else {
			c.Packets = []uint16{packet(), packet()}
		}
		return c.Command()
	case n < 94:
		c := EndMQTT{Client: client, User: one("", "", "u")}
		return c.Command()
	case n < 98:
		c := PublishDue{ID: dueID(mqttWillKey(client)), Batch: will.Batch}
		if due, err := s.MQTTDue().Scan(s.store, 0, nil, math.MaxInt64, 1, nil); err == nil && len(due) > 0 {
			c.ID, c.Due = due[0].ID, due[0].Due
		}
		return c.Command()
	}
	c := CarryMQTTNames{Topic: core.TopicName(one("a", "b"))}
	return c.Command()
}

// checkAway compares the count of sessions without a connection with those that there are.
func (m *machine) checkAway() {
	m.t.Helper()
	want := int64(0)
	prefix := mqttKey(mqttSession)
	err := m.store.Scan(prefix, after(prefix), func(_, v []byte) bool {
		s, err := decodeMQTTSession(core.Name{}, v)
		if err != nil {
			m.t.Fatal(err)
		}
		if s.token == 0 {
			want++
		}
		return true
	})
	if got := m.state.MQTTAway(); err != nil || got != want {
		m.t.Fatalf("%d sessions are said to be without a connection, %v; want %d", got, err, want)
	}
}

// everyMQTTCommand has one of each kind.
func everyMQTTCommand(t testing.TB) []core.Command {
	client := core.TopicName("c")
	l := MQTTLeased{Lease: MQTTLease(client), Token: 1}
	open := OpenSession{"n1", "r2"}
	acquire := AcquireLease{"n1", 2, 1, l.Lease, true}
	message := MQTTMessage{Queue: 1, Name: "t/x", Retain: true, Batch: batch(t, 1, 7, core.Nobody)}
	begin := OpenMQTT{MQTTLeased: l, Expiry: 1, Will: &MQTTWill{Delay: 1, Expiry: 2, MQTTMessage: message}}
	subscribe := SubscribeMQTT{MQTTLeased: l, MaxQueued: 3, MaxQueuedBytes: 9, Subscriptions: []MQTTSubscription{{Filter: "t/#", Options: 2, ID: 4}, {Filter: "t/+", Share: "s"}}}
	publish := PublishMQTT{MQTTLeased: l, PacketID: 5, MQTTMessage: message}
	delayed := PublishMQTT{Delay: 1, MQTTMessage: message}
	assign := FlowMQTT{MQTTLeased: l, Step: MQTTAssign, Assigned: []MQTTAssigned{{PacketID: 6, Queue: 9, Group: "g", Offset: 0}}}
	receive := FlowMQTT{MQTTLeased: l, Step: MQTTReceive, Packets: []uint16{6}}
	unsubscribe := UnsubscribeMQTT{MQTTLeased: l, Subscriptions: []MQTTSubscription{{Filter: "t/+", Share: "s"}}}
	carry := CarryMQTTNames{Topic: core.TopicName("t")}
	due := PublishDue{ID: dueID(mqttNumberKey(mqttDelayed, 1)), Due: 1, Batch: message.Batch}
	kick := EndMQTT{Client: client, User: "u"}
	end := CloseMQTT{MQTTLeased: l, Expiry: 1, Will: true, Sent: []MQTTAssigned{{PacketID: 7, Queue: 9, Group: "g"}}}
	return []core.Command{
		open.Command(), acquire.Command(), begin.Command(), subscribe.Command(), publish.Command(), delayed.Command(), assign.Command(),
		receive.Command(), unsubscribe.Command(), carry.Command(), due.Command(), end.Command(), kick.Command(),
	}
}
