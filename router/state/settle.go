package state

import (
	"cmp"
	"slices"

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

	// What follows is of feature level 3.

	Expired    []core.Offset // dead: their time was over
	Overflowed []core.Offset // dead: the queue was too long
	// Letters, in the order of their offsets, are what is to be known of those that may be
	// dead, where an exchange takes the queue's dead letters.
	Letters []Letter
	Use     Use // of the queue, by its own group
	// Aloft says that so many offsets, of so many bytes, are with consumers at the time;
	// where SetAloft. It counts during the leader's term.
	SetAloft   bool
	Aloft      int64
	AloftBytes int64
}

// plain reports whether there is nothing but what level 2 knows.
func (g *GroupSettle) plain() bool {
	return len(g.Expired)+len(g.Overflowed)+len(g.Letters) == 0 && g.Use == NoUse && !g.SetAloft
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
		g := &c.Groups[i]
		n += len(g.Failed) + len(g.Rejected) + len(g.Expired) + len(g.Overflowed)
	}
	return n
}

// maxSettled bounds the failed and the rejected of a command, which take more work than
// spans.
const maxSettled = 1 << 12

// Command encodes: term uvarint, count uvarint; for each group: queue uvarint, group, mark
// byte and mark uvarint, count uvarint and that many spans (first uvarint, length uvarint), count uvarint and that many
// failed (offset uvarint, counted byte, due varint), count uvarint and that many rejected
// (offset uvarint). Where some group has more than that, another code has for each group the
// rest as well: count uvarint and that many expired, and the same of overflowed (offset
// uvarint), count uvarint and that many letters, use byte, aloft byte, uvarint and uvarint. A letter is
// offset uvarint, exchange, count uvarint, keys, count uvarint, headers (name, null byte, value), a
// byte that means nothing, size uvarint.
func (c *Settle) Command() core.Command {
	b := wire.AppendUvarint(make([]byte, 0, 16+32*len(c.Groups)), uint64(c.Term))
	b = wire.AppendUvarint(b, uint64(len(c.Groups)))
	code := CodeSettle
	for i := range c.Groups {
		if !c.Groups[i].plain() {
			code = CodeSettleFull
		}
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		if b = g.appendTo(b); code == CodeSettleFull {
			b = g.appendRest(b)
		}
	}
	return core.Command{Code: code, Head: b}
}

func (g *GroupSettle) appendTo(b []byte) []byte {
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
	return appendOffsets(b, g.Rejected)
}

func (g *GroupSettle) appendRest(b []byte) []byte {
	b = appendOffsets(appendOffsets(b, g.Expired), g.Overflowed)
	b = wire.AppendUvarint(b, uint64(len(g.Letters)))
	for i := range g.Letters {
		l := &g.Letters[i]
		b = appendWay(wire.AppendUvarint(b, uint64(l.Offset)), l.Exchange, l.Keys)
		b = appendRecordHeaders(b, l.Headers)
		b = wire.AppendUvarint(append(b, 0), uint64(l.Size))
	}
	b = wire.AppendBool(append(b, byte(g.Use)), g.SetAloft)
	return wire.AppendUvarint(wire.AppendUvarint(b, uint64(g.Aloft)), uint64(g.AloftBytes))
}

// appendRecordHeaders encodes: count uvarint; of each header key, null byte, value.
func appendRecordHeaders(b []byte, hs []core.RecordHeader) []byte {
	b = wire.AppendUvarint(b, uint64(len(hs)))
	for _, h := range hs {
		b = wire.AppendBool(wire.AppendString(b, h.Key), h.Value == nil)
		b = wire.AppendBytes(b, h.Value)
	}
	return b
}

func readRecordHeaders(r *wire.Reader) []core.RecordHeader {
	n := r.Count(3)
	if n == 0 {
		return nil
	}
	hs := make([]core.RecordHeader, n)
	for i := range hs {
		h := &hs[i]
		h.Key = r.String()
		if null, v := r.Bool(), r.Bytes(); !null {
			h.Value = append([]byte{}, v...)
		}
	}
	return hs
}

func appendOffsets(b []byte, os []core.Offset) []byte {
	b = wire.AppendUvarint(b, uint64(len(os)))
	for _, o := range os {
		b = wire.AppendUvarint(b, uint64(o))
	}
	return b
}

// maxQueueOffset is above every offset; what a command has above it is cut, so that
// nothing overflows.
const maxQueueOffset = 1 << 61

