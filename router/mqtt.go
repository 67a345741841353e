package router

import (
	"context"

	"polylog/core"
	"polylog/core/topicfilter"
	"polylog/router/state"
)

// What MQTT's sessions need of the log. What they are is in router/state (mqtt_session.go): a
// session is stored where it outlives its connection, or has a shared subscription or a will.
// All methods are fenced by the lease of the client id, whose name is MQTTLease; when it is lost
// they end with an error of kind Fenced. A connection without a stored session, which is one that
// is clean and ends with itself, gets NotFound where that is needed.

type (
	// MQTTSession is a client's session.
	MQTTSession = state.MQTTSession
	// MQTTSubscription is a subscription of a session.
	MQTTSubscription = state.MQTTSubscription
	// MQTTClient is a client that is connected, or has a stored session, or both.
	MQTTClient = state.MQTTClient
	// MQTTAssigned is a message that was sent to a client with a packet id.
	MQTTAssigned = state.MQTTAssigned
	// MQTTWill is a client's will. Its batch says nothing of expiry: it gets its times when it
	// is published.
	MQTTWill = state.MQTTWill
	// MQTTMessage is a message for a partition of a topic.
	MQTTMessage = state.MQTTMessage
)

// MQTTNoExpiry is the expiry of a session that ends by command only.
const MQTTNoExpiry = state.MQTTNoExpiry

// MQTTLease is the name of the lease that makes a node the owner of an MQTT client id. When it
// ends, in whatever way, the connection has ended: without CloseMQTTSession its will is due.
func MQTTLease(client core.Name) string { return state.MQTTLease(client) }

func mqttLeased(l *Lease) state.MQTTLeased {
	return state.MQTTLeased{Lease: l.name, Token: l.token}
}

// MQTTOpen is how a connection begins.
type MQTTOpen struct {
	Client core.Name
	Clean  bool      // an earlier session of the client ends
	Expiry uint32    // s after the connection's end; 0: with it
	Will   *MQTTWill // nil: none
}

// OpenMQTTSession begins a connection's session: the stored one of its client, where there is
// one, else a new one; present says which. A connection that needs none to be stored is not
// told to the log, and its session's Number is 0. A will of the client's connection before that is
// not delayed is published with that: what this connection publishes comes after it.
//
// A connection with lease is one for as long as it holds that, and opens once. Error kinds:
// Fenced, Invalid (the will), TooLarge (the same), Conflict (it is open), Unavailable, Uncertain.
func (r *Router) OpenMQTTSession(ctx context.Context, l *Lease, o MQTTOpen) (s *MQTTSession, present bool, err error) {
	if o.Clean && o.Expiry == 0 && o.Will == nil {
		if known, err := r.state.KnowsMQTT(o.Client); err != nil || !known {
			return &MQTTSession{Client: o.Client}, false, err
		}
	}
	if o.Will != nil {
		if err := r.checkMQTT(&o.Will.MQTTMessage); err != nil {
			return nil, false, err
		}
	}
	cmd := state.OpenMQTT{MQTTLeased: mqttLeased(l), Clean: o.Clean, Expiry: o.Expiry, Will: o.Will}
	res, err := r.propose(ctx, cmd.Command())
	if err != nil {
		return nil, false, err
	}
	present, number, will, err := state.DecodeMQTTOpened(res.Body)
	if err != nil {
		return nil, false, err
	}
	if will != 0 {
		r.publishEarlierWill(ctx, will)
	}
	s, err = r.state.MQTTSession(o.Client)
	if err == nil && (s == nil || s.Number != number) {
		err = core.E(core.Fenced, "mqtt client %.80q is somebody else's by now", o.Client.Name)
	}
	return s, present, err
}

// checkMQTT refuses what the partition would not take.
func (r *Router) checkMQTT(m *MQTTMessage) error {
	st, _, ok := r.state.TopicOfQueue(m.Queue)
	if !ok {
		return core.E(core.NotFound, "partition %d does not exist", m.Queue)
	}
	if t := r.view(st); len(m.Batch) > t.Config.MaxMessageBytes {
		return core.E(core.TooLarge, "message of %d bytes, topic %s takes at most %d", len(m.Batch), t.Name, t.Config.MaxMessageBytes)
	}
	return nil
}

// MQTTClose is how a connection ends.
type MQTTClose struct {
	Expiry uint32 // of the session, s from now on; 0: it ends
	Will   bool   // the will is published, after its delay; else forgotten
	// Sent is what was sent with QoS 1 and not acknowledged, in the order of sending, 4,096 at
	// most: whoever opens the session next has it in Assigned.
	Sent []MQTTAssigned
}

