package state

import (
	"strings"
	"testing"

	"polylog/core"
)

func TestDescribeNamesEveryCommand(t *testing.T) {
	name := core.TopicName("orders")
	for want, c := range map[string]core.Command{
		"note members {Sightings:[{ID:n1 Held:5 Away:tr":                             (&NoteMembers{[]Sighting{{"n1", 5, true}}}).Command(),
		"append queue=7 bytes=61 records=3":                                          AppendCommand(7, (&core.BatchHeader{Magic: 2, Length: 49, Count: 3}).AppendTo(nil)),
		"create topic {Name:orders Partitions:6":                                     (&CreateTopic{Name: name, Partitions: 6}).Command(),
		"delete topic {Name:orders":                                                  (&DeleteTopic{Name: name}).Command(),
		"create partitions {Name:orders":                                             (&CreatePartitions{Name: name, Total: 9}).Command(),
		"alter topic configuration {Name:orders":                                     (&AlterTopicConfig{Name: name}).Command(),
		"alter broker configuration {Replace:true":                                   (&AlterBrokerConfig{Replace: true}).Command(),
		"commit offsets {Group:g":                                                    (&CommitOffsets{Group: "g", Offsets: []OffsetCommit{{Queue: 1}}}).Command(),
		"delete offsets {Group:g Queues:[4 5]}":                                      (&DeleteOffsets{Group: "g", Queues: []core.QueueID{4, 5}}).Command(),
		"delete group {Group:g}":                                                     (&DeleteGroup{Group: "g"}).Command(),
		"allocate producer ids {Count:1000}":                                         (&AllocateProducerIDs{Count: 1000}).Command(),
		"trim queues {Trims:[{Queue:1 Before:2}]}":                                   (&TrimQueues{Trims: []Trim{{1, 2}}}).Command(),
		"expire {ProducerAge:1 Producers:[] OffsetAge:2":                             (&Expire{ProducerAge: 1, OffsetAge: 2}).Command(),
		"sweep {Work:5}":                                                             (&Sweep{Work: 5}).Command(),
		"announce {Member:{ID:n1 Instance:i Addr:h:1":                                (&Announce{Member{ID: "n1", Instance: "i", Addr: "h:1"}}).Command(),
		"set feature level {Level:2}":                                                (&SetFeatureLevel{Level: 2}).Command(),
		"forget member {ID:n1}":                                                      (&ForgetMember{ID: "n1"}).Command(),
		"declare queue {Name:orders Config:{GroupOnly":                               (&DeclareQueue{Name: name}).Command(),
		"delete queue {Queue:7 IfEmpty:true}":                                        (&DeleteQueue{7, true}).Command(),
		"create group {Queue:7 Group:g From:-1":                                      (&CreateAckGroup{Queue: 7, Group: "g", From: FromEnd}).Command(),
		"delete group {Queue:7 Group:g}":                                             (&DeleteAckGroup{7, "g"}).Command(),
		"settle {Term:2 Groups:[{Queue:7 Group:g SetMark":                            (&Settle{2, []GroupSettle{{Queue: 7, Group: "g", Mark: 5}}}).Command(),
		"open session {Node:n1 Run:r}":                                               (&OpenSession{"n1", "r"}).Command(),
		"end session {Node:n1 Session:7}":                                            (&EndSession{"n1", 7}).Command(),
		"acquire lease {Node:n1 Session:7 Claim:1 Name:x":                            (&AcquireLease{"n1", 7, 1, "x", true}).Command(),
		"release lease {Node:n1 Session:7 Claim:1 Name:x":                            (&ReleaseLease{"n1", 7, 1, "x"}).Command(),
		"sweep leases {Work:5}":                                                      (&SweepLeases{Work: 5}).Command(),
		"declare queue {Name:orders Config:{GroupOnly:f":                             (&DeclareQueue{Name: name, Config: QueueConfig{Durable: true}}).Command(),
		"set policy {Policy:{Namespace:default Name:p":                               (&SetPolicy{Policy{Namespace: "default", Name: "p"}}).Command(),
		"delete policy {Namespace:default Operator:true":                             (&DeletePolicy{"default", true, "p"}).Command(),
		"set subscription {Name:orders Topic:AQAAAAAAAAAAAAAAAAAAAA Queue:0 From:-1": (&SetSubscription{Name: name, Topic: core.TopicID{1}, From: FromEnd}).Command(),
		"publish once key=\"k\" digest=00":                                           (&PublishOnce{Key: "k", Window: 1, Batches: []QueueBatch{{1, batch(t, 1, 5, core.Nobody)}}}).Command(),
		"delete subscription {Name:orders}":                                          (&DeleteSubscription{name}).Command(),
		"seek subscription {Name:orders From:-2 To:[{":                               (&SeekSubscription{name, FromStart, []SeekTo{{1, 2}}}).Command(),
		"settle {Term:0 Groups:[{Queue:7 Group: SetMark:":                            (&Settle{0, []GroupSettle{{Queue: 7, Expired: []core.Offset{1}}}}).Command(),
		"tick {Work:5}":                                                              (&Tick{5}).Command(),
		"delete unused queue {Queue:7 Due:8}":                                        (&DeleteUnused{7, 8}).Command(),
		"delete owned queues {Owner:o Limit:5}":                                      (&DeleteOwned{"o", 5}).Command(),
		"unknown command 200, 3 bytes":                                               {Code: 200, Head: []byte("abc")},
		"delete group: 1 bytes that cannot be read: ":                                {Code: CodeDeleteGroup, Head: []byte{9}},
		"append: 3 bytes":                                                            {Code: CodeAppend, Head: []byte("abc")},
	} {
		described(t, c, want)
	}
}

