package main

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/compat/mqtt/load"
)

// survivors are messages that a broker has for later when it is killed: wills of clients that are
// connected then, and delayed ones. Each must come once to a subscriber whose session is in the broker
// too, and what is retained must stay; what was taken back must not come, nor what is not due before the end.
type survivors struct {
	load  *load.Load
	made  int            // how many times
	conns []*load.Client // clients that are connected when the broker is killed
}

const watcher = "watcher"

// watch subscribes.
func (w *survivors) watch() error {
	c, _, err := w.load.Dial(load.Connect{ID: watcher, Expiry: 3600})
	if err != nil {
		return err
	}
	return errors.Join(c.Subscribe(packets.Subscription{Filter: "survive/#", Qos: 2}), c.Leave())
}

// make has everything in the broker that is to survive the next kill.
func (w *survivors) make() error {
	w.made++
	n := w.made
	name := func(kind string) string { return topic(kind, n) }
	for _, c := range []struct {
		kind   string
		will   load.Will
		expiry uint32
		polite bool
	}{
		{kind: "will"},
		{kind: "stays", expiry: 3600},
		{kind: "retained", will: load.Will{Retain: true}},
		{kind: "late", will: load.Will{Delay: 2}, expiry: 3600},
		{kind: "early", will: load.Will{Delay: 3600}, expiry: 7200},
		{kind: "polite", expiry: 3600, polite: true},
	} {
		will := c.will
		will.Topic, will.Payload = name(c.kind), "gone"
		client, _, err := w.load.Dial(load.Connect{ID: fmt.Sprintf("%s-%d", c.kind, n), Expiry: c.expiry, Will: &will})
		if err != nil {
			return err
		}
		if c.polite {
			if err := client.Leave(); err != nil {
				return err
			}
			continue
		}
		w.conns = append(w.conns, client)
	}
	client, _, err := w.load.Dial(load.Connect{ID: "delays", Clean: true})
	if err != nil {
		return err
	}
	return errors.Join(
		client.Publish("$delayed/1/"+name("delayed"), "1", 1, false),
		client.Publish("$delayed/1/"+name("exactly"), "2", 2, false),
		client.Publish("$delayed/3600/"+name("notyet"), "3", 1, false),
		client.Publish(name("kept"), "4", 1, true),
		client.Leave(),
	)
}

// killed is told that the broker was killed.
func (w *survivors) killed() {
	for _, c := range w.conns {
		_ = c.Close() // its broker is gone
	}
	w.conns = nil
}

// kinds are those of which each kill's must come.
var kinds = []string{"will", "stays", "retained", "late", "delayed", "exactly", "kept"}

func topic(kind string, n int) string { return fmt.Sprintf("survive/%s/%d", kind, n) }

// verdict tells what is wrong with the messages that came, by topic, after so many kills.
func verdict(kills int, came map[string]int) (wrong []string) {
	came = maps.Clone(came)
	for n := 1; n <= kills; n++ {
		for _, kind := range kinds {
			name := topic(kind, n)
			if came[name] != 1 {
				wrong = append(wrong, fmt.Sprintf("%s came %d times", name, came[name]))
			}
			delete(came, name)
		}
	}
	for name := range came {
		wrong = append(wrong, name+" came")
	}
	return wrong
}

// judge looks whether all came, and once.
func (w *survivors) judge() {
	came := map[string]int{}
	c, present, err := w.load.Dial(load.Connect{ID: watcher, Expiry: 3600})
	if err != nil || !present {
		w.load.Ledger.Fail("the watcher's session: present %v, %v", present, err)
		return
	}
	defer func() { _ = c.Close() }()
	held := map[uint16]struct{}{}
	for end := time.Now().Add(20 * time.Second); err == nil && time.Now().Before(end); {
		var pk packets.Packet
		wait := 5 * time.Second // what comes late is there long before
		if len(came) >= w.made*len(kinds) {
			wait = time.Second
		}
		if pk, err = c.Read(wait); err != nil {
			break
		}
		switch pk.FixedHeader.Type {
		case packets.Publish:
			if _, again := held[pk.PacketID]; !again || pk.FixedHeader.Qos < 2 {
				came[pk.TopicName]++
			}
			if pk.FixedHeader.Qos == 2 {
				held[pk.PacketID] = struct{}{}
				err = c.Ack(packets.Pubrec, pk.PacketID)
			} else {
				err = c.Ack(packets.Puback, pk.PacketID)
			}
		case packets.Pubrel:
			delete(held, pk.PacketID)
			err = c.Ack(packets.Pubcomp, pk.PacketID)
		}
	}
	for _, wrong := range verdict(w.made, came) {
		w.load.Ledger.Fail("%s", wrong)
	}
	w.retained()
}

// retained looks whether each retained message is there.
func (w *survivors) retained() {
	c, _, err := w.load.Dial(load.Connect{ID: "late", Clean: true})
	if err == nil {
		err = c.Subscribe(packets.Subscription{Filter: "survive/#", Qos: 0})
	}
	if err != nil {
		w.load.Ledger.Fail("retained messages: %v", err)
		return
	}
	defer func() { _ = c.Close() }()
	due := map[string]bool{}
	for n := 1; n <= w.made; n++ {
		due[topic("retained", n)], due[topic("kept", n)] = true, true
	}
	for len(due) > 0 {
		pk, err := c.Read(5 * time.Second)
		if err != nil || !pk.FixedHeader.Retain || !due[pk.TopicName] {
			w.load.Ledger.Fail("retained messages: %q (retained: %v), %v; due are %v", pk.TopicName, pk.FixedHeader.Retain, err, due)
			return
		}
		delete(due, pk.TopicName)
	}
}
