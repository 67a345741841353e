package state

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"polylog/core"
	"polylog/core/ackset"
	"polylog/core/message"
)

// FuzzApply applies arbitrary bytes as an entry, to two replicas: it must not panic,
// and both must come to the same state, which must survive a crash.
func FuzzApply(f *testing.F) {
	topic := CreateTopic{Name: core.TopicName("t"), Partitions: 2}
	seed := func(cs ...core.Command) {
		data := core.AppendEntryHeader(nil, 5)
		for i := range cs {
			data = core.AppendCommand(data, &cs[i])
		}
		f.Add(data)
	}
	for _, c := range everyCommand(f) {
		seed(c)
	}
	seed(everyCommand(f)...)
	f.Fuzz(func(t *testing.T, data []byte) {
		log := newEntries()
		log.take(topic.Command())
		log.raw(data)
		log.take(everyCommand(t)...)
		a, b := newMachine(t), newMachine(t)
		a.state.Apply(log.all)
		for i := range log.all {
			b.state.Apply(log.all[i : i+1])
			if b.fatal != nil {
				return // a newer program's: refused as a whole
			}
		}
		if a.hash() != b.hash() {
			t.Fatal("replicas differ")
		}
		b.checkpoint()
		b.crash(log.all)
		if a.hash() != b.hash() {
			t.Fatal("the crash changed the state")
		}
	})
}

// FuzzDecoders reads arbitrary bytes as every command: what can be read must be the
// same after it was written and read again.
func FuzzDecoders(f *testing.F) {
	for _, c := range everyCommand(f) {
		f.Add(c.Head)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		again(t, b, decodeCreateTopic, (*CreateTopic).Command)
		again(t, b, decodeDeleteTopic, (*DeleteTopic).Command)
		again(t, b, decodeCreatePartitions, (*CreatePartitions).Command)
		again(t, b, decodeAlterTopicConfig, (*AlterTopicConfig).Command)
		again(t, b, decodeAlterBrokerConfig, (*AlterBrokerConfig).Command)
		again(t, b, decodeCommitOffsets, (*CommitOffsets).Command)
		again(t, b, decodeDeleteOffsets, (*DeleteOffsets).Command)
		again(t, b, decodeDeleteGroup, (*DeleteGroup).Command)
		again(t, b, decodeAllocateProducerIDs, (*AllocateProducerIDs).Command)
		again(t, b, decodeTrimQueues, (*TrimQueues).Command)
		again(t, b, decodeExpire, (*Expire).Command)
		again(t, b, decodeSweep, (*Sweep).Command)
		again(t, b, decodeAnnounce, (*Announce).Command)
		again(t, b, decodeSetFeatureLevel, (*SetFeatureLevel).Command)
		again(t, b, decodeForgetMember, (*ForgetMember).Command)
		again(t, b, decodeNoteMembers, (*NoteMembers).Command)
		again(t, b, decodeDeclareQueue, (*DeclareQueue).Command)
		again(t, b, decodeDeclareFullQueue, (*DeclareQueue).Command)
		again(t, b, decodeSetPolicy, (*SetPolicy).Command)
		again(t, b, decodeDeletePolicy, (*DeletePolicy).Command)
		again(t, b, decodeDeleteQueue, (*DeleteQueue).Command)
		again(t, b, decodeCreateAckGroup, (*CreateAckGroup).Command)
		again(t, b, decodeDeleteAckGroup, (*DeleteAckGroup).Command)
		again(t, b, decodeSettle, (*Settle).Command)
		again(t, b, decodeSetSubscription, (*SetSubscription).Command)
		again(t, b, decodeDeleteSubscription, (*DeleteSubscription).Command)
		again(t, b, decodeSeekSubscription, (*SeekSubscription).Command)
		again(t, b, decodeSetHook, (*SetHook).Command)
		again(t, b, decodeDeleteHook, (*DeleteHook).Command)
		again(t, b, decodeSetUser, (*SetUser).Command)
		again(t, b, decodeDeleteUser, (*DeleteUser).Command)
		again(t, b, decodeSetRights, (*SetRights).Command)
		again(t, b, decodeNoteEndpoint, (*NoteEndpoint).Command)
		again(t, b, decodeSubscribeMQTT, (*SubscribeMQTT).Command)
		again(t, b, decodeEndMQTT, (*EndMQTT).Command)
		again(t, b, decodeSettleFull, (*Settle).Command)
		again(t, b, decodeTick, (*Tick).Command)
		again(t, b, decodeDeleteUnused, (*DeleteUnused).Command)
		again(t, b, decodeDeleteOwned, (*DeleteOwned).Command)
		again(t, b, decodeOpenSession, (*OpenSession).Command)
		again(t, b, decodeEndSession, (*EndSession).Command)
		again(t, b, decodeAcquireLease, (*AcquireLease).Command)
		again(t, b, decodeAcquireLeaseFor, (*AcquireLeaseFor).Command)
		again(t, b, decodeReleaseLease, (*ReleaseLease).Command)
		retainAgain(t, b)
		again(t, b, decodeSweepLeases, (*SweepLeases).Command)
		again(t, b, decodeDeclareExchange, (*DeclareExchange).Command)
		again(t, b, decodeDeleteExchange, (*DeleteExchange).Command)
		again(t, b, decodeBind, (*Bind).Command)
		again(t, b, decodeUnbind, (*Unbind).Command)
		again(t, b, decodeCreateNamespace, (*CreateNamespace).Command)
		again(t, b, decodeDeleteNamespace, (*DeleteNamespace).Command)
	})
}

