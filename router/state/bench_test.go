package state

import (
	"testing"

	"polylog/core"
	"polylog/core/vfs"
	"polylog/index"
)

// BenchmarkApplyAppend applies appends of one 100-byte record, 1,000 an entry, over
// 6 queues: what group commit makes of many small publishes. One op is one append.
func BenchmarkApplyAppend(b *testing.B) {
	b.Run("plain", func(b *testing.B) { benchmarkApply(b, 6, false) })
	b.Run("idempotent", func(b *testing.B) { benchmarkApply(b, 6, true) })
	b.Run("plain/queues=1000", func(b *testing.B) { benchmarkApply(b, 1000, false) })
}

func benchmarkApply(b *testing.B, queues int, sequenced bool) {
	store, err := index.Open(index.Options{FS: vfs.NewMem(), Dir: "index"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	s, err := Open(store, Options{})
	if err != nil {
		b.Fatal(err)
	}
	e := newEntries()
	create := CreateTopic{Name: core.TopicName("t"), Partitions: queues}
	s.Apply(e.take(create.Command()))

	const perEntry = 1000
	var bb core.BatchBuilder
	bb.Add(1, nil, make([]byte, 100))
	sequence := int32(0)
	var commands []core.Command
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += perEntry {
		b.StopTimer()
		commands = commands[:0]
		for i := range perEntry {
			p := core.Nobody
			if sequenced {
				p = core.Producer{ID: 1, Sequence: sequence / int32(queues)}
				sequence++
			}
			batch, err := bb.Build(nil, core.BatchOptions{Producer: p})
			if err != nil {
				b.Fatal(err)
			}
			commands = append(commands, AppendCommand(core.QueueID(1+(n+i)%queues), batch))
		}
		entry := e.take(commands...)
		b.StartTimer()
		results := s.Apply(entry)
		b.StopTimer()
		for _, r := range results[0] {
			if r.Err != nil {
				b.Fatal(r)
			}
		}
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
}
