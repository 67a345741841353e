package state

import (
	"fmt"
	"runtime"
	"testing"

	"polylog/core"
	"polylog/core/ackset"
)

// TestPurgeGoesInSteps settles more than one command may remove.
func TestPurgeGoesInSteps(t *testing.T) {
	m, log := newMachine(t), newEntries()
	declare := DeclareQueue{Name: core.TopicName("q")}
	m.state.Apply(log.take(declare.Command()))
	const n = 3*trimmedAtOnce + 7
	one := AppendCommand(1, batch(t, 1, 0, core.Nobody))
	for range n / 1000 {
		cs := make([]core.Command, 1000)
		for i := range cs {
			cs[i] = one
		}
		m.state.Apply(log.take(cs...))
	}
	for range n % 1000 {
		m.state.Apply(log.take(one))
	}
	m.checkpoint()
	purge := Settle{Groups: []GroupSettle{{Queue: 1, Done: []ackset.Span{{First: 0, End: n}}}}}
	res := m.state.Apply(log.take(purge.Command()))[0][0]
	settled, err := DecodeSettled(res.Body)
	if err != nil || settled[0].Settled != n {
		t.Fatalf("%+v, %v", settled, err)
	}
	if left, err := m.state.Unsettled(1, ""); left != 0 || err != nil {
		t.Fatalf("%d left, %v", left, err)
	}
	head, _, _ := m.store.Queue(1)
	if head.Start != trimmedAtOnce || m.state.ToSweep() != 1 {
		t.Fatalf("start %d, %d to sweep", head.Start, m.state.ToSweep())
	}
	m.crash(log.all)
	sweep := Sweep{Work: 2000}
	steps := 0
	for ; m.state.ToSweep() > 0; steps++ {
		m.state.Apply(log.take(sweep.Command()))
	}
	if head, _, _ := m.store.Queue(1); head.Start != n || head.Runs != 0 || m.store.FirstLive() != 0 {
		t.Fatalf("start %d, %d runs, first live entry %d", head.Start, head.Runs, m.store.FirstLive())
	}
	if steps < 2*trimmedAtOnce/2000 {
		t.Fatalf("only %d steps", steps)
	}
	m.crash(log.all)
	if m.state.ToSweep() != 0 {
		t.Fatal("swept, but not for good")
	}
}

// TestAcksLeaveMemory fills the cache of queues and lets it be emptied.
func TestAcksLeaveMemory(t *testing.T) {
	m, log := newMachine(t), newEntries()
	for i := range 10 {
		declare := DeclareQueue{Name: core.TopicName(fmt.Sprint(i))}
		m.state.Apply(log.take(declare.Command()))
		settle := Settle{Term: 1, Groups: []GroupSettle{{Queue: core.QueueID(i + 1), SetMark: true, Mark: 5}}}
		m.state.Apply(log.take(settle.Command()))
	}
	if len(m.state.acks) != 10 {
		t.Fatalf("%d in memory", len(m.state.acks))
	}
	for range 3 {
		m.checkpoint()
	}
	if len(m.state.acks) != 0 {
		t.Fatalf("%d are still in memory after three checkpoints", len(m.state.acks))
	}
	for i := range acksInMemory {
		m.state.acks[core.QueueID(1000+i)] = new(ackQueue) // as if they were in use
	}
	settle := Settle{Term: 1, Groups: []GroupSettle{{Queue: 3, SetMark: true, Mark: 9}}}
	m.state.Apply(log.take(settle.Command()))
	if len(m.state.acks) != 1 {
		t.Fatalf("%d in memory after the cache was full", len(m.state.acks))
	}
	for i := range 10 {
		want := core.Offset(5)
		if i == 2 {
			want = 9
		}
		if a, err := m.state.Acks(core.QueueID(i+1), ""); err != nil || a.Mark != want {
			t.Fatalf("queue %d: %+v, %v", i+1, a, err)
		}
	}
}

// BenchmarkIdleQueues declares queues, of which every message was settled, and says what
// one costs in memory and in the index after a checkpoint.
func BenchmarkIdleQueues(b *testing.B) {
	m, log := newMachine(b), newEntries()
	n := max(b.N, 1000)
	before := heap()
	const group = 500
	one := batch(b, 1, 0, core.Nobody)
	for i := 0; i < n; i += group {
		var cs []core.Command
		settle := Settle{Term: 1}
		for j := range group {
			declare := DeclareQueue{Name: core.TopicName(fmt.Sprintf("queue-%08d", i+j))}
			cs = append(cs, declare.Command(), AppendCommand(core.QueueID(i+j+1), one))
			settle.Groups = append(settle.Groups, GroupSettle{Queue: core.QueueID(i + j + 1), SetMark: true, Mark: 64, Done: []ackset.Span{{First: 0, End: 1}}})
		}
		m.state.Apply(log.take(append(cs, settle.Command())...))
		log.forget()
		if m.state.OverlayBytes() > 64<<20 {
			m.checkpoint()
		}
	}
	for range 3 {
		m.checkpoint()
	}
	b.StopTimer()
	log.all = nil
	b.ReportMetric(float64(heap()-before)/float64(n), "heap-B/queue") // the memory disk included
	b.ReportMetric(float64(len(m.state.acks)), "in-memory")
}

// forget lets go of the entries' data.
func (e *entries) forget() {
	for i := len(e.all) - 1; i >= 0 && e.all[i].Data != nil; i-- {
		e.all[i].Data = nil
	}
}

func heap() int64 {
	runtime.GC()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	return int64(ms.HeapAlloc)
}

// BenchmarkSettle publishes to and settles from many queues.
func BenchmarkSettle(b *testing.B) {
	for _, queues := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
			m, log := newMachine(b), newEntries()
			for i := range queues {
				declare := DeclareQueue{Name: core.TopicName(fmt.Sprint(i))}
				m.state.Apply(log.take(declare.Command()))
			}
			one := batch(b, 1, 0, core.Nobody)
			const group = 500
			at := make([]core.Offset, queues)
			next := 0
			b.ResetTimer()
			for i := 0; i < b.N; i += group {
				cs := make([]core.Command, 0, group+1)
				byQueue := map[int]*GroupSettle{}
				for range group {
					q := next % queues
					next++
					cs = append(cs, AppendCommand(core.QueueID(q+1), one))
					g := byQueue[q]
					if g == nil {
						g = &GroupSettle{Queue: core.QueueID(q + 1), Done: []ackset.Span{{First: at[q], End: at[q]}}}
						byQueue[q] = g
					}
					at[q]++
					g.Done[0].End = at[q]
				}
				m.state.Apply(log.take(cs...))
				settle := Settle{}
				for _, g := range byQueue {
					settle.Groups = append(settle.Groups, *g)
				}
				m.state.Apply(log.take(settle.Command()))
				log.forget()
				if m.state.OverlayBytes() > 64<<20 {
					m.checkpoint()
				}
			}
		})
	}
}
