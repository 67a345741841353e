package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"polylog/core"
)

// proposer groups commands into raft entries. Raft's cost is per entry and the
// disk's per sync, so commands that come while entries are in flight wait for
// company: until Options.EntryBytes are together, until nothing is in flight any
// more, or for Options.Linger. A command that comes alone goes at once, from its
// caller's goroutine.
//
// A group's way: the sender (a caller, the batcher or the completer, one at a time)
// takes it from the queue, builds the entry and gives it to raft; the completer
// waits for raft's answers in log order and tells the callers. Raft's channel has
// room for everything that can be in flight, so a sender never waits for the disk.
type proposer struct {
	n     *Node
	wake  chan struct{}     // for the batcher: look again
	sent  chan *group       // to the completer, in log order; never full
	told  chan struct{}     // for the completer: answered has something
	last  int64             // ms; time of the last entry; the sender's
	entry core.EntryBuilder // the sender's
	sums  entrySums

	mu           sync.Mutex
	cond         *sync.Cond   // on mu: space in the queue, or a sender has finished
	waiting      []proposal   // guarded by mu, as is all below
	waitingBytes int          // encoded
	since        time.Time    // when the first of waiting came
	answered     []answered   // their proposers are to be told
	inFlight     int          // groups given to raft and not told yet
	sending      bool         // a sender is at work
	closed       bool         // no new proposals
	ended        bool         // the completer has ended
	spare        [][]proposal // emptied, for waiting
	commands     int64        // ever sent
	groups       int64
}

// proposal is a command and who waits for it: a callback or a goroutine.
type proposal struct {
	command core.Command
	done    func(core.Result, error)
	waiter  *waiter
}

// answered is a proposal that ended without a group of ours: refused, or done by the
// leader.
type answered struct {
	proposal
	outcome
}

type group struct {
	proposals []proposal
	data      []byte // the entry's, when its checksum is known
	future    raft.ApplyFuture
	refused   error // it was not given to raft
}

type waiter struct{ outcome chan outcome }

type outcome struct {
	result  core.Result
	err     error
	applied core.LogIndex // of a command that the leader did: its state was as far then
}

// maxSpare bounds the slices that are kept for reuse, in proposals.
const maxSpare = 8192

var waiters = sync.Pool{New: func() any { return &waiter{outcome: make(chan outcome, 1)} }}

func (p *proposer) init(n *Node) {
	p.n = n
	p.cond = sync.NewCond(&p.mu)
	p.wake = make(chan struct{}, 1)
	p.told = make(chan struct{}, 1)
	p.sent = make(chan *group, maxAppendEntries)
}

func (p *proposal) tell(r core.Result, err error) {
	if p.waiter != nil {
		p.waiter.outcome <- outcome{result: r, err: err}
		return
	}
	p.done(r, err)
}

// Propose has the cluster do a command and gives its result; where this node does not
// lead, the leader does it (forward.go). When it returns the command has been applied
// here too, or the leader has been out of reach since it did it. When ctx ends first the
// error is of kind Uncertain, or Unavailable where the command was never sent; the
// command's payload is free in either case.
func (n *Node) Propose(ctx context.Context, c core.Command) (core.Result, error) {
	w, _ := waiters.Get().(*waiter)
	n.submit(ctx, proposal{command: c, waiter: w})
	select {
	case o := <-w.outcome:
		waiters.Put(w)
		if o.err == nil && n.machine.Applied() < o.applied {
			ctx, cancel := context.WithTimeout(ctx, readPatience)
			defer cancel()
			_ = n.awaitApplied(ctx, o.applied) // the result is known in any case
		}
		return o.result, o.err
	case <-ctx.Done():
		if n.forwarder.withdraw(w) || n.proposer.withdraw(w) {
			return core.Result{}, core.E(core.Unavailable, "proposal withdrawn: %v", context.Cause(ctx))
		}
		select {
		case o := <-w.outcome:
			return o.result, o.err
		default:
		}
		return core.Result{}, core.E(core.Uncertain, "outcome of a proposal not known yet: %v", context.Cause(ctx))
	}
}

// ProposeAsync is Propose with a callback. done is called once, always from the
// completer's goroutine, in log order; it must not block. While
// Options.MaxQueuedBytes wait, ProposeAsync waits too, which is how a slow disk
// slows down connections instead of filling the memory: so done must not propose,
// nor wait for a lock that is held while proposing. Where this node does not lead, it may
// not have applied the command yet when done is called. Where no leader is found for
// forwardPatience, the error is of kind Unavailable.
func (n *Node) ProposeAsync(c core.Command, done func(core.Result, error)) {
	n.submit(context.Background(), proposal{command: c, done: done})
}

