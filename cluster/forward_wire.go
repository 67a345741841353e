package cluster

import (
	"encoding/binary"

	"polylog/core"
	"polylog/core/wire"
)

// Forwarded commands, and the answers to them, are records in a stream of bytes that is
// cut into messages anywhere. Numbers are big-endian:
//
//	command, as in a log entry (core.AppendCommand):
//	+------------+------+-----------------------+
//	| length u32 | code | body (length-1 bytes) |
//	+------------+------+-----------------------+
//
//	answer:
//	+------------+------+------+---------+--------+--------+---------------+------+------+
//	| length u32 | what | kind | applied | offset | start  | length of     | body | text |
//	|            | u8   | u8   | uvarint | varint | varint | body, uvarint |      |      |
//	+------------+------+------+---------+--------+--------+---------------+------+------+
//
// what is answerDone, answerRefused (by Apply) or answerError (not applied, or nobody
// knows). kind is the error's core.Kind, 0 with answerDone, and text what it says. applied
// is how far the leader's state was: at the command's entry or behind it.
const (
	answerDone    = 0
	answerRefused = 1
	answerError   = 2

	lengthLen = 4
)

// assembler puts records together that were cut into messages.
type assembler struct {
	limit int    // of a record without its length, in bytes
	part  []byte // of a record whose end has not come
}

// add calls fn for each record that msg completes, without its length, until fn reports
// false. Records alias msg or memory that is not used again. Memory is taken for what
// has come, never for what a length announces.
func (a *assembler) add(msg []byte, fn func(record []byte) bool) error {
	if len(a.part) > 0 {
		msg, a.part = append(a.part, msg...), nil
	}
	for len(msg) >= lengthLen {
		n := int(binary.BigEndian.Uint32(msg))
		if n < 1 || n > a.limit {
			return core.E(core.Invalid, "record of %d bytes, the limit is %d", n, a.limit)
		}
		if len(msg)-lengthLen < n {
			break
		}
		record := msg[lengthLen : lengthLen+n : lengthLen+n]
		msg = msg[lengthLen+n:]
		if !fn(record) {
			return nil
		}
	}
	a.part = msg
	return nil
}

// appendAnswer adds the answer to one command.
func appendAnswer(dst []byte, applied core.LogIndex, r core.Result, err error) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	text := ""
	switch {
	case err != nil:
		dst = append(dst, answerError, byte(core.KindOf(err)))
		text = err.Error()
	case r.Err != nil:
		dst = append(dst, answerRefused, byte(r.Err.Kind))
		text = r.Err.Msg
	default:
		dst = append(dst, answerDone, byte(core.OK))
	}
	dst = wire.AppendUvarint(dst, uint64(applied))
	dst = wire.AppendVarint(dst, int64(r.Offset))
	dst = wire.AppendVarint(dst, int64(r.Start))
	dst = wire.AppendBytes(dst, r.Body)
	dst = append(dst, text...)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-lengthLen))
	return dst
}

// decodeAnswer reads an answer's record.
func decodeAnswer(record []byte) (o outcome, err error) {
	w := wire.NewReader(record)
	what, kind := w.Byte(), core.Kind(w.Byte())
	o.applied = core.LogIndex(w.Uvarint())
	r := core.Result{Offset: core.Offset(w.Varint()), Start: core.Offset(w.Varint())}
	if b := w.Bytes(); len(b) > 0 {
		r.Body = b
	}
	text := string(w.Rest())
	if w.Err() != nil || what > answerError || (kind == core.OK) != (what == answerDone) {
		return outcome{}, core.E(core.Invalid, "answer of %d bytes, of kind %d, to a forwarded command: %v", len(record), what, w.Err())
	}
	switch what {
	case answerRefused:
		r.Err = &core.Error{Kind: kind, Msg: text}
	case answerError:
		o.err = &core.Error{Kind: kind, Msg: text}
		return o, nil
	}
	o.result = r
	return o, nil
}