func readOffset(r *wire.Reader) core.Offset { return core.Offset(min(r.Uvarint(), maxQueueOffset)) }

func readOffsets(r *wire.Reader) []core.Offset {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	os := make([]core.Offset, n)
	for i := range os {
		os[i] = readOffset(r)
	}
	return os
}

func decodeSettle(body []byte) (Settle, error) { return readSettle(body, (*GroupSettle).read) }

func decodeSettleFull(body []byte) (Settle, error) {
	c, err := readSettle(body, func(g *GroupSettle, r *wire.Reader) {
		g.read(r)
		g.readRest(r)
	})
	if err != nil {
		return c, err
	}
	plain := true
	for i := range c.Groups {
		g := &c.Groups[i]
		plain = plain && g.plain()
		if !slices.IsSortedFunc(g.Letters, func(a, b Letter) int { return cmp.Compare(a.Offset, b.Offset) }) {
			return c, core.E(core.Invalid, "letters are not in order")
		}
	}
	if plain {
		return c, core.E(core.Invalid, "nothing in it but what a plain one has")
	}
	return c, nil
}

func readSettle(body []byte, read func(*GroupSettle, *wire.Reader)) (c Settle, err error) {
	r := wire.NewReader(body)
	c.Term = core.Term(r.Uvarint())
	c.Groups = make([]GroupSettle, r.Count(7))
	for i := range c.Groups {
		read(&c.Groups[i], &r)
	}
	return c, r.Close()
}

func (g *GroupSettle) read(r *wire.Reader) {
	g.Queue, g.Group = core.QueueID(r.Uvarint()), r.String()
	g.SetMark, g.Mark = r.Bool(), readOffset(r)
	if n := r.Count(2); n > 0 {
		g.Done = make([]ackset.Span, n)
		for j := range g.Done {
			first := readOffset(r)
			g.Done[j] = ackset.Span{First: first, End: first + readOffset(r)}
		}
	}
	if n := r.Count(3); n > 0 {
		g.Failed = make([]FailedDelivery, n)
		for j := range g.Failed {
			g.Failed[j] = FailedDelivery{readOffset(r), r.Bool(), r.Varint()}
		}
	}
	g.Rejected = readOffsets(r)
}

func (g *GroupSettle) readRest(r *wire.Reader) {
	g.Expired, g.Overflowed = readOffsets(r), readOffsets(r)
	if n := r.Count(6); n > 0 {
		g.Letters = make([]Letter, n)
		for i := range g.Letters {
			g.Letters[i] = readLetter(r)
		}
	}
	g.Use = min(Use(r.Byte()), uses-1)
	g.SetAloft = r.Bool()
	g.Aloft, g.AloftBytes = int64(readOffset(r)), int64(readOffset(r))
}

func readLetter(r *wire.Reader) (l Letter) {
	l.Offset = readOffset(r)
	l.Exchange, l.Keys = readWay(r)
	l.Headers = readRecordHeaders(r)
	r.Byte() // once the priority, which is in a header
	l.Size = int64(readOffset(r))
	return l
}

// Fate is what a Settle made of a failed or a rejected delivery.
type Fate uint8

// The fates.
const (
	Again   Fate = iota // it is to be delivered again
	Moved               // it is settled, and in the dead letter queue
	Dropped             // it is settled, and there was no dead letter queue
	Settled             // it was settled before, or the message is gone
	// Later: nothing was done about it, since the command's dead letters before it went to so
	// many places already. It is to be proposed again.
	Later
)

// maxLetterWork bounds the places that the dead letters of one command go to by exchanges, but for
// those of its last letter, and for a transaction, which is done whole.
const maxLetterWork = 200_000

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

// settle puts dead letters off when those before went to letterWork places.
func (s *State) settle(tx txn, c *cursor, body []byte, decode func([]byte) (Settle, error), letterWork int) core.Result {
	cmd, err := decode(body)
	if err != nil {
		return invalid("settle", err)
	}
	if slow := cmd.slow(); slow > maxSettled {
		return refused(core.Limit, "settle: %d deliveries failed, %d at most in one command", slow, maxSettled)
	}
	if cmd.Term < c.term && cmd.marks() {
		// Its leader would deliver up to the marks, and its successor has begun already.
		return refused(core.NotLeader, "settle: a mark of the leader of term %d, in an entry of term %d", cmd.Term, c.term)
	}
	budget := trimmedAtOnce
	s.letterWork = letterWork
	out := make([]byte, 0, 4*len(cmd.Groups))
	for i := range cmd.Groups {
		if out, err = s.settleGroup(tx, c, cmd.Term, &cmd.Groups[i], &budget, out); err != nil {
			return s.storeResult(err)
		}
	}
	return core.Result{Body: out}
}