// CloseMQTTSession ends a connection. The lease is still to be released, afterwards.
func (r *Router) CloseMQTTSession(ctx context.Context, l *Lease, c MQTTClose) error {
	client, ok := state.MQTTClientOf(l.name)
	if !ok {
		return core.E(core.Invalid, "%.80q is no lease of an mqtt client id", l.name)
	}
	if has, err := r.state.HasMQTTSession(client); err != nil || !has {
		return err
	}
	cmd := state.CloseMQTT{MQTTLeased: mqttLeased(l), Expiry: c.Expiry, Will: c.Will, Sent: c.Sent}
	_, err := r.propose(ctx, cmd.Command())
	if core.KindOf(err) == core.NotFound {
		err = nil // of somebody before: this connection has none
	}
	return err
}

// MQTTKeep is how much is kept of a filter for those who are away. The oldest messages go, when there
// is more of either.
type MQTTKeep struct {
	Messages int   // at least 1
	Bytes    int64 // of their payloads; 0: any
}

// SubscribeMQTT adds subscriptions to the session, or changes those that it has, which existed
// tells; and returns them with Queue and Group where the log has their messages. Each queue
// keeps the newest messages that keep allows. A connection without a stored session gets one that ends
// with it. What one call does is not one step where there are more than 64. Error kinds: Fenced,
// Invalid (a filter), Limit (10,000 subscriptions of a session).
func (r *Router) SubscribeMQTT(ctx context.Context, l *Lease, keep MQTTKeep, subs []MQTTSubscription) (out []MQTTSubscription, existed []bool, err error) {
	for len(subs) > 0 {
		n := min(len(subs), state.MaxMQTTSubscribed)
		cmd := state.SubscribeMQTT{
			MQTTLeased: mqttLeased(l), MaxQueued: uint32(min(max(keep.Messages, 1), 1<<31)), MaxQueuedBytes: uint64(max(keep.Bytes, 0)), Subscriptions: subs[:n],
		}
		res, err := r.propose(ctx, cmd.Command())
		if err != nil {
			return out, existed, err
		}
		out = append(out, subs[:n]...)
		had, err := state.DecodeMQTTSubscribed(res.Body, out[len(out)-n:])
		if err != nil {
			return out, existed, err
		}
		existed = append(existed, had...)
		subs = subs[n:]
	}
	return out, existed, nil
}

// UnsubscribeMQTT takes subscriptions, by filter and share, off the session; found says which
// were there. Error kinds: Fenced, NotFound (no stored session).
func (r *Router) UnsubscribeMQTT(ctx context.Context, l *Lease, subs []MQTTSubscription) (found []bool, err error) {
	for len(subs) > 0 {
		n := min(len(subs), state.MaxMQTTSubscribed)
		cmd := state.UnsubscribeMQTT{MQTTLeased: mqttLeased(l), Subscriptions: subs[:n]}
		res, err := r.propose(ctx, cmd.Command())
		if err != nil {
			return found, err
		}
		for _, b := range res.Body {
			found = append(found, b == 1)
		}
		subs = subs[n:]
	}
	return found, nil
}

// PublishExactlyOnce publishes a message of QoS 2 and notes its packet id, in one step. Until
// ReleaseMQTT the same id again publishes nothing and has the first's result. delay is as of
// PublishDelayed. Error kinds: those of Publish, Fenced, NotFound (no stored session).
func (r *Router) PublishExactlyOnce(p Principal, seq *core.Sequence, l *Lease, packetID uint16, delay uint32, m MQTTMessage, done func(PublishResult)) {
	r.publishMQTT(p, seq, state.PublishMQTT{MQTTLeased: mqttLeased(l), PacketID: packetID, Delay: delay, MQTTMessage: m}, done)
}

// PublishDelayed publishes a message delay seconds later; its result, when that is sure to
// happen, has no offset. The record gets its time, and keeps all else, then.
func (r *Router) PublishDelayed(p Principal, seq *core.Sequence, delay uint32, m MQTTMessage, done func(PublishResult)) {
	r.publishMQTT(p, seq, state.PublishMQTT{Delay: delay, MQTTMessage: m}, done)
}

func (r *Router) publishMQTT(p Principal, seq *core.Sequence, c state.PublishMQTT, done func(PublishResult)) {
	r.publish(p, seq, c.Queue, c.Batch, true, func(q core.QueueID, batch []byte) core.Command {
		c.Queue, c.Batch = q, batch
		return c.Command()
	}, done)
}

// ReleaseMQTT is told that PUBREL came for packet ids of QoS 2 publishes: they may be used anew.
// done is called once and must not block, here and below. Error kinds: Fenced, NotFound (no
// stored session).
func (r *Router) ReleaseMQTT(l *Lease, packetIDs []uint16, done func(error)) {
	r.flowMQTT(l, state.FlowMQTT{Step: state.MQTTRelease, Packets: packetIDs}, func(_ []core.Kind, err error) { done(err) })
}

// AssignMQTT notes the packet ids of messages that are about to be sent with QoS 2: they may be
// sent when done says so. Those that it says NotFound of are gone, or somebody else's by now. A
// message of a shared group is the client's with that: the group has settled it.
func (r *Router) AssignMQTT(l *Lease, as []MQTTAssigned, done func([]core.Kind, error)) {
	r.flowMQTT(l, state.FlowMQTT{Step: state.MQTTAssign, Assigned: as}, done)
}

