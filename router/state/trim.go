package state

import (
	"polylog/core"
	"polylog/core/wire"
)

// Trim moves a queue's start.
type Trim struct {
	Queue  core.QueueID
	Before core.Offset // the first offset that stays
}

// TrimQueues moves the starts of queues: retention, DeleteRecords. Each queue is on
// its own: one that is gone does not keep the others.
type TrimQueues struct{ Trims []Trim }

// TrimResult is the outcome for one queue.
type TrimResult struct {
	Kind  core.Kind // OK, NotFound, OutOfRange (beyond the end)
	Start core.Offset
}

// Command encodes: count uvarint; each: queue uvarint, before varint.
func (c *TrimQueues) Command() core.Command {
	b := wire.AppendUvarint(nil, uint64(len(c.Trims)))
	for _, t := range c.Trims {
		b = wire.AppendVarint(wire.AppendUvarint(b, uint64(t.Queue)), int64(t.Before))
	}
	return core.Command{Code: CodeTrimQueues, Head: b}
}

func decodeTrimQueues(body []byte) (c TrimQueues, err error) {
	r := wire.NewReader(body)
	c.Trims = make([]Trim, r.Count(2))
	for i := range c.Trims {
		c.Trims[i] = Trim{core.QueueID(r.Uvarint()), core.Offset(r.Varint())}
	}
	return c, r.Close()
}

// DecodeTrimResults reads the body of TrimQueues' result, in the command's order:
// count uvarint; each: kind byte, start varint.
func DecodeTrimResults(body []byte) ([]TrimResult, error) {
	r := wire.NewReader(body)
	rs := make([]TrimResult, r.Count(2))
	for i := range rs {
		rs[i] = TrimResult{core.Kind(r.Byte()), core.Offset(r.Varint())}
	}
	return rs, r.Close()
}

func (s *State) trimQueues(tx txn, body []byte) core.Result {
	cmd, err := decodeTrimQueues(body)
	if err != nil {
		return invalid("trim queues", err)
	}
	out := wire.AppendUvarint(nil, uint64(len(cmd.Trims)))
	for _, t := range cmd.Trims {
		r, err := s.trimQueue(tx, t)
		if err != nil {
			return s.storeResult(err)
		}
		out = wire.AppendVarint(append(out, byte(r.Kind)), int64(r.Start))
	}
	return core.Result{Body: out}
}

func (s *State) trimQueue(tx txn, t Trim) (TrimResult, error) {
	if _, ok := s.all.queues.find(t.Queue); !ok {
		return TrimResult{core.NotFound, -1}, nil
	}
	head, _, err := tx.Queue(t.Queue) // zero before the first append
	switch {
	case err != nil:
		return TrimResult{}, err
	case t.Before < 0 || t.Before > head.End:
		return TrimResult{core.OutOfRange, head.Start}, nil
	case t.Before <= head.Start:
		return TrimResult{core.OK, head.Start}, nil
	}
	return TrimResult{core.OK, t.Before}, tx.Trim(t.Queue, t.Before)
}
