package mqtt

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"polylog/core"
	"polylog/router"
)

// feed is what a session gets of a subscription from the log: from the queue of the filter, as
// a member of the session's own group, or of one that several sessions share.
type feed struct {
	sub      atomic.Pointer[subscription] // the client may change it
	consumer *router.Consumer             // nil: of a message that is the client's alone, or retained
	queue    core.QueueID
	group    string
	shared   bool
	left     bool                   // it was closed, for it met what its client may not read; the session's mu guards it
	sent     map[core.Offset]uint16 // packet ids of what is on its way; guarded alike
}

// place is where a message of a feed is, or a retained one. Its zero value is of neither.
type place struct {
	feed    *feed
	receipt router.Receipt
	walk    *retainedWalk // that has brought it
}

// feedBuffer is how many messages of one feed wait here.
const feedBuffer = 64

// openFeed begins to consume a subscription's messages.
func (s *session) openFeed(sub *subscription, at *router.MQTTSubscription) error {
	f := &feed{queue: at.Queue, group: at.Group, shared: sub.share != ""}
	f.sub.Store(sub)
	spec := router.ConsumeSpec{
		Queue: at.Queue, Group: at.Group, Prefetch: s.window, Buffer: min(s.window, feedBuffer), Wake: s.pump,
	}
	if !f.shared {
		spec.Fence = s.c.lease.Token() // what an earlier connection holds, of a node that is lost maybe, comes first
	}
	// Rights are asked for of each message: the filter's queue is nobody's.
	c, err := s.srv.router.Consume(s.srv.ctx, router.Trusted("mqtt", s.c.principal.Host), spec)
	if err != nil {
		return err
	}
	f.consumer = c
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		c.Close()
		return nil
	}
	sub.feed = f
	s.feeds = append(s.feeds, f)
	s.mu.Unlock()
	s.pump()
	return nil
}

// closeFeed ends a subscription's feed. What is on its way to the client is settled by what
// the client says, or is the group's again.
func (s *session) closeFeed(f *feed) {
	s.mu.Lock()
	s.feeds = slices.DeleteFunc(s.feeds, func(o *feed) bool { return o == f })
	s.mu.Unlock()
	f.consumer.Close()
}

// pump has what came from the feeds sent, by a goroutine that is there only while there is
// something. It does not block.
func (s *session) pump() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pumpLocked()
}

func (s *session) pumpLocked() {
	s.wanted = true
	if s.pumping || s.ended {
		return
	}
	s.pumping = true
	s.pumps.Go(s.drain)
}

func (s *session) drain() {
	var one [1]router.Delivery
	for {
		s.mu.Lock()
		if !s.wanted || s.ended {
			s.pumping = false
			s.mu.Unlock()
			return
		}
		s.wanted = false
		feeds := slices.Clone(s.feeds)
		s.mu.Unlock()
		for i := range feeds {
			f := feeds[(i+s.turn)%len(feeds)] // none starves behind a busy one
			for s.room() {                    // where there is none, acked or the outbox pumps again
				ds, err := f.consumer.Take(one[:0], 1)
				if len(ds) > 0 {
					s.readFrom(f)
					s.fromFeed(f, &ds[0])
					one[0] = router.Delivery{}
				}
				switch core.KindOf(err) {
				case core.OK, core.NotFound, core.Closed:
				case core.Fenced:
					s.c.kick(codeTakenOver)
				default:
					if s.c.lost() { // and the queue with the session
						s.c.failed(err)
						break
					}
					s.srv.metrics.unreadable.Add(1)
					s.srv.log.Error("mqtt subscription ended", "client", s.c.client, "filter", f.sub.Load().filter, "err", err)
					s.c.failed(err) // it goes on where it was when the client is back
				}
				if err != nil || len(ds) == 0 {
					break
				}
			}
		}
		s.turn++
		s.takeNoMore()
	}
}

// room reports whether a message may be sent now. If so there is room for it until drain asks again, or takes no more.
func (s *session) room() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taking = false
	s.taking = !s.ended && s.roomLocked()
	return s.taking
}

// takeNoMore leaves what room there is to others, who may have found none meanwhile.
func (s *session) takeNoMore() {
	s.mu.Lock()
	s.taking = false
	waiting := len(s.queue)+len(s.walks) > 0
	s.mu.Unlock()
	if waiting {
		s.sendRetained()
		s.sendQueued()
	}
}

