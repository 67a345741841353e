package mqtt

import (
	"context"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/router"
)

// Option bits of a subscription (section 3.8.3.1).
const (
	optionQoS               = 3
	optionNoLocal           = 1 << 2
	optionRetainAsPublished = 1 << 3
	// optionRetainedOwed is no client's: the subscription has not got all of its retained messages.
	optionRetainedOwed = 1 << 7
)

// clientName is the client's name in the log.
func (c *conn) clientName() core.Name {
	return core.Name{Namespace: c.srv.opts.Namespace, Name: c.client}
}

// open begins the session, or goes on with the stored one (section 3.1.2.4). CONNACK is to be
// sent between this and resume.
func (c *conn) open(clean bool, will *router.MQTTWill) (stored *router.MQTTSession, present bool, err error) {
	ctx, cancel := context.WithTimeout(c.srv.ctx, leaseTimeout)
	defer cancel()
	stored, present, err = c.srv.router.OpenMQTTSession(ctx, c.lease, router.MQTTOpen{
		Client: c.clientName(), Clean: clean, Expiry: c.session.expiry, Will: will,
	})
	if err != nil { // it may be open all the same; its client is not told so
		c.session.stored, c.polite = true, true
		return nil, false, err
	}
	c.session.stored = stored.Number != 0
	return stored, present, err
}

// resume goes on with what a stored session has: PUBRELs that are owed, messages that are with
// the client, packet ids of its own, subscriptions (section 4.4).
func (c *conn) resume(stored *router.MQTTSession) {
	s := c.session
	c.pub.resume(stored.Received)
	coming, err := c.srv.router.MQTTComing(stored.Assigned)
	if err != nil {
		c.failed(err)
		return
	}
	s.mu.Lock()
	for _, id := range stored.Released {
		s.trackLocked(id, flight{phase: awaitComp, qos: 2, owed: true})
	}
	s.hints, s.reserved = map[hint]hinted{}, map[uint16]struct{}{}
	owed := map[string]bool{} // filters
	for i := range stored.Subscriptions {
		if at := &stored.Subscriptions[i]; at.Options&optionRetainedOwed != 0 {
			owed[at.Filter] = true
		}
	}
	for i := range stored.Assigned {
		a := &stored.Assigned[i]
		if filter, retained := ofRetained(a.Group); retained {
			coming[i] = owed[filter]
		}
		if coming[i] {
			s.hints[hint{a.Queue, a.Group, a.Offset}] = hinted{a.PacketID, a.QoS}
			s.reserved[a.PacketID] = struct{}{}
		}
	}
	s.mu.Unlock()
	for _, id := range stored.Released {
		s.sendRelease(id, 0)
	}
	for i := range stored.Assigned {
		switch a := &stored.Assigned[i]; {
		case a.Taken:
			s.resendTaken(a)
		case a.QoS == 2 && !coming[i]:
			s.release(a.PacketID, place{})
		}
	}
	for i := range stored.Subscriptions {
		at := &stored.Subscriptions[i]
		sub := s.subscriptionOf(at)
		s.mu.Lock()
		if s.subs == nil {
			s.subs = map[string]*subscription{}
		}
		s.subs[sub.key()] = sub
		s.mu.Unlock()
		if err := s.attach(sub, at); err != nil {
			c.failed(err)
			return
		}
		if owed[sub.filter] && sub.share == "" {
			s.mu.Lock()
			s.walkLocked(&retainedWalk{sub: sub, until: c.srv.router.Applied(), owed: true})
			s.mu.Unlock()
		}
	}
	s.refill()
}

