package state

import (
	"strconv"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// Subscription is a named position on a topic or a queue, for consumers that come and go.
// On a topic it is a group on each partition, all of one name, which is new after each
// seek: what was delivered before belongs to groups that are gone. On a queue it is the
// queue's own group.
type Subscription struct {
	Name    core.Name
	Created int64        // ms
	Topic   core.TopicID // zero: of a queue
	Queue   core.QueueID
	Group   string // "" for a queue's own
	// AckConfig is that of the groups; on a queue only its attributes are.
	AckConfig
}

// A subscription's value: version byte, name, created varint, topic 16 bytes, queue uvarint,
// group, ack configuration.
func (s *Subscription) encode() []byte {
	b := appendName([]byte{valueVersion}, s.Name)
	b = wire.AppendVarint(b, s.Created)
	b = append(b, s.Topic[:]...)
	b = wire.AppendString(wire.AppendUvarint(b, uint64(s.Queue)), s.Group)
	return s.appendTo(b)
}

func decodeSubscription(v []byte) (*Subscription, error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "subscription"); err != nil {
		return nil, err
	}
	s := &Subscription{Name: readName(&r), Created: r.Varint()}
	copy(s.Topic[:], r.Take(len(s.Topic)))
	s.Queue, s.Group = core.QueueID(r.Uvarint()), r.String()
	s.AckConfig = readAckConfig(&r)
	if err := r.Close(); err != nil {
		return nil, core.E(core.Corrupt, "subscription: %v", err)
	}
	return s, nil
}

func subscriptionPrefix(namespace string) []byte {
	return wire.AppendString([]byte{prefixHTTP, 's'}, namespace)
}

func subscriptionKey(n core.Name) []byte { return append(subscriptionPrefix(n.Namespace), n.Name...) }

// ReadSubscription finds a subscription; nil when there is none.
func ReadSubscription(r index.Reader, n core.Name) (*Subscription, error) {
	v, ok, err := r.Get(subscriptionKey(n))
	if err != nil || !ok {
		return nil, err
	}
	return decodeSubscription(v)
}

// ReadSubscriptions are up to limit subscriptions of a namespace, by name, after from.
func ReadSubscriptions(r index.Reader, namespace, from string, limit int) (all []*Subscription, err error) {
	prefix := subscriptionPrefix(namespace)
	start := prefix
	if from != "" {
		start = append(append([]byte(nil), prefix...), from+"\x00"...)
	}
	var bad error
	err = r.Scan(start, after(prefix), func(_, v []byte) bool {
		var s *Subscription
		if s, bad = decodeSubscription(v); bad == nil {
			all = append(all, s)
		}
		return bad == nil && len(all) < limit
	})
	if err == nil {
		err = bad
	}
	return all, err
}

// SetSubscription creates a subscription, or changes the attributes of the one that is
// there. Partitions that the topic got meanwhile get its group, from their start. The
// result's body is a byte: 1 when it is new.
type SetSubscription struct {
	Name   core.Name
	Topic  core.TopicID // zero: of a queue
	Queue  core.QueueID
	From   core.Offset // FromStart or FromEnd, of a new one on a topic
	Config AckConfig
}

// MaxSubscribed bounds the partitions of a topic that has subscriptions: one command looks at
// all of them.
const MaxSubscribed = 1024

// Command encodes: name, topic 16 bytes, queue uvarint, from varint, ack configuration.
func (c *SetSubscription) Command() core.Command {
	b := append(appendName(nil, c.Name), c.Topic[:]...)
	b = wire.AppendVarint(wire.AppendUvarint(b, uint64(c.Queue)), int64(c.From))
	return core.Command{Code: CodeSetSubscription, Head: c.Config.appendTo(b)}
}

func decodeSetSubscription(body []byte) (c SetSubscription, err error) {
	r := wire.NewReader(body)
	c.Name = readName(&r)
	copy(c.Topic[:], r.Take(len(c.Topic)))
	c.Queue, c.From = core.QueueID(r.Uvarint()), core.Offset(r.Varint())
	c.Config = readAckConfig(&r)
	return c, r.Close()
}

