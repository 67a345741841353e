package router_test

import (
	"strconv"
	"testing"
	"time"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

// A will is published after its delay when its client's node is lost, when its connection ends
// without a word, or when its session ends before; not when the client is back in time, or takes
// it back. Delayed messages come when they are due. Whoever leads does it, once.
func TestDueMQTTMessages(t *testing.T) {
	clock := routertest.NewClock(time.UnixMilli(1_700_000_000_000))
	set := func(o *router.Options) { o.Clock = clock.Now }
	a, la := routertest.Start(t, set)
	b, lb := routertest.Join(t, la, "2", set)
	topic := routertest.Topic(t, a, "t", 1, nil)
	q := topic.Partitions[0]
	vouched := func(text string) bool { return len(text)%2 == 0 } // some user ids were checked
	message := func(text string) router.MQTTMessage {
		var bb core.BatchBuilder
		bb.Add(clock.Now().UnixMilli(), []byte("t/x"), []byte(text))
		if vouched(text) {
			bb.Vouch()
		}
		batch, err := bb.Build(nil, core.BatchOptions{Producer: core.Nobody})
		if err != nil {
			t.Fatal(err)
		}
		return router.MQTTMessage{Queue: q, Name: "t/x", Batch: batch}
	}
	connect := func(r *router.Router, id string, expiry uint32, will *router.MQTTWill) *router.Lease {
		t.Helper()
		client := core.TopicName(id)
		l, err := r.AcquireLease(timeout(t), router.MQTTLease(client), true)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.OpenMQTTSession(timeout(t), l, router.MQTTOpen{Client: client, Expiry: expiry, Will: will}); err != nil {
			t.Fatal(err)
		}
		return l
	}
	with := func(text string, delay, expiry uint32) *router.MQTTWill {
		return &router.MQTTWill{Delay: delay, Expiry: expiry, MQTTMessage: message(text)}
	}
	seen := 0
	// comes has r, the leader, publish what is due: these, and no others.
	comes := func(r *router.Router, texts ...string) {
		t.Helper()
		checkTimers(t, r)
		if head, err := r.Head(q); err != nil || int(head.End) != seen+len(texts) {
			t.Fatalf("%d messages, %v, want %d", head.End, err, seen+len(texts))
		}
		_, err := r.Browse(nobody, q, core.Offset(seen), core.Offset(seen+len(texts)), 1<<20, func(b router.Browsed) bool {
			if len(texts) == 0 || string(b.Value) != texts[0] || b.Vouched != vouched(texts[0]) || b.Time != clock.Now().UnixMilli() {
				t.Errorf("%q at %d, want %q", b.Value, b.Time, texts)
				return false
			}
			for _, h := range b.Headers {
				if want := strconv.FormatInt(clock.Now().UnixMilli()+7000, 10); h.Key == "expires-at" && string(h.Value) != want {
					t.Errorf("expires at %s, want %s", h.Value, want)
				}
			}
			texts, seen = texts[1:], seen+1
			return true
		})
		if err != nil || len(texts) > 0 {
			t.Fatalf("%v, without %q", err, texts)
		}
	}
	end := func(r *router.Router, l *router.Lease, expiry uint32, will bool) {
		t.Helper()
		if err := r.CloseMQTTSession(timeout(t), l, router.MQTTClose{Expiry: expiry, Will: will}); err != nil {
			t.Fatal(err)
		}
		if err := l.Release(timeout(t)); err != nil {
			t.Fatal(err)
		}
	}
	end(a, connect(a, "at once", 0, with("at once", 5, 7)), 0, true) // its session ends, too
	comes(a, "at once")
	end(a, connect(a, "polite", 10, with("polite", 0, 0)), 10, false)
	if err := connect(a, "silent", 10, with("silent", 3, 0)).Release(timeout(t)); err != nil {
		t.Fatal(err)
	}
	end(b, connect(b, "back", 10, with("back", 2, 0)), 10, true)
	done := make(chan router.PublishResult, 1)
	b.PublishDelayed(nobody, nil, 4, message("delayed"), func(res router.PublishResult) { done <- res })
	if res := <-done; res.Err != nil || res.Offset != -1 {
		t.Fatalf("%+v", res)
	}
	comes(a)
	clock.Advance(time.Second)
	connect(b, "back", 10, nil)
	clock.Advance(time.Second)
	comes(a)
	lb.SetLeader(true)
	clock.Advance(time.Second)
	comes(b, "silent")
	clock.Advance(time.Second)
	comes(b, "delayed")
}
