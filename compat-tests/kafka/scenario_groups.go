package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"polylog/compat/kafka/clients/proto"
)

const groupParts = 6

// group lets three members come and one go while records arrive all the time. Whenever the group
// has settled, its members hold every partition, each one once; at the end every record
// has been shown to some member (a rebalance may show one twice) and every end is committed.
func group(ctx context.Context, d *driver, r *reference, name, assignor string) error {
	if err := r.topic(ctx, name, groupParts); err != nil {
		return err
	}
	feed := startFeed(ctx, r, name)
	defer feed.stop()

	join := func(m string) error {
		a := proto.Args{"member": m, "group": name, "topic": name}
		if assignor != "" {
			a["assignor"] = assignor
		}
		_, err := d.call(ctx, "join", a)
		return err
	}
	m1, m2, m3 := name+"-m1", name+"-m2", name+"-m3"
	if err := join(m1); err != nil {
		return err
	}
	if err := settled(ctx, d, name, m1); err != nil {
		return err
	}
	if err := join(m2); err != nil {
		return err
	}
	if err := settled(ctx, d, name, m1, m2); err != nil {
		return err
	}
	if err := join(m3); err != nil {
		return err
	}
	if err := settled(ctx, d, name, m1, m2, m3); err != nil {
		return err
	}
	if err := leave(ctx, d, m1); err != nil {
		return err
	}
	if err := settled(ctx, d, name, m2, m3); err != nil {
		return err
	}
	total, err := feed.stop()
	if err != nil {
		return err
	}
	err = d.await(ctx, fmt.Sprintf("all %d records", total), func(ms map[string]*member) bool {
		seen := map[string]bool{}
		for _, m := range []string{m1, m2, m3} {
			for v := range ms[m].seen {
				seen[v] = true
			}
		}
		return int64(len(seen)) == total
	})
	if err != nil {
		return err
	}
	for _, m := range []string{m2, m3} {
		if err := leave(ctx, d, m); err != nil {
			return err
		}
	}
	return r.drained(ctx, name, name)
}

func leave(ctx context.Context, d *driver, m string) error {
	_, err := d.call(ctx, "leave", proto.Args{"member": m})
	return err
}

// settled waits until the members hold all partitions between them, each once, none of them idle.
func settled(ctx context.Context, d *driver, topic string, names ...string) error {
	return d.await(ctx, fmt.Sprintf("%d members to share %d partitions", len(names), groupParts), func(ms map[string]*member) bool {
		var all []string
		for _, n := range names {
			if len(ms[n].parts) == 0 {
				return false
			}
			all = append(all, ms[n].parts...)
		}
		slices.Sort(all)
		return len(all) == groupParts && len(slices.Compact(all)) == groupParts && strings.HasPrefix(all[0], topic)
	})
}

// feed produces a few records at a time until it is stopped.
type feed struct {
	cancel context.CancelFunc
	done   chan error
	n      atomic.Int64
	ended  bool
	err    error
}

func startFeed(ctx context.Context, r *reference, topic string) *feed {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{cancel: cancel, done: make(chan error, 1)}
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				f.done <- nil
				return
			case <-tick.C:
			}
			// A batch that has begun is finished, so that the count is exact.
			if err := r.produce(context.WithoutCancel(ctx), topic, groupParts, f.n.Load(), groupParts); err != nil {
				f.done <- err
				return
			}
			f.n.Add(groupParts)
		}
	}()
	return f
}

// stop ends the feed and tells how many records it produced; a second call tells the same.
func (f *feed) stop() (int64, error) {
	if !f.ended {
		f.cancel()
		f.err = <-f.done
		f.ended = true
	}
	return f.n.Load(), f.err
}

