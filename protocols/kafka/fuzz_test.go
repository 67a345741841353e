package kafka

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
)

// pipe starts a connection of the server over memory and returns the client's end.
func (f *fixture) pipe(t testing.TB) (client net.Conn, ended <-chan struct{}) {
	t.Helper()
	near, far := net.Pipe()
	f.server.startConn(far)
	done := make(chan struct{})
	go func() { // answers are not looked at
		defer close(done)
		buf := make([]byte, 64<<10)
		for {
			if _, err := near.Read(buf); err != nil {
				return
			}
		}
	}()
	return near, done
}

// FuzzConnection sends bytes as they are: frames, headers and bodies of any kind. The
// server must neither fail nor hang, whatever they mean.
func FuzzConnection(f *testing.F) {
	fx := start(f, func(o *Options) {
		o.FrameTimeout, o.MaxRequestBytes, o.RequestMemory = 100*time.Millisecond, 1<<20, 64<<20
	})
	topic := fx.topic("t", 2, nil)
	for _, a := range newAPITable() {
		if a == nil {
			continue
		}
		for _, version := range []int16{a.min, a.max} {
			f.Add(frame(a.request(version), 1))
		}
	}
	f.Add(frame(produceOne(9, topic, 0, batch(f, 4, 1, "x")), 1))
	f.Add(append(frame(produceOne(13, topic, 0, batch(f, 0, 1, "x")), 1), frame(fetchOne(fetchMax, topic, 0, 0), 2)...))
	f.Add(frame(sessionFetch(topic, 0, 0, "0@0", "1@0"), 1))
	f.Fuzz(func(t *testing.T, sent []byte) {
		near, ended := fx.pipe(t)
		_ = near.SetWriteDeadline(time.Now().Add(time.Minute))
		_, _ = near.Write(sent) // fails when the server hangs up first
		_ = near.Close()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("connection hangs")
		}
	})
}

// FuzzRequest decodes the body of a request of any API and version and handles it.
func FuzzRequest(f *testing.F) {
	fx := start(f, nil)
	topic := fx.topic("t", 2, nil)
	for _, a := range newAPITable() {
		if a == nil {
			continue
		}
		for version := a.min; version <= a.max; version++ {
			f.Add(a.key.Int16(), version, a.request(version).AppendTo(nil))
		}
	}
	f.Add(int16(0), int16(9), produceOne(9, topic, 0, batch(f, 0, 1, "x")).AppendTo(nil))
	f.Add(int16(1), int16(fetchMax), sessionFetch(topic, 0, 0, "0@0", "1@0").AppendTo(nil))
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		a := fx.server.apis.lookup(key)
		if a == nil || !a.serves(version) {
			return
		}
		req := a.request(version)
		if a.decode(req, body) != nil {
			return
		}
		endless(req)
		if a.handle == nil {
			t.Fatal("no handler")
		}
		c := newConn(fx.server, nopConn{}, func() {})
		cl := &call{session: &c.session, frameHead: frameHead{key: key, version: version}}
		c.pending = []*call{cl}
		ctx, cancel := context.WithCancel(t.Context())
		a.handle(ctx, cl, req)
		select {
		case <-c.wake:
		case <-time.After(100 * time.Millisecond): // parked: a group's member, a long poll
		}
		cancel()
		c.wg.Wait()
		c.mu.Lock()
		done := cl.done
		resp := cl.resp
		c.mu.Unlock()
		if done && resp != nil {
			cl.appendResponse(nil, resp)
		}
		c.close(errStopping)
		fx.server.fetchSessions.closeAll(c)
	})
}

// endless shortens what a request may wait for.
func endless(req kmsg.Request) {
	if f, ok := req.(*kmsg.FetchRequest); ok {
		f.MaxWaitMillis = min(f.MaxWaitMillis, 1)
	}
}

// FuzzFrame reads frames and headers without a server.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff}, true)
	f.Add([]byte{0, 0, 0, 15, 0, 3, 0, 9, 0, 0, 0, 1, 0, 1, 'x', 1, 0, 1, 7}, true)
	f.Fuzz(func(t *testing.T, sent []byte, flexible bool) {
		br := bufio.NewReader(bytes.NewReader(sent))
		const limit = 1 << 16
		n, err := peekFrameLength(br, limit)
		if err != nil {
			return
		}
		if n < frameHeadLen || n > limit {
			t.Fatalf("length %d", n)
		}
		if _, err := peekFrameHead(br); err != nil {
			return
		}
		buf, err := readFrame(br, n, func(int, int, bool) error { return nil })
		if err != nil {
			return
		}
		defer buf.release()
		id, body, err := splitHeader(buf.b, flexible)
		if err == nil && len(id)+len(body) > n {
			t.Fatalf("%d bytes of %d", len(id)+len(body), n)
		}
	})
}

// FuzzValidate looks at batches as a producer may send them.
func FuzzValidate(f *testing.F) {
	fx := start(f, nil)
	topic := fx.topic("t", 1, map[string]string{"cleanup.policy": "compact", "compression.type": "lz4"})
	for codec := range 5 {
		f.Add(batch(f, codec, 1, "a", "b"))
	}
	f.Fuzz(func(t *testing.T, records []byte) {
		if len(records) >= 61 { // or nothing ever passes the checksum
			patch(records, func([]byte) {})
		}
		v := validator{topic: topic, zstd: true}
		b, err := v.validate(records)
		if err == nil && v.inflates {
			b, err = fx.server.inspect(t.Context(), &v, b)
		}
		if err == nil && produceCode(err) != codeNone {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
	})
}

// FuzzStream walks the same records in one piece and as a stream: the verdict must be the
// same.
func FuzzStream(f *testing.F) {
	fx := start(f, nil)
	topic := fx.topic("t", 1, map[string]string{"cleanup.policy": "compact", "message.timestamp.before.max.ms": "1000"})
	f.Add(int32(2), batch(f, 0, 1, "a", "b")[core.BatchHeaderLen:], 0)
	f.Add(int32(1), batch(f, 0, 1, string(make([]byte, 40<<10)))[core.BatchHeaderLen:], 1)
	headers := batchOf(f, 0, core.Nobody, func(b *core.BatchBuilder) {
		b.Add(1, make([]byte, 100), make([]byte, 40<<10), core.RecordHeader{Key: "h"}, core.RecordHeader{Value: []byte("v")})
	})
	f.Add(int32(1), headers[core.BatchHeaderLen:], 0)
	f.Fuzz(func(t *testing.T, count int32, records []byte, grow int) {
		if grow > 0 { // beyond what the stream holds
			records = append(records, make([]byte, grow%(64<<10))...)
		}
		v := validator{topic: topic, now: 1000}
		h := core.BatchHeader{Count: count, BaseTime: 1}
		whole, stream := v.walking(&h), v.walking(&h)
		want := whole.walk(records)
		got := stream.stream(bufio.NewReaderSize(bytes.NewReader(records), 16))
		if fmt.Sprint(want) != fmt.Sprint(got) || want == nil && whole.maxTime != stream.maxTime {
			t.Fatalf("stream says %v, want %v", got, want)
		}
	})
}