func (s *State) setSubscription(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeSetSubscription(body)
	switch {
	case err != nil:
		return invalid("set subscription", err)
	case cmd.Name.Name == "" || cmd.Name.Namespace == "":
		return refused(core.Invalid, "set subscription: the name is empty")
	case cmd.From != FromStart && cmd.From != FromEnd:
		return refused(core.Invalid, "set subscription: from %d", cmd.From)
	case s.routing.vhosts[cmd.Name.Namespace] == nil:
		return core.Result{Err: noNamespace(cmd.Name.Namespace)}
	}
	sub, err := ReadSubscription(tx, cmd.Name)
	if err != nil {
		return s.storeResult(err)
	}
	created, from := sub == nil, FromStart
	if created {
		from = cmd.From
		sub = &Subscription{Name: cmd.Name, Created: c.time, Topic: cmd.Topic, Queue: cmd.Queue, AckConfig: cmd.Config}
		if !cmd.Topic.IsZero() {
			if sub.Group, err = s.subscriptionGroup(tx, cmd.Name); err != nil {
				return s.storeResult(err)
			}
		}
	}
	switch {
	case sub.Topic != cmd.Topic || sub.Queue != cmd.Queue:
		return refused(core.Conflict, "subscription %s is of another topic or queue", cmd.Name)
	case sub.DeliveryLimit != cmd.Config.DeliveryLimit || sub.DeadLetter != cmd.Config.DeadLetter || sub.SingleActive != cmd.Config.SingleActive:
		return refused(core.Conflict, "subscription %s has another delivery limit, dead letter queue or mode: these are decided when it is created", cmd.Name)
	}
	if r := s.addSubscriptionGroups(tx, sub, func(core.QueueID) core.Offset { return from }); r.Err != nil {
		return r
	}
	sub.Attributes = cmd.Config.Attributes
	s.subChanges.note(sub.Name)
	tx.Set(subscriptionKey(sub.Name), sub.encode())
	if created {
		return core.Result{Body: []byte{1}}
	}
	return core.Result{Body: []byte{0}}
}

// subscriptionGroup is a name that no group had before.
func (s *State) subscriptionGroup(tx txn, n core.Name) (string, error) {
	id, err := s.take(tx, counterSubscriptions, 1)
	return "http:" + n.Name + "@" + strconv.FormatUint(id, 10), err
}

// addSubscriptionGroups creates a subscription's groups where they are not there.
func (s *State) addSubscriptionGroups(tx txn, sub *Subscription, from func(core.QueueID) core.Offset) core.Result {
	if sub.Topic.IsZero() {
		if a, err := s.ackQueue(tx, sub.Queue); err != nil {
			return s.storeResult(err)
		} else if a == nil || a.queue == nil || a.queue.GroupOnly {
			return refused(core.NotFound, "no queue %d with a group of its own", sub.Queue)
		}
		return core.Result{}
	}
	t, ok := s.all.byID[sub.Topic]
	switch {
	case !ok:
		return refused(core.NotFound, "the topic of subscription %s does not exist", sub.Name)
	case len(t.Queues) > MaxSubscribed:
		return refused(core.Limit, "topic %s has %d partitions, with subscriptions it can have %d", t.Name, len(t.Queues), MaxSubscribed)
	}
	config := sub.AckConfig
	config.Attributes = nil // the subscription has them
	var added []core.QueueID
	for _, q := range t.Queues {
		r := s.addAckGroup(tx, &CreateAckGroup{Queue: q, Group: sub.Group, From: from(q), Config: config})
		if r.Err != nil { // all or none
			for _, q := range added {
				s.dropAckGroup(tx, &DeleteAckGroup{q, sub.Group})
			}
			return r
		}
		if r.Body[0] == 1 {
			added = append(added, q)
		}
	}
	return core.Result{}
}

// dropSubscriptionGroups deletes a subscription's groups, but a queue's own.
func (s *State) dropSubscriptionGroups(tx txn, sub *Subscription) core.Result {
	t, ok := s.all.byID[sub.Topic]
	if !ok {
		return core.Result{}
	}
	for _, q := range t.Queues[:min(len(t.Queues), MaxSubscribed)] {
		if r := s.dropAckGroup(tx, &DeleteAckGroup{q, sub.Group}); r.Err != nil && core.KindOf(r.Err) != core.NotFound {
			return r
		}
	}
	return core.Result{}
}