// readFrom notes which feed was read last: no other one keeps a batch in memory.
func (s *session) readFrom(f *feed) {
	if s.lastRead != f && s.lastRead != nil {
		s.lastRead.consumer.Forget()
	}
	s.lastRead = f
}

// fromFeed sends one message of a feed, or settles it where it is not for the client.
func (s *session) fromFeed(f *feed, d *router.Delivery) {
	at := place{feed: f, receipt: d.Receipt}
	if d.Redelivered && s.renew(at) {
		return
	}
	sub := f.sub.Load()
	m := &message{}
	name := router.MQTTName(d)
	m.fill(name, &d.Record)
	now := s.srv.now()
	out := delivery{version: s.version, qos: min(sub.qos, m.qos), retain: sub.retainAsPublished && m.retain, now: now}
	if sub.id != 0 {
		out.ids = []int{sub.id}
	}
	before, again := s.hintOf(at)
	if again {
		out.qos = before.qos // as it went then, whatever the subscription says by now
	}
	switch {
	case m.expired(now), sub.noLocal && string(m.client) == s.c.client:
		s.pass(at)
		return
	case !s.mayRead(name, at):
		return
	case publishSize(m, &out) > s.maxPacket:
		s.srv.metrics.tooLarge.Add(1)
		s.pass(at)
		return
	case out.qos == 0:
		s.deliverOnce(m, &out)
		s.settle(at)
		return
	}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	out.dup = again || d.Redelivered && !f.shared
	s.taking = false
	next := s.lineUpLocked(m, out, at)
	s.mu.Unlock()
	if next != nil {
		s.assign([]*lined{next})
	}
}

// lineUpLocked has a message sent in its turn, with the packet id that it was sent with before, if it was. What it returns,
// if not nil, is to be assigned first.
func (s *session) lineUpLocked(m *message, d delivery, at place) *lined {
	before, again := s.hints[at.hint()]
	if d.packetID = before.id; again {
		s.forgetHintLocked(at)
	} else if d.packetID = s.nextIDLocked(); d.packetID == 0 {
		return nil
	}
	s.trackLocked(d.packetID, flight{qos: d.qos, at: at})
	l := &lined{m: m, d: d, at: at, size: publishSize(m, &d), ready: again || d.qos == 1}
	s.line = append(s.line, l)
	s.lined += l.size
	s.sendLineLocked()
	if l.ready {
		return nil
	}
	return l
}

// assign notes packet ids in the log: what is sent with QoS 2 must have the same one when it comes again.
func (s *session) assign(ls []*lined) {
	as := make([]router.MQTTAssigned, len(ls))
	for i, l := range ls {
		f := l.at.feed
		as[i] = router.MQTTAssigned{PacketID: l.d.packetID, QoS: 2, Queue: f.queue, Group: f.group, Offset: l.at.receipt.Offset}
	}
	s.srv.router.AssignMQTT(s.c.lease, as, func(kinds []core.Kind, err error) { s.assigned(ls, kinds, err) })
}

// renew reports whether a message that comes again is on its way to the client over this very
// connection: who delivers has changed, and the client gets it once (MQTT-4.4.0-1). What it says of it
// is of the new delivery then.
func (s *session) renew(at place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := at.feed.sent[at.receipt.Offset]
	fl, there := s.inflight[id] // nothing has the packet id 0
	if there {
		fl.at = at
		s.inflight[id] = fl
	}
	return there
}

// lined is a message of a feed that is to be sent, in the order in which they came: it waits for
// those before it, and for the log to know its packet id.
type lined struct {
	m     *message
	d     delivery
	at    place
	size  int // bytes
	ready bool
	gone  bool // it is not to be sent
}

// sendLineLocked sends the first ones that are ready.
func (s *session) sendLineLocked() {
	for len(s.line) > 0 && s.line[0].ready {
		l := s.line[0]
		s.line[0] = nil
		s.line = s.line[1:]
		s.lined -= l.size
		if !l.gone {
			s.c.out.put(func(b []byte) []byte { return s.appendPublish(b, l.m, &l.d) })
			s.srv.metrics.sent[l.d.qos].Add(1)
		}
	}
}