// resendTaken sends a message of a shared subscription again that is the client's alone.
func (s *session) resendTaken(a *router.MQTTAssigned) {
	d, err := s.srv.router.ReadMQTT(a)
	if err != nil {
		s.srv.metrics.unreadable.Add(1)
		s.srv.log.Error("mqtt message cannot be read", "client", s.c.client, "queue", a.Queue, "offset", a.Offset, "err", err)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reserved[a.PacketID] = struct{}{} // a later connection's node may be able to
		return
	}
	m := &message{}
	m.fill(router.MQTTName(&d), &d.Record)
	out := delivery{version: s.version, qos: 2, dup: true, packetID: a.PacketID, now: s.srv.now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Its feed is none that delivers: PUBREC goes to the log.
	f := &feed{queue: a.Queue, group: a.Group, shared: true}
	s.trackLocked(a.PacketID, flight{qos: 2, at: place{feed: f}})
	s.c.out.put(func(b []byte) []byte { return s.appendPublish(b, m, &out) })
	s.srv.metrics.sent[2].Add(1)
}

// subscriptionOf is a stored subscription.
func (s *session) subscriptionOf(at *router.MQTTSubscription) *subscription {
	return &subscription{
		session: s, filter: at.Filter, share: at.Share, qos: at.Options & optionQoS, id: int(at.ID),
		noLocal: at.Options&optionNoLocal != 0, retainAsPublished: at.Options&optionRetainAsPublished != 0,
	}
}

// attach has a subscription's messages come: by its queue in the log, and live what that does
// not have.
func (s *session) attach(sub *subscription, at *router.MQTTSubscription) error {
	if at.Queue != 0 {
		if err := s.openFeed(sub, at); err != nil {
			return err
		}
	}
	if sub.share == "" {
		s.srv.subs.add(sub, s.srv.router.Applied)
	}
	return nil
}

// detach is the opposite of attach.
func (s *session) detach(sub *subscription) {
	if sub.share == "" {
		s.srv.subs.remove(sub)
	}
	if sub.feed != nil {
		s.closeFeed(sub.feed)
	}
}

// store tells the log of a subscription, where it is to outlive the connection or is shared; and whether retained messages
// are owed to it.
func (c *conn) store(sub *subscription, owed bool) (at router.MQTTSubscription, err error) {
	at = router.MQTTSubscription{Filter: sub.filter, Share: sub.share, Options: sub.qos, ID: uint32(sub.id)}
	if sub.noLocal {
		at.Options |= optionNoLocal
	}
	if sub.retainAsPublished {
		at.Options |= optionRetainAsPublished
	}
	if owed {
		at.Options |= optionRetainedOwed
	}
	if !c.session.keeps && sub.share == "" {
		return at, nil
	}
	ctx, cancel := context.WithTimeout(c.srv.ctx, leaseTimeout)
	defer cancel()
	keep := router.MQTTKeep{Messages: c.srv.opts.MaxQueued, Bytes: c.srv.opts.MaxQueuedBytes}
	out, _, err := c.srv.router.SubscribeMQTT(ctx, c.lease, keep, []router.MQTTSubscription{at})
	if err != nil {
		return at, err
	}
	c.session.stored = true
	return out[0], nil
}

// unstore takes a subscription off the stored session.
func (c *conn) unstore(sub *subscription) error {
	if !c.session.keeps && sub.share == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.srv.ctx, leaseTimeout)
	defer cancel()
	_, err := c.srv.router.UnsubscribeMQTT(ctx, c.lease, []router.MQTTSubscription{{Filter: sub.filter, Share: sub.share}})
	if core.KindOf(err) == core.NotFound {
		err = nil
	}
	return err
}

// closeStored tells the log that the connection has ended.
func (c *conn) closeStored() {
	s := c.session
	if s == nil || !s.stored {
		return
	}
	ctx, cancel := context.WithTimeout(c.srv.ctx, leaseTimeout)
	defer cancel()
	how := router.MQTTClose{Expiry: s.expiry, Will: !c.polite, Sent: s.unacked}
	err := c.srv.router.CloseMQTTSession(ctx, c.lease, how)
	// A client that has taken its will back does not wait for us, and must not have it published for want of a leader.
	for c.greeted && c.polite && leaderless(err) && c.pause(ctx) {
		c.srv.log.Debug("mqtt session is closed again", "client", c.client, "err", err)
		err = c.srv.router.CloseMQTTSession(ctx, c.lease, how)
	}
	if err != nil && core.KindOf(err) != core.Fenced {
		c.srv.log.Warn("mqtt session is closed by its lease", "client", c.client, "err", err)
	}
}

// leaderless reports whether a session's end is to be told again: nobody led just then, or it may have been heard all the
// same, and the second time changes nothing.
func leaderless(err error) bool {
	switch core.KindOf(err) { //nolint:exhaustive // the others stay
	case core.Unavailable, core.NotLeader, core.Uncertain:
		return true
	}
	return false
}

// closeAgain is how long it takes until that.
const closeAgain = 100 * time.Millisecond

// pause waits, and reports whether there is time left. A server that stops has none.
func (c *conn) pause(ctx context.Context) bool {
	t := time.NewTimer(closeAgain)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-c.srv.quit:
	}
	return false
}

// resume takes over packet ids of an earlier connection. They do not count against the receive maximum, which is a
// connection's (section 4.9).
func (p *publisher) resume(ids []uint16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if p.exactly == nil {
			p.exactly = map[uint16]exactState{}
		}
		p.exactly[id] = exactStored
	}
}

// storeExactly publishes a message of QoS 2 of a session that may outlive its connection.
func (p *publisher) storeExactly(to target, pk *packets.Packet, delay uint32, ack uint64) {
	p.store(to, pk, delay, ack, func(seq *core.Sequence, m router.MQTTMessage, done func(router.PublishResult)) {
		p.c.srv.router.PublishExactlyOnce(p.c.principal, seq, p.c.lease, pk.PacketID, delay, m, done)
	})
}
