package kafka

import (
	"context"
	"errors"
	"testing"
)

// TestBudgetCompletes keeps two large frames from taking each other's last memory, and
// lets others pass meanwhile.
func TestBudgetCompletes(t *testing.T) {
	b := newBudget(100)
	step := func(h *hold, n int64) <-chan error {
		ended := make(chan error, 1)
		before := b.waits()
		go func() { ended <- h.take(t.Context(), n) }()
		waitFor(t, func() bool { return len(ended) > 0 || b.waits() > before })
		return ended
	}
	first, second, small := b.hold(80), b.hold(1000), b.hold(10)
	if second.need != 100 {
		t.Fatalf("a frame may take %d, want all", second.need)
	}
	for _, h := range []*hold{&first, &second} {
		if err := h.take(t.Context(), 20); err != nil {
			t.Fatal(err)
		}
	}
	blocked := step(&second, 30) // else neither could end
	if len(blocked) > 0 {
		t.Fatal("a step was granted that leaves no way to complete")
	}
	if ended := step(&small, 0); len(ended) == 0 {
		t.Fatal("a small frame waits for a large one that must wait")
	}
	small.release()
	if ended := step(&first, 0); len(ended) == 0 {
		t.Fatal("the frame that can be completed waits")
	}
	first.release()
	if err := <-blocked; err != nil {
		t.Fatal(err)
	}
	if err := second.take(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	second.release()
	if !b.idle() {
		t.Fatalf("%d of %d free, %d frames", b.free, b.size, len(b.partial))
	}
}

// TestBudgetWaitEnds leaves no trace of a connection that went away.
func TestBudgetWaitEnds(t *testing.T) {
	b := newBudget(100)
	all, gone, next := b.hold(90), b.hold(50), b.hold(10)
	if !all.tryTake() {
		t.Fatal("no memory")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended, behind := make(chan error, 1), make(chan error, 1)
	go func() { ended <- gone.take(ctx, 0) }()
	waitFor(t, func() bool { return b.waits() == 1 })
	go func() { behind <- next.take(t.Context(), 0) }()
	waitFor(t, func() bool { return b.waits() == 2 }) // in order
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := <-behind; err != nil {
		t.Fatal(err)
	}
	gone.release()
	next.release()
	all.release()
	if !b.idle() {
		t.Fatal("not everything was given back")
	}
}

func (b *budget) waits() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting.Len()
}
