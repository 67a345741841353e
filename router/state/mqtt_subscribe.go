package state

import (
	"polylog/core"
	"polylog/core/topicfilter"
	"polylog/core/wire"
)

// SubscribeMQTT adds subscriptions to a connection's session, or changes those that it has
// (section 3.8.4). A connection without a stored session gets one that ends with it. MaxQueued
// is how many messages the queues of these filters keep, and MaxQueuedBytes how many bytes of payload.
//
// The result's body has for each subscription: existed byte, queue uvarint, group.
type SubscribeMQTT struct {
	MQTTLeased
	MaxQueued      uint32
	MaxQueuedBytes uint64             // 0: any
	Subscriptions  []MQTTSubscription // without Queue and Group
}

const (
	// MaxMQTTSubscriptions bounds those of one session.
	MaxMQTTSubscriptions = 10_000
	// MaxMQTTSubscribed bounds those of one command.
	MaxMQTTSubscribed = 64
	// maxQueuedBytes is a bound that is none.
	maxQueuedBytes = 1 << 60
)

// Command encodes: lease, token uvarint, max queued uvarint, count uvarint; of each filter,
// share, options byte, id uvarint; and max queued bytes uvarint where there is such a bound.
func (c *SubscribeMQTT) Command() core.Command {
	b := wire.AppendUvarint(c.appendTo(nil), uint64(c.MaxQueued))
	b = wire.AppendUvarint(b, uint64(len(c.Subscriptions)))
	for _, u := range c.Subscriptions {
		b = append(wire.AppendString(wire.AppendString(b, u.Filter), u.Share), u.Options)
		b = wire.AppendUvarint(b, uint64(u.ID))
	}
	if c.MaxQueuedBytes > 0 {
		b = wire.AppendUvarint(b, c.MaxQueuedBytes)
	}
	return core.Command{Code: CodeSubscribeMQTT, Head: b}
}

func decodeSubscribeMQTT(body []byte) (c SubscribeMQTT, err error) {
	r := wire.NewReader(body)
	c = SubscribeMQTT{MQTTLeased: readMQTTLeased(&r), MaxQueued: readUint32(&r)}
	c.Subscriptions = make([]MQTTSubscription, r.Count(4))
	for i := range c.Subscriptions {
		c.Subscriptions[i] = MQTTSubscription{Filter: r.String(), Share: r.String(), Options: r.Byte(), ID: readUint32(&r)}
	}
	if r.Len() > 0 {
		c.MaxQueuedBytes = min(r.Uvarint(), maxQueuedBytes)
	}
	return c, r.Close()
}

// DecodeMQTTSubscribed reads the body of SubscribeMQTT's result into the subscriptions that it
// was about.
func DecodeMQTTSubscribed(body []byte, subs []MQTTSubscription) (existed []bool, err error) {
	r := wire.NewReader(body)
	existed = make([]bool, len(subs))
	for i := range subs {
		existed[i] = r.Bool()
		subs[i].Queue, subs[i].Group = core.QueueID(r.Uvarint()), r.String()
	}
	return existed, r.Close()
}

func (s *State) subscribeMQTT(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeSubscribeMQTT(body)
	switch {
	case err != nil:
		return invalid("mqtt subscribe", err)
	case len(cmd.Subscriptions) > MaxMQTTSubscribed:
		return refused(core.Limit, "mqtt subscribe: %d subscriptions, at most %d in one command", len(cmd.Subscriptions), MaxMQTTSubscribed)
	case cmd.MaxQueued == 0:
		return refused(core.Invalid, "mqtt subscribe: queues of no messages")
	}
	for i := range cmd.Subscriptions {
		if err := topicfilter.CheckFilter(cmd.Subscriptions[i].Filter); err != nil {
			return invalid("mqtt subscribe", err)
		}
	}
	m, refusal := s.connected(tx, &cmd.MQTTLeased)
	if refusal != nil && refusal.Kind == core.NotFound {
		client, _ := MQTTClientOf(cmd.Lease)
		if m, refusal = s.newMQTTSession(tx, client, cmd.Token, 0); refusal == nil {
			if err := s.replaceAway(tx, client); err != nil {
				return s.storeResult(err)
			}
		}
	}
	if refusal != nil {
		return core.Result{Err: refusal}
	}
	if m.subs+len(cmd.Subscriptions) > MaxMQTTSubscriptions {
		return refused(core.Limit, "mqtt client %.80q has %d subscriptions, at most %d are allowed", m.Client.Name, m.subs, MaxMQTTSubscriptions)
	}
	var out []byte
	limits := filterLimits{cmd.MaxQueued, cmd.MaxQueuedBytes}
	for i := range cmd.Subscriptions {
		u := &cmd.Subscriptions[i]
		existed, err := s.subscribe(tx, c, m, u, limits)
		if err != nil {
			return s.storeResult(err)
		}
		out = wire.AppendUvarint(wire.AppendBool(out, existed), uint64(u.Queue))
		out = wire.AppendString(out, u.Group)
	}
	setMQTTSession(tx, m)
	return core.Result{Body: out}
}

