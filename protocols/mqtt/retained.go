package mqtt

import (
	"bytes"
	"slices"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/router"
)

// retainedWalk is a subscription that is yet to get retained messages (section 3.3.1.3).
type retainedWalk struct {
	sub   *subscription
	until core.LogIndex // what came behind it comes as what is published does
	from  string        // the name after which it goes on
	owed  bool          // the log knows of it: a later connection goes on with what this one does not end

	open int  // messages that are on their way
	over bool // there are no more
}

// retainedAtOnce bounds the retained messages that are sent before others get the lock.
const retainedAtOnce = 64

// sendRetained sends retained messages while there is room, the rest when there is again.
//
// They are read and put into the outbox under the session's lock, which whatever comes from
// the fan-out takes too: so none is sent that is older than what was sent before, and the
// last message that a subscriber sees of a name is the newest. They are in the index, mostly
// in memory.
func (s *session) sendRetained() {
	for {
		s.mu.Lock()
		if s.ended || len(s.walks) == 0 || !s.roomLocked() {
			s.mu.Unlock()
			return
		}
		w := s.walks[0]
		if w.sub.ofSys() {
			s.walks = s.walks[1:]
			s.mu.Unlock()
			s.srv.sys.greet(w.sub)
			continue
		}
		next, more, first, err := s.retainedLocked(w)
		if err != nil {
			s.srv.metrics.unreadable.Add(1)
			s.srv.log.Error("mqtt retained messages cannot be read", "client", s.c.client, "filter", w.sub.filter, "err", err)
		}
		var rest []uint16
		if w.from = next; err != nil || !more {
			if s.walks = s.walks[1:]; len(s.walks) == 0 {
				s.walks = nil
			}
			w.over = err == nil
			rest = s.restLocked(w)
		}
		s.mu.Unlock()
		if len(first) > 0 {
			s.assign(first)
		}
		for _, id := range rest {
			s.release(id, place{})
		}
	}
}

// walkLocked has a subscription get retained messages.
func (s *session) walkLocked(w *retainedWalk) {
	s.walks = append(s.walks, w)
	if w.owed {
		s.owing = append(s.owing, w)
	}
}

// owedLocked is the walk that the log knows of for a subscription, and that has not ended; nil where there is none.
func (s *session) owedLocked(sub *subscription) *retainedWalk {
	i := slices.IndexFunc(s.owing, func(w *retainedWalk) bool { return w.sub == sub })
	if i < 0 {
		return nil
	}
	return s.owing[i]
}

// restLocked takes out the packet ids of messages that an earlier connection sent in a walk, and this one did not meet
// again: others are retained by now.
func (s *session) restLocked(w *retainedWalk) (rest []uint16) {
	if !w.owed {
		return nil
	}
	for h, before := range s.hints {
		if filter, retained := ofRetained(h.group); retained && filter == w.sub.filter {
			rest = append(rest, before.id)
			delete(s.hints, h)
			delete(s.reserved, before.id)
		}
	}
	return rest
}

// retainedPrefix begins the groups, which are none, of retained messages whose packet ids are in the log: with the filter,
// and behind a null character, which neither can have, the name.
const retainedPrefix = "retained:"

func retainedGroup(filter, name string) string { return retainedPrefix + filter + "\x00" + name }

// ofRetained is the filter of such a group.
func ofRetained(group string) (filter string, ok bool) {
	rest, ok := strings.CutPrefix(group, retainedPrefix)
	filter, _, cut := strings.Cut(rest, "\x00")
	return filter, ok && cut
}

// anyRetained reports whether a filter may have retained messages.
func (s *session) anyRetained(filter string) bool {
	some := false
	_, more, err := s.srv.router.Retained(s.srv.opts.Namespace, filter, "", func(router.Retained) bool {
		some = true
		return false
	})
	return some || more || err != nil
}

// settleOwed tells the log of subscriptions that have got all their retained messages. An error ends the connection.
func (c *conn) settleOwed() error {
	s := c.session
	var got []*subscription
	s.mu.Lock()
	s.owing = slices.DeleteFunc(s.owing, func(w *retainedWalk) bool {
		if s.subs[w.sub.key()] != w.sub {
			return true // there is another one, or none
		}
		if !w.over || w.open > 0 {
			return false
		}
		got = append(got, w.sub)
		return true
	})
	s.mu.Unlock()
	for _, sub := range got {
		if _, err := c.store(sub, false); passing(err) {
			return reasonOf(err)
		}
	}
	return nil
}

// retainedLocked sends what there is room for; first is what is to be assigned before that.
func (s *session) retainedLocked(w *retainedWalk) (next string, more bool, first []*lined, err error) {
	sent := 0
	now := s.srv.now()
	next, more, err = s.srv.router.Retained(s.srv.opts.Namespace, w.sub.filter, w.from, func(r router.Retained) bool {
		var rec core.Record
		if r.Index > w.until || core.FirstRecord(r.Batch, &rec) != nil {
			return true
		}
		var m message
		m.fill(r.Name, &rec)
		if m.expired(now) || s.srv.authorizeName(s.c.principal, r.Name) != nil {
			return true
		}
		d := delivery{version: s.version, qos: min(m.qos, w.sub.qos), retain: true, now: now}
		if w.sub.id != 0 {
			d.ids = []int{w.sub.id}
		}
		if publishSize(&m, &d) > s.maxPacket {
			s.srv.metrics.tooLarge.Add(1)
			return true
		}
		switch {
		case d.qos == 2 && s.keeps:
			if l := s.lineUpRetainedLocked(w, &r, &d); l != nil {
				first = append(first, l)
			}
		case d.qos > 0:
			s.sendLocked(&m, &d, place{walk: w})
		default:
			s.c.out.put(func(b []byte) []byte { return s.appendPublish(b, &m, &d) })
			s.srv.metrics.sent[0].Add(1)
		}
		sent++
		return sent < retainedAtOnce && s.roomLocked()
	})
	return next, more, first, err
}

// lineUpRetainedLocked has a retained message of QoS 2 sent in its turn, under a packet id that outlives the connection.
func (s *session) lineUpRetainedLocked(w *retainedWalk, r *router.Retained, d *delivery) *lined {
	var rec core.Record
	if core.FirstRecord(bytes.Clone(r.Batch), &rec) != nil {
		return nil
	}
	m := &message{}
	m.fill(strings.Clone(r.Name), &rec)
	at := place{
		feed:    &feed{group: retainedGroup(w.sub.filter, r.Name)}, // none that delivers
		receipt: router.Receipt{Offset: core.Offset(r.Index)},
		walk:    w,
	}
	_, d.dup = s.hints[at.hint()]
	return s.lineUpLocked(m, *d, at)
}

// retains reports whether a subscription gets retained messages (section 3.8.3.1).
func retains(f *packets.Subscription, old *subscription) bool {
	return f.RetainHandling == 0 || f.RetainHandling == 1 && old == nil
}

// storeRetained publishes a message that is to be retained.
func (p *publisher) storeRetained(to target, pk *packets.Packet, ack uint64) {
	p.store(to, pk, 0, ack, func(seq *core.Sequence, m router.MQTTMessage, done func(router.PublishResult)) {
		name := core.Name{Namespace: p.c.srv.opts.Namespace, Name: m.Name}
		p.c.srv.router.PublishRetained(p.c.principal, seq, m.Queue, name, m.Batch, done)
	})
}
