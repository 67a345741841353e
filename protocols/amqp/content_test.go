package amqp

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

const testTime = 1_700_000_000_123 // ms

// stored is a publish as it lies in the log.
func stored(t testing.TB, m *spec.BasicPublish, p *spec.Properties, body []byte, delays bool) core.Record {
	t.Helper()
	var in incoming
	if err := in.read(m, p, body, testTime, func() bool { return delays }); err != nil {
		t.Fatal(err)
	}
	batch, err := in.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range core.Records(batch, core.MaxInflated) {
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	t.Fatal("no record")
	return core.Record{}
}

// delivered is a record as a consumer gets it, at a time after it was published.
func delivered(r core.Record, after int64) outgoing {
	var out outgoing
	out.read(&router.Delivery{Record: r}, router.Classic, testTime+after, false)
	return out
}

// Of a message that died twice the first death took the expiration, wherever it is in the list since it came again.
func TestOriginalExpiration(t *testing.T) {
	p := present(t, spec.Properties{Expiration: "60000"})
	r := stored(t, &spec.BasicPublish{RoutingKey: "a"}, &p, nil, false)
	first := router.Death{Queue: core.TopicName("a"), Reason: router.DeathExpired, Count: 2, First: true}
	second := router.Death{Queue: core.TopicName("b"), Reason: router.DeathRejected, Count: 1}
	for _, deaths := range [][]router.Death{{first, second}, {second, first}} {
		var out outgoing
		out.read(&router.Delivery{Record: r, Deaths: deaths}, router.Classic, testTime, false)
		entries, _ := out.props.Headers.Get("x-death")
		for i := range entries.Len() {
			entry := entries.At(i).Table()
			queue, _ := entry.Get("queue")
			expiration, has := entry.Get("original-expiration")
			if has != (queue.Str() == "a") || has && expiration.Str() != "60000" {
				t.Errorf("%v", entry)
			}
		}
		if entries.Len() != 2 {
			t.Errorf("%v", entries)
		}
	}
}

var everyProperty = spec.Properties{
	ContentType: "text/plain", ContentEncoding: "gzip", DeliveryMode: 2, Priority: 5, CorrelationID: "c\x00\xff",
	ReplyTo: "q", Expiration: "60000", MessageID: "m", Timestamp: 1_600_000_000, Type: "t", UserID: "guest", AppID: "a",
	Headers: message.Table{
		{Name: "s", Value: message.String("text")},
		{Name: "b", Value: message.Bytes([]byte("bytes"))},
		{Name: "n", Value: message.Int(message.KindInt32, -1)},
		{Name: "d", Value: message.Decimal(2, 314)},
		{Name: "v", Value: message.Void()},
		{Name: "CC", Value: message.Array(message.String("k2"))},
		{Name: "content-type", Value: message.String("its own")},
		{Name: "t", Value: message.Nested(message.Table{{Name: "x", Value: message.Float32(1.5)}})},
	},
}

// present is p as it is read off the wire.
func present(t testing.TB, p spec.Properties) spec.Properties {
	t.Helper()
	var d spec.Decoder
	var got spec.Properties
	frame := spec.AppendHeader(nil, 1, 0, &p)
	if _, _, err := d.Header(frame[spec.FrameHeadLen:len(frame)-1], &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// What a publisher says, a consumer hears.
func TestPropertiesRoundTrip(t *testing.T) {
	headers := func(h ...message.Header) message.Table { return h }
	for name, c := range map[string]struct {
		key    string
		p      spec.Properties
		body   string
		change func(*spec.Properties) // what is different for the consumer
	}{
		"nothing":       {"", spec.Properties{}, "", nil},
		"everything":    {"k", everyProperty, "body", func(p *spec.Properties) { p.Expiration = "59000" }},
		"transient":     {"k", spec.Properties{DeliveryMode: 1}, "b", nil},
		"priority 0":    {"k", spec.Properties{Present: spec.HasPriority}, "b", nil},
		"no timestamp":  {"k", spec.Properties{AppID: "a"}, "b", nil},
		"timestamp 0":   {"k", spec.Properties{Present: spec.HasTimestamp}, "b", nil},
		"expires now":   {"k", spec.Properties{Expiration: "0"}, "b", nil},
		"empty headers": {"k", spec.Properties{Present: spec.HasHeaders}, "b", func(p *spec.Properties) { p.Present = 0 }},
		"milliseconds": {"k", spec.Properties{
			Timestamp: 1_600_000_000, Headers: headers(message.Header{Name: "timestamp_in_ms", Value: message.Int(message.KindInt64, 1_600_000_000_500)}),
		}, "b", nil},
		"milliseconds of another second": {"k", spec.Properties{
			Timestamp: 1_600_000_000, Headers: headers(message.Header{Name: "timestamp_in_ms", Value: message.Int(message.KindInt64, 5)}),
		}, "b", nil},
		"a timestamp that is none": {"k", spec.Properties{Timestamp: math.MaxInt64}, "b", nil},
		"key of its own":           {"k", spec.Properties{Headers: headers(message.Header{Name: "x-key", Value: message.String("other")})}, "b", nil},
		"binary key":               {"", spec.Properties{Headers: headers(message.Header{Name: "x-key", Value: message.Bytes([]byte{0xff})})}, "b", nil},
		"empty key":                {"", spec.Properties{Headers: headers(message.Header{Name: "x-key", Value: message.String("")})}, "b", nil},
		"null key":                 {"k", spec.Properties{Headers: headers(message.Header{Name: "x-key", Value: message.Void()})}, "b", nil},
		"a number for a key":       {"k", spec.Properties{Headers: headers(message.Header{Name: "x-key", Value: message.Int(message.KindInt8, 1)})}, "b", nil},
		"null value":               {"k", spec.Properties{Headers: headers(message.Header{Name: "x-value", Value: message.Void()})}, "", nil},
		"no null value":            {"k", spec.Properties{Headers: headers(message.Header{Name: "x-value", Value: message.Void()})}, "b", nil},
		"retained":                 {"k", spec.Properties{Headers: headers(message.Header{Name: "x-mqtt-retain", Value: message.Bool(true)})}, "b", nil},
		"BCC": {
			"k",
			spec.Properties{Headers: headers(
				message.Header{Name: "BCC", Value: message.Array(message.String("b"))},
				message.Header{Name: "h", Value: message.Bool(true)},
			)},
			"b",
			func(p *spec.Properties) { p.Headers = p.Headers.Without("BCC") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := present(t, c.p)
			var body []byte // nil where it is empty, as it comes from the connection
			if c.body != "" {
				body = []byte(c.body)
			}
			r := stored(t, &spec.BasicPublish{Exchange: "x", RoutingKey: c.key}, &p, body, false)
			got := delivered(r, 1000)
			if c.change != nil {
				c.change(&c.p)
			}
			if c.p.Expiration == "0" {
				got.props.Expiration = strings.TrimPrefix(got.props.Expiration, "-")
			}
			if diff := cmp.Diff(present(t, c.p), present(t, got.props)); diff != "" {
				t.Errorf("published -, delivered +\n%s", diff)
			}
			if got.exchange != "x" || got.routingKey != c.key || string(got.body) != c.body {
				t.Errorf("exchange %q, key %q, body %q", got.exchange, got.routingKey, got.body)
			}
		})
	}
}

// Every row of docs/semantics.md, "Parts of a message", from AMQP to Kafka.
func TestRecordOfPublish(t *testing.T) {
	p := present(t, everyProperty)
	r := stored(t, &spec.BasicPublish{Exchange: "x", RoutingKey: "k"}, &p, []byte("body"), false)
	if string(r.Key) != "k" || string(r.Value) != "body" || r.Time != 1_600_000_000_000 {
		t.Errorf("key %q, value %q, time %d", r.Key, r.Value, r.Time)
	}
	want := map[string]string{
		"content-type": "text/plain", "content-encoding": "gzip", "correlation-id": "c\x00\xff", "reply-to": "q",
		"message-id": "m", "expires-at": "1700000060123", "priority": "5", "type": "t", "app-id": "a", "user-id": "guest",
		"durable": "true", "exchange": "x", "x-expiration": "60000",
		"s": "text", "b": "bytes", "n": "-1", "d": "3.14", "v": "", "CC": `["k2"]`, "t": `{"x":1.5}`,
	}
	seen := map[string]string{}
	for _, h := range r.Headers {
		if _, twice := seen[h.Key]; !twice {
			seen[h.Key] = string(h.Value)
		}
	}
	delete(seen, "x-types")
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	if v := r.Headers[len(r.Headers)-1]; v.Key != "x-types" {
		t.Errorf("the last header is %s", v.Key)
	}
}

// And the other way round.
func TestDeliveryOfRecord(t *testing.T) {
	h := func(k, v string) core.RecordHeader { return core.RecordHeader{Key: k, Value: []byte(v)} }
	long := strings.Repeat("ä", 200)
	for name, c := range map[string]struct {
		r    core.Record
		want outgoing
	}{
		"parts": {
			core.Record{
				Time: 1_600_000_000_500, Key: []byte("key"), Value: []byte("v"),
				Headers: []core.RecordHeader{
					h("content-type", "a/b"), h("correlation-id", "\xff"), h("priority", "9"), h("expires-at", "1700000000223"),
					h("message-id", "m"), h("mine", "1"), h("bin", "\xff"),
					{Key: "null"},
					h("mqtt-retain", "true"),
				},
			},
			outgoing{
				routingKey: "key", body: []byte("v"),
				props: spec.Properties{
					ContentType: "a/b", CorrelationID: "\xff", Priority: 9, Expiration: "100", MessageID: "m", Timestamp: 1_600_000_000,
					Headers: message.Table{
						{Name: "mine", Value: message.String("1")},
						{Name: "bin", Value: message.Bytes([]byte{0xff})},
						{Name: "null", Value: message.Void()},
						{Name: "x-mqtt-retain", Value: message.String("true")},
						{Name: "timestamp_in_ms", Value: message.Int(message.KindInt64, 1_600_000_000_500)},
					},
				},
			},
		},
		"nulls": {
			core.Record{Time: 1000},
			outgoing{props: spec.Properties{Timestamp: 1, Headers: message.Table{{Name: "x-value", Value: message.Void()}}}},
		},
		"empty, not null": {
			core.Record{Time: 1000, Key: []byte{}, Value: []byte{}},
			outgoing{props: spec.Properties{Timestamp: 1, Headers: message.Table{{Name: "x-key", Value: message.String("")}}}},
		},
		"no time": {
			core.Record{Time: -1, Value: []byte{}},
			outgoing{},
		},
		"repeated headers": {
			core.Record{Time: -1, Value: []byte{}, Headers: []core.RecordHeader{h("a", "1"), h("a", "2"), h("x-a-2", "own"), h("a", "3")}},
			outgoing{props: spec.Properties{Headers: message.Table{
				{Name: "a", Value: message.String("1")},
				{Name: "x-a-2", Value: message.String("2")},
				{Name: "x-x-a-2-2", Value: message.String("own")},
				{Name: "x-a-3", Value: message.String("3")},
			}}},
		},
		"too long": {
			core.Record{Time: -1, Value: []byte{}, Headers: []core.RecordHeader{h("content-type", long), h(long, "v")}},
			outgoing{props: spec.Properties{
				ContentType: spec.Cut(long),
				Headers: message.Table{
					{Name: "x-" + strings.Repeat("ä", 121) + "-1", Value: message.String("v")},
					{Name: "x-content-type", Value: message.String(long)},
				},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := delivered(c.r, 0)
			if diff := cmp.Diff(present(t, c.want.props), present(t, got.props)); diff != "" {
				t.Errorf("want -, got +\n%s", diff)
			}
			if got.exchange != c.want.exchange || got.routingKey != c.want.routingKey || string(got.body) != string(c.want.body) {
				t.Errorf("exchange %q, key %q, body %q", got.exchange, got.routingKey, got.body)
			}
		})
	}
}

func TestDelayedMessage(t *testing.T) {
	p := present(t, spec.Properties{Headers: message.Table{{Name: "x-delay", Value: message.Int(message.KindInt32, 5000)}}})
	r := stored(t, &spec.BasicPublish{}, &p, nil, true)
	if at := message.DeliverAt(&r); at != testTime+5000 {
		t.Errorf("delivered at %d", at)
	}
	if v := argument(delivered(r, 5000).props.Headers, "x-delay"); v == nil || !v.Equal(message.Int(message.KindInt32, -5000)) {
		t.Errorf("x-delay is %v", v)
	}
	r = stored(t, &spec.BasicPublish{}, &p, nil, false)
	if at := message.DeliverAt(&r); at != 0 {
		t.Errorf("another exchange delays until %d", at)
	}
	p.Present, p.Expiration = p.Present|spec.HasExpiration, "70"
	if r = stored(t, &spec.BasicPublish{}, &p, nil, true); message.ExpiresAt(&r) != testTime+5070 {
		t.Errorf("expires at %d", message.ExpiresAt(&r))
	}
}

func TestRoutingKeys(t *testing.T) {
	p := spec.Properties{Headers: message.Table{
		{Name: "CC", Value: message.Array(message.String("c1"), message.Int(message.KindInt8, 1), message.String("c2"))},
		{Name: "BCC", Value: message.Array(message.String("b"))},
	}}
	var in incoming
	if err := in.read(&spec.BasicPublish{RoutingKey: "k"}, &p, nil, testTime, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"k", "c1", "c2", "b"}, in.keys); diff != "" {
		t.Error(diff)
	}
}

// Texts are RabbitMQ's.
func TestRefusedProperties(t *testing.T) {
	for _, c := range []struct {
		p    spec.Properties
		want string
	}{
		{spec.Properties{Expiration: "abc"}, "PRECONDITION_FAILED - invalid expiration 'abc': no_integer"},
		{spec.Properties{Expiration: "-1"}, "PRECONDITION_FAILED - invalid expiration '-1': {value_negative,-1}"},
		{spec.Properties{Expiration: "12 s"}, `PRECONDITION_FAILED - invalid expiration '12 s': {leftover_string," s"}`},
		{spec.Properties{Expiration: "99999999999999999999"}, "PRECONDITION_FAILED - invalid expiration '99999999999999999999': {value_too_large,99999999999999999999}"},
		{spec.Properties{Present: spec.HasExpiration}, "PRECONDITION_FAILED - invalid expiration '': no_integer"},
		{
			spec.Properties{Headers: message.Table{{Name: "CC", Value: message.String("k")}}},
			`PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",longstr}`,
		},
	} {
		var in incoming
		p := present(t, c.p)
		err := in.read(&spec.BasicPublish{}, &p, nil, testTime, nil)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// FuzzContent publishes anything, and delivers it again without a difference.
func FuzzContent(f *testing.F) {
	seed := spec.AppendHeader(nil, 1, 4, &everyProperty)
	f.Add("key", seed[spec.FrameHeadLen:len(seed)-1], []byte("body"))
	f.Fuzz(func(t *testing.T, key string, header, body []byte) {
		var d spec.Decoder
		var p spec.Properties
		if _, _, err := d.Header(header, &p); err != nil || len(key) > spec.MaxShortstr {
			return
		}
		var in incoming
		if in.read(&spec.BasicPublish{RoutingKey: key}, &p, body, testTime, func() bool { return true }) != nil {
			return
		}
		r := stored(t, &spec.BasicPublish{RoutingKey: key}, &p, body, true)
		out := delivered(r, 0)
		if out.routingKey != key || string(out.body) != string(body) {
			t.Fatalf("key %q, body %q", out.routingKey, out.body)
		}
		if out.props.ContentType != p.ContentType || out.props.CorrelationID != p.CorrelationID || out.props.Timestamp != p.Timestamp || out.props.Priority != p.Priority {
			t.Fatalf("published %+v, delivered %+v", p, out.props)
		}
		spec.AppendHeader(nil, 1, len(body), &out.props)
	})
}
