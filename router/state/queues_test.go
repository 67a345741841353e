package state

import (
	"math/rand/v2"
	"slices"
	"testing"

	"polylog/core"
)

// TestQueueMap compares with a plain map, while topics come, grow and go.
func TestQueueMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var m queueMap
	want := map[core.QueueID]partition{}
	var topics []*Topic
	next := core.QueueID(1)
	more := func() (qs []core.QueueID) {
		for range 1 + rnd.IntN(4) {
			qs = append(qs, next)
			next++
		}
		return qs
	}
	add := func(topic *Topic) {
		m.add(topic)
		for i, q := range topic.Queues {
			want[q] = partition{topic, int32(i)}
		}
	}
	for range 500 {
		switch n := rnd.IntN(4); {
		case n < 2 || len(topics) == 0:
			topics = append(topics, &Topic{Queues: more()})
			add(topics[len(topics)-1])
		default:
			i := rnd.IntN(len(topics))
			was := topics[i]
			m.remove(was)
			for _, q := range was.Queues {
				delete(want, q)
			}
			if n == 2 {
				topics[i] = was.with(slices.Concat(was.Queues, more()), nil)
				add(topics[i])
			} else {
				topics = slices.Delete(topics, i, i+1)
			}
		}
		if m.count != len(want) {
			t.Fatalf("%d queues, want %d", m.count, len(want))
		}
		for q := range next + 2 {
			got, ok := m.find(q)
			if p, exists := want[q]; ok != exists || got != p {
				t.Fatalf("queue %d is %v, %v, want %v, %v", q, got, ok, p, exists)
			}
		}
	}
}

// TestManyPartitionsCostLittle creates and deletes a topic of very many partitions. What
// that changes in the store is a measure of the work: a few bytes for each when the
// topic is written, none when it is deleted.
func TestManyPartitionsCostLittle(t *testing.T) {
	m, log := newMachine(t), newEntries()
	const partitions = 100_000
	create := CreateTopic{Name: core.TopicName("t"), Partitions: partitions}
	res := m.state.Apply(log.take(create.Command()))[0][0]
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	if n := m.state.OverlayBytes(); n > 5*partitions {
		t.Errorf("creating %d partitions takes %d bytes", partitions, n)
	}
	id, err := DecodeTopicID(res.Body)
	m.must(err)
	m.checkpoint()
	remove := DeleteTopic{Name: create.Name, ID: id}
	if res := m.state.Apply(log.take(remove.Command()))[0][0]; res.Err != nil {
		t.Fatal(res.Err)
	}
	if n := m.state.OverlayBytes(); n > 1000 {
		t.Errorf("deleting %d partitions takes %d bytes", partitions, n)
	}
	for want := partitions; want > 0; {
		want -= 30_000
		sweep := Sweep{Work: 30_000}
		left, err := DecodeSwept(m.state.Apply(log.take(sweep.Command()))[0][0].Body)
		if err != nil || left != max(want, 0) || m.state.ToSweep() != left {
			t.Fatalf("%d left to sweep, %d, %v, want %d", left, m.state.ToSweep(), err, want)
		}
	}
}
