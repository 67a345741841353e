package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a server on a port of its own, in front of a router in memory.
type fixture struct {
	t      testing.TB
	addr   string
	server *Server
	router *router.Router
	log    *routertest.Log
}

// start serves until the test ends. change, which may be nil, sees the options first.
func start(t testing.TB, change func(*Options)) *fixture {
	t.Helper()
	return startRouter(t, nil, change)
}

// startRouter is start; changeRouter, which may be nil, sees the router's options.
func startRouter(t testing.TB, changeRouter func(*router.Options), change func(*Options)) *fixture {
	t.Helper()
	r, log := routertest.Start(t, changeRouter)
	return serveRouter(t, r, log, change)
}

// join is the server of another node of f's cluster.
func (f *fixture) join(id string, change func(*Options)) *fixture {
	f.t.Helper()
	r, log := routertest.Join(f.t, f.log, id, nil)
	return serveRouter(f.t, r, log, change)
}

// serveRouter serves Kafka clients on a router.
func serveRouter(t testing.TB, r *router.Router, log *routertest.Log, change func(*Options)) *fixture {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log.SetEndpoint(endpointName, l.Addr().String())
	o := Options{Router: r, Listeners: []net.Listener{l}}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Serve()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		if n := s.fetchHeld.Load(); n != 0 {
			t.Errorf("%d bytes of fetch answers were never given back", n)
		}
		if !s.requestBytes.idle() || !s.smallRequestBytes.idle() || !s.parkedBytes.idle() {
			t.Error("bytes of requests were never given back")
		}
		if !s.answerBytes.TryAcquire(s.opts.AnswerMemory) {
			t.Error("bytes of answers were never given back")
		}
	})
	return &fixture{t, l.Addr().String(), s, r, log}
}

// topic creates a topic and returns it.
func (f *fixture) topic(name string, partitions int, configs map[string]string) *router.Topic {
	f.t.Helper()
	return routertest.Topic(f.t, f.router, name, partitions, configs)
}

// client is one connection; what hangs fails after 10 s.
type client struct {
	t           testing.TB
	nc          net.Conn
	correlation int32
}

func (f *fixture) dial() *client {
	f.t.Helper()
	nc, err := net.Dial("tcp", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		f.t.Fatal(err)
	}
	return &client{t: f.t, nc: nc}
}

// frame is a request as it goes over the wire.
func frame(req kmsg.Request, correlation int32) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0, 0, 0, 0}, uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(req.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = append(b, 0, 4, 't', 'e', 's', 't')
	if req.IsFlexible() {
		b = append(b, 0)
	}
	b = req.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// send sends a request in its version without waiting for the answer.
func (c *client) send(req kmsg.Request) {
	c.t.Helper()
	c.correlation++
	c.write(frame(req, c.correlation))
}

func (c *client) write(b []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// read is the next response's bytes after its length.
func (c *client) read() []byte {
	c.t.Helper()
	b, err := c.tryRead()
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

func (c *client) tryRead() ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(c.nc, n[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(n[:]))
	_, err := io.ReadFull(c.nc, b)
	return b, err
}

// closed fails unless the server closes the connection next.
func (c *client) closed() {
	c.t.Helper()
	if b, err := c.tryRead(); err == nil {
		c.t.Fatalf("answer of %d bytes, want the connection closed", len(b))
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatal("the connection stays open")
	}
}

// answer decodes the next response as one to req.
func answer[R kmsg.Response](c *client, req kmsg.Request) R {
	c.t.Helper()
	b := c.read()
	resp := req.ResponseKind()
	skip := 4
	if resp.IsFlexible() && req.Key() != kmsg.ApiVersions.Int16() {
		skip++
	}
	if err := resp.ReadFrom(b[skip:]); err != nil {
		c.t.Fatalf("decode %T version %d: %v", resp, resp.GetVersion(), err)
	}
	return resp.(R)
}

// ask sends a request and returns its answer.
func ask[R kmsg.Response](c *client, req kmsg.Request) R {
	c.t.Helper()
	c.send(req)
	return answer[R](c, req)
}

// batch builds a batch from values, without keys, all at one time.
func batch(t testing.TB, codec int, ms int64, values ...string) []byte {
	t.Helper()
	return batchOf(t, codec, core.Nobody, func(b *core.BatchBuilder) {
		for _, v := range values {
			b.Add(ms, nil, []byte(v))
		}
	})
}

func batchOf(t testing.TB, codec int, p core.Producer, fill func(b *core.BatchBuilder)) []byte {
	t.Helper()
	var b core.BatchBuilder
	fill(&b)
	built, err := b.Build(nil, core.BatchOptions{Codec: codec, Producer: p})
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// produceOne is a Produce of one partition.
func produceOne(version int16, t *router.Topic, partition int32, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, -1, 1000
	req.Topics = []kmsg.ProduceRequestTopic{{
		Topic: t.Name.Name, TopicID: t.ID,
		Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: records}},
	}}
	return req
}

// produced sends a Produce of one partition and returns its outcome.
func (c *client) produced(version int16, t *router.Topic, partition int32, records []byte) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	resp := ask[*kmsg.ProduceResponse](c, produceOne(version, t, partition, records))
	return resp.Topics[0].Partitions[0]
}

// fetchOne is a Fetch of one partition that does not wait.
func fetchOne(version int16, t *router.Topic, partition int32, from int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.SessionEpoch = version, 50<<20, -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, from, 1<<20
	req.Topics = []kmsg.FetchRequestTopic{{Topic: t.Name.Name, TopicID: t.ID, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	return req
}

// fetched sends a Fetch of one partition and returns what it says of it.
func (c *client) fetched(req *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	resp := ask[*kmsg.FetchResponse](c, req)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		c.t.Fatalf("fetch answers %+v, want one partition", resp)
	}
	return resp.Topics[0].Partitions[0]
}

// values takes the values out of the batches of a fetched partition, whose offsets must
// be dense from the first one on.
func values(t testing.TB, records []byte) (from int64, vs []string) {
	t.Helper()
	from = -1
	for len(records) > 0 {
		h, ok := core.ParseBatchHeader(records)
		if !ok || h.TotalLen() > len(records) || h.CRC != core.BatchCRC(records[:h.TotalLen()]) {
			t.Fatalf("bad batch in %d bytes: %+v", len(records), h)
		}
		for r, err := range core.Records(records[:h.TotalLen()], core.MaxInflated) {
			if err != nil {
				t.Fatal(err)
			}
			if from < 0 {
				from = int64(r.Offset)
			}
			if want := from + int64(len(vs)); int64(r.Offset) != want {
				t.Fatalf("record at offset %d, want %d", r.Offset, want)
			}
			vs = append(vs, string(r.Value))
		}
		records = records[h.TotalLen():]
	}
	return from, vs
}