// retainAgain is again for a command whose end is a batch.
func retainAgain(t *testing.T, b []byte) {
	c, err := decodeRetain(b)
	if err != nil {
		return
	}
	cmd := c.Command()
	if got, err := decodeRetain(append(cmd.Head, cmd.Payload...)); err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("%+v became %+v, %v", c, got, err)
	}
}

func again[C any](t *testing.T, b []byte, decode func([]byte) (C, error), encode func(*C) core.Command) {
	t.Helper()
	c, err := decode(b)
	if err != nil {
		return
	}
	got, err := decode(encode(&c).Head)
	if err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("%T: %+v became %+v, %v", c, c, got, err)
	}
}

// FuzzValues reads arbitrary bytes as values of the KV space.
func FuzzValues(f *testing.F) {
	f.Add((&producer{n: 1}).encode())
	f.Add((&Topic{Name: core.TopicName("t"), Queues: []core.QueueID{1, 2}}).encode())
	f.Add((&Group{ProtocolType: "consumer"}).encode())
	f.Add((&GroupOffset{Metadata: "m"}).encode())
	f.Add((&Member{ID: "n1", Instance: "i", Endpoints: map[string]string{"kafka": "h:1"}}).encode())
	queue := Queue{Name: core.TopicName("q"), Deaths: true}
	f.Add(queue.encode())
	queue.QueueConfig = fullConfig()
	f.Add(queue.encode())
	f.Add((&Attributes{5, 1, 100}).encode())
	acks := ackGroup{mark: 5, failed: map[core.Offset]failure{3: {1, 2}}}
	acks.acks.Add(4, 5)
	f.Add(acks.encode())
	f.Add((&Lease{"n1", 1, 2, 3, "u"}).encode())
	f.Add((&Session{1, "r"}).encode())
	history := History{Deaths: []Death{{Queue: core.TopicName("q"), Offset: 3, Reason: DeathLimit, Time: 5, Count: 1, First: true}}}
	f.Add(history.encode())
	history.Exchange, history.Keys = "x", []string{"k", "l"}
	history.Deaths[0].Count, history.Deaths[0].Keys = 2, []string{"m"}
	f.Add(history.encode())
	f.Fuzz(func(t *testing.T, v []byte) {
		fuzzQueueValues(t, v)
		fuzzRoutingValues(t, v)
		if p, err := decodeProducer(v); err == nil {
			if _, err := decodeProducer(p.encode()); err != nil {
				t.Errorf("producer: %v", err)
			}
		}
		if topic, err := decodeTopic(v); err == nil {
			if _, err := decodeTopic(topic.encode()); err != nil {
				t.Errorf("topic: %v", err)
			}
		}
		if r, err := decodeDoomed(doomedKey(9), v); err == nil && (r.first >= r.end || r.end != 9) {
			t.Errorf("doomed: %+v", r)
		}
		if g, err := decodeGroup("g", v); err == nil {
			if got, err := decodeGroup("g", g.encode()); err != nil || got != g {
				t.Errorf("group: %v, %v", got, err)
			}
		}
		if m, err := decodeMember(v); err == nil {
			if got, err := decodeMember(m.encode()); err != nil || !got.Equal(&m) {
				t.Errorf("member: %v, %v", got, err)
			}
		}
		if l, err := decodeLease(v); err == nil {
			if got, err := decodeLease(l.encode()); err != nil || got != l {
				t.Errorf("lease: %v, %v", got, err)
			}
		}
		if n, err := decodeSession(v); err == nil {
			if got, err := decodeSession(n.encode()); err != nil || got != n {
				t.Errorf("session: %v, %v", got, err)
			}
		}
		if o, err := decodeOffset(1, v); err == nil {
			if got, err := decodeOffset(1, o.encode()); err != nil || got != o {
				t.Errorf("offset: %v, %v", got, err)
			}
		}
	})
}

