package group

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fakeTopics are topics by name with their number of partitions. An id is the name.
type fakeTopics map[string]int32

func topicID(name string) (id [16]byte) { copy(id[:], name); return id }

func (f fakeTopics) Topic(name string) (Topic, bool) {
	n, ok := f[name]
	return Topic{ID: topicID(name), Name: name, Partitions: n}, ok
}

// matching are the topics that p matches, of those that sees names, or of all.
func (f fakeTopics) matching(p *Pattern, sees string) (names []string) {
	for n := range f {
		if p.Match(n) && (sees == "" || strings.Contains(sees, n)) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

// show writes partitions as a0 a1 b0.
func show(ps []Partition) string {
	var out []string
	for _, p := range ps {
		out = append(out, strings.TrimRight(string(p.Topic[:]), "\x00")+strconv.Itoa(int(p.Index)))
	}
	return "[" + strings.Join(out, " ") + "]"
}

// parts reads a0,a1,b0.
func parts(s string) (ps []Partition) {
	for p := range strings.SplitSeq(s, ",") {
		if len(p) >= 2 && p != "none" {
			n, _ := strconv.Atoi(p[1:])
			ps = append(ps, Partition{topicID(p[:1]), int32(n)})
		}
	}
	return ps
}

// beat sends a heartbeat; owned=none says that the member has nothing, sees= is the topics that its
// user may know of.
func (s *script) beat(a args) {
	b := Beat{
		Group: "g", Member: a.str("m", ""), Epoch: int32(a.int("epoch", 0)),
		Rebalance: -1, NoID: a.int("v", 1) == 0,
	}
	if b.Epoch == epochJoin {
		b.Rebalance, b.Reported = int32(a.duration("rebalance", time.Minute).Milliseconds()), true
	}
	opt := func(key string) *string {
		if v := a.str(key, ""); v != "" {
			return &v
		}
		return nil
	}
	b.Instance, b.User, b.Assignor = opt("instance"), a.str("user", ""), opt("assignor")
	if text := opt("pattern"); text != nil {
		var err error
		if b.Pattern, err = CompilePattern(*text); err != nil {
			s.printf("%s", err)
			return
		}
	}
	if t := a.str("topics", ""); t != "" {
		b.Names = strings.Split(t, ",")
	}
	if o := a.str("owned", ""); o != "" {
		b.Reported = true
		b.Owned = parts(o)
	}
	if b.Looked = s.c.PatternDue(s.now, &b); b.Looked != nil {
		b.Found = s.topics.matching(b.Looked, a.str("sees", ""))
	}
	switch r := s.c.ConsumerHeartbeat(s.now, b, s.topics); {
	case r.Code != None:
		s.printf("%s: %s", codeName(r.Code), r.Message)
	case r.Changed:
		s.printf("id=%s epoch=%d assigned=%s", r.Member, r.Epoch, show(r.Assigned))
	default:
		s.printf("id=%s epoch=%d", r.Member, r.Epoch)
	}
}

// FuzzConsumers plays clients of the new protocol that obey it, lose answers, die and
// come back, while topics change, and looks that no partition is ever used by two of them,
// and that the group settles with everything assigned.
func FuzzConsumers(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 0, 1, 2, 3, 64, 65, 66, 67, 0, 1, 2, 3, 128, 0, 1, 2, 3, 200, 201})
	f.Add([]byte("a long enough string to move everything around, several times: 0123456789"))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, now, topics := New(Config{}), time.Unix(0, 0), fakeTopics{"a": 3, "b": 5}
		type client struct {
			id    string
			epoch int32
			held  partitions
		}
		clients := make([]client, 4)
		for i := range clients {
			clients[i].id = fmt.Sprint("m", i)
		}
		beat := func(cl *client, lost bool) {
			b := Beat{Group: "g", Member: cl.id, Epoch: cl.epoch, Rebalance: 60_000, Reported: true, Owned: cl.held.sorted(), Names: []string{"a", "b"}}
			if cl.id == "m3" {
				b.Names = []string{"b"}
			}
			r := c.ConsumerHeartbeat(now, b, topics)
			checkInvariants(t, c)
			switch {
			case lost:
			case r.Code != None:
				cl.epoch, cl.held = 0, nil // fenced: it drops everything
			default:
				cl.epoch = r.Epoch
				if r.Changed {
					cl.held = setOf(r.Assigned)
				}
			}
		}
		check := func() {
			used := map[Partition]string{}
			for i := range clients {
				m := c.consumers["g"]
				if m == nil || m.byID[clients[i].id] == nil {
					continue // expired: the client knows by its own clock
				}
				for p := range clients[i].held {
					if other := used[p]; other != "" {
						t.Fatalf("%s and %s both use %v", other, clients[i].id, p)
					}
					used[p] = clients[i].id
				}
			}
		}
		for _, op := range in {
			cl := &clients[op%4]
			switch op >> 5 {
			case 6:
				now = now.Add(time.Duration(op%32) * time.Second)
				c.Tick(now)
				checkInvariants(t, c)
			case 7:
				switch op % 3 {
				case 0:
					topics["a"]++
				case 1:
					c.ConsumerHeartbeat(now, Beat{Group: "g", Member: cl.id, Epoch: epochLeave}, topics)
					cl.epoch, cl.held = 0, nil
				case 2:
					cl.epoch, cl.held = 0, nil // a new process that kept its id
				}
			default:
				beat(cl, op&16 != 0)
			}
			check()
		}
		now = now.Add(2 * time.Second)
		for range 12 {
			for i := range clients {
				beat(&clients[i], false)
			}
		}
		check()
		held := 0
		for i := range clients {
			held += len(clients[i].held)
		}
		if want := int(topics["a"] + topics["b"]); held != want || c.consumers["g"].state() != "Stable" {
			t.Errorf("in the end %d of %d partitions are used, state %s", held, want, c.consumers["g"].state())
		}
		sizes := []int{}
		for i := range clients {
			sizes = append(sizes, len(clients[i].held))
		}
		if topics["a"] < 8 && slices.Max(sizes)-slices.Min(sizes) > 2 {
			t.Errorf("unfair: %v", sizes)
		}
	})
}