func described(t *testing.T, c core.Command, want string) {
	t.Helper()
	if got := Describe(c.Code, append(c.Head, c.Payload...)); !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDescribeExchanges(t *testing.T) {
	name := core.TopicName("orders")
	one := PublishCommand(name, []string{"a", "b"}, batch(t, 1, 1, core.Nobody))
	for want, c := range map[string]core.Command{
		"declare exchange {Name:orders Config:{Type:topic":                      (&DeclareExchange{Name: name, Config: ExchangeConfig{Type: TypeTopic}}).Command(),
		"delete exchange {Name:orders IfUnused:true}":                           (&DeleteExchange{name, true}).Command(),
		"bind {Binding:{Source:orders":                                          (&Bind{Binding{Source: name}}).Command(),
		"unbind {Binding:{Source:orders":                                        (&Unbind{Binding{Source: name}}).Command(),
		"create namespace {Name:v":                                              (&CreateNamespace{Name: "v"}).Command(),
		"delete namespace {Name:v}":                                             (&DeleteNamespace{Name: "v"}).Command(),
		`publish namespace="default" exchange="orders" keys=["a" "b"] bytes=69`: one,
		"publish: 3 bytes that cannot be read: ":                                {Code: CodePublish, Head: []byte("abc")},
		"transact messages=1 settle={Term:0 Groups:[]":                          (&Transact{Publishes: []core.Command{one}}).Command(),
	} {
		described(t, c, want)
	}
}

func TestDescribeMQTT(t *testing.T) {
	l := MQTTLeased{Lease: "mqtt:7:defaultc", Token: 3}
	m := MQTTMessage{Queue: 7, Name: "a/b", Retain: true, Batch: []byte("1234")}
	for want, c := range map[string]core.Command{
		"open mqtt session {MQTTLeased:{Lease:mqtt:7:defaultc Token:3} Clean:true Expiry:5 Will:<nil>}":                                (&OpenMQTT{MQTTLeased: l, Clean: true, Expiry: 5}).Command(),
		`open mqtt session lease="mqtt:7:defaultc" token=3 clean=false expiry=0s will queue=7 name="a/b" retain=true delay=9s bytes=4`: (&OpenMQTT{MQTTLeased: l, Will: &MQTTWill{Delay: 9, MQTTMessage: m}}).Command(),
		"open mqtt session: 1 bytes that cannot be read: ":                                                                             {Code: CodeOpenMQTT, Head: []byte{9}},
		"close mqtt session {MQTTLeased:": (&CloseMQTT{MQTTLeased: l}).Command(),
		"mqtt subscribe {MQTTLeased:":     (&SubscribeMQTT{MQTTLeased: l, Subscriptions: []MQTTSubscription{{Filter: "a/#"}}}).Command(),
		"mqtt unsubscribe {MQTTLeased:":   (&UnsubscribeMQTT{MQTTLeased: l}).Command(),
		`mqtt publish queue=7 name="a/b" retain=true delay=0s lease="mqtt:7:defaultc" packet=6 bytes=4`: (&PublishMQTT{MQTTLeased: l, PacketID: 6, MQTTMessage: m}).Command(),
		"mqtt flow {MQTTLeased:": (&FlowMQTT{MQTTLeased: l, Step: MQTTRelease, Packets: []uint16{1}}).Command(),
		"publish due timer=64":   (&PublishDue{ID: dueID(mqttNumberKey(mqttDelayed, 1)), Due: 2}).Command(),
		"carry mqtt names {":     (&CarryMQTTNames{Topic: core.TopicName("orders")}).Command(),
	} {
		described(t, c, want)
	}
}
