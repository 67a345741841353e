package router

import (
	"context"
	"slices"
	"sync"
	"time"

	"polylog/core"
	"polylog/core/ackset"
	"polylog/router/dispatch"
	"polylog/router/state"
)

// settler gathers what became of deliveries, of all groups, and proposes it in one command
// every few milliseconds.
type settler struct {
	h    *hub
	wake chan struct{}

	mu     sync.Mutex // guards what follows
	term   core.Term
	batch  *settleBatch
	sealed []*settleBatch // full, or urgent; to be proposed now
	flying int            // batches that were taken and have no answer, of any term
}

const (
	// settleLinger is how long what a consumer said waits for company. Nobody waits for
	// it but a confirmed acknowledgement; what holds up deliveries does not wait. Nor do a
	// rejection, which somebody may wait for at the other end of an exchange, and room in a queue
	// that refuses messages, unless they find others on their way: many would be a command each.
	settleLinger = 2 * time.Millisecond
	// A batch is full with so many spans, or failures and rejections.
	settleSpans = 1 << 14
	settleSlow  = 1 << 11
)

// settleBatch is a command in the making.
type settleBatch struct {
	term    core.Term
	pending map[*hubGroup]*pendingSettle
	order   []*pendingSettle
	spans   int
	slow    int
	urgent  bool
}

// pendingSettle is the part of one group.
type pendingSettle struct {
	state.GroupSettle
	group   *hubGroup
	awaited []bool        // for each of Failed: the group awaits its fate
	leaving bool          // the mark is that of a group that nobody uses
	letters bool          // an exchange takes what is dead
	urgent  bool          // deliveries wait for it
	told    []func(error) // when it is committed
}

func (p *pendingSettle) done(o core.Offset) {
	if n := len(p.Done); n > 0 && p.Done[n-1].End == o {
		p.Done[n-1].End++
		return
	}
	p.Done = append(p.Done, ackset.Span{First: o, End: o + 1})
}

func (p *pendingSettle) fail(o core.Offset, counted bool, due int64, await bool) {
	p.Failed = append(p.Failed, state.FailedDelivery{Offset: o, Counted: counted, Due: due})
	p.awaited = append(p.awaited, await)
}

func (p *pendingSettle) outcome(o core.Offset, outcome dispatch.Outcome, due int64, await bool) {
	switch outcome {
	case dispatch.Done:
		p.done(o)
	case dispatch.Reject:
		p.Rejected = append(p.Rejected, o)
	case dispatch.Release, dispatch.Fail:
		p.fail(o, outcome == dispatch.Fail, due, await)
	}
}

// use says that the queue has consumers now, or none any more.
func (p *pendingSettle) use(u state.Use) { p.Use, p.urgent = u, true }

// slow is how many deliveries take more work than a span.
func (p *pendingSettle) slow() int {
	return len(p.Failed) + len(p.Rejected) + len(p.Expired) + len(p.Overflowed)
}

func (p *pendingSettle) setMark(mark core.Offset) { p.SetMark, p.Mark, p.urgent = true, mark, true }

func (s *settler) init(h *hub) {
	s.h = h
	s.wake = make(chan struct{}, 1)
}

// begin drops what was not proposed, and gathers for another term.
func (s *settler) begin(term core.Term) {
	s.mu.Lock()
	dropped := s.sealed
	if s.batch != nil {
		dropped = append(dropped, s.batch)
	}
	s.term, s.batch, s.sealed = term, nil, nil
	s.mu.Unlock()
	for _, b := range dropped {
		b.tell(core.E(core.Unavailable, "the leader changed"))
	}
}

