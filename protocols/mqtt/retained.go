package mqtt

import (
	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/router"
)

// retainedWalk is a subscription that is yet to get retained messages (section 3.3.1.3).
type retainedWalk struct {
	sub   *subscription
	until core.LogIndex // what came behind it comes as what is published does
	from  string        // the name after which it goes on
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
		next, more, err := s.retainedLocked(w)
		if err != nil {
			s.srv.metrics.unreadable.Add(1)
			s.srv.log.Error("mqtt retained messages cannot be read", "client", s.c.client, "filter", w.sub.filter, "err", err)
		}
		if w.from = next; err != nil || !more {
			if s.walks = s.walks[1:]; len(s.walks) == 0 {
				s.walks = nil
			}
		}
		s.mu.Unlock()
	}
}

// retainedLocked sends what there is room for.
func (s *session) retainedLocked(w *retainedWalk) (next string, more bool, err error) {
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
		if d.qos > 0 {
			s.sendLocked(&m, &d)
		} else {
			s.c.out.put(func(b []byte) []byte { return s.appendPublish(b, &m, &d) })
			s.srv.metrics.sent[0].Add(1)
		}
		sent++
		return sent < retainedAtOnce && s.roomLocked()
	})
	return next, more, err
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
