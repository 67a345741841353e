package cluster

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/commitlog"
	"polylog/core/vfs"
)

func benchNode(b *testing.B, flush commitlog.FlushPolicy) *Node {
	b.Helper()
	n, err := Open(b.Context(), Options{
		Dir: b.TempDir(), Machine: &fastMachine{},
		CommitLog: commitlog.Options{Flush: flush},
	})
	must(b, err)
	b.Cleanup(func() { _ = n.Close() })
	ready(b, n)
	return n
}

// BenchmarkSync is the bare cost of one small durable write, for comparison.
func BenchmarkSync(b *testing.B) {
	f, err := vfs.Default.Create(b.TempDir()+"/f", vfs.Category)
	must(b, err)
	defer f.Close() //nolint:errcheck // the end
	buf := make([]byte, 4096)
	must(b, f.Preallocate(0, 64<<20))
	for i := range int64(64 << 20 / 4096) {
		_, err := f.WriteAt(buf, i*4096)
		must(b, err)
	}
	must(b, f.Sync())
	var at int64
	quantiles(b, func() {
		_, err := f.WriteAt(buf[:160], at)
		must(b, err)
		must(b, f.SyncData())
		at = (at + 160) % (63 << 20)
	})
}

// BenchmarkOneAtATime is the latency of proposals that come one after the other.
func BenchmarkOneAtATime(b *testing.B) {
	for _, flush := range []commitlog.FlushPolicy{commitlog.FlushSync, commitlog.FlushOS} {
		b.Run(flush.String(), func(b *testing.B) {
			n := benchNode(b, flush)
			c := core.Command{Code: 1, Payload: make([]byte, 100)}
			quantiles(b, func() {
				_, err := n.Propose(b.Context(), c)
				must(b, err)
			})
		})
	}
}

func quantiles(b *testing.B, do func()) {
	b.Helper()
	var took []time.Duration
	for b.Loop() {
		t := time.Now()
		do()
		took = append(took, time.Since(t))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}

// BenchmarkManyProposers is the rate of proposals from many goroutines.
func BenchmarkManyProposers(b *testing.B) {
	for _, flush := range []commitlog.FlushPolicy{commitlog.FlushSync, commitlog.FlushOS} {
		for _, clients := range []int{64, 1024} {
			b.Run(fmt.Sprintf("%s/%d", flush, clients), func(b *testing.B) {
				n := benchNode(b, flush)
				c := core.Command{Code: 1, Payload: make([]byte, 100)}
				var left atomic.Int64
				left.Store(int64(b.N))
				b.ReportAllocs()
				b.ResetTimer()
				var wg sync.WaitGroup
				for range clients {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							if _, err := n.Propose(b.Context(), c); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				s := n.Stats()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "proposals/s")
				b.ReportMetric(float64(s.Commands)/float64(s.Groups), "commands/entry")
			})
		}
	}
}

// BenchmarkAsync is the rate of proposals by callback: 100 B, and 64 KiB and 512 KiB
// payloads for the throughput in bytes.
func BenchmarkAsync(b *testing.B) {
	for _, flush := range []commitlog.FlushPolicy{commitlog.FlushSync, commitlog.FlushOS} {
		for _, size := range []int{100, 64 << 10, 500 << 10} {
			b.Run(fmt.Sprintf("%s/%d", flush, size), func(b *testing.B) {
				n := benchNode(b, flush)
				c := core.Command{Code: 1, Payload: make([]byte, size)}
				room := make(chan struct{}, max(64, min(4096, 32<<20/size)))
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					room <- struct{}{}
					n.ProposeAsync(c, func(_ core.Result, err error) {
						if err != nil {
							b.Error(err)
						}
						<-room
					})
				}
				for range cap(room) { // until all are done
					room <- struct{}{}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "proposals/s")
			})
		}
	}
}

// benchCluster is three nodes on real disks and TCP, without state.
func benchCluster(b *testing.B, flush commitlog.FlushPolicy) (leader, follower *Node) {
	b.Helper()
	var nodes []*Node
	for i := range 3 {
		n, err := Open(b.Context(), Options{
			Dir: b.TempDir(), Machine: &fastMachine{}, NodeID: fmt.Sprint(i + 1), ClusterID: testCluster, Join: i > 0,
			Listener: listen(b), ElectionTimeout: time.Minute, CommitLog: commitlog.Options{Flush: flush},
		})
		must(b, err)
		b.Cleanup(func() { _ = n.Close() })
		nodes = append(nodes, n)
	}
	ready(b, nodes[0])
	for _, n := range nodes[1:] {
		must(b, nodes[0].AddNonvoter(b.Context(), n.ID(), n.advertised()))
		must(b, nodes[0].AddVoter(b.Context(), n.ID(), n.advertised()))
		waitFor(b, func() bool { _, known := n.Leader(); return known })
	}
	return nodes[0], nodes[1]
}

// BenchmarkForward compares commands that come to the leader of three nodes with those
// that come to a follower, which forwards them.
func BenchmarkForward(b *testing.B) {
	for _, flush := range []commitlog.FlushPolicy{commitlog.FlushSync, commitlog.FlushOS} {
		for _, size := range []int{100, 1 << 10} {
			for _, at := range []string{"leader", "follower"} {
				b.Run(fmt.Sprintf("%s/%d/%s", flush, size, at), func(b *testing.B) {
					n, follower := benchCluster(b, flush)
					if at == "follower" {
						n = follower
					}
					c := core.Command{Code: 1, Payload: make([]byte, size)}
					room := make(chan struct{}, 16384)
					b.SetBytes(int64(size))
					b.ReportAllocs()
					b.ResetTimer()
					for range b.N {
						room <- struct{}{}
						n.ProposeAsync(c, func(_ core.Result, err error) {
							if err != nil {
								b.Error(err)
							}
							<-room
						})
					}
					for range cap(room) { // until all are done
						room <- struct{}{}
					}
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
				})
			}
		}
	}
}

// BenchmarkForwardOne is the latency of commands, and of reads, that come one after the
// other to the leader or to a follower.
func BenchmarkForwardOne(b *testing.B) {
	for _, at := range []string{"leader", "follower"} {
		for _, what := range []string{"propose", "read"} {
			b.Run(at+"/"+what, func(b *testing.B) {
				n, follower := benchCluster(b, commitlog.FlushOS)
				if at == "follower" {
					n = follower
				}
				c := core.Command{Code: 1, Payload: make([]byte, 100)}
				quantiles(b, func() {
					var err error
					if what == "read" {
						err = n.ReadIndex(b.Context())
					} else {
						_, err = n.Propose(b.Context(), c)
					}
					must(b, err)
				})
			})
		}
	}
}