// assigned is told that packet ids of messages of QoS 2 are in the log.
func (s *session) assigned(ls []*lined, kinds []core.Kind, err error) {
	if err != nil {
		s.c.failed(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	for i, l := range ls {
		if l.ready = true; kinds[i] != core.OK { // it is somebody else's by now
			l.gone = true
			s.untrackLocked(l.d.packetID)
			s.pumpLocked()
		}
	}
	s.sendLineLocked()
}

// settle tells a feed's group that a message is done with.
func (s *session) settle(at place) {
	at.feed.consumer.Settle(router.Done, 0, []router.Receipt{at.receipt}, nil)
}

// pass has a message pass the client by. One that went with QoS 2 over an earlier connection the client may have: its
// packet id is in use until PUBREL and PUBCOMP have ended it, on both sides.
func (s *session) pass(at place) {
	before, was := s.hintOf(at)
	if was {
		s.mu.Lock()
		s.forgetHintLocked(at)
		s.mu.Unlock()
	}
	if before.qos == 2 {
		s.release(before.id, at)
	} else {
		s.settle(at)
	}
}

// release ends a message that an earlier connection sent with QoS 2, and that will not be sent again.
func (s *session) release(id uint16, at place) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.trackLocked(id, flight{phase: awaitRel, qos: 2, at: at})
	s.mu.Unlock()
	s.srv.router.ReceivedMQTT(s.c.lease, id, false, func(err error) { s.owe(id, false, err) })
}

// hint is a message that was sent over an earlier connection.
type hint struct {
	queue  core.QueueID
	group  string
	offset core.Offset
}

// hinted is how it was sent.
type hinted struct {
	id  uint16
	qos byte
}

func (at place) hint() hint { return hint{at.feed.queue, at.feed.group, at.receipt.Offset} }

// hintOf is how a message was sent before, if it was.
func (s *session) hintOf(at place) (before hinted, was bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, was = s.hints[at.hint()]
	return before, was
}

// forgetHintLocked has the packet id of a message be what else the caller makes of it.
func (s *session) forgetHintLocked(at place) {
	h := at.hint()
	delete(s.reserved, s.hints[h].id)
	delete(s.hints, h)
}

// trackLocked notes what is on its way to the client.
func (s *session) trackLocked(id uint16, fl flight) {
	if s.inflight == nil {
		s.inflight = map[uint16]flight{}
	}
	s.sends++
	fl.order = s.sends
	s.inflight[id] = fl
	if w := fl.at.walk; w != nil {
		w.open++
	}
	if f := fl.at.feed; f != nil {
		if f.sent == nil {
			f.sent = map[core.Offset]uint16{}
		}
		f.sent[fl.at.receipt.Offset] = id
	}
}

// untrackLocked is the opposite of trackLocked.
func (s *session) untrackLocked(id uint16) {
	s.inflight[id].at.leave()
	delete(s.inflight, id)
}

// leave has a feed, or a walk, forget what is on its way no more. The session's mu is held.
func (at place) leave() {
	if at.walk != nil {
		at.walk.open--
	}
	if at.feed != nil {
		delete(at.feed.sent, at.receipt.Offset)
	}
}

// unackedLocked is what was sent of feeds with QoS 1, in the order of sending.
func (s *session) unackedLocked() []router.MQTTAssigned {
	type sent struct {
		order uint64
		at    router.MQTTAssigned
	}
	var all []sent
	for id, fl := range s.inflight {
		if f := fl.at.feed; f != nil && fl.qos == 1 && !f.shared {
			all = append(all, sent{fl.order, router.MQTTAssigned{PacketID: id, QoS: 1, Queue: f.queue, Group: f.group, Offset: fl.at.receipt.Offset}})
		}
	}
	slices.SortFunc(all, func(a, b sent) int { return cmp.Compare(a.order, b.order) })
	out := make([]router.MQTTAssigned, len(all))
	for i := range all {
		out[i] = all[i].at
	}
	return out
}

// splitShare takes the name of the group off a shared subscription's filter (section 4.8.2).
func splitShare(filter string) (share, rest string, ok bool) {
	if !strings.HasPrefix(filter, sharePrefix) {
		return "", filter, true
	}
	share, rest, ok = strings.Cut(filter[len(sharePrefix):], "/")
	return share, rest, ok && share != "" && !strings.ContainsAny(share, "+#")
}