// subscribe makes a subscription one of the session's, and fills in its queue and group.
func (s *State) subscribe(tx txn, c *cursor, m *MQTTSession, u *MQTTSubscription, limits filterLimits) (existed bool, err error) {
	key := mqttSubscriptionKey(m.Number, u.Share, u.Filter)
	v, existed, err := tx.Get(key)
	if err != nil {
		return false, err
	}
	var old MQTTSubscription
	if existed {
		if old, err = decodeMQTTSubscription(key, v); err != nil {
			return false, err
		}
	} else {
		m.subs++
	}
	switch {
	case old.Queue == 0 && u.queued():
		err = s.joinFilter(tx, c, m, u, limits)
	case old.Queue != 0 && !u.queued():
		err = s.leaveFilter(tx, m.Client.Namespace, &old)
	default:
		u.Queue, u.Group = old.Queue, old.Group
	}
	if err == nil {
		tx.Set(key, u.encode())
	}
	return existed, err
}

func shareKey(namespace, filter, share string) []byte {
	return append(wire.AppendString(wire.AppendString(mqttKey(mqttShare), namespace), filter), share...)
}

// A shared group's value: version byte, queue uvarint, members uvarint.
func encodeShare(q core.QueueID, members uint64) []byte {
	return wire.AppendUvarint(wire.AppendUvarint([]byte{valueVersion}, uint64(q)), members)
}

// readShare finds a group of shared subscriptions; without members there is none.
func readShare(tx txn, key []byte) (q core.QueueID, members uint64, err error) {
	v, ok, err := tx.Get(key)
	if err != nil || !ok {
		return 0, 0, err
	}
	r := wire.NewReader(v)
	if err := checkVersion(&r, "shared subscription"); err != nil {
		return 0, 0, err
	}
	q, members = core.QueueID(r.Uvarint()), r.Uvarint()
	if err := r.Close(); err != nil {
		return 0, 0, core.E(core.Corrupt, "shared subscription: %v", err)
	}
	return q, members, nil
}

// sharePrefix begins the groups of shared subscriptions.
const sharePrefix = "$share/"

// joinFilter gives a subscription its group on a queue of its filter, from the queue's end on. A
// shared group that is there is joined.
func (s *State) joinFilter(tx txn, c *cursor, m *MQTTSession, u *MQTTSubscription, limits filterLimits) error {
	namespace := m.Client.Namespace
	if u.Group = m.group(); u.Share == "" {
		f, err := s.filterWithRoom(tx, c, namespace, u.Filter, false, limits)
		if err != nil {
			return err
		}
		u.Queue = f.id
		return s.joinQueue(tx, f, u.Group)
	}
	u.Group = sharePrefix + u.Share
	key := shareKey(namespace, u.Filter, u.Share)
	q, members, err := readShare(tx, key)
	if err != nil {
		return err
	}
	if members == 0 {
		f, err := s.filterWithRoom(tx, c, namespace, u.Filter, true, limits)
		if err != nil {
			return err
		}
		if err := s.joinQueue(tx, f, u.Group); err != nil {
			return err
		}
		q = f.id
	}
	u.Queue = q
	tx.Set(key, encodeShare(q, members+1))
	return nil
}

// filterWithRoom is a queue of a filter that can have one group more, a new one where there is
// none, with the given limits.
func (s *State) filterWithRoom(tx txn, c *cursor, namespace, filter string, shared bool, limits filterLimits) (*filterDef, error) {
	f, err := findFilter(tx, namespace, filter, shared, func(f *filterDef) bool { return f.groups < maxFilterGroups })
	if err != nil {
		return nil, err
	}
	tree := &s.mqtt.space(namespace).tree
	switch {
	case f == nil:
		id, err := s.take(tx, counterQueues, 1)
		if err != nil {
			return nil, err
		}
		f = &filterDef{namespace: namespace, filter: filter, filterQueue: filterQueue{core.QueueID(id), limits, shared}}
		def := &Queue{Name: filterName(namespace, filter), ID: f.id, Created: c.time, QueueConfig: QueueConfig{GroupOnly: true}}
		tx.Set(queueKey(f.id), def.encode())
		s.queuesChanged = true
		tree.Add(filter, f.filterQueue)
	case f.filterLimits != limits:
		tree.Remove(filter, f.filterQueue)
		if f.filterLimits = limits; limits.bytes == 0 {
			tx.Delete(mqttWeightKey(f.id))
		}
		tree.Add(filter, f.filterQueue)
	}
	return f, nil
}

// filterName is what a filter's queue is called in errors and lists. It is not found by it, so
// it may be that of another queue.
func filterName(namespace, filter string) core.Name {
	return core.Name{Namespace: namespace, Name: "mqtt:" + filter[:min(len(filter), 200)]}
}