// everyCommand has one of each kind.
func everyCommand(t testing.TB) []core.Command {
	topic := CreateTopic{Name: core.TopicName("t"), Partitions: 2}
	second := CreateTopic{Name: core.TopicName("u"), Partitions: 1, Overrides: map[string]string{"k": "v"}}
	deleted := DeleteTopic{Name: core.TopicName("u")}
	more := CreatePartitions{Name: core.TopicName("t"), Total: 3}
	alter := AlterTopicConfig{Name: core.TopicName("t"), Changes: []ConfigChange{{Key: "k", Value: "w"}}}
	broker := AlterBrokerConfig{Changes: []ConfigChange{{Key: "k", Value: "w"}, {Key: "l", Delete: true}}}
	commit := CommitOffsets{Group: "g", ProtocolType: "consumer", Offsets: []OffsetCommit{{1, 5, -1, "m"}}}
	offsets := DeleteOffsets{Group: "g", Queues: []core.QueueID{1, 2}}
	group := DeleteGroup{Group: "g"}
	ids := AllocateProducerIDs{Count: 5}
	trim := TrimQueues{Trims: []Trim{{1, 1}, {2, 0}}}
	expire := Expire{ProducerAge: 1, Producers: []ProducerRef{{1, 1}}, OffsetAge: 1, Groups: []string{"g"}}
	sweep := Sweep{Work: 2}
	announce := Announce{Member{ID: "n1", Instance: "i", Addr: "h:1", Endpoints: map[string]string{"kafka": "h:2"}, MaxLevel: MaxLevel}}
	level := SetFeatureLevel{Level: MaxLevel}
	forget := ForgetMember{ID: "n1"}
	note := NoteMembers{[]Sighting{{"n1", 7, true}, {"n2", 0, false}}}
	digest := Digest{}
	open := OpenSession{"n1", "r"}
	acquire := AcquireLease{"n1", 1, 1, "x", true}
	release := ReleaseLease{"n1", 1, 1, "x"}
	end := EndSession{"n1", 1}
	sweepLeases := SweepLeases{Work: 1}
	return append([]core.Command{
		topic.Command(), second.Command(), AppendCommand(1, batch(t, 2, 7, core.Nobody)),
		AppendCommand(1, batch(t, 2, 7, core.Producer{ID: 1})), deleted.Command(), more.Command(), alter.Command(),
		retainCommand(t, "t/x", "v"), retainCommand(t, "t/y", ""),
		broker.Command(), commit.Command(), offsets.Command(), group.Command(), ids.Command(), trim.Command(), expire.Command(), sweep.Command(),
		announce.Command(), level.Command(), forget.Command(), note.Command(), digest.Command(),
		open.Command(), acquire.Command(), release.Command(), acquire.Command(), end.Command(), sweepLeases.Command(),
	}, slices.Concat(everyQueueCommand(t), everyExchangeCommand(t), everyHTTPCommand(t), everyMQTTCommand(t), everyUserCommand())...)
}

