package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"polylog/compat/harness"
	web "polylog/compat/http/load"
)

// webhooks kills the leader, which pushes two subscriptions to an endpoint, and over which a client pulls a
// third one. The others serve every call before and after, and go on where it was: each message comes, in
// order of its key where that was said, under one id; what the client held and did not acknowledge, too.
func webhooks(ctx context.Context, c *cluster, l *load) error {
	now, err := c.settled(ctx, "n1", "n2", "n3")
	if err != nil {
		return err
	}
	victim := c.nodes[now.Leader]
	var others []string
	for _, id := range []string{"n1", "n2", "n3"} {
		if n := c.nodes[id]; n != victim {
			others = append(others, n.broker.HTTP)
		}
	}
	led := web.NewLedger(map[string]bool{"any": false, "ordered": true})
	sink := web.NewSink(led, 10*time.Millisecond, 100)
	defer sink.Close()
	client := &web.Client{Addrs: append([]string{victim.broker.HTTP}, others...)}
	err = client.Insist(ctx, "PUT", "/v1/topics/hooks", map[string]any{"partitions": 3}, nil)
	for name, spec := range map[string]map[string]any{
		"any": {"push": sink.Push("any", false)}, "ordered": {"push": sink.Push("ordered", true)}, "pulled": {"from": "start"},
	} {
		spec["topic"], spec["retry"] = "hooks", map[string]int{"minMs": 100, "maxMs": 500}
		err = errors.Join(err, client.Insist(ctx, "PUT", "/v1/subscriptions/"+name, spec, nil))
	}
	if err != nil {
		return err
	}
	pub := web.Publisher{Client: client, Ledger: led, Topic: "hooks", Keys: 20, Run: l.seed}
	publish := func(batches int) (err error) {
		for range batches {
			err = errors.Join(err, pub.Publish(ctx, 100))
		}
		return err
	}
	if err := publish(20); err != nil {
		return err
	}
	if err := harness.Await(ctx, time.Minute, func() bool { return led.Deliveries() >= 200 }); err != nil {
		return fmt.Errorf("before the kill: %d delivered: %w", led.Deliveries(), err)
	}
	var held []web.Message
	for len(held) == 0 {
		if held, err = pull(ctx, &web.Client{Addrs: []string{victim.broker.HTTP}}, false); err != nil {
			return fmt.Errorf("over the leader: %w", err)
		}
	}
	victim.kill()
	client.Addrs = others
	if err := publish(5); err != nil {
		return err
	}
	got := map[web.Message]bool{}
	for end := time.Now().Add(time.Minute); len(got) < 2500; {
		some, err := pull(ctx, client, true)
		if err != nil {
			return err
		}
		for _, m := range some {
			got[m] = true
		}
		if len(some) == 0 && time.Now().After(end) {
			return fmt.Errorf("%d of 2500 are pulled", len(got))
		}
	}
	for _, m := range held {
		if !got[m] {
			return fmt.Errorf("%v was held by a client of the lost node, and did not come again", m)
		}
	}
	if err := harness.Await(ctx, time.Minute, func() bool { return led.Waiting() == 0 }); err != nil {
		return fmt.Errorf("%d are not delivered: %w", led.Waiting(), err)
	}
	led.End()
	if n, wrong := led.Wrong(); n > 0 {
		return fmt.Errorf("%d faults: %s", n, strings.Join(wrong, "; "))
	}
	if err := victim.up(ctx); err != nil {
		return err
	}
	_, err = c.settled(ctx, "n1", "n2", "n3")
	return errors.Join(err, l.goesOn(ctx))
}

// pull takes messages of the subscription that clients pull, and acknowledges them over any node.
func pull(ctx context.Context, c *web.Client, ack bool) (all []web.Message, err error) {
	var page struct {
		Messages []struct{ Receipt, Value string }
	}
	if err := c.Insist(ctx, "POST", "/v1/subscriptions/pulled:pull", map[string]any{"max": 200, "waitMs": 1000}, &page); err != nil {
		return nil, err
	}
	var receipts []string
	for _, p := range page.Messages {
		var m web.Message
		if err := json.Unmarshal([]byte(p.Value), &m); err != nil {
			return nil, fmt.Errorf("pulled %q: %w", p.Value, err)
		}
		all, receipts = append(all, m), append(receipts, p.Receipt)
	}
	if !ack || len(receipts) == 0 {
		return all, nil
	}
	err = c.Insist(ctx, "POST", "/v1/subscriptions/pulled:ack", map[string]any{"receipts": receipts}, nil)
	if r, ok := errors.AsType[*web.Refusal](err); ok && r.Status == 409 {
		err = nil // they come again: another leader gave them out
	}
	return all, err
}
