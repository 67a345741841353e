package amqp

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"polylog/router"
)

type nobody struct{ share }

func (*nobody) settle(router.Outcome, []router.Receipt, func()) {}
func (*nobody) close()                                          {}

// TestUnackedModel compares with a plain map.
func TestUnackedModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var u unacked
	model := map[uint64]bool{}
	from := &nobody{}
	var back []held
	next := uint64(0)
	taken := 0
	for range 20_000 {
		switch rnd.IntN(8) {
		case 0, 1, 2:
			next += 1 + uint64(rnd.IntN(3)) // deliveries without acknowledgement take tags, too
			u.add(held{tag: next, from: from})
			model[next] = true
		case 3:
			if len(back) > 0 {
				u.putBack(back)
				for _, h := range back {
					model[h.tag] = true
				}
				back = nil
			}
		default:
			tag := next - uint64(rnd.IntN(int(min(next, 200)+1)))
			multiple := rnd.IntN(20) == 0
			if rnd.IntN(500) == 0 {
				tag = 0
			}
			want := []uint64{}
			for k := range model {
				if k == tag || multiple && (k < tag || tag == 0) {
					want = append(want, k)
				}
			}
			if !model[tag] && (tag != 0 || !multiple) {
				want = nil
			}
			hs, ok := u.take(tag, multiple, nil)
			got := []uint64{}
			for _, h := range hs {
				got = append(got, h.tag)
			}
			slices.Sort(want)
			if ok != (want != nil) || ok && !slices.Equal(got, want) {
				t.Fatalf("take(%d, %v) is %v, %v; want %v", tag, multiple, got, ok, want)
			}
			for _, h := range hs {
				delete(model, h.tag)
				taken++
			}
			if rnd.IntN(10) == 0 {
				back = append(back, hs...)
			}
		}
		if live := len(u.list) - u.gone; live != len(model) {
			t.Fatalf("%d entries are live, want %d", live, len(model))
		}
		if u.gone > 32 && u.gone > len(u.list)/2+1 {
			t.Fatalf("%d of %d entries were answered and are still there", u.gone, len(u.list))
		}
	}
	if taken < 1000 {
		t.Fatalf("only %d were taken", taken)
	}
}

func TestByHolder(t *testing.T) {
	a, b := &nobody{}, &nobody{}
	hs := []held{
		{tag: 1, from: a, receipt: router.Receipt{Offset: 1}},
		{tag: 2, from: b, receipt: router.Receipt{Offset: 10}},
		{tag: 3, from: a, receipt: router.Receipt{Offset: 2}},
	}
	got := map[holder][]router.Receipt{}
	byHolder(hs, func(h holder, rs []router.Receipt) { got[h] = append(got[h], rs...) })
	if !slices.Equal(got[a], []router.Receipt{{Offset: 1}, {Offset: 2}}) || !slices.Equal(got[b], []router.Receipt{{Offset: 10}}) {
		t.Fatal(got)
	}
}

// slowly is a holder whose settling takes until it is let go on.
type slowly struct {
	share
	began, goOn chan struct{}
	said        chan string
}

func (s *slowly) settle(router.Outcome, []router.Receipt, func()) {
	close(s.began)
	<-s.goOn
	s.said <- "settled"
}
func (s *slowly) close() { s.said <- "closed" }

// What the client has acknowledged is settled before its holder is closed, whoever is at it.
func TestSettledBeforeClosed(t *testing.T) {
	f := start(t, nil)
	ch := f.serving(f.channel()).channels[1]
	h := &slowly{began: make(chan struct{}), goOn: make(chan struct{}), said: make(chan string, 2)}
	ch.mu.Lock()
	ch.holders = map[holder]struct{}{h: {}}
	ch.settling.acks = []held{{tag: 1, from: h}}
	ch.mu.Unlock()
	go ch.settling.flush()
	<-h.began
	ended := make(chan struct{})
	go func() { ch.endState(); close(ended) }()
	waitFor(t, func() bool { ch.mu.Lock(); defer ch.mu.Unlock(); return ch.over })
	runtime.Gosched()
	close(h.goOn)
	<-ended
	if first, then := <-h.said, <-h.said; first != "settled" || then != "closed" {
		t.Errorf("%s, %s", first, then)
	}
}