// DeleteSubscription deletes a subscription. What it had not settled of a queue stays there.
type DeleteSubscription struct{ Name core.Name }

// Command encodes: name.
func (c *DeleteSubscription) Command() core.Command {
	return core.Command{Code: CodeDeleteSubscription, Head: appendName(nil, c.Name)}
}

func decodeDeleteSubscription(body []byte) (c DeleteSubscription, err error) {
	r := wire.NewReader(body)
	c.Name = readName(&r)
	return c, r.Close()
}

func (s *State) deleteSubscription(tx txn, body []byte) core.Result {
	cmd, err := decodeDeleteSubscription(body)
	if err != nil {
		return invalid("delete subscription", err)
	}
	sub, err := ReadSubscription(tx, cmd.Name)
	switch {
	case err != nil:
		return s.storeResult(err)
	case sub == nil:
		return refused(core.NotFound, "subscription %s does not exist", cmd.Name)
	}
	if r := s.dropSubscriptionGroups(tx, sub); r.Err != nil {
		return r
	}
	tx.Delete(subscriptionKey(cmd.Name))
	tx.Delete(endpointKey(cmd.Name))
	s.subChanges.note(cmd.Name)
	return core.Result{}
}

// SeekSubscription moves a subscription on a topic: its groups are new ones that begin at
// the given offsets, on partitions that are not named at From.
type SeekSubscription struct {
	Name core.Name
	From core.Offset // FromStart or FromEnd
	To   []SeekTo
}

// SeekTo is where a partition begins.
type SeekTo struct {
	Queue  core.QueueID
	Offset core.Offset
}

// Command encodes: name, from varint, count uvarint; each: queue uvarint, offset uvarint.
func (c *SeekSubscription) Command() core.Command {
	b := wire.AppendVarint(appendName(nil, c.Name), int64(c.From))
	b = wire.AppendUvarint(b, uint64(len(c.To)))
	for _, to := range c.To {
		b = wire.AppendUvarint(wire.AppendUvarint(b, uint64(to.Queue)), uint64(to.Offset))
	}
	return core.Command{Code: CodeSeekSubscription, Head: b}
}

func decodeSeekSubscription(body []byte) (c SeekSubscription, err error) {
	r := wire.NewReader(body)
	c.Name, c.From = readName(&r), core.Offset(r.Varint())
	c.To = make([]SeekTo, r.Count(2))
	for i := range c.To {
		c.To[i] = SeekTo{core.QueueID(r.Uvarint()), core.Offset(r.Uvarint())}
	}
	return c, r.Close()
}

func (s *State) seekSubscription(tx txn, body []byte) core.Result {
	cmd, err := decodeSeekSubscription(body)
	switch {
	case err != nil:
		return invalid("seek subscription", err)
	case cmd.From != FromStart && cmd.From != FromEnd:
		return refused(core.Invalid, "seek subscription: from %d", cmd.From)
	}
	to := make(map[core.QueueID]core.Offset, len(cmd.To))
	for _, one := range cmd.To {
		if one.Offset < 0 {
			return refused(core.Invalid, "seek subscription: offset %d", one.Offset)
		}
		to[one.Queue] = one.Offset
	}
	sub, err := ReadSubscription(tx, cmd.Name)
	switch {
	case err != nil:
		return s.storeResult(err)
	case sub == nil:
		return refused(core.NotFound, "subscription %s does not exist", cmd.Name)
	case sub.Topic.IsZero():
		return refused(core.Unsupported, "subscription %s is of a queue, which has no way back", cmd.Name)
	}
	next := *sub
	if next.Group, err = s.subscriptionGroup(tx, cmd.Name); err != nil {
		return s.storeResult(err)
	}
	if r := s.addSubscriptionGroups(tx, &next, func(q core.QueueID) core.Offset {
		if o, ok := to[q]; ok {
			return o
		}
		return cmd.From
	}); r.Err != nil {
		return r
	}
	if r := s.dropSubscriptionGroups(tx, sub); r.Err != nil {
		return r
	}
	tx.Set(subscriptionKey(cmd.Name), next.encode())
	s.subChanges.note(cmd.Name)
	return core.Result{}
}
