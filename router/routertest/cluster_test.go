package routertest_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

func TestJoinedRouters(t *testing.T) {
	a, la := routertest.Start(t, nil)
	topic := routertest.Topic(t, a, "t", 1, nil)
	b, lb := routertest.Join(t, la, "2", nil)
	if b.IsLeader() || !a.IsLeader() || len(b.Cluster().Members) != 2 || b.Cluster().Leader.ID != "1" {
		t.Fatalf("%+v", b.Cluster())
	}
	q := topic.Partitions[0]
	publish := func(r *router.Router, want core.Offset) {
		t.Helper()
		if res := routertest.Publish(r, q, routertest.Batch(t, 1, "x")); res.Err != nil || res.Offset != want {
			t.Fatalf("%+v, want offset %d", res, want)
		}
	}
	publish(a, 0)
	publish(b, 1)
	lb.Hold()
	publish(b, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Sync(ctx); core.KindOf(err) != core.Unavailable {
		t.Fatal(err)
	}
	lb.Release()
	if err := b.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h, err := b.Head(q); err != nil || h.End != 3 {
		t.Fatalf("%+v, %v", h, err)
	}
	lb.SetLeader(true)
	publish(a, 3)
	la.Cut(true)
	if res := routertest.Publish(a, q, routertest.Batch(t, 1, "x")); core.KindOf(res.Err) != core.Unavailable {
		t.Fatal(res.Err)
	}
	publish(b, 4)
}

func TestStreamsBetweenRouters(t *testing.T) {
	_, la := routertest.Start(t, nil)
	_, lb := routertest.Join(t, la, "2", nil)
	lb.Handle("greet", func(peer string, s core.Stream) error {
		if err := s.Send([]byte("hello " + peer)); err != nil {
			return err
		}
		_, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
	s, err := la.OpenStream(t.Context(), "2", "greet")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.Recv(); err != nil || string(m) != "hello 1" {
		t.Fatalf("%q, %v", m, err)
	}
	lb.Cut(true)
	if _, err := s.Recv(); core.KindOf(err) != core.Unavailable {
		t.Fatal(err)
	}
	if _, err := la.OpenStream(t.Context(), "2", "greet"); core.KindOf(err) != core.Unavailable {
		t.Fatal(err)
	}
	if _, err := la.OpenStream(t.Context(), "3", "greet"); core.KindOf(err) != core.NotFound {
		t.Fatal(err)
	}
}
