package mqtt

import (
	"time"

	"polylog/core"
	"polylog/router"
)

// takeBytes is how much of the apply stream is taken at once.
const takeBytes = 1 << 20

// fanOutMark is what the fan-out notes with a session while it works on one message, to send
// it once however many of the session's filters match it (section 3.3.4).
type fanOutMark struct {
	serial uint64 // of the message that hit is of
	hit    int    // its place in fanOut's hits
}

// hit is a session that gets a message.
type hit struct {
	session *session
	qos     byte
	retain  bool
	ids     []int
}

// fanOut feeds the subscribers of this node until the tail is closed.
func (s *Server) fanOut() {
	f := fan{srv: s}
	var dst router.TailBatches
	for {
		err := s.tail.Take(&dst, takeBytes)
		for i := range dst.Items {
			f.batch(&dst.Items[i])
		}
		took := len(dst.Items) > 0
		dst.Release()
		switch {
		case core.KindOf(err) == core.Corrupt:
			// Subscribers of one batch must not wait for its repair.
			s.metrics.unreadable.Add(1)
			s.log.Error("mqtt subscribers miss a batch", "err", err)
			s.tail.Skip()
		case err != nil:
			s.log.Error("mqtt subscribers are not fed", "err", err)
			select {
			case <-time.After(time.Second):
			case <-s.ctx.Done():
				return
			}
		case !took:
			if s.tail.Wait(s.ctx) != nil {
				return
			}
		}
	}
}

// fan is the fan-out at work.
type fan struct {
	srv    *Server
	serial uint64
	m      message
	hits   []hit
}

// batch sends the records of a batch to those who want them.
func (f *fan) batch(b *router.Appended) {
	h, _ := core.ParseBatchHeader(b.Data)
	for r, err := range core.Records(b.Data, core.MaxInflated) {
		if err != nil {
			f.srv.metrics.unreadable.Add(1)
			f.srv.log.Error("mqtt subscribers miss records", "topic", b.Topic.Name.String(), "offset", b.Offset, "err", err)
			return
		}
		f.m.index = b.Index
		if !f.m.readRecord(b.Topic.Name.Name, &r) {
			f.srv.metrics.unnamed.Add(1)
			continue
		}
		if f.m.expired(f.srv.now()) {
			continue
		}
		queue := b.Topic.Partitions[b.Partition]
		f.send(queued{queue: queue, offset: b.Offset + r.Offset - h.BaseOffset, index: b.Index}, b.Topic.Name.Name)
	}
}

// send sends the message at hand.
func (f *fan) send(at queued, topic string) {
	f.serial++
	f.hits = f.hits[:0]
	s := f.srv
	s.subs.mu.RLock()
	s.subs.tree.Match(f.m.name, f.match)
	s.subs.mu.RUnlock()
	for i := range f.hits {
		h := &f.hits[i]
		if s.authorize(h.session.c.principal, router.OpRead, topic) != nil {
			continue
		}
		at.qos, at.retain, at.ids = h.qos, h.retain, h.ids
		h.session.deliver(&f.m, at)
		*h = hit{}
	}
}

// match notes a subscription that matches.
func (f *fan) match(sub *subscription) {
	m := &f.m
	if sub.feed != nil && m.qos > 0 {
		return // it comes from the filter's queue
	}
	if m.index <= sub.from || sub.noLocal && string(m.client) == sub.session.c.client {
		return // MQTT-3.8.3-3
	}
	s := sub.session
	if s.serial != f.serial {
		s.serial, s.hit = f.serial, len(f.hits)
		f.hits = append(f.hits, hit{session: s})
	}
	h := &f.hits[s.hit]
	h.qos = max(h.qos, min(sub.qos, m.qos)) // MQTT-3.3.4-2
	h.retain = h.retain || sub.retainAsPublished && m.retain
	if sub.id != 0 {
		h.ids = append(h.ids, sub.id)
	}
}

// load reads the batch that a message is in.
func (rc *recordCache) load(srv *Server, at *queued) error {
	rc.queue, rc.records = at.queue, rc.records[:0]
	t, _, ok := srv.router.TopicOfQueue(at.queue)
	if !ok {
		return nil
	}
	rc.topic = t.Name.Name
	var dst router.Batches
	defer dst.Release()
	_, err := srv.router.Read(at.queue, at.offset, router.ReadOptions{AtLeastOne: true}, &dst)
	switch core.KindOf(err) {
	case core.OK:
	case core.NotFound, core.OutOfRange:
		return nil
	default:
		return err
	}
	for _, b := range dst.Items {
		h, _ := core.ParseBatchHeader(b.Data)
		data := append([]byte(nil), b.Data...) // records outlive the buffers
		for r, err := range core.Records(data, core.MaxInflated) {
			if err != nil {
				return core.E(core.Corrupt, "%v", err)
			}
			r.Offset += b.Offset - h.BaseOffset
			rc.records = append(rc.records, r)
		}
	}
	return nil
}
