package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestBadFrames closes the connection on whatever cannot be a request, without taking
// memory for it, and goes on serving others.
func TestBadFrames(t *testing.T) {
	f := start(t, nil)
	be := binary.BigEndian
	head := func(length int32, key, version int16, rest ...byte) []byte {
		b := be.AppendUint32(nil, uint32(length))
		b = be.AppendUint16(b, uint16(key))
		b = be.AppendUint16(b, uint16(version))
		return append(append(b, 0, 0, 0, 1), rest...)
	}
	for _, tc := range []struct {
		name string
		sent []byte
	}{
		{"length 0", head(0, 18, 0)},
		{"length below a header's", head(7, 18, 0)},
		{"negative length", head(-1, 18, 0)},
		{"least length", head(math.MinInt32, 18, 0)},
		{"greatest length", head(math.MaxInt32, 0, 9)},
		{"beyond the limit", head(100<<20+1, 0, 9)},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n")},
		{"TLS", []byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0}},
		{"unknown key", head(10, 999, 0, 0xff, 0xff)},
		{"negative key", head(10, -1, 0, 0xff, 0xff)},
		{"key that is not served", head(10, 4, 0, 0xff, 0xff)},
		{"unknown version", head(10, 3, 99, 0xff, 0xff)},
		{"negative version", head(10, 3, -1, 0xff, 0xff)},
		{"version below ours", head(10, 1, 3, 0xff, 0xff)},
		{"first request too large", head(firstRequestBytes+1, 3, 9)},
		{"no client id", head(8, 3, 9)},
		{"client id longer than the frame", head(10, 3, 9, 0x7f, 0xff)},
		{"tags that never end", head(15, 3, 9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f)},
		{"tag longer than the frame", head(13, 3, 9, 0xff, 0xff, 1, 0, 9)},
		{"body cut off", head(11, 3, 9, 0xff, 0xff, 0)},
		{"array longer than the frame", head(15, 3, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0)},
	} {
		t.Run(tc.name, func(*testing.T) {
			c := f.dial()
			c.write(tc.sent)
			c.closed()
		})
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 1
	if got := ask[*kmsg.MetadataResponse](f.dial(), req); len(got.Brokers) != 1 {
		t.Fatalf("%+v", got)
	}
}

// TestLyingLength takes memory only for bytes that came, so that nobody waits for what
// others have announced.
func TestLyingLength(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, map[string]string{"max.message.bytes": "90000000"})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const liars = 20
	length := binary.BigEndian.AppendUint32(nil, 100<<20)
	for range liars {
		c := f.dial()
		c.write(append(length, 0, 0, 0, 9, 0, 0, 0, 1))
	}
	held := func() int64 {
		b := f.server.requestBytes
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.size - b.free
	}
	waitFor(t, func() bool { return held() == liars*(frameFirst+frameHeadLen) })
	runtime.ReadMemStats(&after)
	if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > liars*2*frameFirst {
		t.Fatalf("%d bytes allocated for %d lengths", grown, liars)
	}
	if p := f.dial().produced(9, topic, 0, batch(t, 0, 1, string(make([]byte, 20<<20)))); p.ErrorCode != 0 {
		t.Fatalf("code %d", p.ErrorCode)
	}
}

// TestSmallRequestsPassLargeOnes serves them while all memory for large ones is taken.
func TestSmallRequestsPassLargeOnes(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	all := f.server.requestBytes.hold(math.MaxInt64)
	if !all.tryTake() {
		t.Fatal("memory is in use")
	}
	defer all.release()
	stuck := f.dial()
	stuck.send(produceOne(9, topic, 0, batch(t, 0, 1, string(make([]byte, smallFrame)))))
	waitFor(t, func() bool {
		b := f.server.requestBytes
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.waiting.Len() == 1
	})
	c := f.dial()
	ask[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest())
	if p := c.produced(9, topic, 0, batch(t, 0, 1, string(make([]byte, 16<<10)))); p.ErrorCode != 0 {
		t.Fatalf("code %d", p.ErrorCode)
	}
}

// TestLargeFrame reads a frame far beyond the first step of its buffer.
func TestLargeFrame(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, map[string]string{"max.message.bytes": "90000000"})
	c := f.dial()
	sent := batch(t, 0, 1, string(make([]byte, 20<<20)))
	if p := c.produced(9, topic, 0, sent); p.ErrorCode != 0 {
		t.Fatalf("code %d", p.ErrorCode)
	}
	if got := c.fetched(fetchOne(fetchMax, topic, 0, 0)); len(got.RecordBatches) != len(sent) {
		t.Fatalf("%d bytes of %d", len(got.RecordBatches), len(sent))
	}
}

