package simtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"polylog/core"
)

// plan is the faults of a world. It depends on the seed alone; whom the leader's faults
// hit is known when they come.
type plan struct{ faults []fault }

type fault struct {
	kind     string
	at       time.Duration // from the beginning of the faults on
	duration time.Duration
	host     int // -1: the leader's
	percent  int // of what was not synced that a power cut leaves
	amount   time.Duration
}

const leaderHost = -1

// kinds are the faults, by how often they come.
var kinds = []struct {
	name   string
	weight int
}{
	{"kill", 4},
	{"power", 4},
	{"kill-all", 1},
	{"power-all", 1},
	{"stop", 2},
	{"cut", 3},
	{"cut-out", 2},
	{"cut-in", 2},
	{"bridge", 2},
	{"delay", 2},
	{"clock", 2},
	{"bad-sync", 3},
	{"trap", 5},
	{"trap-vote", 3},
	{"replace", 1},
}

func newPlan(w *world) *plan {
	rnd := rand.New(rand.NewPCG(w.seed, 2))
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	p := &plan{}
	for range w.sim.Faults {
		f := fault{
			at:       time.Duration(rnd.Int64N(int64(w.sim.Length))),
			duration: 100*time.Millisecond + time.Duration(rnd.Int64N(int64(7*time.Second))),
			host:     rnd.IntN(2*len(w.nodes)) - len(w.nodes),
			percent:  rnd.IntN(90),
			amount:   time.Duration(rnd.Int64N(int64(500 * time.Millisecond))),
		}
		f.host = max(f.host, leaderHost)
		x := rnd.IntN(total)
		for _, k := range kinds {
			if x -= k.weight; x < 0 {
				f.kind = k.name
				break
			}
		}
		if rnd.IntN(3) == 0 {
			f.percent = 0
		}
		p.faults = append(p.faults, f)
	}
	slices.SortStableFunc(p.faults, func(a, b fault) int { return int(a.at - b.at) })
	return p
}

func (p *plan) String() string {
	var b strings.Builder
	for _, f := range p.faults {
		fmt.Fprintf(&b, "  %6.3f s  %s\n", f.at.Seconds(), f)
	}
	return b.String()
}

func (f fault) String() string {
	host := "leader"
	if f.host != leaderHost {
		host = fmt.Sprint("host ", f.host+1)
	}
	s := fmt.Sprintf("%s %s for %.3f s", f.kind, host, f.duration.Seconds())
	switch f.kind {
	case "power", "power-all", "trap", "trap-vote":
		s += fmt.Sprintf(", keeping %d %%", f.percent)
	case "delay", "clock":
		s += fmt.Sprintf(", by %v", f.amount)
	}
	return s
}

