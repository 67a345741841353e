package simtest

import (
	"math/rand/v2"
	"slices"
	"time"

	"polylog/core"
	"polylog/core/vfs"
	"polylog/router/state"
)

// A script is a course of events that chance finds too seldom, as those for which cluster
// has guards against its raft library. A world with a script has no plan: it plays the script
// some times, with clients at work, and is judged like any other. A script reports whether
// it got to its end; where chance has interfered, as by an election of its own, it gives up.
var scripts = map[string]func(*world, *rand.Rand) bool{
	"old-leader":   oldLeader,
	"half-vote":    halfVote,
	"old-tail":     oldTail,
	"kills":        kills,
	"all-down":     allDown,
	"late-command": lateCommand,
	"old-copy":     oldCopy,
}

// rounds is how often a world plays its script.
const rounds = 3

// perform plays the world's script.
func (w *world) perform() {
	rnd := rand.New(rand.NewPCG(w.seed, 3))
	for i := range rounds {
		pause(500 * time.Millisecond)
		if !w.await(healTime, w.calm) {
			w.fail("not all nodes follow one leader, before round %d", i+1)
			return
		}
		w.logger.Warn("script begins", "script", w.sim.Script)
		done := scripts[w.sim.Script](w, rnd)
		w.logger.Warn("script ends", "script", w.sim.Script, "done", done)
		if done {
			w.mu.Lock()
			w.stats.Performed++
			w.mu.Unlock()
		}
		w.quiet.Store(false)
		w.heal()
	}
}

// calm reports whether all nodes are up, vote, and follow one leader.
func (w *world) calm() bool {
	l := w.leader()
	return l != nil && !slices.ContainsFunc(w.nodes, func(nd *node) bool {
		p := nd.process()
		if p == nil || p.voters() != len(w.nodes) {
			return true
		}
		m, ok := p.broker.Leader()
		return !ok || m.ID != l.id || p.broker.Term() != l.broker.Term()
	})
}

// others are the processes beside one, in an order by chance; nil when one is down.
func (w *world) others(than *process, rnd *rand.Rand) []*process {
	var all []*process
	for _, nd := range w.nodes {
		switch p := nd.process(); {
		case p == nil:
			return nil
		case p != than:
			all = append(all, p)
		}
	}
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// elect has a process stand for election at once, by the message that ends a transfer of
// leadership, and reports whether it leads soon. Such a message may be late by any time.
func (w *world) elect(p, by *process) bool {
	m, err := w.impersonate(by, p)
	if err != nil {
		return false
	}
	defer m.close()
	if m.standForElection() != nil {
		return false
	}
	return w.await(300*time.Millisecond, p.broker.IsLeader)
}

// isolate cuts single directions: those for which cut is true.
func (w *world) isolate(cut func(from, to int) bool) {
	w.net.change(func(from, to int, l *link) { *l = link{min: shortDelay, max: usualDelay, cut: cut(from, to)} })
}

// halt has the clients wait, and those commands end that are under way.
func (w *world) halt() {
	w.quiet.Store(true)
	pause(100 * time.Millisecond)
}

// send has a process append a message once, and does not wait for it.
func (w *world) send(to *process, rnd *rand.Rand) (done <-chan struct{}) {
	c := &client{w: w, rnd: rand.New(rand.NewPCG(w.seed, rnd.Uint64()))}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.appendAt(to)
	}()
	return ended
}

// oldLeader is hashicorp/raft#695, as far as it can happen here: a leader that has missed an
// election hears of the new term by a heartbeat, before anything else of it, while a command
// is on its way into its log. It must not write that under the new term, at the index at
// which the new leader has another entry. (A process that was suspended comes to be such a
// leader; none can be suspended here, so the election is one by a transfer of leadership.)
func oldLeader(w *world, rnd *rand.Rand) bool {
	w.halt()
	old := w.leader()
	others := w.others(old, rnd)
	if old == nil || others == nil {
		return false
	}
	next := others[0]
	term := old.broker.Term()
	m, err := w.impersonate(next, old)
	if err != nil || m.heartbeat(term-1) != nil { // an old one: the connection is made
		return false
	}
	defer m.close()
	w.isolate(func(_, to int) bool { return to == old.node.host })
	first := w.send(old, rnd) // gets into all logs; old does not learn so
	pause(5 * time.Millisecond)
	won := w.elect(next, old)
	second := w.send(old, rnd) // waits up to a millisecond for others
	pause(300 * time.Microsecond)
	led := old.broker.IsLeader()
	if m.heartbeat(next.broker.Term()) != nil {
		return false
	}
	pause(5 * time.Millisecond)
	w.net.heal()
	<-first
	<-second
	return won && led && next.broker.Term() == term+1
}

