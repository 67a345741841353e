package state

import (
	"fmt"
	"math/rand/v2"

	"polylog/core"
)

// randomCommand is any command about a few topics, groups and producers, mostly
// sensible, so that commands meet each other's effects.
func randomCommand(t interface {
	Helper()
	Fatal(...any)
}, rnd *rand.Rand, s *State,
) core.Command {
	name := core.TopicName(string(rune('a' + rnd.IntN(4))))
	group := string(rune('g' + rnd.IntN(3)))
	topic, ok := s.Topic(name)
	var id core.TopicID
	queue := core.QueueID(rnd.IntN(10))
	if ok {
		id = topic.ID
		queue = topic.Queues[rnd.IntN(len(topic.Queues))]
	}
	if rnd.IntN(3) == 0 {
		return randomQueueCommand(t, rnd, s)
	}
	if rnd.IntN(3) == 0 {
		return randomExchangeCommand(rnd)
	}
	if rnd.IntN(6) == 0 {
		return randomLeaseCommand(rnd, s)
	}
	if rnd.IntN(12) == 0 {
		return randomUserCommand(rnd)
	}
	switch n := rnd.IntN(100); {
	case n < 55:
		p := core.Nobody
		if rnd.IntN(3) > 0 {
			p = core.Producer{ID: int64(rnd.IntN(4)), Epoch: int16(rnd.IntN(2)), Sequence: int32(rnd.IntN(6))}
		}
		var bb core.BatchBuilder
		for range 1 + rnd.IntN(3) {
			bb.Add(int64(rnd.IntN(10_000))-1, nil, nil)
		}
		b, err := bb.Build(nil, core.BatchOptions{Producer: p})
		if err != nil {
			t.Fatal(err)
		}
		return AppendCommand(queue, b)
	case n < 62:
		c := CreateTopic{Name: name, Partitions: 1 + rnd.IntN(3), Overrides: map[string]string{"retention.ms": fmt.Sprint(n)}}
		return c.Command()
	case n < 64:
		c := DeleteTopic{Name: name, ID: id}
		return c.Command()
	case n < 66:
		c := CreatePartitions{Name: name, ID: id, Total: 1 + rnd.IntN(5)}
		return c.Command()
	case n < 68:
		c := AlterTopicConfig{Name: name, ID: id, Replace: n == 66, Changes: randomChanges(rnd)}
		return c.Command()
	case n < 70:
		c := AlterBrokerConfig{Replace: n == 68, Changes: randomChanges(rnd)}
		return c.Command()
	case n < 80:
		c := CommitOffsets{Group: group, ProtocolType: "consumer"}
		for i := range core.QueueID(rnd.IntN(4)) {
			c.Offsets = append(c.Offsets, OffsetCommit{queue + i, core.Offset(rnd.IntN(50)), 1, "m"})
		}
		return c.Command()
	case n < 83:
		c := DeleteOffsets{Group: group, Queues: []core.QueueID{queue}}
		return c.Command()
	case n < 84:
		c := DeleteGroup{Group: group}
		return c.Command()
	case n < 86:
		c := AllocateProducerIDs{Count: 1 + rnd.IntN(5)}
		return c.Command()
	case n < 87:
		c := Announce{Member{ID: group, Instance: fmt.Sprint(rnd.IntN(2)), Addr: fmt.Sprint(n), MaxLevel: 1 + rnd.IntN(MaxLevel)}}
		if rnd.IntN(3) == 0 {
			forget := ForgetMember{ID: group}
			return forget.Command()
		}
		if c.MaxLevel == 1 {
			note := NoteMembers{[]Sighting{{group, core.LogIndex(len(group) + n), c.Instance == "0"}}}
			return note.Command()
		}
		return c.Command()
	case n < 88:
		c := Sweep{Work: 1 + rnd.IntN(4)*rnd.IntN(40)}
		return c.Command()
	case n < 94:
		c := TrimQueues{Trims: []Trim{{queue, core.Offset(rnd.IntN(40))}, {queue + 1, core.Offset(rnd.IntN(40))}}}
		return c.Command()
	}
	c := Expire{ProducerAge: int64(rnd.IntN(400)), OffsetAge: int64(rnd.IntN(400)), Groups: []string{"g", "h", "i"}}
	for i := range int64(4) {
		c.Producers = append(c.Producers, ProducerRef{queue, i})
	}
	return c.Command()
}

// randomUserCommand is any command about a few users.
func randomUserCommand(rnd *rand.Rand) core.Command {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	user := pick("admin", "u", "w")
	switch rnd.IntN(4) {
	case 0:
		c := SetUser{Name: user, Must: Must(rnd.IntN(int(mustNothings))), SetTags: rnd.IntN(2) == 0, Tags: []string{pick("x", TagAdministrator)}}
		if rnd.IntN(2) == 0 {
			c.SetCredentials, c.Credentials = true, testCredentials(byte(rnd.IntN(9)))
		}
		return c.Command()
	case 1:
		c := DeleteUser{user, rnd.IntN(3) == 0}
		return c.Command()
	default:
		c := SetRights{User: user, Namespace: pick(core.DefaultNamespace, "v"), Clear: rnd.IntN(3) == 0, Read: pick("", ".*", "^a", "(")}
		return c.Command()
	}
}

func randomChanges(rnd *rand.Rand) []ConfigChange {
	keys := [...]string{"x", "y", "z"}
	return []ConfigChange{
		{Key: keys[rnd.IntN(3)], Value: fmt.Sprint(rnd.IntN(5))},
		{Key: keys[rnd.IntN(3)], Delete: true},
	}
}