// TestSlowSender hangs up on a frame that does not arrive.
func TestSlowSender(t *testing.T) {
	f := start(t, func(o *Options) { o.FrameTimeout = 20 * time.Millisecond })
	c := f.dial()
	c.write([]byte{0, 0, 0, 20, 0, 3})
	c.closed()
}

// TestIdle hangs up on a silent client, but not on one that waits for an answer.
func TestIdle(t *testing.T) {
	f := start(t, func(o *Options) { o.IdleTimeout = 30 * time.Millisecond })
	topic := f.topic("t", 1, nil)
	req := fetchOne(fetchMax, topic, 0, 0)
	req.MinBytes, req.MaxWaitMillis = 1, 150
	c := f.dial()
	if got := c.fetched(req); got.ErrorCode != 0 {
		t.Fatalf("%+v", got)
	}
	c.closed()
}

// TestSlowReader hangs up on a client that asks but does not read, and gives back what
// it was to be sent.
func TestSlowReader(t *testing.T) {
	for _, cold := range []bool{false, true} {
		f := start(t, func(o *Options) { o.WriteTimeout = 50 * time.Millisecond })
		topic := f.topic("t", 1, map[string]string{"max.message.bytes": "90000000"})
		c := f.dial()
		c.produced(9, topic, 0, batch(t, 0, 1, string(make([]byte, 16<<20))))
		f.log.SetCold(cold)
		c.send(fetchOne(fetchMax, topic, 0, 0))
		if cold {
			waitFor(t, func() bool { return f.log.Lent() == 1 || f.conns() == 0 })
			if f.server.fetchHeld.Load() != 0 {
				t.Error("what is lent counts as memory")
			}
		}
		waitFor(t, func() bool { return f.conns() == 0 })
		if n := f.log.Lent(); n != 0 {
			t.Errorf("%d extents are still lent", n)
		}
	}
}

// TestMaxConnections refuses one connection too many and takes the next when there is
// room again.
func TestMaxConnections(t *testing.T) {
	f := start(t, func(o *Options) { o.MaxConnections = 1 })
	req := kmsg.NewPtrMetadataRequest()
	first := f.dial()
	ask[*kmsg.MetadataResponse](first, req)
	f.dial().closed()
	_ = first.nc.Close()
	waitFor(t, func() bool { return f.conns() == 0 })
	ask[*kmsg.MetadataResponse](f.dial(), req)
}

// TestPanic loses the connection whose request panics, and no other.
func TestPanic(t *testing.T) {
	f := start(t, nil)
	f.server.apis[kmsg.DescribeCluster].handle = func(_ context.Context, _ *call, _ kmsg.Request) { panic("test") }
	other := f.dial()
	c := f.dial()
	req := kmsg.NewPtrDescribeClusterRequest()
	c.send(req)
	c.closed()
	ask[*kmsg.MetadataResponse](other, kmsg.NewPtrMetadataRequest())
}

// TestCutEverywhere sends every prefix of real requests and then hangs up.
func TestCutEverywhere(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	for _, req := range []kmsg.Request{produceOne(9, topic, 0, batch(t, 0, 1, "x")), fetchOne(fetchMax, topic, 0, 0)} {
		whole := frame(req, 1)
		for n := range whole {
			c := f.dial()
			c.write(whole[:n])
			_ = c.nc.Close()
		}
	}
	waitFor(t, func() bool { return f.conns() == 0 })
	if got := f.dial().fetched(fetchOne(fetchMax, topic, 0, 0)); got.HighWatermark != 0 {
		t.Fatalf("%d records of cut requests", got.HighWatermark)
	}
}

// TestMemoryIsShared lets requests wait for each other's memory instead of adding up.
func TestMemoryIsShared(t *testing.T) {
	f := start(t, func(o *Options) { o.MaxRequestBytes, o.RequestMemory = 1<<20, 1<<20 })
	topic := f.topic("t", 1, nil)
	ended := make(chan error, 8)
	for range cap(ended) {
		c := f.dial()
		go func() {
			for i := range int32(5) {
				if _, err := c.nc.Write(frame(produceOne(9, topic, 0, batch(t, 0, 1, string(make([]byte, 900_000)))), i)); err != nil {
					ended <- err
					return
				}
				if _, err := c.tryRead(); err != nil {
					ended <- fmt.Errorf("answer %d: %w", i, err)
					return
				}
			}
			ended <- nil
		}()
	}
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}