// joinQueue makes a group on a filter's queue. It does not take the queue's groups into memory.
func (s *State) joinQueue(tx txn, f *filterDef, group string) error {
	head, _, err := tx.Queue(f.id)
	if err != nil {
		return err
	}
	g := new(ackGroup)
	g.acks.Add(0, head.End)
	g.mark = head.End
	key := ackKey{f.id, group}
	tx.Set(key.key(), g.encode())
	if a := s.acks[f.id]; a != nil && a.loaded {
		a.groups[group] = g
		a.findFloor()
	}
	f.groups++
	tx.Set(f.key(), f.encode())
	return nil
}

// leaveFilter takes a subscription's group off its queue, and the queue away with its last
// group; or one member from a shared group.
func (s *State) leaveFilter(tx txn, namespace string, u *MQTTSubscription) error {
	if u.Queue == 0 {
		return nil
	}
	if u.Share != "" {
		key := shareKey(namespace, u.Filter, u.Share)
		q, members, err := readShare(tx, key)
		if err != nil {
			return err
		}
		if members > 1 {
			tx.Set(key, encodeShare(q, members-1))
			return nil
		}
		tx.Delete(key)
	}
	f, err := findFilter(tx, namespace, u.Filter, u.Share != "", func(f *filterDef) bool { return f.id == u.Queue })
	if err != nil {
		return err
	}
	if f == nil {
		return core.E(core.Corrupt, "mqtt filter %.80q has no queue %d", u.Filter, u.Queue)
	}
	if f.groups--; f.groups == 0 {
		s.removeFilter(tx, f)
		return nil
	}
	tx.Set(f.key(), f.encode())
	tx.Delete(ackKey{u.Queue, u.Group}.key())
	if a := s.acks[u.Queue]; a != nil && a.loaded {
		delete(a.groups, u.Group)
		a.findFloor()
	}
	s.settled.add(tx, u.Queue) // what only it had not settled
	s.touch(u.Queue)           // its consumers find it gone
	return nil
}

// removeFilter removes a filter's queue, which has no groups any more.
func (s *State) removeFilter(tx txn, f *filterDef) {
	tx.Delete(f.key())
	if f.bytes > 0 {
		tx.Delete(mqttWeightKey(f.id))
	}
	tx.Delete(queueKey(f.id))
	s.queuesChanged = true
	s.leaveAcks(tx, f.id)
	s.settled.remove(tx, f.id)
	s.doom(tx, []core.QueueID{f.id})
	s.touch(f.id)
	s.mqtt.space(f.namespace).tree.Remove(f.filter, f.filterQueue)
}

// UnsubscribeMQTT takes subscriptions off a connection's session (section 3.10.4). What is under
// way of them ends as if it was there. The result's body is a byte for each: 1 where it was
// there.
type UnsubscribeMQTT struct {
	MQTTLeased
	Subscriptions []MQTTSubscription // Filter and Share count
}

// Command encodes: lease, token uvarint, count uvarint; of each filter, share.
func (c *UnsubscribeMQTT) Command() core.Command {
	b := wire.AppendUvarint(c.appendTo(nil), uint64(len(c.Subscriptions)))
	for _, u := range c.Subscriptions {
		b = wire.AppendString(wire.AppendString(b, u.Filter), u.Share)
	}
	return core.Command{Code: CodeUnsubscribeMQTT, Head: b}
}

func decodeUnsubscribeMQTT(body []byte) (c UnsubscribeMQTT, err error) {
	r := wire.NewReader(body)
	c.MQTTLeased = readMQTTLeased(&r)
	c.Subscriptions = make([]MQTTSubscription, r.Count(2))
	for i := range c.Subscriptions {
		c.Subscriptions[i] = MQTTSubscription{Filter: r.String(), Share: r.String()}
	}
	return c, r.Close()
}

func (s *State) unsubscribeMQTT(tx txn, body []byte) core.Result {
	cmd, err := decodeUnsubscribeMQTT(body)
	switch {
	case err != nil:
		return invalid("mqtt unsubscribe", err)
	case len(cmd.Subscriptions) > MaxMQTTSubscribed:
		return refused(core.Limit, "mqtt unsubscribe: %d subscriptions, at most %d in one command", len(cmd.Subscriptions), MaxMQTTSubscribed)
	}
	m, refusal := s.connected(tx, &cmd.MQTTLeased)
	if refusal != nil {
		return core.Result{Err: refusal}
	}
	found := make([]byte, len(cmd.Subscriptions))
	for i := range cmd.Subscriptions {
		u := &cmd.Subscriptions[i]
		key := mqttSubscriptionKey(m.Number, u.Share, u.Filter)
		v, ok, err := tx.Get(key)
		if err != nil {
			return s.storeResult(err)
		}
		if !ok {
			continue
		}
		old, err := decodeMQTTSubscription(key, v)
		if err == nil {
			err = s.leaveFilter(tx, m.Client.Namespace, &old)
		}
		if err != nil {
			return s.storeResult(err)
		}
		tx.Delete(key)
		m.subs--
		found[i] = 1
	}
	setMQTTSession(tx, m)
	return core.Result{Body: found}
}
