package kafka

import (
	"encoding/binary"
	"slices"

	"polylog/core"
	"polylog/router"
)

// spliceFrom is the size from which a batch is handed to the socket where it lies
// instead of being copied into the envelope: below it, an entry in the vector of the
// write costs more than the copy.
const spliceFrom = 4 << 10

// encoder writes a Fetch response around batches that it does not copy. The envelope
// lies in env.
type encoder struct {
	flexible bool
	env      *buffer
	from     int // start of what is in env and not yet in parts
	parts    []part
}

func (e *encoder) zero()       { e.env.b = append(e.env.b, 0) }
func (e *encoder) i16(v int16) { e.env.b = binary.BigEndian.AppendUint16(e.env.b, uint16(v)) }
func (e *encoder) i32(v int32) { e.env.b = binary.BigEndian.AppendUint32(e.env.b, uint32(v)) }
func (e *encoder) i64(v int64) { e.env.b = binary.BigEndian.AppendUint64(e.env.b, uint64(v)) }
func (e *encoder) uvarint(v int) {
	e.env.b = binary.AppendUvarint(e.env.b, uint64(v))
}

// count writes the length of an array, or -1 for a null one.
func (e *encoder) count(n int) {
	if e.flexible {
		e.uvarint(n + 1)
	} else {
		e.i32(int32(n))
	}
}

func (e *encoder) str(s string) {
	if e.flexible {
		e.uvarint(len(s) + 1)
	} else {
		e.i16(int16(len(s)))
	}
	e.env.b = append(e.env.b, s...)
}

// noTags ends a structure without tagged fields.
func (e *encoder) noTags() {
	if e.flexible {
		e.zero()
	}
}

// cut makes what is in env since the last cut a part of the response.
func (e *encoder) cut() {
	if b := e.env.b[e.from:]; len(b) > 0 {
		e.parts = append(e.parts, part{bytes: b})
	}
	e.from = len(e.env.b)
}

// batch writes a batch with the base offset and the leader epoch that it really has.
// The first 16 bytes are ours; the rest, which its CRC covers, is as it was stored.
func (e *encoder) batch(b *router.Batch) {
	e.i64(int64(b.Offset))
	e.env.b = append(e.env.b, b.Data[8:12]...)
	e.i32(int32(b.Term))
	if b.Extent != nil {
		e.cut()
		e.parts = append(e.parts, part{extent: b.Extent, from: core.BatchPatchLen, n: int64(b.Len() - core.BatchPatchLen)})
		return
	}
	rest := b.Data[core.BatchPatchLen:]
	if len(rest) < spliceFrom {
		e.env.b = append(e.env.b, rest...)
		return
	}
	e.cut()
	e.parts = append(e.parts, part{bytes: rest})
}

// encode writes the response. What it holds is given back after it is sent.
func (f *fetching) encode(sessionID int32) *rawReply {
	c := f.call
	size := 64
	for i := range f.parts {
		size += 64
		for _, b := range f.parts[i].answer.batches {
			if b.Len() < spliceFrom {
				size += b.Len()
			} else {
				size += core.BatchPatchLen
			}
		}
	}
	e := &encoder{flexible: c.version >= 12, env: getBuffer(size)}
	e.env.b = appendResponseHeader(e.env.b, c.correlation, e.flexible)
	e.i32(0) // throttle time
	if c.version >= fetchSessions {
		e.i16(codeNone)
		e.i32(sessionID)
	}
	hint := f.hint()
	f.encodeTopics(e, hint)
	encodeHint(e, hint)
	e.cut()
	reply := &rawReply{parts: e.parts, release: func() {
		f.forget()
		e.env.release()
	}}
	for i := range e.parts {
		reply.size += e.parts[i].len()
	}
	return reply
}

// leaderHint tells a client who leads (KIP-951).
type leaderHint struct {
	node
	epoch int32
}

