package state

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/vfs"
	"polylog/index"
)

// BenchmarkMQTTSessions makes sessions that nobody is connected to, each with one subscription
// of a filter of its own, and weighs them. One op is one session: with -benchtime 1000000x there
// are a million. Besides what making one takes it tells the resident bytes of each, and how many
// seconds it takes to open them again.
func BenchmarkMQTTSessions(b *testing.B) {
	o := index.Options{FS: vfs.Default, Dir: b.TempDir()}
	open := func() (*index.Store, *State) {
		store, err := index.Open(o)
		if err != nil {
			b.Fatal(err)
		}
		s, err := Open(store, Options{Level: MaxLevel})
		if err != nil {
			b.Fatal(err)
		}
		return store, s
	}
	store, s := open()
	e := newEntries()
	session := OpenSession{"n", "r"}
	s.Apply(e.take(session.Command()))
	empty := resident(b)
	const perEntry = 256
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += perEntry {
		makeSessions(b, s, e, n, min(n+perEntry, b.N))
		if s.OverlayBytes() > 64<<20 {
			checkpoint(b, s)
		}
	}
	checkpoint(b, s)
	checkpoint(b, s) // what was used before the one before is forgotten
	b.StopTimer()
	b.ReportMetric(float64(resident(b)-empty)/float64(b.N), "resident-B/op")
	runtime.KeepAlive(s)
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	empty = resident(b)
	begin := time.Now()
	store, s = open()
	b.ReportMetric(time.Since(begin).Seconds(), "s-to-open")
	b.ReportMetric(float64(resident(b)-empty)/float64(b.N), "reopened-B/op")
	if n := s.mqtt.space(core.DefaultNamespace).tree.Len(); n != b.N {
		b.Fatalf("%d filters after opening, want %d", n, b.N)
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
}

// makeSessions makes those of clients first to end-1, and disconnects them.
func makeSessions(b *testing.B, s *State, e *entries, first, end int) {
	b.Helper()
	do := func(cmds []core.Command) []core.Result {
		entry := e.take(cmds...)
		results := s.Apply(entry)[0]
		entry[0].Data = nil // it would be weighed
		for i := range results {
			if results[i].Err != nil {
				b.Fatal(results[i].Err)
			}
		}
		return results
	}
	lease := func(i int) string { return MQTTLease(core.TopicName(fmt.Sprintf("device-%07d", i))) }
	node := s.sessions["n"].Number
	var cmds []core.Command
	for i := first; i < end; i++ {
		c := AcquireLease{"n", node, uint64(i + 1), lease(i), true}
		cmds = append(cmds, c.Command())
	}
	tokens := do(cmds)
	cmds = nil
	for i := first; i < end; i++ {
		token, err := DecodeNumber(tokens[i-first].Body)
		if err != nil {
			b.Fatal(err)
		}
		l := MQTTLeased{lease(i), token}
		subs := []MQTTSubscription{{Filter: fmt.Sprintf("devices/%07d/commands/+", i), Options: 1}}
		c1, c2 := OpenMQTT{MQTTLeased: l, Expiry: MQTTNoExpiry}, SubscribeMQTT{MQTTLeased: l, MaxQueued: 1000, Subscriptions: subs}
		c3, c4 := CloseMQTT{MQTTLeased: l, Expiry: MQTTNoExpiry}, ReleaseLease{"n", node, uint64(i + 1), l.Lease}
		cmds = append(cmds, c1.Command(), c2.Command(), c3.Command(), c4.Command())
	}
	do(cmds)
}

func checkpoint(b *testing.B, s *State) {
	b.Helper()
	cp, err := s.Freeze()
	if err == nil {
		err = cp.Write()
	}
	if err != nil {
		b.Fatal(err)
	}
}

// resident is the memory of this process, in bytes.
func resident(b *testing.B) int64 {
	b.Helper()
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib << 10
}
