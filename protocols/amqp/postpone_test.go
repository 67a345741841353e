package amqp

import (
	"encoding/binary"
	"testing"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
)

// A transaction's messages live from its commit on; nothing else of them changes.
func TestPostpone(t *testing.T) {
	read := func(ttl string, at int64) *publishing {
		t.Helper()
		var in incoming
		p := spec.Properties{Present: spec.HasExpiration, Expiration: ttl, Headers: message.Table{{Name: "n", Value: message.String("v")}}}
		if ttl == "" {
			p.Present = 0
		}
		if err := in.read(&spec.BasicPublish{RoutingKey: "q"}, &p, []byte("body"), at, func() bool { return false }); err != nil {
			t.Fatal(err)
		}
		buf := getBuffer(0)
		var err error
		if buf.b, err = in.Batch(buf.b); err != nil {
			t.Fatal(err)
		}
		return &publishing{batch: buf, at: at, expires: in.ExpiresAt}
	}
	const begin = 1_700_000_000_000
	for _, c := range []struct {
		ttl  string
		late int64
	}{{"100", 150}, {"100", 0}, {"0", 1}, {"", 150}, {"4294967295", 99}} {
		out := read(c.ttl, begin)
		out.postpone(begin + c.late)
		if got, want := binary.BigEndian.Uint32(out.batch.b[17:]), core.BatchCRC(out.batch.b); got != want {
			t.Errorf("%+v: checksum %x, want %x", c, got, want)
		}
		for r, err := range core.Records(out.batch.b, 1<<20) {
			if err != nil {
				t.Fatal(err)
			}
			want := int64(0)
			if c.ttl != "" {
				want = out.expires + c.late
			}
			if got := message.ExpiresAt(&r); got != want {
				t.Errorf("%+v: expires at %d, want %d", c, got, want)
			}
			if v, ok := message.HeaderOf(&r, "n"); !ok || v.Str() != "v" || string(r.Value) != "body" {
				t.Errorf("%+v: %+v", c, r)
			}
		}
	}
}
