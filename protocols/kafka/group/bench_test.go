package group

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkHeartbeat is one heartbeat among 100,000 members in 1,000 groups.
func BenchmarkHeartbeat(b *testing.B) {
	c, now := New(Config{InitialDelay: -1, NewID: func() string { return "1" }}), time.Unix(0, 0)
	type who struct{ group, member string }
	var all []who
	for g := range 1000 {
		for m := range 100 {
			w := who{fmt.Sprint("g", g), ""}
			c.Join(now, Join{
				Group: w.group, ClientID: fmt.Sprint(m), Session: 10 * time.Second, ProtocolType: ConsumerType,
				Protocols: []Protocol{{Name: "range", Metadata: subscription("t")}},
			}, func(Joined) {})
			w.member = fmt.Sprint(m, "-1")
			all = append(all, w)
		}
	}
	b.ReportMetric(float64(c.Stats().Bytes)/float64(len(all)), "charged-B/member")
	b.ResetTimer()
	for i := range b.N {
		w := all[i%len(all)]
		c.Heartbeat(now.Add(time.Duration(i)), w.group, w.member, "", 1)
	}
}

// BenchmarkLargeGroup is a classic group of 1,000 members, from the first JoinGroup to the
// last assignment.
func BenchmarkLargeGroup(b *testing.B) {
	for range b.N {
		c, now := New(Config{InitialDelay: time.Second}), time.Unix(0, 0)
		var ids []string
		leader := ""
		for range 1000 {
			c.Join(now, Join{
				Group: "g", ClientID: "c", Session: 10 * time.Second, ProtocolType: ConsumerType,
				Protocols: []Protocol{{Name: "range", Metadata: subscription("t")}},
			}, func(j Joined) { ids, leader = append(ids, j.Member), j.Leader })
		}
		c.Tick(now.Add(time.Second))
		c.Tick(now.Add(2 * time.Second))
		as := make([]Assignment, len(ids))
		for i, id := range ids {
			as[i] = Assignment{Member: id, Data: make([]byte, 32)}
		}
		synced := 0
		done := func(s Synced) {
			if s.Code == None {
				synced++
			}
		}
		for _, id := range ids {
			s := Sync{Group: "g", Member: id, Generation: 1}
			if id == leader {
				s.Assignments = as
			}
			c.Sync(now, s, done)
		}
		if synced != 1000 {
			b.Fatalf("%d members have an assignment", synced)
		}
	}
}

// BenchmarkConsumersJoin is one more member in a group of the new protocol that shares
// 5,000 partitions among about 500.
func BenchmarkConsumersJoin(b *testing.B) {
	c, now, topics := New(Config{}), time.Unix(0, 0), fakeTopics{"t": 5000}
	join := func(i int) {
		r := c.ConsumerHeartbeat(now, Beat{Group: "g", Member: fmt.Sprint("m", i), Rebalance: 1000, Reported: true, Names: []string{"t"}}, topics)
		if r.Code != None {
			b.Fatal(r.Message)
		}
	}
	for i := range 500 {
		join(i)
	}
	b.ResetTimer()
	for i := range b.N {
		join(500 + i)
		c.ConsumerHeartbeat(now, Beat{Group: "g", Member: fmt.Sprint("m", i), Epoch: epochLeave}, topics)
	}
}