// marks reports whether the command sets the mark of a group.
func (c *Settle) marks() bool {
	return slices.ContainsFunc(c.Groups, func(g GroupSettle) bool { return g.SetMark })
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
	t := &settling{s, tx, c, cmd.Queue, a, g, cmd.Letters, head.Start, head.End, 0}
	if a.queue != nil && g.acks.Floor() < head.Start {
		g.acks.Add(0, head.Start) // the queue was too long, and they are gone
	}
	before := g.acks.Floor()
	if cmd.SetAloft {
		g.aloft, g.aloftBytes, g.aloftTerm = cmd.Aloft, cmd.AloftBytes, term
	}
	if cmd.SetMark && term >= g.markTerm {
		g.mark, g.markTerm = cmd.Mark, term
	}
	for _, sp := range cmd.Done {
		if err := t.done(sp.First, sp.End); err != nil {
			return out, err
		}
	}
	failed := make([]byte, len(cmd.Failed))
	for i, f := range cmd.Failed {
		fate, err := t.fail(f)
		if err != nil {
			return out, err
		}
		failed[i] = byte(fate)
	}
	dead := make([]byte, 0, len(cmd.Rejected)+len(cmd.Expired)+len(cmd.Overflowed))
	for _, d := range [...]struct {
		offsets []core.Offset
		why     DeathReason
	}{{cmd.Rejected, DeathRejected}, {cmd.Expired, DeathExpired}, {cmd.Overflowed, DeathMaxLen}} {
		for _, o := range d.offsets {
			fate, err := t.die(o, d.why)
			if err != nil {
				return out, err
			}
			dead = append(dead, byte(fate))
		}
	}
	s.ackChanged(ackKey{cmd.Queue, cmd.Group}, g)
	if g.acks.Floor() > before {
		if err := s.floorMoved(tx, cmd.Queue, a, before, budget); err != nil {
			return out, err
		}
	}
	if cmd.Group == "" {
		if err := s.use(tx, c, a, cmd.Use); err != nil {
			return out, err
		}
		if err := s.renewHead(tx, c, a); err != nil {
			return out, err
		}
	}
	out = wire.AppendUvarint(append(out, byte(core.OK)), uint64(t.settled))
	return wire.AppendBytes(wire.AppendBytes(out, failed), dead), nil
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
	// letters are the command's.
	letters []Letter
	// The live offsets of the queue when it began; dead letters may make it longer.
	start, end core.Offset
	settled    int64
}

// done settles [first, end).
func (t *settling) done(first, end core.Offset) error {
	g := t.group
	end = min(end, t.end)
	if err := t.unweigh(first, end); err != nil {
		return err
	}
	n := g.acks.Add(first, end)
	t.settled += n
	if n == 0 || len(g.failed) == 0 {
		return nil
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
	return nil
}

// unweigh takes what is about to be settled off the group's bytes.
func (t *settling) unweigh(first, end core.Offset) (err error) {
	g := t.group
	if g.bytes == 0 || first >= end {
		return nil
	}
	if first <= g.acks.Floor() && end >= t.end {
		g.bytes = 0
		return nil
	}
	g.acks.Unsettled(first, end, func(sp ackset.Span) {
		if err == nil {
			err = ScanAttributes(t.tx, t.queue, sp.First, sp.End, func(_ core.Offset, a Attributes) bool {
				g.bytes -= a.Size
				return true
			})
		}
	})
	return err
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
		if limit := t.of.deliveryLimit(g); limit > 0 && int64(is.attempts) > int64(limit) {
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
	fate, moved, err := Dropped, false, error(nil)
	switch letter := findLetter(t.letters, o); {
	case t.group.DeadLetter.Name != "":
		moved, err = t.bury(o, why)
	case letter != nil && t.of.queue != nil && t.of.limits.HasDeadLetter && t.group == t.of.groups[""]:
		if t.s.letterWork <= 0 {
			return Later, nil
		}
		moved, err = t.post(o, why, letter)
	}
	if err != nil {
		return 0, err
	}
	if moved {
		fate = Moved
	}
	return fate, t.done(o, o+1)
}
