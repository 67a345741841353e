package state

import (
	"fmt"
	"testing"

	"polylog/core"
	"polylog/core/message"
	"polylog/core/vfs"
	"polylog/index"
)

// BenchmarkPublish applies publishes of 100 bytes, 1,000 an entry: by the default exchange to
// one queue, by a direct exchange to one of 1,000, by a fanout exchange to 10, and by a topic
// exchange with 100,000 bindings to one. One op is one publish.
func BenchmarkPublish(b *testing.B) {
	const perEntry = 1000
	for _, bench := range []struct {
		name, exchange, pattern string
		queues, bindings        int
		key                     func(i int) string
	}{
		{"default", "", "", 1, 0, func(int) string { return "q0" }},
		{"direct", "amq.direct", "k.%d", 1000, 1000, func(i int) string { return fmt.Sprint("k.", i%1000) }},
		{"fanout=10", "amq.fanout", "%d", 10, 10, func(int) string { return "k" }},
		{"topic/bindings=100000", "amq.topic", "*.stock.%d.#", 1000, 100_000, func(i int) string { return fmt.Sprintf("usd.stock.%d.nyse", i*7919%100_000) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			store, err := index.Open(index.Options{FS: vfs.NewMem(), Dir: "index"})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = store.Close() }()
			s, err := Open(store, Options{Level: MaxLevel})
			if err != nil {
				b.Fatal(err)
			}
			e := newEntries()
			var cs []core.Command
			for i := range bench.queues {
				c := DeclareQueue{Name: core.TopicName(fmt.Sprint("q", i))}
				cs = append(cs, c.Command())
			}
			for i := range bench.bindings {
				cs = append(cs, (&Bind{Binding{
					Source: core.TopicName(bench.exchange), Key: fmt.Sprintf(bench.pattern, i),
					Destination: core.TopicName(fmt.Sprint("q", i%bench.queues)),
				}}).Command())
			}
			s.Apply(e.take(cs...))
			batch, err := (&message.Message{Key: []byte("k"), Value: make([]byte, 100)}).Batch(nil)
			if err != nil {
				b.Fatal(err)
			}
			commands := make([]core.Command, perEntry)
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += perEntry {
				b.StopTimer()
				for i := range commands {
					commands[i] = PublishCommand(core.TopicName(bench.exchange), []string{bench.key(n + i)}, batch)
				}
				entry := e.take(commands...)
				b.StartTimer()
				for _, r := range s.Apply(entry)[0] {
					if r.Err != nil || r.Offset < 1 {
						b.Fatal(r)
					}
				}
				b.StopTimer()
				e.all = e.all[:0]
				entry[0].Data = nil // e keeps the entry
				if s.OverlayBytes() > 64<<20 {
					cp, err := s.Freeze()
					if err == nil {
						err = cp.Write()
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
			}
		})
	}
}