// hint is for the clients that a part tells to look for the leader; nil where there is no
// such part, version or leader.
func (f *fetching) hint() *leaderHint {
	if f.call.version < fetchHints || !slices.ContainsFunc(f.parts, func(p fetchPart) bool { return p.answer.misled() }) {
		return nil
	}
	cl := f.call.cluster()
	leader, ok := cl.otherLeader()
	if f.term != 0 { // this node, in a newer epoch
		leader, ok = cl.leaderNode()
	}
	if !ok {
		return nil
	}
	return &leaderHint{leader, cl.epoch}
}

// misled reports whether the client took the wrong node or epoch for the leader's.
func (a *fetchAnswer) misled() bool {
	return a.code == codeNotLeaderOrFollower || a.code == codeFencedLeaderEpoch
}

// encodeTopics writes the array of topics: consecutive parts of one topic together.
func (f *fetching) encodeTopics(e *encoder, hint *leaderHint) {
	same := func(a, b *fetchPart) bool { return a.topic == b.topic && a.id == b.id }
	topics := 0
	for i := range f.parts {
		if i == 0 || !same(&f.parts[i-1], &f.parts[i]) {
			topics++
		}
	}
	e.count(topics)
	for i := 0; i < len(f.parts); {
		n := i + 1
		for n < len(f.parts) && same(&f.parts[i], &f.parts[n]) {
			n++
		}
		if f.call.version >= fetchTopicID {
			e.env.b = append(e.env.b, f.parts[i].id[:]...)
		} else {
			e.str(f.parts[i].topic)
		}
		e.count(n - i)
		for ; i < n; i++ {
			f.encodePart(e, &f.parts[i], hint)
		}
		e.noTags()
	}
}

func (f *fetching) encodePart(e *encoder, p *fetchPart, hint *leaderHint) {
	a := &p.answer
	version := f.call.version
	e.i32(p.partition)
	e.i16(a.code)
	e.i64(a.high)
	e.i64(a.stable)
	if version >= 5 {
		e.i64(a.from)
	}
	if f.req.IsolationLevel == readCommitted {
		e.count(0) // no transaction was aborted
	} else {
		e.count(-1) // must be null for readers of everything
	}
	if version >= 11 {
		e.i32(-1) // no other replica is preferred
	}
	if e.flexible { // never null
		e.uvarint(a.size + 1)
	} else {
		e.i32(int32(a.size))
	}
	for i := range a.batches {
		e.batch(&a.batches[i])
	}
	if !e.flexible {
		return
	}
	hinted := hint != nil && a.misled()
	tags := 0
	if a.diverging {
		tags++
	}
	if hinted {
		tags++
	}
	e.uvarint(tags)
	if a.diverging { // tag 0: epoch, end offset, no tags
		e.uvarint(0)
		e.uvarint(4 + 8 + 1)
		e.i32(a.divergingEpoch)
		e.i64(a.divergingEnd)
		e.zero()
	}
	if hinted { // tag 1: leader id, leader epoch, no tags
		e.uvarint(1)
		e.uvarint(4 + 4 + 1)
		e.i32(hint.id)
		e.i32(hint.epoch)
		e.zero()
	}
}

// encodeHint ends the response, with the leader's address where there is a hint.
func encodeHint(e *encoder, hint *leaderHint) {
	if hint == nil {
		e.noTags()
		return
	}
	rest := &encoder{flexible: true, env: getBuffer(64)}
	defer rest.env.release()
	rest.count(1)
	rest.i32(hint.id)
	rest.str(hint.host)
	rest.i32(hint.port)
	if hint.rack == nil {
		rest.uvarint(0)
	} else {
		rest.str(*hint.rack)
	}
	rest.zero()
	e.uvarint(1) // one tagged field
	e.uvarint(0) // tag 0: array of nodes
	e.uvarint(len(rest.env.b))
	e.env.b = append(e.env.b, rest.env.b...)
}
