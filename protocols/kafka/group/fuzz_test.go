package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzCoordinator plays random requests, right and wrong ones, on a few ids and looks
// that nothing contradicts itself and that in the end everybody was answered once.
func FuzzCoordinator(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Add([]byte{0, 0, 0, 1, 0, 0, 2, 0, 0, 5, 60, 0, 1, 0, 0, 1, 0, 0, 0, 17, 9, 4, 4, 4})
	f.Fuzz(func(t *testing.T, in []byte) {
		c, now, id := New(Config{MaxSize: 4, MaxBytes: 16 << 10}), time.Unix(0, 0), 0
		c.cfg.NewID = func() string { id++; return fmt.Sprint(id) }
		waiting := 0
		joined := func(Joined) { waiting-- }
		synced := func(Synced) { waiting-- }
		for len(in) >= 3 {
			op, a, b := in[0], in[1], in[2]
			in = in[3:]
			group := fmt.Sprint("g", a%2)
			member := fmt.Sprint("c-", id-int(a/2%8))
			instance := ""
			if a&0x80 != 0 {
				instance = fmt.Sprint("i", a/16%2)
				member = fmt.Sprint(instance, "-", id-int(a/2%8))
			}
			gen := int32(b % 4)
			if g := c.groups[group]; g != nil && b&0x10 != 0 {
				gen = g.generation
			}
			switch op % 8 {
			case 0, 1:
				if op%8 == 0 {
					member = ""
				}
				waiting++
				c.Join(now, Join{
					Group: group, Member: member, Instance: instance, ClientID: "c",
					Session: time.Duration(6+b%60) * time.Second, Rebalance: time.Duration(b) * time.Second,
					ProtocolType: "consumer", NeedsID: b&1 == 0, CanSkip: b&2 == 0,
					Protocols: []Protocol{{Name: "p", Metadata: []byte{b & 4}}, {Name: fmt.Sprint(b & 8)}},
				}, joined)
			case 2:
				waiting++
				c.Sync(now, Sync{
					Group: group, Member: member, Instance: instance, Generation: gen,
					Assignments: []Assignment{{Member: member, Data: []byte{b}}, {Member: "c-1", Data: []byte{a, b}}},
				}, synced)
			case 3:
				c.Heartbeat(now, group, member, instance, gen)
			case 4:
				c.Leave(now, group, []Leaver{{Member: member, Instance: instance}, {Instance: instance}})
			case 5:
				now = now.Add(time.Duration(b) * time.Second)
				c.Tick(now)
			case 6:
				c.CheckCommit(now, group, member, instance, gen, nil)
			case 7:
				c.CheckDelete(group)
			}
			checkInvariants(t, c)
		}
		for next, ok := c.Next(); ok; next, ok = c.Next() {
			c.Tick(next)
		}
		checkInvariants(t, c)
		if waiting != 0 || len(c.groups) != 0 || c.bytes != 0 {
			t.Errorf("in the end %d requests wait and %d groups of %d bytes are left", waiting, len(c.groups), c.bytes)
		}
	})
}

// FuzzSubscribedTopics compares with the codec that clients use.
func FuzzSubscribedTopics(f *testing.F) {
	f.Add(subscription("a+b"))
	f.Add(subscription(""))
	f.Add([]byte{0, 3, 0, 0, 0, 1, 0, 1, 't'})
	f.Add([]byte{0, 0, 0x7f, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		topics, err := SubscribedTopics(b)
		var want kmsg.ConsumerMemberMetadata
		if want.ReadFrom(b) == nil && want.Version >= 0 {
			if err != nil || fmt.Sprint(topics) != fmt.Sprint(want.Topics) {
				t.Errorf("%q, %v, want %q", topics, err, want.Topics)
			}
		}
	})
}