// halfVote is hashicorp/raft#661: a power cut comes between the two halves of a vote, and
// the candidate of the vote before, who has missed what was committed since, asks for the
// same term. It must not get the vote.
func halfVote(w *world, rnd *rand.Rand) bool {
	w.halt()
	first := w.leader()
	others := w.others(first, rnd)
	if first == nil || others == nil {
		return false
	}
	voter, late := others[0], others[1]
	// The voter's last vote is for late, and it has none for first, which leads again.
	if !w.elect(late, first) || !w.await(time.Second, w.calm) {
		return false
	}
	w.isolate(func(from, to int) bool { return from == voter.node.host || to == voter.node.host })
	if !w.elect(first, late) {
		return false
	}
	w.net.heal()
	if !w.await(time.Second, w.calm) {
		return false
	}
	// Late misses what is committed now.
	w.isolate(func(from, to int) bool { return from == late.node.host || to == late.node.host })
	w.quiet.Store(false)
	pause(200*time.Millisecond + time.Duration(rnd.Int64N(int64(400*time.Millisecond))))
	w.halt()
	// The voter's power fails at one of the changes of its vote file, mostly before what
	// would be the second half: two have written the term, two the first half.
	change := 5
	if rnd.IntN(3) == 0 {
		change = 1 + rnd.IntN(6)
	}
	voter.node.trap.arm(change, rnd.IntN(100), true)
	if w.elect(first, late) { // for the next term
		pause(10 * time.Millisecond)
	}
	if voter.dead.Load() {
		up := func() bool { p := voter.node.process(); return p != nil && p != voter }
		if !w.await(time.Second, up) {
			return false
		}
	}
	w.isolate(func(from, to int) bool { return from == first.node.host || to == first.node.host })
	term := first.broker.Term()
	w.elect(late, first)
	asked := late.broker.Term() == term
	w.quiet.Store(false)
	pause(500 * time.Millisecond)
	return asked
}

// oldTail is hashicorp/raft#697: a leader that is cut off appends what nobody else gets, the
// others go on until their logs begin behind its end, and it is back. It has to give its tail
// up, take their state over, once, and start anew with it.
func oldTail(w *world, rnd *rand.Rand) bool {
	old := w.leader()
	if old == nil {
		return false
	}
	host := old.node.host
	w.isolate(func(from, to int) bool { return from == host || to == host })
	var sent []<-chan struct{}
	for range 3 + rnd.IntN(20) {
		sent = append(sent, w.send(old, rnd))
	}
	defer func() {
		for _, done := range sent {
			<-done
		}
	}()
	// Beyond its end means: what the others begin with, in files and in the log's cache.
	begun := map[int]int64{}
	for _, nd := range w.nodes {
		if p := nd.process(); p != nil {
			begun[nd.host] = p.broker.Stats().StoredBytes
		}
	}
	beyond := func() bool {
		for _, nd := range w.nodes {
			p := nd.process()
			if p == nil {
				return false
			}
			if s := p.broker.Stats(); nd.host != host && (s.First <= old.broker.Stats().Last || s.StoredBytes < begun[nd.host]+2*cacheBytes) {
				return false
			}
		}
		return true
	}
	for range 200 {
		if beyond() || w.hopeless() {
			break
		}
		pause(500 * time.Millisecond)
		w.retain(host, rnd)
	}
	if !beyond() {
		return false
	}
	w.net.heal()
	return w.await(healTime, func() bool { return old.dead.Load() && w.calm() })
}

// retain has the nodes but one drop nearly all that was acknowledged.
func (w *world) retain(but int, rnd *rand.Rand) {
	c := &client{w: w, rnd: rnd}
	for _, nd := range w.nodes {
		p := nd.process()
		if nd.host == but || p == nil {
			continue
		}
		for _, q := range w.allQueues() {
			if before, ok := w.trimPoint(q, rnd); ok {
				cmd := state.TrimQueues{Trims: []state.Trim{{Queue: q.id, Before: before}}}
				if r, err := c.propose(p, cmd.Command()); err == nil && r.Err != nil {
					w.fail("trim: %v", r.Err)
				}
			}
		}
		if live := p.state.FirstLive(); live > 0 {
			p.broker.Trim(live - core.LogIndex(1))
		}
	}
}