// add changes a group's part. It never blocks for long. The caller holds the group's lock.
func (s *settler) add(g *hubGroup, change func(*pendingSettle)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.batch
	fresh := b == nil
	if fresh {
		b = &settleBatch{term: s.term, pending: map[*hubGroup]*pendingSettle{}}
		s.batch = b
	}
	p := b.pending[g]
	if p == nil {
		p = &pendingSettle{group: g}
		p.Queue, p.Group = g.key.queue, g.key.group
		b.pending[g] = p
		b.order = append(b.order, p)
		g.pending++
	}
	spans, slow, rejected := len(p.Done), p.slow(), len(p.Rejected)
	change(p)
	p.urgent = p.urgent || s.flying == 0 && (p.SetAloft || len(p.Rejected) > rejected)
	p.letters = g.rules.letters
	b.spans += len(p.Done) - spans + 1
	b.slow += p.slow() - slow
	full := b.spans >= settleSpans || b.slow >= settleSlow
	urgent := (full || p.urgent) && !b.urgent
	b.urgent = b.urgent || urgent
	if full {
		s.sealed = append(s.sealed, b)
		s.batch = nil
	}
	if fresh || urgent || full {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// run proposes until ctx ends.
func (s *settler) run(ctx context.Context) {
	linger := time.NewTimer(time.Hour)
	defer linger.Stop()
	for {
		select {
		case <-ctx.Done():
			s.begin(0)
			return
		case <-s.wake:
		}
		if !s.urgent() {
			linger.Reset(settleLinger)
			select {
			case <-ctx.Done():
				s.begin(0)
				return
			case <-linger.C:
			case <-s.wake: // it became urgent
				linger.Stop()
			}
		}
		for _, b := range s.take() {
			s.propose(b)
		}
	}
}

func (s *settler) urgent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sealed) > 0 || s.batch != nil && s.batch.urgent
}

// take is what is to be proposed now. It is on its way from then on.
func (s *settler) take() []*settleBatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	bs := s.sealed
	if s.batch != nil {
		bs = append(bs, s.batch)
	}
	s.batch, s.sealed = nil, nil
	s.flying += len(bs)
	return bs
}

func (s *settler) landed() {
	s.mu.Lock()
	s.flying--
	s.mu.Unlock()
}

// propose proposes a batch that was taken. Where that fails, or it is not known whether it was done, this
// hub has nothing to go on any more, and everything begins anew.
func (s *settler) propose(b *settleBatch) {
	cmd := state.Settle{Term: b.term, Groups: make([]state.GroupSettle, len(b.order))}
	for i, p := range b.order {
		if p.letters && p.slow() > 0 {
			p.Letters = s.h.r.lettersOf(&p.GroupSettle)
		}
		cmd.Groups[i] = p.GroupSettle
	}
	s.h.r.log.ProposeAsync(cmd.Command(), func(res core.Result, err error) {
		s.landed()
		if err == nil && res.Err != nil {
			err = res.Err
		}
		var outs []state.GroupSettled
		if err == nil {
			outs, err = state.DecodeSettled(res.Body)
		}
		if err == nil && len(outs) != len(b.order) {
			err = core.E(core.Internal, "settle: %d outcomes of %d", len(outs), len(b.order))
		}
		if err != nil {
			s.h.reset(b.term, err)
			b.tell(err)
			return
		}
		for i, p := range b.order {
			s.h.r.met.settled.Add(float64(outs[i].Settled))
			p.group.settled(p, &outs[i])
		}
		b.tell(nil)
	})
}

// lettersOf reads what is to be known of messages that may be dead to route them.
func (r *Router) lettersOf(p *state.GroupSettle) []state.Letter {
	dead := slices.Concat(p.Rejected, p.Expired, p.Overflowed)
	for _, f := range p.Failed {
		if f.Counted {
			dead = append(dead, f.Offset)
		}
	}
	slices.Sort(dead)
	letters := make([]state.Letter, 0, len(dead))
	var reader recordReader
	reader.init(r, p.Queue)
	for _, o := range slices.Compact(dead) {
		d := Delivery{Receipt: Receipt{Offset: o}}
		found, err := reader.read(&d)
		switch {
		case err != nil:
			r.logger.Error("a dead message cannot be read, and is routed without what it has", "queue", p.Queue, "offset", o, "error", err)
			letters = append(letters, state.Letter{Offset: o, Keys: []string{""}})
		case found:
			letters = append(letters, state.LetterOf(o, &d.Record))
		}
	}
	return letters
}

// tell says to all who wait what became of the batch.
func (b *settleBatch) tell(err error) {
	for _, p := range b.order {
		for _, fn := range p.told {
			fn(err)
		}
	}
}
