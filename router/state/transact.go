package state

import (
	"math"

	"polylog/core"
	"polylog/core/wire"
)

// Transact publishes messages and settles deliveries in one step: all of it, or nothing. It
// is refused where a message cannot be published (Result.Offset says which, from 0), and with
// Limit where a queue would not take all of its messages (Result.Offset is -1).
//
// Who settles this way does so by offset, and from any node: the dispatcher hears of it when
// it is applied (OnTransacted). Deliveries are known to their leader only, so it is refused
// with Conflict in the log of a leader of another term than Settle.Term, where that is not 0.
type Transact struct {
	Publishes []core.Command // of PublishCommand
	Settle    Settle         // sets no marks
}

const (
	// MaxTransacted bounds the messages of a transaction.
	MaxTransacted = 1 << 14
	// MaxTransactedBytes bounds a transaction's messages, in bytes.
	MaxTransactedBytes = 32 << 20
)

// Command encodes: count uvarint; that many bodies of publish commands, each with its length
// in front; the code of a settle command, uvarint, and its body.
func (c *Transact) Command() core.Command {
	n := 16
	for i := range c.Publishes {
		n += 10 + c.Publishes[i].EncodedLen()
	}
	b := wire.AppendUvarint(make([]byte, 0, n), uint64(len(c.Publishes)))
	for i := range c.Publishes {
		p := &c.Publishes[i]
		b = wire.AppendUvarint(b, uint64(len(p.Head)+len(p.Payload)))
		b = append(append(b, p.Head...), p.Payload...)
	}
	settle := c.Settle.Command()
	return core.Command{Code: CodeTransact, Head: wire.AppendUvarint(b, uint64(settle.Code)), Payload: settle.Head}
}

// transacting is a Transact that was read.
type transacting struct {
	publishes []publishing
	to        []destinations // of each
	decode    func([]byte) (Settle, error)
	settle    []byte    // for decode
	term      core.Term // of the deliveries that it settles; 0: any
}

func (t *transacting) readFrom(c *cursor, body []byte, pos uint32) (failed int, err *core.Error) {
	r := wire.NewReader(body)
	n := r.Count(core.BatchHeaderLen)
	if n > MaxTransacted {
		return -1, core.E(core.Limit, "transaction of %d messages, at most %d are allowed", n, MaxTransacted)
	}
	t.publishes = make([]publishing, n)
	for i := range t.publishes {
		b := r.Bytes()
		if err := t.publishes[i].readFrom(c, b, pos+uint32(len(body)-r.Len()-len(b))); err != nil {
			return i, err
		}
	}
	switch code := r.Uvarint(); {
	case r.Err() != nil:
		return -1, core.E(core.Invalid, "transaction: %v", r.Err())
	case code == uint64(CodeSettle):
		t.decode = decodeSettle
	case code == uint64(CodeSettleFull):
		t.decode = decodeSettleFull
	default:
		return -1, core.E(core.Invalid, "transaction: settles by command %d", code)
	}
	t.settle = r.Rest()
	settle, e := t.decode(t.settle)
	if e != nil {
		return -1, core.E(core.Invalid, "transaction: %v", e)
	}
	t.term = settle.Term
	if n := settle.slow(); n > maxSettled {
		return -1, core.E(core.Limit, "transaction: %d deliveries failed, %d at most in one command", n, maxSettled)
	}
	return 0, nil
}

// DecodeTransacted reads the body of the result of a Transact: for each message, of how many
// queues and topics it was for. Count uvarint, that many uvarints.
func DecodeTransacted(body []byte) (queues []int, err error) {
	r := wire.NewReader(body)
	queues = make([]int, r.Count(1))
	for i := range queues {
		queues[i] = int(r.Uvarint())
	}
	return queues, r.Close()
}

func (s *State) transact(tx txn, c *cursor, body []byte, pos uint32) core.Result {
	var t transacting
	refuse := func(failed int, err *core.Error) core.Result {
		return core.Result{Offset: core.Offset(failed), Err: err}
	}
	if failed, err := t.readFrom(c, body, pos); err != nil {
		return refuse(failed, err)
	}
	if t.term != 0 && t.term != c.term {
		return refuse(-1, core.E(core.Conflict, "transaction: settles deliveries of term %d in term %d", t.term, c.term))
	}
	m := &s.routing.match
	defer m.drop(m.top())
	for i := range t.publishes {
		d, refusal, err := t.publishes[i].find(s, tx, c)
		switch {
		case err != nil:
			return s.storeResult(err)
		case refusal != nil:
			return refuse(i, refusal)
		}
		t.to = append(t.to, d)
	}
	full, err := s.anyFull(tx, c, &t)
	switch {
	case err != nil:
		return s.storeResult(err)
	case full:
		return refuse(-1, core.E(core.Limit, "transaction: a queue is full"))
	}
	out := wire.AppendUvarint(make([]byte, 0, 4+len(t.publishes)), uint64(len(t.publishes)))
	for i := range t.publishes {
		r, err := s.deliver(tx, c, &t.publishes[i].passage, t.to[i])
		if err != nil {
			return s.storeResult(err)
		}
		out = wire.AppendUvarint(out, uint64(r.queues))
	}
	settled := s.settle(tx, c, t.settle, t.decode, math.MaxInt) // all of it in one step
	if settled.Err != nil {
		return settled // of the store: all else was looked at before
	}
	s.transacted(&t, settled.Body)
	return core.Result{Body: out}
}

// anyFull reports whether some queue would not take what a transaction has for it.
func (s *State) anyFull(tx txn, c *cursor, t *transacting) (bool, error) {
	type load struct{ messages, bytes int64 }
	loads := map[core.QueueID]load{}
	queues := s.routing.match.queues
	for i := range t.publishes {
		size := int64(0)
		if r := t.publishes[i].record(); r != nil {
			size = int64(len(r.Value))
		}
		for _, q := range queues[t.to[i].queues:t.to[i].queuesEnd] {
			l := loads[q]
			l = load{l.messages + 1, l.bytes + size}
			loads[q] = l
			if ok, err := s.admits(tx, c, q, l.messages, l.bytes); err != nil || !ok {
				return true, err
			}
		}
	}
	return false, nil
}

// Transacted is what a Transact settled of a group.
type Transacted struct {
	GroupSettle
	Outcome GroupSettled
}

// OnTransacted sets what is told, on the applier's goroutine, of deliveries that transactions
// settled. It must not block, and may keep the slice.
func (s *State) OnTransacted(fn func([]Transacted)) { s.onTransacted.Store(&fn) }

func (s *State) transacted(t *transacting, body []byte) {
	if s.onTransacted.Load() == nil {
		return
	}
	cmd, err := t.decode(t.settle)
	outs, err2 := DecodeSettled(body)
	if err != nil || err2 != nil || len(outs) != len(cmd.Groups) {
		panic("state: a settle that was just applied cannot be read")
	}
	for i, g := range cmd.Groups {
		s.settledByTx = append(s.settledByTx, Transacted{g, outs[i]})
	}
}

// giveTransacted tells of what this batch's transactions settled.
func (s *State) giveTransacted() {
	if fn := s.onTransacted.Load(); fn != nil && len(s.settledByTx) > 0 {
		(*fn)(s.settledByTx)
		s.settledByTx = nil
	}
}
