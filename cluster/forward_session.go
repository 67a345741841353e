package cluster

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"polylog/core"
)

// A session is one stream to a leader. The leader speaks first, an empty message, when
// it is ready to take commands: so a stream that was refused has been sent nothing.

// session sends what waits to leader until another one is known, the stream ends or the
// node is closed. It reports whether the leader did anything.
func (f *forwarder) session(leader string) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	over := make(chan struct{}) // closed: nothing more is to be sent
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		f.watchSession(leader, over, done, cancel)
	}()
	defer func() { close(done); <-watched }()

	s, err := f.n.OpenStream(ctx, leader, proposeService)
	if err == nil {
		_, err = s.Recv()
	}
	if err != nil {
		f.n.o.Logger.Debug("commands not forwarded", "leader", leader, "err", err)
		return false
	}
	before := f.done.Load()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = f.receive(s)
	}()
	f.send(s, over, ended)
	_ = s.CloseSend()
	<-ended
	f.settle(errors.Is(err, io.EOF), err)
	return f.done.Load() > before
}

// watchSession closes over when leader leads no more, and cancels the stream when that
// does not make it end: an old leader may be paused, or cut off.
func (f *forwarder) watchSession(leader string, over chan<- struct{}, done <-chan struct{}, cancel func()) {
	for waits := true; waits; {
		_, changed := f.n.leadership.state()
		if now, known := f.n.Leader(); !known || now.ID != leader {
			break
		}
		select {
		case <-changed:
		case <-f.closing:
			waits = false
		case <-done:
			return
		}
	}
	close(over)
	grace := time.NewTimer(f.n.o.ElectionTimeout)
	defer grace.Stop()
	select {
	case <-grace.C:
		cancel()
	case <-done:
	}
}

// send sends what waits, and what comes, until the session is over or the stream has
// ended; receive knows why.
func (f *forwarder) send(s core.Stream, over, ended <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-ended:
			return
		default:
		}
		fr, refused := f.take()
		f.n.proposer.answer(refused...)
		if fr == nil {
			select {
			case <-f.wake:
			case <-over:
			case <-ended:
			}
			continue
		}
		err := fr.pieces(func(msg []byte, last bool) error {
			if last {
				f.mu.Lock()
				fr.sent = true
				f.mu.Unlock()
			}
			return s.Send(msg)
		})
		if err != nil {
			return
		}
	}
}

// take moves the first frame that waits to those that are sent. Commands whose sequences have ended
// are not among them: they are to be answered.
func (f *forwarder) take() (fr *frame, refused []answered) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.waiting) > 0 {
		whole := f.waiting[0]
		for i := range whole.commands {
			if c := &whole.commands[i]; !c.gone && c.command.Sequence.Ended() {
				refused = append(refused, answered{c.proposal, outcome{err: errSequenceEnded}})
				c.gone = true
			}
		}
		fr := whole.rest()
		f.bytes -= len(whole.data) - len(fr.data)
		f.waiting = slices.Delete(f.waiting, 0, 1)
		if len(fr.commands) > 0 {
			f.sent = append(f.sent, fr)
			return fr, refused
		}
	}
	return nil, refused
}

// receive takes the leader's answers until the stream ends, and returns why.
func (f *forwarder) receive(s core.Stream) error {
	in := assembler{limit: core.MaxCommandLen}
	for {
		msg, err := s.Recv()
		if err != nil {
			return err
		}
		var malformed error
		err = in.add(msg, func(record []byte) bool {
			var o outcome
			if o, malformed = decodeAnswer(record); malformed == nil {
				malformed = f.report(o)
			}
			return malformed == nil
		})
		if err = errors.Join(err, malformed); err != nil {
			f.n.o.Logger.Error("answers of the leader cannot be understood", "err", err)
			return core.E(core.Corrupt, "answers of the leader: %v", err)
		}
	}
}

// report notes the next answer. A refusal is held back until it is clear that nothing
// that came after the command was done.
func (f *forwarder) report(o outcome) error {
	var all []answered
	f.mu.Lock()
	if f.at >= len(f.sent) {
		f.mu.Unlock()
		return core.E(core.Invalid, "more answers than commands")
	}
	fr := f.sent[f.at]
	fr.commands[fr.answered].outcome = o
	fr.answered++
	if fr.answered == len(fr.commands) {
		f.at++
	}
	if !isRefusal(o.err) {
		f.done.Add(1)
		all = f.tellLocked()
	}
	f.mu.Unlock()
	if len(all) > 0 {
		f.answer(all)
	}
	return nil
}

// tellLocked is everything that is answered and not told; it counts as told then.
func (f *forwarder) tellLocked() (all []answered) {
	for len(f.sent) > 0 {
		fr := f.sent[0]
		for ; fr.told < fr.answered; fr.told++ {
			c := &fr.commands[fr.told]
			if !c.gone {
				all = append(all, answered{c.proposal, c.outcome})
			}
			if c.outcome.err != nil {
				c.command.Sequence.End()
			}
			c.proposal, c.outcome = proposal{}, outcome{}
		}
		if fr.told < len(fr.commands) {
			break
		}
		f.bytes -= len(fr.data)
		f.sent = slices.Delete(f.sent, 0, 1)
		f.at--
	}
	f.at = max(f.at, 0)
	return all
}

// settle decides what becomes of the commands that were sent, when their stream has
// ended, well or with err.
func (f *forwarder) settle(well bool, err error) {
	var all []answered
	f.mu.Lock()
	var again []*frame
	well = well || !slices.ContainsFunc(f.sent, func(fr *frame) bool { return fr.sent && fr.answered < len(fr.commands) })
	if !well {
		// Refused ones must not be tried again when a later one may have been done.
		uncertain := outcome{err: core.E(core.Uncertain, "connection to the leader lost, the outcome is not known: %v", err)}
		for _, fr := range f.sent {
			if fr.sent {
				for ; fr.answered < len(fr.commands); fr.answered++ {
					fr.commands[fr.answered].outcome = uncertain
				}
			}
		}
		all = f.tellLocked()
	}
	for _, fr := range f.sent {
		before := len(fr.data)
		fr = fr.rest()
		f.bytes -= before - len(fr.data)
		if len(fr.commands) > 0 {
			again = append(again, fr)
		}
	}
	f.sent, f.at = nil, 0
	f.waiting = append(again, f.waiting...)
	if len(f.waiting) > 0 {
		signal(f.wake)
	}
	f.mu.Unlock()
	f.answer(all)
}

// handBack gives what waits to this node's own log, in order, as long as it leads.
func (f *forwarder) handBack() {
	for {
		fr, refused := f.take()
		f.n.proposer.answer(refused...)
		if fr == nil {
			break
		}
		for i := range fr.commands {
			f.mu.Lock()
			gone := fr.commands[i].gone
			f.mu.Unlock()
			pr := fr.commands[i].proposal
			pr.command = fr.command(i)
			if !gone && f.n.proposer.submit(pr) != nil {
				f.settle(true, nil)
				return
			}
			f.mu.Lock()
			fr.answered, fr.told = i+1, i+1
			f.mu.Unlock()
		}
		f.mu.Lock()
		f.bytes -= len(fr.data)
		f.sent = slices.Delete(f.sent, 0, 1)
		f.cond.Broadcast()
		f.mu.Unlock()
	}
	f.answer(nil)
}