// static lets a member with an instance id go and come back: nobody else's assignment changes, and
// it gets its own again.
func static(ctx context.Context, d *driver, r *reference, id string) error {
	name := id + "-static"
	if err := r.topic(ctx, name, groupParts); err != nil {
		return err
	}
	m1, m2 := name+"-m1", name+"-m2"
	join := func(m string) error {
		_, err := d.call(ctx, "join", proto.Args{"member": m, "group": name, "topic": name, "instance": m})
		return err
	}
	for i, m := range []string{m1, m2} {
		if err := join(m); err != nil {
			return err
		}
		if err := settled(ctx, d, name, []string{m1, m2}[:i+1]...); err != nil {
			return err
		}
	}
	before1, before2 := history(d, m1), history(d, m2)
	if err := leave(ctx, d, m2); err != nil {
		return err
	}
	g, err := r.describe(ctx, name)
	if err != nil {
		return err
	}
	if len(g.Members) != 2 || g.State != "Stable" {
		return fmt.Errorf("after a static member went: group %s with %d members, want Stable with 2", g.State, len(g.Members))
	}
	if err := join(m2); err != nil {
		return err
	}
	if err := settled(ctx, d, name, m1, m2); err != nil {
		return err
	}
	if now := history(d, m1); len(now) != len(before1) {
		return fmt.Errorf("the other member's assignments went on: %q", now)
	}
	if now := history(d, m2); now[len(now)-1] != before2[len(before2)-1] {
		return fmt.Errorf("came back to %q, had %q", now[len(now)-1], before2[len(before2)-1])
	}
	// Records still arrive at both.
	if err := r.produce(ctx, name, groupParts, 0, 60); err != nil {
		return err
	}
	err = d.await(ctx, "60 records", func(ms map[string]*member) bool {
		return len(ms[m1].seen)+len(ms[m2].seen) == 60
	})
	if err != nil {
		return err
	}
	for _, m := range []string{m1, m2} {
		if err := leave(ctx, d, m); err != nil {
			return err
		}
	}
	return r.drained(ctx, name, name)
}

func history(d *driver, m string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.members[m].history)
}

// groups looks at a group from outside, sets its offsets and deletes it.
func groups(ctx context.Context, d *driver, r *reference, id string) error {
	name := id + "-groups"
	if err := r.topic(ctx, name, groupParts); err != nil {
		return err
	}
	if err := r.produce(ctx, name, groupParts, 0, 60); err != nil {
		return err
	}
	m := name + "-m1"
	if _, err := d.call(ctx, "join", proto.Args{"member": m, "group": name, "topic": name}); err != nil {
		return err
	}
	err := d.await(ctx, "60 records", func(ms map[string]*member) bool { return len(ms[m].seen) == 60 })
	if err != nil {
		return err
	}
	g := proto.Args{"group": name, "topic": name}
	got, err := d.call(ctx, "describegroup", g)
	if err != nil {
		return err
	}
	if !strings.EqualFold(got["state"], "stable") || got["members"] != "1" {
		return fmt.Errorf("described %v, want a stable group of 1", got)
	}
	if got, err := d.call(ctx, "groups", nil); err != nil || !slices.Contains(strings.Split(got["groups"], ","), name) {
		return fmt.Errorf("%s is not among the groups (%w)", name, err)
	}
	if err := leave(ctx, d, m); err != nil {
		return err
	}
	if got, err = d.call(ctx, "offsets", g); err != nil {
		return err
	}
	offsets := strings.Split(got["offsets"], ",")
	slices.Sort(offsets)
	if want := "0:10,1:10,2:10,3:10,4:10,5:10"; strings.Join(offsets, ",") != want {
		return fmt.Errorf("offsets %q, want %q", offsets, want)
	}
	if _, err := d.call(ctx, "setoffset", proto.Args{"group": name, "topic": name, "part": "2", "offset": "4"}); err != nil {
		return err
	}
	now, err := r.committed(ctx, name, name)
	if err != nil {
		return err
	}
	if now[2] != 4 || now[3] != 10 {
		return fmt.Errorf("offsets after a reset are %v", now)
	}
	// A new member starts at the reset offset: six records of partition 2 again.
	m = name + "-m2"
	if _, err := d.call(ctx, "join", proto.Args{"member": m, "group": name, "topic": name}); err != nil {
		return err
	}
	err = d.await(ctx, "the 6 records after the reset", func(ms map[string]*member) bool { return len(ms[m].seen) == 6 })
	if err != nil {
		return err
	}
	if err := leave(ctx, d, m); err != nil {
		return err
	}
	if _, err := d.call(ctx, "deletegroup", g); errors.Is(err, errUnsupported) {
		return nil // what the library has of this works
	} else if err != nil {
		return err
	}
	desc, err := r.describe(ctx, name)
	if err != nil {
		return err
	}
	if desc.State != "Dead" && desc.State != "" {
		return fmt.Errorf("state after the group's deletion is %q", desc.State)
	}
	return nil
}