// submit leads a command to the proposer, or to the leader. What comes while others
// are on their way to the leader goes after them, even where this node leads by now; what is
// for one term of this node goes nowhere else, and waits for none of them.
func (n *Node) submit(ctx context.Context, pr proposal) {
	if size := pr.command.EncodedLen(); size > core.MaxCommandLen {
		n.proposer.answer(answered{pr, outcome{err: core.E(core.TooLarge, "command of %d bytes, the limit is %d", size, core.MaxCommandLen)}})
		return
	}
	if pr.command.Sequence.Ended() {
		n.proposer.answer(answered{pr, outcome{err: errSequenceEnded}})
		return
	}
	if pr.command.Term != 0 {
		if err := n.proposer.submit(pr); err != nil {
			n.proposer.answer(answered{pr, outcome{err: err}})
		}
		return
	}
	if !n.forwarder.busy.Load() {
		err := n.proposer.submit(pr)
		if err == nil {
			return
		}
		if !isRefusal(err) || core.KindOf(err) == core.Closed || n.failure.failed() != nil {
			n.proposer.answer(answered{pr, outcome{err: err}})
			return
		}
	}
	n.forwarder.submit(ctx, pr)
}

// submit takes a command for this node's own log. The error is why it does not.
func (p *proposer) submit(pr proposal) error {
	if pr.command.Sequence.Ended() {
		return errSequenceEnded
	}
	if err := p.n.refusal(); err != nil {
		return err
	}
	size := pr.command.EncodedLen()
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiting) > 0 && p.waitingBytes+size > p.n.o.MaxQueuedBytes && !p.closed {
		p.cond.Wait()
	}
	if p.closed {
		return core.E(core.Closed, "this node is shutting down")
	}
	if t := pr.command.Term; t != 0 && t != p.n.leadership.readyTerm() {
		return core.E(core.NotLeader, "this node does not lead in term %d", t)
	}
	if len(p.waiting) == 0 {
		p.since = time.Now()
	}
	p.waiting = append(p.waiting, pr)
	p.waitingBytes += size
	switch {
	case !p.sending && (p.inFlight == 0 || p.fullLocked()):
		p.sendLocked()
	case len(p.waiting) == 1:
		signal(p.wake) // the batcher sees to the linger
	}
	return nil
}

// answer tells proposers, those with callbacks by the completer and in this order.
func (p *proposer) answer(all ...answered) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range all {
		if all[i].err != nil {
			all[i].command.Sequence.End()
		}
		if w := all[i].waiter; w != nil {
			w.outcome <- all[i].outcome
			continue
		}
		if p.ended {
			all[i].done(all[i].result, all[i].err)
			continue
		}
		p.answered = append(p.answered, all[i])
		signal(p.told)
	}
}

func (p *proposer) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// awaitIdle waits until this node's own log has nothing of ours to do any more.
func (p *proposer) awaitIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiting) > 0 || p.inFlight > 0 || p.sending {
		p.cond.Wait()
	}
}

// refusal is why nothing can be proposed now, or nil.
func (n *Node) refusal() error {
	if err := n.failure.failed(); err != nil {
		return err
	}
	return n.leadership.refusal(n)
}

func (p *proposer) fullLocked() bool {
	return p.waitingBytes >= p.n.o.EntryBytes && p.inFlight < p.n.o.MaxInFlight
}

// sendLocked gives one group to raft, unless the leadership that its commands came under is over:
// what was sent before them may be lost. It lets go of mu while it builds the entry.
// REQUIRES: !p.sending and len(p.waiting) > 0.
func (p *proposer) sendLocked() {
	g := p.takeLocked()
	p.sending = true
	p.inFlight++
	p.mu.Unlock()

	if p.n.leadership.readyTerm() == p.n.Term() {
		p.give(g)
	} else {
		g.refused = outcomeError(raft.ErrNotLeader)
	}
	p.sent <- g

	p.mu.Lock()
	p.sending = false
	p.groups++
	p.commands += int64(len(g.proposals))
	p.cond.Broadcast()
	if len(p.waiting) > 0 {
		signal(p.wake)
	}
}

// give builds the group's entry and gives it to raft.
func (p *proposer) give(g *group) {
	p.last = max(p.last, p.n.o.Clock().UnixMilli(), p.n.fsm.time.Load())
	p.entry.Begin(p.last)
	for i := range g.proposals {
		p.entry.Add(&g.proposals[i].command)
	}
	data, sum, summed := p.entry.Finish()
	for i := range g.proposals {
		c := &g.proposals[i].command
		*c = core.Command{Sequence: c.Sequence} // its buffers are the caller's again
	}
	if summed {
		g.data = data
		p.sums.put(data, sum)
	}
	g.future = p.n.raft.ApplyLog(raft.Log{Data: data}, 0)
}