// everyQueueCommand has one of each kind that is about named queues and acknowledgements.
func everyQueueCommand(t testing.TB) []core.Command {
	dead := DeclareQueue{Name: core.TopicName("dead")}
	declare := DeclareQueue{Name: core.TopicName("q"), Config: QueueConfig{AckConfig: AckConfig{
		DeliveryLimit: 1, DeadLetter: core.TopicName("dead"), SingleActive: true, Attributes: map[string]string{"k": "v"},
	}}}
	full := DeclareQueue{Name: core.TopicName("full"), Config: fullConfig()}
	policy := SetPolicy{Policy{
		Namespace: core.DefaultNamespace, Name: "p", Pattern: "^f", Priority: 3, ApplyTo: ToQueues,
		Definition: message.Table{{Name: "max-length", Value: message.Int(message.KindInt32, 1)}},
	}}
	unset := DeletePolicy{core.DefaultNamespace, false, "p"}
	create := CreateAckGroup{Queue: 1, Group: "g", From: FromStart}
	drop := DeleteAckGroup{Queue: 1, Group: "g"}
	settle := Settle{Groups: []GroupSettle{
		{Queue: 1, Group: "g", SetMark: true, Mark: 10, Done: []ackset.Span{{First: 0, End: 1}}, Failed: []FailedDelivery{{1, true, 5}}, Rejected: []core.Offset{2}},
		{Queue: 2, Group: "g", Mark: 1},
	}}
	remove := DeleteQueue{Queue: 4, IfEmpty: true}
	dying := Settle{Term: 1, Groups: []GroupSettle{{
		Queue: 5, Use: UseBegan, SetAloft: true, Aloft: 1, AloftBytes: 2, Expired: []core.Offset{0}, Overflowed: []core.Offset{1},
		Letters: []Letter{{Offset: 0, Exchange: "x", Keys: []string{"k"}, Headers: []core.RecordHeader{{Key: "h"}, {Key: "i", Value: []byte("v")}}, Size: 3}},
	}, {Queue: 4, Group: "g"}}}
	tick := Tick{Work: 1}
	unused := DeleteUnused{Queue: 5, Due: 7}
	owned := DeleteOwned{"o", 5}
	return []core.Command{
		dead.Command(), declare.Command(), AppendCommand(5, batch(t, 2, 7, core.Nobody)), create.Command(),
		settle.Command(), drop.Command(), remove.Command(), full.Command(), policy.Command(), unset.Command(),
		dying.Command(), tick.Command(), unused.Command(), owned.Command(),
	}
}

// fullConfig has everything.
func fullConfig() QueueConfig {
	return QueueConfig{
		Kind: Quorum, Durable: true, AutoDelete: true, Owner: "o",
		Limits: QueueLimits{
			HasTTL: true, TTL: 1, Expires: 2, HasMaxLength: true, MaxLength: 3, HasMaxBytes: true, MaxBytes: 4, Overflow: RejectPublish,
			MaxPriority: 5, HasDeadLetter: true, DeadLetterExchange: "x", HasDeadLetterKey: true, DeadLetterKey: "k", DeliveryLimit: 6,
		},
		Arguments: message.Table{{Name: "x-message-ttl", Value: message.Int(message.KindInt32, 1)}},
	}
}

func fuzzQueueValues(t *testing.T, v []byte) {
	if q, err := decodeQueue(1, v); err == nil {
		if got, err := decodeQueue(1, q.encode()); err != nil || !bytes.Equal(got.encode(), q.encode()) {
			t.Errorf("queue: %v, %v", got, err)
		}
	}
	if a, err := decodeAttributes(v); err == nil {
		if got, err := decodeAttributes(a.encode()); err != nil || got != a {
			t.Errorf("attributes: %v, %v", got, err)
		}
	}
	if g, err := decodeAckGroup(v); err == nil {
		if got, err := decodeAckGroup(g.encode()); err != nil || !bytes.Equal(got.encode(), g.encode()) {
			t.Errorf("acks: %v, %v", got, err)
		}
	}
	if h, err := decodeHistory(v); err == nil {
		if got, err := decodeHistory(h.encode()); err != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("history: %v, %v", got, err)
		}
	}
}
