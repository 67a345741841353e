package state

import (
	"encoding/binary"

	"polylog/core"
	"polylog/index"
)

// An append command's body:
//
//	 0             8
//	+-------------+------------------------+
//	| queue (u64) | one record batch, whole|
//	+-------------+------------------------+
const appendHeadLen = 8

// AppendCommand appends a batch to a queue. The batch is not copied.
func AppendCommand(q core.QueueID, batch []byte) core.Command {
	head := make([]byte, appendHeadLen)
	binary.BigEndian.PutUint64(head, uint64(q))
	return core.Command{Code: CodeAppend, Head: head, Payload: batch}
}

// append gives a batch its place in its queue.
func (s *State) append(tx *index.Tx, c *cursor, body []byte, pos uint32) core.Result {
	if len(body) < appendHeadLen+core.BatchHeaderLen {
		return refused(core.Invalid, "append: %d bytes, a batch alone has at least %d", len(body), core.BatchHeaderLen)
	}
	q := core.QueueID(binary.BigEndian.Uint64(body))
	return s.appendBatch(tx, c, q, body[appendHeadLen:], pos+appendHeadLen)
}

// appendBatch gives a batch that lies at pos of the entry's data its place in a queue.
func (s *State) appendBatch(tx *index.Tx, c *cursor, q core.QueueID, batch []byte, pos uint32) core.Result {
	h, _ := core.ParseBatchHeader(batch)
	if h.Magic != 2 || h.TotalLen() != len(batch) || h.LastOffsetDelta < 0 || h.Count < 1 {
		return refused(core.Invalid, "append: magic %d, length %d of %d bytes, %d records up to delta %d",
			h.Magic, h.TotalLen(), len(batch), h.Count, h.LastOffsetDelta)
	}
	var named *ackQueue
	p, topic := s.all.queues.find(q)
	if !topic {
		var err error
		named, err = s.ackQueue(tx, q)
		switch {
		case err != nil:
			return s.storeResult(err)
		case named == nil:
			return refused(core.NotFound, "no queue %d", q)
		}
	}
	run := core.Run{
		MaxTime: h.MaxTime,
		Ref: core.Ref{
			Index: c.index,
			Pos:   pos,
			Len:   uint32(len(batch)),
			Count: uint32(h.LastOffsetDelta) + 1,
		},
	}
	if run.MaxTime < 0 || named != nil {
		// Without a timestamp of its own a batch ages from its arrival, and in a named
		// queue every one does: messages leave it singly, and times that fall along a
		// queue would make the index look for the largest one again and again.
		run.MaxTime = c.time
	}
	if named != nil {
		return s.appendNamed(tx, c, named, &h, batch, run)
	}
	end, err := s.endBefore(tx, p.topic, q)
	if err != nil {
		return s.storeResult(err)
	}
	if end >= 0 {
		if e := s.tapTooMuch(c, p.topic, &h, batch); e != nil {
			return core.Result{Err: e}
		}
	}
	var res core.Result
	if h.HasProducer() {
		res = s.appendSequenced(tx, c, q, &h, run)
	} else {
		res = s.appendRun(tx, q, run)
	}
	if res.Err == nil && end >= 0 && res.Offset >= end {
		if err := s.tapBatch(tx, c, p.topic, &h, batch, run.Ref); err != nil {
			return s.storeResult(err)
		}
	}
	return res
}

func (s *State) appendRun(tx *index.Tx, q core.QueueID, run core.Run) core.Result {
	run, err := tx.Append(q, run)
	if err != nil && core.KindOf(err) == core.NotFound {
		// The first one, to a queue that exists.
		if err = tx.CreateQueue(q); err == nil {
			run, err = tx.Append(q, run)
		}
	}
	if err != nil {
		return s.storeResult(err)
	}
	s.touch(q)
	head, _, err := tx.Queue(q)
	if err != nil {
		return s.storeResult(err)
	}
	return core.Result{Offset: run.Offset, Start: head.Start}
}
