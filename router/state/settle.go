package state

import (
	"polylog/core"
	"polylog/core/ackset"
	"polylog/core/wire"
)

// Settle says what became of deliveries, for any number of queues and groups: the leader
// gathers it for some milliseconds. Offsets that are settled already stay so, whatever is
// said of them.
type Settle struct {
	Term   core.Term // of the leader that says so
	Groups []GroupSettle
}

// GroupSettle is the part of a Settle that is about one group of a queue.
type GroupSettle struct {
	Queue core.QueueID
	Group string
	// Mark is a bound of what may be delivered from now on, where SetMark says so. It is
	// committed before an offset at or above the old one is delivered, so that whoever
	// leads next knows what may have been delivered; and it is lowered to what was
	// delivered when nobody consumes any more. A leader of an earlier term than the last
	// one that set it cannot change it.
	SetMark  bool
	Mark     core.Offset
	Done     []ackset.Span
	Failed   []FailedDelivery
	Rejected []core.Offset // dead
}

// FailedDelivery is a delivery that did not end well; the message is to be delivered again.
type FailedDelivery struct {
	Offset  core.Offset
	Counted bool  // towards the group's delivery limit
	Due     int64 // not before, ms; 0: at once
}

// slow counts the failed and the rejected.
func (c *Settle) slow() (n int) {
	for i := range c.Groups {
		n += len(c.Groups[i].Failed) + len(c.Groups[i].Rejected)
	}
	return n
}

// maxSettled bounds the failed and the rejected of a command, which take more work than
// spans.
const maxSettled = 1 << 12

// Command encodes: term uvarint, count uvarint; for each group: queue uvarint, group, mark
// byte and mark uvarint, count uvarint and that many spans (first uvarint, length uvarint), count uvarint and that many
// failed (offset uvarint, counted byte, due varint), count uvarint and that many rejected
// (offset uvarint).
func (c *Settle) Command() core.Command {
	b := wire.AppendUvarint(make([]byte, 0, 16+32*len(c.Groups)), uint64(c.Term))
	b = wire.AppendUvarint(b, uint64(len(c.Groups)))
	for i := range c.Groups {
		g := &c.Groups[i]
		b = wire.AppendString(wire.AppendUvarint(b, uint64(g.Queue)), g.Group)
		b = wire.AppendUvarint(wire.AppendBool(b, g.SetMark), uint64(g.Mark))
		b = wire.AppendUvarint(b, uint64(len(g.Done)))
		for _, sp := range g.Done {
			b = wire.AppendUvarint(wire.AppendUvarint(b, uint64(sp.First)), uint64(sp.Len()))
		}
		b = wire.AppendUvarint(b, uint64(len(g.Failed)))
		for _, f := range g.Failed {
			b = wire.AppendBool(wire.AppendUvarint(b, uint64(f.Offset)), f.Counted)
			b = wire.AppendVarint(b, f.Due)
		}
		b = wire.AppendUvarint(b, uint64(len(g.Rejected)))
		for _, o := range g.Rejected {
			b = wire.AppendUvarint(b, uint64(o))
		}
	}
	return core.Command{Code: CodeSettle, Head: b}
}

// maxQueueOffset is above every offset; what a command has above it is cut, so that
// nothing overflows.
const maxQueueOffset = 1 << 61

func readOffset(r *wire.Reader) core.Offset { return core.Offset(min(r.Uvarint(), maxQueueOffset)) }

func decodeSettle(body []byte) (c Settle, err error) {
	r := wire.NewReader(body)
	c.Term = core.Term(r.Uvarint())
	c.Groups = make([]GroupSettle, r.Count(7))
	for i := range c.Groups {
		g := &c.Groups[i]
		g.Queue, g.Group = core.QueueID(r.Uvarint()), r.String()
		g.SetMark, g.Mark = r.Bool(), readOffset(&r)
		if n := r.Count(2); n > 0 {
			g.Done = make([]ackset.Span, n)
			for j := range g.Done {
				first := readOffset(&r)
				g.Done[j] = ackset.Span{First: first, End: first + readOffset(&r)}
			}
		}
		if n := r.Count(3); n > 0 {
			g.Failed = make([]FailedDelivery, n)
			for j := range g.Failed {
				g.Failed[j] = FailedDelivery{readOffset(&r), r.Bool(), r.Varint()}
			}
		}
		if n := r.Count(1); n > 0 {
			g.Rejected = make([]core.Offset, n)
			for j := range g.Rejected {
				g.Rejected[j] = readOffset(&r)
			}
		}
	}
	return c, r.Close()
}

// Fate is what a Settle made of a failed or a rejected delivery.
type Fate uint8

// The fates.
const (
	Again   Fate = iota // it is to be delivered again
	Moved               // it is settled, and in the dead letter queue
	Dropped             // it is settled, and there was no dead letter queue
	Settled             // it was settled before, or the message is gone
)

// GroupSettled is the outcome of a GroupSettle.
type GroupSettled struct {
	Kind     core.Kind // NotFound: no such queue or group
	Settled  int64     // offsets that were not settled before
	Failed   []Fate    // in the command's order
	Rejected []Fate
}

// DecodeSettled reads the body of the result of a Settle, in the command's order: for each
// group kind byte, settled uvarint, failed, rejected.
func DecodeSettled(body []byte) (out []GroupSettled, err error) {
	r := wire.NewReader(body)
	for r.Len() > 0 {
		g := GroupSettled{Kind: core.Kind(r.Byte()), Settled: int64(r.Uvarint())}
		g.Failed, g.Rejected = fates(r.Bytes()), fates(r.Bytes())
		out = append(out, g)
	}
	return out, r.Close()
}

