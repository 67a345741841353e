package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"polylog/core"
	"polylog/core/vfs"
)

// hold stops the state machine until the returned function is called, so that what
// is proposed stays in flight.
func (h *harness) hold() (release func()) {
	block := make(chan struct{})
	h.machine.mu.Lock()
	h.machine.block = block
	h.machine.mu.Unlock()
	return sync.OnceFunc(func() {
		h.machine.mu.Lock()
		h.machine.block = nil
		h.machine.mu.Unlock()
		close(block)
	})
}

func TestGroups(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	h.options.Linger = time.Hour
	h.options.EntryBytes = 1000
	h.options.MaxInFlight = 3
	n := h.lead()
	release := h.hold()
	defer release()

	var mu sync.Mutex
	var order, entries []core.Offset
	var wg sync.WaitGroup
	send := func(size int) {
		wg.Add(1)
		n.ProposeAsync(command(strings.Repeat("x", size-core.CommandHeaderLen)), func(r core.Result, err error) {
			defer wg.Done()
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			order, entries = append(order, r.Offset), append(entries, r.Start)
			mu.Unlock()
		})
	}
	send(100) // alone, at once
	for range 9 {
		send(100) // wait for company
	}
	if s := n.Stats(); s.InFlight != 1 || s.Waiting != 9 {
		t.Fatalf("%d in flight, %d waiting, want 1 and 9", s.InFlight, s.Waiting)
	}
	send(100) // the entry is full
	send(5000)
	if s := n.Stats(); s.InFlight != 3 || s.Waiting != 0 {
		t.Fatalf("%d in flight, %d waiting, want 3 and 0", s.InFlight, s.Waiting)
	}
	send(5000) // none more in flight
	if s := n.Stats(); s.InFlight != 3 || s.Waiting != 1 || s.Groups != 3 || s.Commands != 12 {
		t.Fatalf("%+v", s)
	}
	release()
	wg.Wait()
	for i, o := range order {
		if o != core.Offset(i) {
			t.Fatalf("callbacks in order %v", order)
		}
	}
	first := entries[0]
	want := append(append([]core.Offset{first}, slices.Repeat([]core.Offset{first + 1}, 10)...), first+2, first+3)
	if !slices.Equal(entries, want) {
		t.Fatalf("entries %v, want %v", entries, want)
	}
}

func TestLingerEnds(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	n := h.lead()
	release := h.hold()
	defer release()
	first := make(chan struct{})
	n.ProposeAsync(command("a"), func(core.Result, error) { close(first) })
	n.ProposeAsync(command("b"), func(core.Result, error) {})
	waitFor(t, func() bool { return n.Stats().InFlight == 2 }) // after Linger, though a is still in flight
	release()
	<-first
}

func TestBackpressure(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	h.options.Linger = time.Hour
	h.options.MaxQueuedBytes = 1000
	n := h.lead()
	release := h.hold()
	defer release()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			done := make(chan struct{})
			n.ProposeAsync(command(strings.Repeat("x", 400)), func(core.Result, error) { close(done) })
			if s := n.Stats(); s.WaitingBytes > 1000 {
				t.Errorf("%d bytes wait", s.WaitingBytes)
			}
			<-done
		})
	}
	waitFor(t, func() bool { return n.Stats().Waiting == 2 })
	release()
	wg.Wait()
	if got := len(h.machine.bodies()); got != 20 {
		t.Fatalf("%d applied", got)
	}
}

func TestWithdraw(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	h.options.Linger = time.Hour
	n := h.lead()
	release := h.hold()
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 2)
	go func() {
		_, err := n.Propose(ctx, command("sent"))
		errs <- err
	}()
	waitFor(t, func() bool { return n.Stats().InFlight == 1 })
	go func() {
		_, err := n.Propose(ctx, command("waits"))
		errs <- err
	}()
	waitFor(t, func() bool { return n.Stats().Waiting == 1 })
	cancel()
	kinds := []core.Kind{core.KindOf(<-errs), core.KindOf(<-errs)}
	slices.Sort(kinds)
	if !slices.Equal(kinds, []core.Kind{core.Unavailable, core.Uncertain}) {
		t.Fatalf("kinds %v", kinds)
	}
	release()
	propose(t, n, "last")
	if got := h.machine.bodies(); !slices.Equal(got, []string{"sent", "last"}) {
		t.Fatalf("applied %q", got)
	}
}

func TestTooLarge(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	n := h.lead()
	_, err := n.Propose(t.Context(), core.Command{Payload: make([]byte, core.MaxCommandLen)})
	wantKind(t, err, core.TooLarge)
	propose(t, n, strings.Repeat("large, alone", 100_000))
}

func TestManyProposers(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	n := h.lead()
	var wg sync.WaitGroup
	for g := range 50 {
		wg.Go(func() {
			for i := range 40 {
				body := fmt.Sprintf("%d.%d", g, i)
				r := propose(t, n, body)
				if got := h.machine.bodies()[r.Offset]; got != body {
					t.Errorf("result of %s is that of %s", body, got)
				}
			}
		})
	}
	wg.Wait()
	if s := n.Stats(); s.Commands != 2000 || s.Groups > s.Commands {
		t.Fatalf("%+v", s)
	}
}

func TestCloseAnswersEverybody(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	h.options.Linger = time.Hour
	n := h.lead()
	release := h.hold()
	var done, closed int
	var wg sync.WaitGroup
	for range 10 {
		wg.Add(1)
		n.ProposeAsync(command("x"), func(_ core.Result, err error) {
			defer wg.Done()
			switch {
			case err == nil:
				done++
			case errors.Is(err, core.Closed):
				closed++
			default:
				t.Error(err)
			}
		})
	}
	ended := make(chan error)
	go func() { ended <- n.Close() }()
	release()
	wg.Wait()
	if err := <-ended; err != nil || done != 10 {
		t.Fatalf("%v, %d done, %d closed", err, done, closed)
	}
	if got := len(h.machine.bodies()); got != done {
		t.Fatalf("%d applied, %d done", got, done)
	}
}

func TestStallWatchIgnoresSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w stallWatch
		failed := make(chan error, 1)
		stop := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			w.run(10*time.Second, func(err error) error { failed <- err; return err }, stop)
			close(ended)
		}()
		for range 10 { // slow writes, but each comes back
			w.enter()
			time.Sleep(9 * time.Second) //nolint:forbidigo // synthetic time
			w.leave()
		}
		if len(failed) != 0 {
			t.Fatal(<-failed)
		}
		w.enter()
		<-ended
		if len(failed) != 1 {
			t.Fatal("a write that hangs was not noticed")
		}
		close(stop)
	})
}
