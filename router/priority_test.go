package router_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/message"
	"polylog/core/vfs"
	"polylog/router"
	"polylog/router/routertest"
)

func TestPriorities(t *testing.T) {
	r, _, _ := atRest(t)
	q := declare(t, r, "q", router.QueueConfig{Limits: router.QueueLimits{MaxPriority: 10}})
	for v, p := range map[string]int{"p1": 1, "p5": 5, "p99": 99} {
		m := plain(v)
		m.Priority = p
		send(t, r, "q", m)
	}
	send(t, r, "q", plain("none"))
	c := consume(t, r, router.ConsumeSpec{Queue: q.ID, Prefetch: 1})
	for _, v := range []string{"p99", "p5", "p1", "none"} {
		ack(t, c, next(t, c, v, false).Receipt)
	}
	c.Close()
	ready(t, r, q, 0)
}

// ranked is a message with a priority; -1: it has none.
func ranked(v string, priority int) message.Message {
	m := plain(v)
	m.Priority = priority
	return m
}

// mixed are messages of all kinds of priorities, and inOrder is how a quorum queue gives them.
var (
	mixed = []message.Message{
		ranked("none 1", -1), ranked("0", 0), ranked("1", 1), ranked("4", 4), ranked("5", 5), ranked("31", 31), ranked("255", 255), ranked("none 2", -1),
	}
	inOrder = []string{"31", "255", "5", "none 1", "4", "none 2", "1", "0"}
)

var quorum = router.QueueConfig{Kind: router.Quorum, Durable: true}

// Quorum queues have 32 priorities without being asked for any.
func TestQuorumPriorities(t *testing.T) {
	r, _, _ := atRest(t)
	q := declare(t, r, "q", quorum)
	for _, m := range mixed {
		send(t, r, "q", m)
	}
	c := consume(t, r, router.ConsumeSpec{Queue: q.ID, Prefetch: 1})
	for _, v := range inOrder {
		ack(t, c, next(t, c, v, false).Receipt)
	}
	ready(t, r, q, 0)
}

// What is given back goes ahead of all, whatever its priority is, in the order of return.
func TestQuorumPriorityOfReturned(t *testing.T) {
	r, _, _ := atRest(t)
	q := declare(t, r, "q", quorum)
	for _, m := range mixed {
		send(t, r, "q", m)
	}
	g := consume(t, r, router.ConsumeSpec{Queue: q.ID, Getter: true})
	var got []router.Delivery
	for range mixed {
		d, _, _ := get(t, g)
		got = append(got, d)
	}
	send(t, r, "q", ranked("new", 31))
	for _, i := range []int{7, 0, 3} {
		g.Settle(router.Release, 0, []router.Receipt{got[i].Receipt}, nil)
	}
	counts(t, r, q, 4, 5)
	for _, v := range []string{inOrder[7], inOrder[0], inOrder[3], "new"} {
		if d, _, _ := get(t, g); string(d.Record.Value) != v {
			t.Fatalf("%s, want %s", d.Record.Value, v)
		}
	}
}

// A dead message keeps its priority where it goes, 0 included.
func TestDeadLettersKeepPriority(t *testing.T) {
	r, _, _ := atRest(t)
	dead := declare(t, r, "dead", quorum)
	q := declare(t, r, "q", router.QueueConfig{Limits: router.QueueLimits{
		HasDeadLetter: true, HasDeadLetterKey: true, DeadLetterKey: "dead",
	}})
	c := consume(t, r, router.ConsumeSpec{Queue: q.ID})
	for i := range mixed {
		send(t, r, "q", mixed[i])
		d := next(t, c, string(mixed[i].Value), false)
		c.Settle(router.Reject, 0, []router.Receipt{d.Receipt}, nil)
		ready(t, r, dead, int64(i)+1)
	}
	c = consume(t, r, router.ConsumeSpec{Queue: dead.ID})
	for _, v := range inOrder {
		next(t, c, v, false)
	}
}

// Each priority has a head that expires, and those behind it wait for their turn.
func TestQuorumPrioritiesExpire(t *testing.T) {
	r, _, clock := atRest(t)
	q := declare(t, r, "q", quorum)
	short := func(v string, priority int) message.Message {
		m := ranked(v, priority)
		m.ExpiresAt = clock.Now().Add(time.Second).UnixMilli()
		return m
	}
	send(t, r, "q", ranked("high", 9))
	send(t, r, "q", short("behind high", 9))
	send(t, r, "q", short("none", -1))
	send(t, r, "q", short("low", 1))
	clock.Advance(time.Minute)
	checkTimers(t, r)
	ready(t, r, q, 2)
	g := consume(t, r, router.ConsumeSpec{Queue: q.ID, Getter: true})
	if d, _, _ := get(t, g); string(d.Record.Value) != "high" {
		t.Fatalf("%s", d.Record.Value)
	}
	if d, ok, left := get(t, g); ok || left != 0 {
		t.Fatalf("%s, %d left", d.Record.Value, left)
	}
}

// The next leader knows the priorities, of what came back when it was with consumers, too.
func TestQuorumPrioritiesAcrossLeaders(t *testing.T) {
	a, la := routertest.Start(t, nil)
	b, lb := routertest.Join(t, la, "2", nil)
	q := declare(t, a, "q", quorum)
	for _, m := range mixed {
		send(t, a, "q", m)
	}
	c := consume(t, a, router.ConsumeSpec{Queue: q.ID, Prefetch: 2})
	next(t, c, inOrder[0], false)
	next(t, c, inOrder[1], false)
	c.Close()
	lb.SetLeader(true)
	c = consume(t, b, router.ConsumeSpec{Queue: q.ID, Prefetch: 1})
	for _, v := range inOrder {
		d, err := c.Next(timeout(t))
		if err != nil {
			t.Fatal(err)
		}
		if string(d.Record.Value) != v {
			t.Fatalf("%s, want %s", d.Record.Value, v)
		}
		ack(t, c, d.Receipt)
	}
}

// Priorities survive a power cut, whether they are in a checkpoint or in the log.
func TestQuorumPrioritiesAfterPowerCut(t *testing.T) {
	for _, checkpoints := range []int64{0, 1 << 10} {
		rnd := rand.New(rand.NewPCG(1, uint64(checkpoints)))
		fs := vfs.NewMem()
		n := openReal(t, fs, "data", checkpoints)
		declare(t, n.Router, "q", quorum)
		for _, m := range mixed {
			if out := send(t, n.Router, "q", m); out.Err != nil || out.Queues != 1 {
				t.Fatalf("%+v", out)
			}
		}
		left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rnd.IntN(101), RNG: rnd})
		n.close(t)
		n = openReal(t, left, "data", checkpoints)
		q, err := n.Queue(core.TopicName("q"))
		if err != nil {
			t.Fatal(err)
		}
		c := consume(t, n.Router, router.ConsumeSpec{Queue: q.ID, Prefetch: 1})
		for _, v := range inOrder {
			ack(t, c, next(t, c, v, false).Receipt)
		}
		c.Close()
		n.close(t)
	}
}