// suffer plays the plan.
func (w *world) suffer(p *plan) {
	type event struct {
		at time.Duration
		do func()
	}
	var events []event
	hit := map[int]*node{} // by fault
	var links []fault      // that are on
	for i, f := range p.faults {
		events = append(events,
			event{f.at, func() {
				hit[i] = w.target(f)
				w.logger.Warn("fault", "fault", f.String(), "node", hit[i].addr)
				if f.isLink() {
					f.host = hit[i].host
					links = append(links, f)
					w.setLinks(links)
				} else {
					w.begins(f, hit[i])
				}
			}},
			event{f.at + f.duration, func() {
				w.logger.Warn("fault ends", "fault", f.String(), "node", hit[i].addr)
				if f.isLink() {
					f.host = hit[i].host
					at := slices.Index(links, f)
					links = slices.Delete(links, at, at+1)
					w.setLinks(links)
				} else {
					w.ends(f, hit[i])
				}
			}})
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	begin := time.Now()
	for _, e := range events {
		if w.hopeless() {
			return
		}
		pause(e.at - time.Since(begin))
		e.do()
	}
}

func (w *world) target(f fault) *node {
	if f.host != leaderHost {
		return w.nodes[f.host]
	}
	if l := w.leader(); l != nil {
		return l.node
	}
	return w.nodes[int(f.duration)%len(w.nodes)]
}

func (f fault) isLink() bool {
	switch f.kind {
	case "cut", "cut-out", "cut-in", "bridge", "delay":
		return true
	}
	return false
}

// setLinks makes the links what the faults that are on want.
func (w *world) setLinks(on []fault) {
	w.net.change(func(from, to int, l *link) {
		*l = link{min: shortDelay, max: usualDelay}
		for _, f := range on {
			next := (f.host + 1) % len(w.nodes)
			switch f.kind {
			case "cut":
				l.cut = l.cut || from == f.host || to == f.host
			case "cut-out":
				l.cut = l.cut || from == f.host
			case "cut-in":
				l.cut = l.cut || to == f.host
			case "bridge":
				l.cut = l.cut || from == f.host && to == next || from == next && to == f.host
			case "delay":
				if from == f.host || to == f.host {
					l.max = max(l.max, f.amount)
				}
			}
		}
	})
}

func (w *world) begins(f fault, nd *node) {
	switch f.kind {
	case "kill":
		nd.power(false, 100, true)
	case "power":
		nd.power(false, f.percent, false)
	case "kill-all":
		for _, each := range w.nodes {
			each.power(false, 100, true)
		}
	case "power-all":
		for _, each := range w.nodes {
			each.power(false, f.percent, false)
		}
	case "stop":
		if p := nd.process(); p != nil {
			w.loops.Go(p.stop) // its supervisor starts it again
		}
	case "clock":
		nd.clock.Add(int64(f.amount * 20 * time.Duration(1-2*(f.percent%2))))
	case "bad-sync":
		nd.badSync.Store(1)
	case "trap", "trap-vote":
		nd.trap.set(f)
	case "replace":
		w.loops.Go(func() { w.replaceMember(nd) })
	}
}

func (w *world) ends(f fault, nd *node) {
	switch f.kind {
	case "kill", "power":
		nd.power(true, 0, false)
	case "kill-all", "power-all":
		for _, each := range w.nodes {
			each.power(true, 0, false)
		}
	case "bad-sync":
		nd.badSync.Store(0)
	case "trap", "trap-vote":
		nd.trap.changes.Store(0)
	}
}

// replaceMember removes a node from the cluster and has another one, with an empty disk,
// take its place.
func (w *world) replaceMember(nd *node) {
	w.replacing <- struct{}{}
	defer func() { <-w.replacing }()
	old, next := nd.name(), fmt.Sprint(nd.name(), "x")
	changed := func(change func(*process) error) bool {
		return w.await(5*time.Minute, func() bool {
			l := w.leader()
			return l != nil && change(l) == nil && !l.dead.Load()
		})
	}
	if !changed(func(l *process) error {
		ctx, cancel := within(5 * time.Second)
		defer cancel()
		// An earlier attempt may have done it without saying so.
		is := slices.ContainsFunc(l.broker.Members(), func(m core.Member) bool { return m.ID == old })
		if l.id == old || is && l.voters() < len(w.nodes) {
			return errNotNow
		}
		return l.broker.RemoveMember(ctx, old)
	}) {
		return // it leads, or others are down, for too long
	}
	w.logger.Warn("replaced", "old", old, "new", next)
	nd.replace(next)
	changed(func(l *process) error {
		ctx, cancel := within(5 * time.Second)
		defer cancel()
		return l.broker.AddMember(ctx, next, nd.addr)
	})
}

// heal ends every fault.
func (w *world) heal() {
	w.logger.Warn("all faults end")
	w.net.heal()
	for _, nd := range w.nodes {
		nd.badSync.Store(0)
		nd.trap.changes.Store(0)
		nd.clock.Store(0)
		nd.power(true, 0, false)
	}
}