// ReceivedMQTT is told that PUBREC came for a packet id: the message is settled, and PUBREL is
// owed, unless the client has refused it. With done PUBREL may be sent. An id that was not
// assigned is NotFound.
func (r *Router) ReceivedMQTT(l *Lease, packetID uint16, refused bool, done func(error)) {
	step := state.MQTTReceive
	if refused {
		step = state.MQTTRefuse
	}
	r.flowMQTT(l, state.FlowMQTT{Step: step, Packets: []uint16{packetID}}, func(kinds []core.Kind, err error) {
		if err == nil && kinds[0] != core.OK {
			err = core.E(kinds[0], "packet id %d was not assigned", packetID)
		}
		done(err)
	})
}

// CompletedMQTT is told that PUBCOMP came for packet ids.
func (r *Router) CompletedMQTT(l *Lease, packetIDs []uint16, done func(error)) {
	r.flowMQTT(l, state.FlowMQTT{Step: state.MQTTComplete, Packets: packetIDs}, func(_ []core.Kind, err error) { done(err) })
}

func (r *Router) flowMQTT(l *Lease, c state.FlowMQTT, done func([]core.Kind, error)) {
	c.MQTTLeased = mqttLeased(l)
	cmd := c.Command()
	if err := r.state.Supports(cmd.Code); err != nil {
		done(nil, err)
		return
	}
	want := len(c.Packets) + len(c.Assigned)
	r.log.ProposeAsync(cmd, func(res core.Result, err error) {
		if err == nil && res.Err != nil {
			err = res.Err
		}
		if err == nil && len(res.Body) != want {
			err = core.E(core.Internal, "mqtt flow: %d outcomes of %d packets", len(res.Body), want)
		}
		if err != nil {
			done(nil, err)
			return
		}
		kinds := make([]core.Kind, want)
		for i, b := range res.Body {
			kinds[i] = core.Kind(b)
		}
		done(kinds, nil)
	})
}

// ReadMQTT reads an assigned message that is Taken. Others come from their group again.
func (r *Router) ReadMQTT(a *MQTTAssigned) (Delivery, error) {
	if !a.Taken {
		return Delivery{}, core.E(core.Invalid, "packet id %d: its message is still its group's", a.PacketID)
	}
	d := Delivery{Receipt: Receipt{Offset: a.Offset}, Redelivered: true}
	rr := recordReader{r: r}
	if err := rr.load(core.Ref{Index: a.Ref.Index, Pos: a.Ref.Pos, Len: a.Ref.Len}); err != nil {
		return d, err
	}
	for i := range rr.records {
		if rr.records[i].Offset-rr.base == core.Offset(a.Ref.First) {
			d.Record = rr.records[i]
			if a.Name != "" {
				d.RoutingKeys = []string{a.Name}
			}
			return d, nil
		}
	}
	return d, core.E(core.Corrupt, "entry %d has no record %d at %d", a.Ref.Index, a.Ref.First, a.Ref.Pos)
}

// MQTTComing says of each assigned message whether its group has it still, and will deliver it again. One that the group
// has settled, or that is gone with its subscription, or because too much waited, is not coming; nor is one
// that is Taken, or of no queue.
func (r *Router) MQTTComing(as []MQTTAssigned) (coming []bool, err error) {
	type group struct {
		queue core.QueueID
		name  string
	}
	groups := map[group]*state.Acks{}
	coming = make([]bool, len(as))
	for i := range as {
		a := &as[i]
		if a.Taken || a.Queue == 0 {
			continue
		}
		g := group{a.Queue, a.Group}
		acks, known := groups[g]
		if !known {
			if acks, err = r.state.Acks(a.Queue, a.Group); err != nil && core.KindOf(err) != core.NotFound {
				return nil, err
			}
			groups[g] = acks // nil: there is no such group
		}
		coming[i] = acks != nil && a.Offset >= acks.Start && !acks.Settled.Contains(a.Offset)
	}
	return coming, nil
}

// CarryMQTTNames has filters get records of a topic by the name that they say in the header
// mqtt-topic. It is to be called before the first one is published whose name does not begin
// with the topic's name, and costs a look after the first time. Error kinds: NotFound.
func (r *Router) CarryMQTTNames(ctx context.Context, t *Topic) error {
	if ok, err := r.state.CarriesMQTTNames(t.ID); err != nil || ok {
		return err
	}
	cmd := state.CarryMQTTNames{Topic: t.Name}
	_, err := r.propose(ctx, cmd.Command())
	return err
}

// MQTTName is the topic name of a delivery from a filter's queue.
func MQTTName(d *Delivery) string {
	if len(d.RoutingKeys) > 0 {
		return d.RoutingKeys[0]
	}
	return topicfilter.Said(&d.Record)
}