func fates(b []byte) []Fate {
	fs := make([]Fate, len(b))
	for i := range b {
		fs[i] = Fate(b[i])
	}
	return fs
}

func (s *State) settle(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeSettle(body)
	if err != nil {
		return invalid("settle", err)
	}
	if slow := cmd.slow(); slow > maxSettled {
		return refused(core.Limit, "settle: %d deliveries failed, %d at most in one command", slow, maxSettled)
	}
	budget := trimmedAtOnce
	out := make([]byte, 0, 4*len(cmd.Groups))
	for i := range cmd.Groups {
		if out, err = s.settleGroup(tx, c, cmd.Term, &cmd.Groups[i], &budget, out); err != nil {
			return s.storeResult(err)
		}
	}
	return core.Result{Body: out}
}

// settleGroup appends its outcome to out.
func (s *State) settleGroup(tx txn, c *cursor, term core.Term, cmd *GroupSettle, budget *int, out []byte) ([]byte, error) {
	a, err := s.ackGroups(tx, cmd.Queue)
	if err != nil {
		return out, err
	}
	if a == nil || a.groups[cmd.Group] == nil {
		out = append(out, byte(core.NotFound), 0, 0)
		return append(out, 0), nil
	}
	head, _, err := tx.Queue(cmd.Queue)
	if err != nil {
		return out, err
	}
	g := a.groups[cmd.Group]
	t := &settling{s, tx, c, cmd.Queue, a, g, head.Start, head.End, 0}
	before := g.acks.Floor()
	if cmd.SetMark && term >= g.markTerm {
		g.mark, g.markTerm = cmd.Mark, term
	}
	for _, sp := range cmd.Done {
		t.done(sp.First, sp.End)
	}
	failed := make([]byte, len(cmd.Failed))
	for i, f := range cmd.Failed {
		fate, err := t.fail(f)
		if err != nil {
			return out, err
		}
		failed[i] = byte(fate)
	}
	rejected := make([]byte, len(cmd.Rejected))
	for i, o := range cmd.Rejected {
		fate, err := t.die(o, DeathRejected)
		if err != nil {
			return out, err
		}
		rejected[i] = byte(fate)
	}
	s.ackChanged(ackKey{cmd.Queue, cmd.Group}, g)
	if g.acks.Floor() > before {
		if err := s.floorMoved(tx, cmd.Queue, a, before, budget); err != nil {
			return out, err
		}
	}
	out = wire.AppendUvarint(append(out, byte(core.OK)), uint64(t.settled))
	return wire.AppendBytes(wire.AppendBytes(out, failed), rejected), nil
}

// floorMoved trims the queue when the last of the groups that held its start went on.
func (s *State) floorMoved(tx txn, q core.QueueID, a *ackQueue, before core.Offset, budget *int) error {
	if before > a.floor {
		return nil
	}
	if a.lowest--; a.lowest > 0 {
		return nil
	}
	a.findFloor()
	return s.trimSettled(tx, q, a, budget)
}

// settling is one GroupSettle at work.
type settling struct {
	s     *State
	tx    txn
	c     *cursor
	queue core.QueueID
	of    *ackQueue
	group *ackGroup
	// The live offsets of the queue when it began; dead letters may make it longer.
	start, end core.Offset
	settled    int64
}

// done settles [first, end).
func (t *settling) done(first, end core.Offset) {
	g := t.group
	end = min(end, t.end)
	n := g.acks.Add(first, end)
	t.settled += n
	if n == 0 || len(g.failed) == 0 {
		return
	}
	if end-first <= core.Offset(len(g.failed)) {
		for o := first; o < end; o++ {
			delete(g.failed, o)
		}
	} else {
		for o := range g.failed {
			if first <= o && o < end {
				delete(g.failed, o)
			}
		}
	}
	if len(g.failed) == 0 {
		g.failed = nil
	}
}

func (t *settling) fail(f FailedDelivery) (Fate, error) {
	g := t.group
	if f.Offset < t.start || f.Offset >= t.end || g.acks.Contains(f.Offset) {
		return Settled, nil
	}
	was := g.failed[f.Offset]
	is := failure{was.attempts, f.Due}
	if f.Counted {
		is.attempts++
		if g.DeliveryLimit > 0 && int64(is.attempts) > int64(g.DeliveryLimit) {
			return t.die(f.Offset, DeathLimit)
		}
	}
	switch {
	case is != failure{}:
		if g.failed == nil {
			g.failed = map[core.Offset]failure{}
		}
		g.failed[f.Offset] = is
	case was != failure{}:
		delete(g.failed, f.Offset)
	}
	return Again, nil
}

// die settles an offset whose message is dead, and in the same step appends the message to
// the group's dead letter queue.
func (t *settling) die(o core.Offset, why DeathReason) (Fate, error) {
	if o < t.start || o >= t.end || t.group.acks.Contains(o) {
		return Settled, nil
	}
	fate := Dropped
	if t.group.DeadLetter.Name != "" {
		moved, err := t.bury(o, why)
		if err != nil {
			return 0, err
		}
		if moved {
			fate = Moved
		}
	}
	t.done(o, o+1)
	return fate, nil
}