// kills is etcd's #13766: processes die at whatever change of their disks comes, one after
// the other, in the middle of applying and of checkpoints too. What is double, or lost, or
// not of the same entry as the rest, shows in the states when the world is judged.
func kills(w *world, rnd *rand.Rand) bool {
	for range 25 {
		nd := w.nodes[rnd.IntN(len(w.nodes))]
		nd.trap.arm(1+rnd.IntN(40), rnd.IntN(101), false)
		pause(time.Duration(rnd.Int64N(int64(400 * time.Millisecond))))
	}
	return true
}

// allDown is what rocketmq has lost offsets by (#6609, #7355, #7689): all nodes are gone at
// once, with entries in their logs that their indexes do not have, some of them not committed.
func allDown(w *world, rnd *rand.Rand) bool {
	for range 3 {
		percent := rnd.IntN(101)
		for _, nd := range w.nodes {
			nd.power(false, percent, false)
		}
		pause(time.Duration(rnd.Int64N(int64(200 * time.Millisecond))))
		for _, nd := range w.nodes {
			nd.power(true, 0, false)
		}
		if !w.await(healTime, func() bool { return w.leader() != nil }) {
			return false
		}
		pause(time.Duration(rnd.Int64N(int64(time.Second))))
	}
	return true
}

// lateCommand is redpanda's #3039: what a producer has sent is held up on its way from a
// follower to the leader, so that the producer sends it again, by another node, and somebody
// else leads when the first copy arrives. The world's producers are idempotent: a copy that is
// appended again is found when it is judged.
func lateCommand(w *world, rnd *rand.Rand) bool {
	w.halt()
	leader := w.leader()
	others := w.others(leader, rnd)
	if leader == nil || others == nil {
		return false
	}
	slow, next := others[0].node.host, others[1]
	w.isolate(func(from, _ int) bool { return from == slow })
	w.quiet.Store(false)
	pause(300 * time.Millisecond) // the clients of slow send, and turn to others after a second
	for range 3 {
		if w.elect(next, leader) {
			break
		}
	}
	led := next.broker.IsLeader()
	pause(time.Duration(rnd.Int64N(int64(3 * time.Second))))
	w.net.heal()
	pause(100 * time.Millisecond)
	return led
}

// oldCopy is a node whose disk is put back to what it was some time ago, as by somebody who
// starts a copy of its data directory: it has forgotten what it had acknowledged since. The one
// other node that runs knows that, but lacks the last of it, so the two must not elect.
func oldCopy(w *world, rnd *rand.Rand) bool {
	leader := w.leader()
	others := w.others(leader, rnd)
	if leader == nil || others == nil || !w.announce(leader) {
		return false
	}
	copied, behind := others[0], others[1]
	was := copied.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rnd})
	last := copied.broker.Stats().Last
	pause(500 * time.Millisecond)
	if !w.note(leader) || !w.await(time.Second, func() bool { return behind.state.Sightings()[copied.id].Held > last }) {
		return false
	}
	w.isolate(func(from, to int) bool { return from == behind.node.host || to == behind.node.host })
	pause(200*time.Millisecond + time.Duration(rnd.Int64N(int64(300*time.Millisecond))))
	w.halt()
	if w.leader() != leader || copied.node.process() != copied {
		return false
	}
	leader.node.power(false, 100, true)
	copied.node.power(false, 100, true)
	if !w.await(time.Second, func() bool { return copied.node.process() == nil }) {
		return false
	}
	copied.node.mu.Lock()
	copied.node.disk = was
	copied.node.mu.Unlock()
	w.net.heal()
	copied.node.power(true, 0, false)
	w.quiet.Store(false)
	pause(5 * time.Second)
	if l := w.leader(); l != nil {
		w.fail("node %s was elected by a node that has forgotten entries", l.id)
	}
	return true
}

// announce registers the nodes, and reports whether that was done.
func (w *world) announce(leader *process) bool {
	c := &client{w: w, rnd: rand.New(rand.NewPCG(w.seed, 4))}
	for _, nd := range w.nodes {
		id := nd.name()
		cmd := state.Announce{Member: state.Member{ID: id, Instance: id, Addr: nd.addr, MaxLevel: state.MaxLevel}}
		if r, err := c.propose(leader, cmd.Command()); err != nil || r.Err != nil {
			return false
		}
	}
	return true
}

// note has the leader write into the log how far the nodes hold it.
func (w *world) note(leader *process) bool {
	c := &client{w: w, rnd: rand.New(rand.NewPCG(w.seed, 5))}
	var cmd state.NoteMembers
	for _, k := range leader.broker.Contacts() {
		cmd.Sightings = append(cmd.Sightings, state.Sighting{ID: k.ID, Held: k.Held})
	}
	r, err := c.propose(leader, cmd.Command())
	return err == nil && r.Err == nil
}
