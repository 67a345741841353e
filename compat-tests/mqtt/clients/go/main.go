// Command go runs the scenarios of devices with Eclipse Paho's clients for Go against a broker:
// go HOST:PORT 4|5. It ends with 0 when all is as it should be.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go HOST:PORT 4|5")
		os.Exit(2)
	}
	t := &try{root: "go" + os.Args[2], open: openThree(os.Args[1])}
	scenarios := []scenario{{"QoS", t.qos}, {"retained", t.retained}, {"will", t.will}, {"session", t.session}, {"shared", t.shared}}
	if os.Args[2] == "5" {
		t.open = openFive(os.Args[1])
		scenarios = append(scenarios, scenario{"properties", t.properties})
	}
	failed := false
	for _, s := range scenarios {
		if err := s.run(); err != nil {
			fmt.Printf("%s: %v\n", s.name, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

type scenario struct {
	name string
	run  func() error
}

// try is one run with one library. All topics begin with root.
type try struct {
	root string
	open opener
}

// pair opens a subscriber and a publisher.
func (t *try) pair(name string) (sub, pub device, err error) {
	if sub, _, err = t.open(options{id: t.root + name + "-sub"}); err != nil {
		return nil, nil, err
	}
	pub, _, err = t.open(options{id: t.root + name + "-pub"})
	return sub, pub, err
}

// qos sends messages of each QoS to a subscription of each.
func (t *try) qos() error {
	sub, pub, err := t.pair("qos")
	if err != nil {
		return err
	}
	for qos := range byte(3) {
		topic := fmt.Sprintf("%s/%d/ü", t.root, qos)
		if err := sub.Subscribe(fmt.Sprintf("%s/%d/#", t.root, qos), qos); err != nil {
			return err
		}
		payloads := make([]string, 60)
		for i := range payloads {
			payloads[i] = strconv.Itoa(i)
		}
		payloads = append(payloads, strings.Repeat("x", 300_000))
		for _, p := range payloads {
			if err := pub.Publish(message{topic: topic, payload: p, qos: qos}); err != nil {
				return err
			}
		}
		for _, p := range payloads {
			if _, err := expect(sub, message{topic: topic, payload: p, qos: qos}); err != nil {
				return err
			}
		}
		// A lower QoS of the publish wins over the subscription's.
		if err := pub.Publish(message{topic: topic, payload: "lower"}); err != nil {
			return err
		}
		if _, err := expect(sub, message{topic: topic, payload: "lower"}); err != nil {
			return err
		}
	}
	return bye(sub, pub)
}

// retained keeps a message, replaces it and removes it.
func (t *try) retained() error {
	sub, pub, err := t.pair("kept")
	if err != nil {
		return err
	}
	topic := t.root + "/kept/a"
	for _, p := range []string{"old", "new"} {
		if err := pub.Publish(message{topic: topic, payload: p, qos: 1, retained: true}); err != nil {
			return err
		}
	}
	if err := sub.Subscribe(t.root+"/kept/+", 1); err != nil {
		return err
	}
	if _, err := expect(sub, message{topic: topic, payload: "new", qos: 1, retained: true}); err != nil {
		return err
	}
	if err := pub.Publish(message{topic: topic, qos: 1, retained: true}); err != nil {
		return err
	}
	if _, err := expect(sub, message{topic: topic, qos: 1}); err != nil {
		return err
	}
	// Who comes now gets nothing but what is published now.
	if err := pub.Subscribe(t.root+"/kept/+", 1); err != nil {
		return err
	}
	if err := sub.Publish(message{topic: topic, payload: "live", qos: 1}); err != nil {
		return err
	}
	if _, err := expect(pub, message{topic: topic, payload: "live", qos: 1}); err != nil {
		return err
	}
	return bye(sub, pub)
}

// will cuts a connection, and ends another one as it should be ended.
func (t *try) will() error {
	sub, pub, err := t.pair("will")
	if err != nil {
		return err
	}
	if err := sub.Subscribe(t.root+"/will/+", 1); err != nil {
		return err
	}
	polite, _, err := t.open(options{id: t.root + "polite", will: &message{topic: t.root + "/will/polite", payload: "no", qos: 1}})
	if err != nil {
		return err
	}
	lost, _, err := t.open(options{id: t.root + "lost", will: &message{topic: t.root + "/will/lost", payload: "gone", qos: 1}})
	if err != nil {
		return err
	}
	if err := polite.Disconnect(); err != nil {
		return err
	}
	if err := lost.Cut(); err != nil {
		return err
	}
	if _, err := expect(sub, message{topic: t.root + "/will/lost", payload: "gone", qos: 1}); err != nil {
		return err
	}
	return bye(sub, pub)
}

// session publishes to a client that is away, and ends one connection by another one.
func (t *try) session() error {
	pub, _, err := t.open(options{id: t.root + "session-pub"})
	if err != nil {
		return err
	}
	// What an earlier run has left ends here.
	clean, _, err := t.open(options{id: t.root + "session"})
	if err != nil {
		return err
	}
	if err := bye(clean); err != nil {
		return err
	}
	own := options{id: t.root + "session", keep: true}
	sub, err := t.resume(own, false)
	if err != nil {
		return err
	}
	for qos := byte(1); qos <= 2; qos++ {
		if err := sub.Subscribe(fmt.Sprintf("%s/session/%d", t.root, qos), qos); err != nil {
			return err
		}
	}
	if err := sub.Disconnect(); err != nil {
		return err
	}
	if err := t.publishBoth(pub, "away"); err != nil {
		return err
	}
	if sub, err = t.resume(own, true); err != nil {
		return err
	}
	if err := t.expectBoth(sub, "away"); err != nil {
		return err
	}
	// Another connection takes the session over, with what it has subscribed to.
	if sub, err = t.resume(own, true); err != nil {
		return err
	}
	if err := t.publishBoth(pub, "there"); err != nil {
		return err
	}
	if err := t.expectBoth(sub, "there"); err != nil {
		return err
	}
	return bye(sub, pub)
}

// publishBoth publishes fifty messages of QoS 1 and fifty of QoS 2 to what session has subscribed to.
func (t *try) publishBoth(d device, payload string) error {
	for i := range 50 {
		for qos := byte(1); qos <= 2; qos++ {
			if err := d.Publish(message{topic: fmt.Sprintf("%s/session/%d", t.root, qos), payload: fmt.Sprint(payload, i), qos: qos}); err != nil {
				return err
			}
		}
	}
	return nil
}

// expectBoth takes those messages. Those of one topic come in order. Libraries acknowledge beside what they hand
// out, so that what came over the connection before may come again, and says so.
func (t *try) expectBoth(d device, payload string) error {
	var got [3]int
	for got[1]+got[2] < 100 {
		m, err := receive(d)
		if err != nil {
			return err
		}
		if m.again && !strings.HasPrefix(m.payload, payload) {
			continue
		}
		if want := fmt.Sprint(payload, got[m.qos]); m.payload != want {
			return fmt.Errorf("of QoS %d got %q, want %q", m.qos, m.payload, want)
		}
		got[m.qos]++
	}
	return nil
}

// resume opens a device, which the broker has a session of, or none.
func (t *try) resume(o options, present bool) (device, error) {
	d, resumed, err := t.open(o)
	if err == nil && resumed != present {
		err = fmt.Errorf("session present: got %t, want %t", resumed, present)
	}
	return d, err
}

// shared gives two members of a shared subscription one hundred messages, each to one of them.
func (t *try) shared() error {
	a, pub, err := t.pair("shared")
	if err != nil {
		return err
	}
	b, _, err := t.open(options{id: t.root + "shared-b"})
	if err != nil {
		return err
	}
	for _, d := range []device{a, b} {
		if err := d.Subscribe("$share/workers/"+t.root+"/shared/#", 1); err != nil {
			return err
		}
	}
	for i := range 100 {
		if err := pub.Publish(message{topic: t.root + "/shared/x", payload: strconv.Itoa(i), qos: 1}); err != nil {
			return err
		}
	}
	seen := map[string]int{}
	for range 100 {
		var m message
		select {
		case m = <-a.Messages():
			seen["a"]++
		case m = <-b.Messages():
			seen["b"]++
		case <-time.After(wait):
			return fmt.Errorf("nothing came after %v", seen)
		}
		if seen[m.payload]++; seen[m.payload] > 1 {
			return fmt.Errorf("%q came twice", m.payload)
		}
	}
	if seen["a"] == 0 || seen["b"] == 0 {
		return fmt.Errorf("one member got %d, the other %d", seen["a"], seen["b"])
	}
	return bye(a, b, pub)
}

// properties sends all properties that a message of MQTT 5 can have.
func (t *try) properties() error {
	sub, pub, err := t.pair("properties")
	if err != nil {
		return err
	}
	topic := t.root + "/properties"
	if err := sub.Subscribe(topic, 2); err != nil {
		return err
	}
	p := properties{
		contentType: "text/plain", responseTopic: "answers", correlation: []byte{0, 255}, expiry: 100,
		user: [][2]string{{"b", "1"}, {"a", "2"}, {"b", "3"}},
	}
	for qos := range byte(3) {
		m := message{topic: topic, payload: "x", qos: qos, properties: p}
		if err := pub.Publish(m); err != nil {
			return err
		}
		got, err := expect(sub, m)
		if err != nil {
			return err
		}
		if err := compare(got, p); err != nil {
			return err
		}
	}
	return bye(sub, pub)
}

func bye(devices ...device) error {
	for _, d := range devices {
		if err := d.Disconnect(); err != nil {
			return err
		}
	}
	return nil
}
