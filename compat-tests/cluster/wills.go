package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	mqtt "polylog/compat/mqtt/load"
)

// wills kills the leader, to which clients with wills are connected. The others publish the wills,
// each once, as soon as they miss it; nothing comes when it is back.
func wills(ctx context.Context, c *cluster, l *load) error {
	now, err := c.settled(ctx, "n1", "n2", "n3")
	if err != nil {
		return err
	}
	victim, other := c.nodes[now.Leader], c.nodes["n1"]
	if victim == other {
		other = c.nodes["n2"]
	}
	sub, _, err := mqtt.Dial(other.broker.MQTT, mqtt.Connect{ID: "watcher", Clean: true})
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }()
	if err := sub.Subscribe(packets.Subscription{Filter: "wills/#", Qos: 1}); err != nil {
		return err
	}
	due := map[string]bool{}
	for name, o := range map[string]mqtt.Connect{
		"plain":   {Will: &mqtt.Will{}},
		"stays":   {Expiry: 3600, Will: &mqtt.Will{}},
		"delayed": {Expiry: 3600, Will: &mqtt.Will{Delay: 2}},
	} {
		o.ID, o.Will.Topic, o.Will.Payload = name, "wills/"+name, "gone"
		client, _, err := mqtt.Dial(victim.broker.MQTT, o)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		due[o.Will.Topic] = true
	}
	victim.kill()
	for end := time.Now().Add(time.Minute); len(due) > 0; {
		pk, err := sub.Read(time.Until(end)) // a lost node is missed after 10 s
		if err != nil {
			return fmt.Errorf("without %v: %w", due, err)
		}
		if err := took(sub, &pk, due); err != nil {
			return err
		}
	}
	if err := errors.Join(victim.up(ctx), l.goesOn(ctx)); err != nil {
		return err
	}
	if _, err := c.settled(ctx, "n1", "n2", "n3"); err != nil {
		return err
	}
	pub, _, err := mqtt.Dial(victim.broker.MQTT, mqtt.Connect{ID: "last", Clean: true})
	if err != nil {
		return err
	}
	defer func() { _ = pub.Close() }()
	if err := pub.Publish("wills/last", "gone", 1, false); err != nil {
		return err
	}
	pk, err := sub.Read(10 * time.Second)
	if err != nil {
		return err
	}
	return took(sub, &pk, map[string]bool{"wills/last": true})
}

// took acknowledges a will that is due, and takes it off.
func took(c *mqtt.Client, pk *packets.Packet, due map[string]bool) error {
	if pk.FixedHeader.Type != packets.Publish || !due[pk.TopicName] {
		return fmt.Errorf("%s on %q, want one of %v", packets.PacketNames[pk.FixedHeader.Type], pk.TopicName, due)
	}
	delete(due, pk.TopicName)
	return c.Ack(packets.Puback, pk.PacketID)
}
