package amqp

import (
	"slices"
	"sync"

	"polylog/core"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// holder is whom deliveries of a channel come from and who holds them until the client has
// answered: a consumer, or the getter of a queue.
type holder interface {
	// settle says what became of deliveries. It does not block. done, which may be nil, is called
	// once that has taken effect, or nobody knows.
	settle(o router.Outcome, rs []router.Receipt, done func())
	// close gives back what is held. It may be called again.
	close()
	holding() *share
}

// share is embedded by holders.
type share struct {
	held int  // deliveries that the client has not answered; guarded by channel.mu
	done bool // there will be no more: it is closed when held is 0; guarded by channel.mu

	timeout int64 // ms that the client may keep a delivery; 0: for ever. It does not change
}

func (s *share) holding() *share { return s }

// settleFrom is settle for what comes from a consumer of the router.
func settleFrom(from *router.Consumer, o router.Outcome, rs []router.Receipt, done func()) {
	if done == nil {
		from.Settle(o, 0, rs, nil)
		return
	}
	from.Settle(o, 0, rs, func([]core.Kind, error) { done() })
}

// held is a delivery that the client has not answered.
type held struct {
	tag     uint64
	from    holder // nil: it was answered
	receipt router.Receipt
	at      int64 // when it was delivered, ms
}

// unacked are the deliveries of a channel that were not answered, by their tags. Its owner's
// lock guards it.
type unacked struct {
	list []held // tags ascend; those answered are taken out when they are many
	gone int    // entries that were answered
}

// add adds a delivery with a tag above all others.
func (u *unacked) add(h held) { u.list = append(u.list, h) }

// find is where a tag is; false when it was answered, or never given.
func (u *unacked) find(tag uint64) (int, bool) {
	if len(u.list) == 0 || tag < u.list[0].tag {
		return 0, false
	}
	// Mostly there are no gaps.
	if i := tag - u.list[0].tag; i < uint64(len(u.list)) && u.list[i].tag == tag {
		return int(i), u.list[i].from != nil
	}
	i, found := slices.BinarySearchFunc(u.list, tag, func(h held, tag uint64) int {
		if h.tag < tag {
			return -1
		} else if h.tag > tag {
			return 1
		}
		return 0
	})
	return i, found && u.list[i].from != nil
}

// take takes out a delivery, or all up to it where multiple says so, which with tag 0 are all
// there are. It is false for an unknown tag.
func (u *unacked) take(tag uint64, multiple bool, dst []held) ([]held, bool) {
	first, last := 0, len(u.list)-1
	if tag != 0 || !multiple {
		i, found := u.find(tag)
		if !found {
			return dst, false
		}
		last = i
		if !multiple {
			first = i
		}
	}
	for i := first; i <= last; i++ {
		if u.list[i].from != nil {
			dst = append(dst, u.list[i])
			u.list[i] = held{tag: u.list[i].tag}
			u.gone++
		}
	}
	u.shrink()
	return dst, true
}

// shrink takes out what was answered: at the front always, elsewhere when it is the most.
func (u *unacked) shrink() {
	front := 0
	for front < len(u.list) && u.list[front].from == nil {
		front++
	}
	u.gone -= front
	if u.list = u.list[front:]; len(u.list) == 0 {
		u.list = nil
	}
	if u.gone > 32 && u.gone > len(u.list)/2 {
		u.list = slices.DeleteFunc(u.list, func(h held) bool { return h.from == nil })
		u.gone = 0
	}
}

// putBack puts back what was taken.
func (u *unacked) putBack(hs []held) {
	u.list = append(u.list, hs...)
	slices.SortFunc(u.list, func(a, b held) int {
		switch {
		case a.tag != b.tag && a.tag < b.tag:
			return -1
		case a.tag != b.tag:
			return 1
		case a.from == nil:
			return -1 // its own place, which stays empty
		default:
			return 1
		}
	})
	u.list = slices.DeleteFunc(u.list, func(h held) bool { return h.from == nil })
	u.gone = 0
}

// holdLocked gives a delivery its tag. Without acknowledgement it is not held. now is in ms.
func (ch *channel) holdLocked(from holder, r router.Receipt, noAck bool, now int64) (tag uint64) {
	ch.lastTag++
	if !noAck {
		ch.unacked.add(held{ch.lastTag, from, r, now})
		from.holding().held++
	}
	return ch.lastTag
}

// answered takes the deliveries that an answer of the client's means.
func (ch *channel) answered(tag uint64, multiple bool) ([]held, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	hs, ok := ch.unacked.take(tag, multiple, nil)
	if !ok {
		return nil, soft(spec.PreconditionFailed, "unknown delivery tag %d", tag)
	}
	return hs, nil
}

// released says that deliveries are held no more, and closes holders that have given their
// last.
func (ch *channel) released(hs []held) {
	var ended []holder
	ch.mu.Lock()
	for i := range hs {
		h := hs[i].from.holding()
		if h.held--; h.held == 0 && h.done {
			delete(ch.holders, hs[i].from)
			ended = append(ended, hs[i].from)
		}
	}
	ch.mu.Unlock()
	if len(ended) == 0 {
		return
	}
	ch.settling.flush()
	for _, h := range ended {
		h.close()
	}
}

// byHolder calls fn with the receipts of each holder, in the order of their tags.
func byHolder(hs []held, fn func(h holder, rs []router.Receipt)) {
	for len(hs) > 0 {
		from := hs[0].from
		rs := make([]router.Receipt, 0, len(hs))
		rest := hs[:0:0]
		for _, h := range hs {
			if h.from == from {
				rs = append(rs, h.receipt)
			} else {
				rest = append(rest, h)
			}
		}
		fn(from, rs)
		hs = rest
	}
}

// settling gathers a channel's acknowledgements until the writer has a moment: clients send
// them one by one, mostly.
type settling struct {
	turn
	ch       *channel
	acks     []held     // guarded by channel.mu
	flushing sync.Mutex // before channel.mu; held until what was gathered is settled
}

// maxSettling is how many acknowledgements are gathered.
const maxSettling = 1024

// ack settles deliveries soon.
func (s *settling) ack(hs []held) {
	if len(hs) == 0 {
		return
	}
	s.ch.mu.Lock()
	s.acks = append(s.acks, hs...)
	full := len(s.acks) >= maxSettling
	s.ch.mu.Unlock()
	if full {
		s.flush()
	} else {
		s.ch.conn.ready(s)
	}
	s.ch.released(hs)
}

// feed implements source: there is nothing to send, but it is time to settle.
func (s *settling) feed() { s.flush() }

// flush settles what was gathered. Whoever closes a holder calls it first: what its holder settles
// after that would be lost, and the deliveries made again.
func (s *settling) flush() {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.ch.mu.Lock()
	acks := s.acks
	s.acks = nil
	s.ch.mu.Unlock()
	byHolder(acks, func(h holder, rs []router.Receipt) { h.settle(router.Done, rs, nil) })
}
