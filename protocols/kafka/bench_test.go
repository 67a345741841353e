package kafka

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

// BenchmarkProduce sends 1 MiB batches of 1 KiB records over a socket, five requests in
// flight, into a router in memory (which copies them once, into its log).
func BenchmarkProduce(b *testing.B) { benchmarkProduce(b, 1000, 1<<10) }

// BenchmarkProduceSmall sends 16 KiB batches of 100-byte records.
func BenchmarkProduceSmall(b *testing.B) { benchmarkProduce(b, 140, 100) }

func benchmarkProduce(b *testing.B, records, size int) {
	f := start(b, nil)
	topic := f.topic("t", 1, nil)
	value := bytes.Repeat([]byte("v"), size)
	sent := batchOf(b, 0, core.Nobody, func(bb *core.BatchBuilder) {
		for range records {
			bb.Add(1000, nil, value)
		}
	})
	c := f.dial()
	raw := frame(produceOne(9, topic, 0, sent), 1)
	const inFlight = 5
	slots := make(chan struct{}, inFlight)
	ended := make(chan error, 1)
	b.SetBytes(int64(len(sent)))
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		var err error
		for range b.N {
			if _, err = c.tryRead(); err != nil {
				break
			}
			<-slots
		}
		ended <- err
	}()
	for range b.N {
		slots <- struct{}{}
		c.write(raw)
	}
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkFetch reads a log of 1 MiB batches over a socket, 16 MiB at a time.
func BenchmarkFetch(b *testing.B) { benchmarkFetch(b, 1000, 1<<10, 16) }

// BenchmarkFetchSmall reads a log of 1.4 KiB batches, 1 MiB at a time.
func BenchmarkFetchSmall(b *testing.B) { benchmarkFetch(b, 10, 100, 700) }

func benchmarkFetch(b *testing.B, records, size, batches int) {
	f := start(b, nil)
	topic := f.topic("t", 1, nil)
	value := bytes.Repeat([]byte("v"), size)
	sent := batchOf(b, 0, core.Nobody, func(bb *core.BatchBuilder) {
		for range records {
			bb.Add(1000, nil, value)
		}
	})
	c := f.dial()
	for range batches {
		c.produced(9, topic, 0, sent)
	}
	req := fetchOne(fetchMax, topic, 0, 0)
	req.Topics[0].Partitions[0].PartitionMaxBytes = 50 << 20
	raw := frame(req, 1)
	b.SetBytes(int64(len(sent) * batches))
	b.ReportAllocs()
	b.ResetTimer()
	head := make([]byte, 4)
	for range b.N {
		c.write(raw)
		if _, err := io.ReadFull(c.nc, head); err != nil {
			b.Fatal(err)
		}
		n := int64(head[0])<<24 | int64(head[1])<<16 | int64(head[2])<<8 | int64(head[3])
		if _, err := io.CopyN(io.Discard, onlyReader{c.nc}, n); err != nil {
			b.Fatal(err)
		}
	}
}

// onlyReader hides the connection's other methods from io.Copy.
type onlyReader struct{ io.Reader }

// BenchmarkFetchEncode encodes an answer of 16 batches of 1 MiB without sending it.
func BenchmarkFetchEncode(b *testing.B) {
	f := start(b, nil)
	topic := f.topic("t", 1, nil)
	data := bytes.Repeat([]byte{1}, 1<<20)
	c := newConn(f.server, nopConn{}, func() {})
	cl := &call{session: &c.session, frameHead: frameHead{version: fetchMax}}
	fetching := &fetching{call: cl, req: kmsg.NewPtrFetchRequest(), parts: []fetchPart{{fetchKey: fetchKey{id: topic.ID}}}}
	b.SetBytes(16 << 20)
	b.ReportAllocs()
	for range b.N {
		batches := make([]router.Batch, 16)
		for i := range batches {
			batches[i].Data = data
		}
		fetching.parts[0].answer = fetchAnswer{batches: batches, size: 16 << 20}
		fetching.encode(0).release()
	}
}

type nopConn struct{ net.Conn }

func (nopConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// BenchmarkProduceDecode takes a request of one 1 MiB batch apart and validates it.
func BenchmarkProduceDecode(b *testing.B) {
	f := start(b, nil)
	topic := f.topic("t", 1, nil)
	value := bytes.Repeat([]byte("v"), 1<<10)
	sent := batchOf(b, 0, core.Nobody, func(bb *core.BatchBuilder) {
		for range 1000 {
			bb.Add(1000, nil, value)
		}
	})
	raw := frame(produceOne(9, topic, 0, sent), 1)[frameLengthLen+frameHeadLen:]
	a := f.server.apis.lookup(kmsg.Produce.Int16())
	b.SetBytes(int64(len(sent)))
	b.ReportAllocs()
	for range b.N {
		req := a.request(9).(*kmsg.ProduceRequest)
		_, body, err := splitHeader(raw, true)
		if err == nil {
			err = a.decode(req, body)
		}
		if err != nil {
			b.Fatal(err)
		}
		v := validator{topic: topic, now: 1000}
		if _, err := v.validate(req.Topics[0].Partitions[0].Records); err != nil {
			b.Fatal(err)
		}
		producePool.Put(req)
	}
}

// BenchmarkInspect checks compressed batches of 100-byte records, 1 MiB inflated.
func BenchmarkInspect(b *testing.B) {
	f := start(b, nil)
	topic := f.topic("t", 1, nil)
	for codec, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		b.Run(name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			sent := batchOf(b, codec, core.Nobody, func(bb *core.BatchBuilder) {
				for i := range 9500 {
					bb.Add(1000, nil, fmt.Appendf(nil, `{"user":%d,"action":"click","page":"/products/%d","session":"%016x","n":%10d}`, rng.IntN(10000), rng.IntN(1000), rng.Uint64(), i))
				}
			})
			h, _ := core.ParseBatchHeader(sent)
			in, err := core.Decompress(h.Codec(), nil, sent[core.BatchHeaderLen:], core.MaxInflated)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				v := validator{topic: topic, now: 1000, codec: codec}
				if _, err := f.server.inspect(b.Context(), &v, sent); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func (nopConn) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092} }

func (nopConn) Close() error { return nil }

// BenchmarkWalk checks the structure of the records of a batch of 512 KiB.
func BenchmarkWalk(b *testing.B) {
	for _, size := range []int{100, 1 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			n := 512 << 10 / size
			batch := batchOf(b, 0, core.Nobody, func(bb *core.BatchBuilder) {
				for range n {
					bb.Add(1000, nil, bytes.Repeat([]byte("v"), size))
				}
			})
			h, _ := core.ParseBatchHeader(batch)
			v := validator{topic: &router.Topic{}, now: 1000}
			v.topic.Config.LogAppendTime = true
			b.SetBytes(int64(len(batch)))
			for b.Loop() {
				w := v.walking(&h)
				if err := w.walk(batch[core.BatchHeaderLen:]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/record")
		})
	}
}