// takeLocked takes the first commands from the queue: up to EntryBytes, or a larger
// one alone.
func (p *proposer) takeLocked() *group {
	k, size := 0, 0
	for k < len(p.waiting) {
		l := p.waiting[k].command.EncodedLen()
		if k > 0 && size+l > p.n.o.EntryBytes {
			break
		}
		size += l
		k++
	}
	g := &group{proposals: p.waiting[:k:k]}
	if rest := p.waiting[k:]; len(rest) > k {
		p.waiting = rest // too many to copy
	} else {
		p.waiting = nil
		if n := len(p.spare); n > 0 {
			p.waiting, p.spare = p.spare[n-1], p.spare[:n-1]
		}
		p.waiting = append(p.waiting, rest...)
		clear(rest)
	}
	p.waitingBytes -= size
	return g
}

// withdraw takes a command that was not sent yet out of the queue. Where it reports
// false the command was sent, and its payload is no longer used.
func (p *proposer) withdraw(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.waiting {
		if p.waiting[i].waiter == w {
			p.waitingBytes -= p.waiting[i].command.EncodedLen()
			p.waiting = append(p.waiting[:i:i], p.waiting[i+1:]...)
			p.cond.Broadcast()
			return true
		}
	}
	for p.sending {
		p.cond.Wait()
	}
	return false
}

// batchLoop sends what nobody else sends: groups that have lingered, and full ones
// that came while somebody else was sending.
func (p *proposer) batchLoop() {
	linger := time.NewTimer(time.Hour)
	defer linger.Stop()
	for {
		select {
		case <-p.n.stop:
			return
		case <-p.wake:
		case <-linger.C:
		}
		p.mu.Lock()
		for len(p.waiting) > 0 && !p.sending && p.inFlight < p.n.o.MaxInFlight {
			rest := p.n.o.Linger - time.Since(p.since)
			if p.inFlight > 0 && rest > 0 && !p.fullLocked() {
				linger.Reset(rest)
				break
			}
			p.since = time.Now()
			p.sendLocked()
		}
		p.mu.Unlock()
	}
}

// completeLoop tells proposers how their commands ended.
func (p *proposer) completeLoop() {
	for {
		select {
		case <-p.n.stop:
			p.tellAnswered(true)
			return
		case <-p.told:
			p.tellAnswered(false)
		case g := <-p.sent:
			p.tellAnswered(false) // they came before
			g.complete()
			if g.data != nil {
				p.sums.take(g.data) // in case raft never stored it
			}
			clear(g.proposals)
			p.mu.Lock()
			if len(p.spare) < p.n.o.MaxInFlight && cap(g.proposals) <= maxSpare {
				p.spare = append(p.spare, g.proposals[:0])
			}
			p.inFlight--
			switch {
			case len(p.waiting) == 0 || p.sending:
				p.cond.Broadcast() // drain waits for the queue to be empty
			case p.inFlight == 0 || p.fullLocked():
				p.sendLocked()
			}
			p.mu.Unlock()
		}
	}
}

// tellAnswered tells those who are answered; last says that nobody will do it any more.
func (p *proposer) tellAnswered(last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.answered) > 0 {
		all := p.answered
		p.answered = nil
		p.mu.Unlock()
		for i := range all {
			all[i].tell(all[i].result, all[i].err)
		}
		p.mu.Lock()
	}
	if last {
		p.ended = true
	}
	p.cond.Broadcast()
}

// complete waits for the group's entry and tells its proposers.
func (g *group) complete() {
	err := g.refused
	if err == nil {
		err = outcomeError(g.future.Error())
	}
	var results []core.Result
	if err == nil {
		results, _ = g.future.Response().([]core.Result)
		if len(results) != len(g.proposals) {
			err = core.E(core.Internal, "entry %d: %d results for %d commands", g.future.Index(), len(results), len(g.proposals))
		}
	}
	for i := range g.proposals {
		if err != nil {
			g.proposals[i].command.Sequence.End()
			g.proposals[i].tell(core.Result{}, err)
		} else {
			g.proposals[i].tell(results[i], nil)
		}
	}
}

// drain lets no new commands in and waits until those that are have been told.
func (p *proposer) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.cond.Broadcast()
	signal(p.wake)
	for len(p.waiting) > 0 || p.inFlight > 0 || p.sending || len(p.answered) > 0 {
		p.cond.Wait()
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
