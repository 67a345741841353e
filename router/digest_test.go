package router_test

import (
	"context"
	"testing"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
	"polylog/router/state"
)

func TestCompareReplicas(t *testing.T) {
	a, la := routertest.Start(t, nil)
	topic := routertest.Topic(t, a, "t", 1, nil)
	b, lb := routertest.Join(t, la, "2", nil)
	publish := func() {
		if r := routertest.Publish(a, topic.Partitions[0], routertest.Batch(t, 1, "x")); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	publish()
	at, first, err := b.CompareReplicas(t.Context())
	if err != nil || at != la.Last() || len(first) != 2 {
		t.Fatal(at, first, err)
	}
	publish()
	_, second, err := a.CompareReplicas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range append(first, second...) {
		if d.Err != nil {
			t.Fatal(d)
		}
	}
	if first[0].Sum != first[1].Sum || second[0].Sum != second[1].Sum || first[0].Sum == second[0].Sum {
		t.Fatalf("%x, then %x", first, second)
	}

	// A node that is behind, or away, has none; the others have.
	lb.Hold()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []router.ReplicaDigest, 1)
	go func() {
		_, all, _ := a.CompareReplicas(ctx)
		done <- all
	}()
	for la.Commands(state.CodeDigest) < 3 {
		publish()
	}
	cancel()
	if all := <-done; len(all) != 2 || core.KindOf(all[1].Err) != core.Unavailable {
		t.Fatal(all)
	}
	lb.Release()
	lb.Cut(true)
	_, all, err := a.CompareReplicas(t.Context())
	for err == nil && core.KindOf(all[0].Err) == core.Unavailable { // the digest that was given up is still being made
		_, all, err = a.CompareReplicas(t.Context())
	}
	if err != nil || all[0].Err != nil || core.KindOf(all[1].Err) != core.Unavailable {
		t.Fatal(all, err)
	}
}
