package message

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"polylog/core"
	"polylog/core/wire"
)

// recordOf is the message as it comes back out of a batch.
func recordOf(t testing.TB, m *Message) core.Record {
	t.Helper()
	batch, err := m.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []core.Record
	for r, err := range core.Records(batch, core.MaxInflated) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if len(all) != 1 {
		t.Fatalf("%d records of one message", len(all))
	}
	return all[0]
}

// everything has every part and a header of every type.
func everything() Message {
	return Message{
		Key: []byte("k\x00\xff"), Value: []byte{}, Time: 1_700_000_000_123,
		Exchange: "orders", RoutingKey: "orders.new",
		ContentType: "text/plain", ContentEncoding: "gzip", ReplyTo: "amq.gen-1", MessageID: "m-1",
		Type: "order", AppID: "shop", UserID: "guest", Vouched: true, CorrelationID: []byte{0, 1, 0xff},
		ExpiresAt: 1_700_000_060_123, TTL: 60_000, DeliverAt: 1_700_000_001_000, Priority: 0, Durable: true,
		Headers: everyType(),
	}
}

func everyType() Table {
	return Table{
		{"void", Void()},
		{"bool", Bool(true)},
		{"int8", Int(KindInt8, -128)},
		{"uint8", Int(KindUint8, 255)},
		{"int16", Int(KindInt16, -32768)},
		{"uint16", Int(KindUint16, 65535)},
		{"int32", Int(KindInt32, math.MinInt32)},
		{"uint32", Int(KindUint32, math.MaxUint32)},
		{"int64", Int(KindInt64, math.MinInt64)},
		{"uint64", Uint64(math.MaxUint64)},
		{"float32", Float32(0.1)},
		{"float64", Float64(math.Inf(-1))},
		{"nan", Float64(math.NaN())},
		{"decimal", Decimal(2, -5)},
		{"decimal", Decimal(0, 7)},
		{"decimal", Decimal(255, math.MinInt32)},
		{"text", String("grüße")},
		{"no text", String("\xff\x00")},
		{"empty", String("")},
		{"bytes", Bytes([]byte("text"))},
		{"binary", Bytes([]byte{0xff, 0xfe})},
		{"no bytes", Bytes([]byte{})},
		{"time", Time(1_700_000_000)},
		{"array", Array(Int(KindInt32, 1), String("\"<&>\u2028"), Void(), Bytes([]byte{0xff}), Decimal(3, 1500), Array(), Time(-1))},
		{"table", Nested(Table{{"a", Bool(false)}, {"a", Float32(1.5)}, {"", Nested(nil)}, {"l", Int(KindInt64, 5)}})},
		{"odd table", Nested(Table{{"\xff", Float64(math.NaN())}, {"x", String("\xff")}})},
		{"text", String("again")},
		{"priority", Int(KindInt32, 9)}, // no part of the message: its own header
		{"routing-key", String("no")},
		{"x-types", String("---")},
		{"", String("no name")},
	}
}

func TestRoundTrip(t *testing.T) {
	whole := everything()
	for name, m := range map[string]Message{
		"everything":   whole,
		"nothing":      {Priority: -1, Time: 5},
		"stamped":      {Priority: 255, Time: 5, Stamped: true, Transient: true},
		"key is route": {Key: []byte("a"), RoutingKey: "a", Value: []byte("v"), Priority: -1},
		"empty key":    {Key: []byte{}, Value: nil, Priority: -1},
		"no key":       {Key: nil, RoutingKey: "r", Priority: -1},
		"empty route":  {Key: []byte("k"), RoutingKey: "", Priority: -1},
		"plain only":   {Priority: -1, Headers: Table{{"a", String("1")}, {"b", Void()}}},
		"correlation":  {Priority: -1, CorrelationID: []byte{}},
	} {
		r := recordOf(t, &m)
		got := Read(&r)
		if diff := cmp.Diff(m, got); diff != "" {
			t.Errorf("%s: want -, got +\n%s", name, diff)
		}
		again := recordOf(t, &got)
		if diff := cmp.Diff(r, again); diff != "" {
			t.Errorf("%s: written again: want -, got +\n%s", name, diff)
		}
	}
	// so that the comparison cannot pass because a field is not in it
	for i, v := 0, reflect.ValueOf(whole); i < v.NumField(); i++ {
		name := v.Type().Field(i).Name
		if v.Field(i).IsZero() && name != "Stamped" && name != "Transient" && name != "Priority" {
			t.Errorf("everything has no %s", name)
		}
	}
}

// What Kafka clients see: text, and one more header where there are types.
func TestRecordForm(t *testing.T) {
	m := Message{
		Key: []byte("key"), Value: []byte("body"), Time: 1000, RoutingKey: "a.b", Exchange: "x",
		ContentType: "text/plain", Priority: 5, Durable: true,
		Headers: Table{
			{"retries", Int(KindInt32, -3)},
			{"name", String("n")},
			{"type", Float64(1.5)},
			{"list", Array(Int(KindInt64, 1), Bytes([]byte{1, 2}), Nested(Table{{"k", Bool(true)}}))},
		},
	}
	r := recordOf(t, &m)
	want := []core.RecordHeader{
		{Key: "content-type", Value: []byte("text/plain")},
		{Key: "priority", Value: []byte("5")},
		{Key: "durable", Value: []byte("true")},
		{Key: "exchange", Value: []byte("x")},
		{Key: "routing-key", Value: []byte("a.b")},
		{Key: "retries", Value: []byte("-3")},
		{Key: "name", Value: []byte("n")},
		{Key: "type", Value: []byte("1.5")},
		{Key: "list", Value: []byte(`[1,"AQI=",{"k":true}]`)},
		{Key: "x-types", Value: []byte("-----I-hdA(lxF(t))")},
	}
	if diff := cmp.Diff(want, r.Headers); diff != "" {
		t.Fatal(diff)
	}
}

func TestRecordsOfKafkaClients(t *testing.T) {
	h := func(k, v string) core.RecordHeader { return core.RecordHeader{Key: k, Value: []byte(v)} }
	for name, c := range map[string]struct {
		headers []core.RecordHeader
		want    Message
	}{
		"parts": {
			[]core.RecordHeader{h("priority", "7"), h("content-type", "a/b"), h("delay", "500"), h("mine", "x")},
			Message{Priority: 7, ContentType: "a/b", DeliverAt: 1500, Headers: Table{{"mine", String("x")}}},
		},
		"deliver-at counts more than delay": {
			[]core.RecordHeader{h("deliver-at", "9000"), h("delay", "500")},
			Message{Priority: -1, DeliverAt: 9000},
		},
		"what no part can be stays a header": {
			[]core.RecordHeader{h("priority", "high"), h("priority", "3"), h("expires-at", "-1"), h("durable", "x"), h("deliver-at", "99999999999999999999"), {Key: "content-type"}},
			Message{Priority: -1, Headers: Table{
				{"priority", String("high")},
				{"priority", String("3")},
				{"expires-at", String("-1")},
				{"durable", String("x")},
				{"deliver-at", String("99999999999999999999")},
				{"content-type", Void()},
			}},
		},
		"bytes": {
			[]core.RecordHeader{h("b", "\xff"), h("s", "ö"), {Key: "n"}, h("e", "")},
			Message{Priority: -1, Headers: Table{{"b", Bytes([]byte{0xff})}, {"s", String("ö")}, {"n", Void()}, {"e", String("")}}},
		},
		"types that fit": {
			[]core.RecordHeader{h("a", "5"), h("b", "true"), h("x-types", "lt"), h("later", "1")},
			Message{Priority: -1, Headers: Table{{"a", Int(KindInt64, 5)}, {"b", Bool(true)}, {"later", String("1")}}},
		},
		"types of other headers": {
			[]core.RecordHeader{h("a", "5"), h("x-types", "lt")},
			Message{Priority: -1, Headers: Table{{"a", String("5")}, {"x-types", String("lt")}}},
		},
		"types that are none": {
			[]core.RecordHeader{h("a", "5"), h("x-types", "A(l")},
			Message{Priority: -1, Headers: Table{{"a", String("5")}, {"x-types", String("A(l")}}},
		},
		"values that do not fit their types": {
			[]core.RecordHeader{h("a", "300"), h("b", "[1"), h("c", "[1,2]"), h("d", "\x11"), h("e", "yes"), {Key: "f"}, h("g", "[1] "), h("x-types", "bA(l)A(l)wtlA(l)")},
			Message{Priority: -1, Headers: Table{
				{"a", String("300")},
				{"b", String("[1")},
				{"c", String("[1,2]")},
				{"d", String("\x11")},
				{"e", String("yes")},
				{"f", Void()},
				{"g", String("[1] ")},
			}},
		},
	} {
		r := core.Record{Time: 1000, Headers: c.headers}
		c.want.Time = 1000
		if diff := cmp.Diff(c.want, Read(&r)); diff != "" {
			t.Errorf("%s: want -, got +\n%s", name, diff)
		}
	}
}

// The single looks say what Read says, and allocate nothing.
func TestLooks(t *testing.T) {
	m := everything()
	r := recordOf(t, &m)
	agree(t, &r)
	for _, h := range m.Headers[:10] {
		if v, ok := HeaderOf(&r, h.Name); !ok || !v.Equal(h.Value) {
			t.Errorf("header %s is %v, want %v", h.Name, v, h.Value)
		}
	}
	if v, ok := HeaderOf(&r, "priority"); !ok || !v.Equal(Int(KindInt32, 9)) {
		t.Errorf("the header that is called priority is %v, %v", v, ok)
	}
	for _, name := range []string{"content-type", "expires-at", "not there"} {
		if v, ok := HeaderOf(&r, name); ok {
			t.Errorf("header %s is %v", name, v)
		}
	}
	if n := testing.AllocsPerRun(10, func() {
		ExpiresAt(&r)
		DeliverAt(&r)
		Priority(&r)
		RoutingKey(&r)
		Exchange(&r)
		HeaderOf(&r, "int32")
		HeaderOf(&r, "text")
		HeaderOf(&r, "float64")
	}); n != 0 {
		t.Errorf("looking allocates %v times", n)
	}
}

// agree compares the looks with Read.
func agree(t *testing.T, r *core.Record) {
	t.Helper()
	m := Read(r)
	if got := ExpiresAt(r); got != m.ExpiresAt {
		t.Errorf("expires at %d, want %d", got, m.ExpiresAt)
	}
	if got := DeliverAt(r); got != m.DeliverAt {
		t.Errorf("deliver at %d, want %d", got, m.DeliverAt)
	}
	if got := Priority(r); got != m.Priority {
		t.Errorf("priority %d, want %d", got, m.Priority)
	}
	if got := RoutingKey(r); string(got) != m.RoutingKey {
		t.Errorf("routing key %q, want %q", got, m.RoutingKey)
	}
	if got := Exchange(r); string(got) != m.Exchange {
		t.Errorf("exchange %q, want %q", got, m.Exchange)
	}
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		a, b Value
		want bool
	}{
		{Int(KindInt8, 5), Int(KindInt64, 5), true},
		{Int(KindInt8, -1), Uint64(math.MaxUint64), false},
		{Uint64(math.MaxUint64), Uint64(math.MaxUint64), true},
		{Float32(1), Int(KindUint8, 1), true},
		{Float64(1.5), Float32(1.5), true},
		{String("a"), Bytes([]byte("a")), true},
		{String("1"), Int(KindInt8, 1), false},
		{Bool(true), Int(KindInt8, 1), false},
		{Bool(true), Bool(true), true},
		{Void(), Void(), true},
		{Void(), String(""), false},
		{Decimal(1, 5), Decimal(1, 5), true},
		{Array(Int(KindInt8, 1)), Array(Int(KindInt16, 1)), true},
		{Array(Int(KindInt8, 1)), Array(), false},
		{Nested(Table{{"a", Void()}}), Nested(Table{{"b", Void()}}), false},
	} {
		if c.a.Same(c.b) != c.want || c.b.Same(c.a) != c.want {
			t.Errorf("%v (kind %d) and %v (kind %d): same is not %v", c.a, c.a.kind, c.b, c.b.kind, c.want)
		}
	}
}

func TestTables(t *testing.T) {
	want := everyType()
	b := AppendTable(nil, want)
	r := wire.NewReader(b)
	if diff := cmp.Diff(want, ReadTable(&r)); diff != "" || r.Close() != nil {
		t.Fatal(diff, r.Close())
	}
	if v, ok := want.Get("decimal"); !ok || !v.Equal(Decimal(2, -5)) {
		t.Errorf("the first decimal is %v, %v", v, ok)
	}
	if got := want.Without("decimal"); len(got) != len(want)-3 || len(want.Without("none")) != len(want) {
		t.Errorf("without the decimals there are %d of %d", len(got), len(want))
	}
	deep := Void()
	for range MaxDepth + 1 {
		deep = Array(deep)
	}
	r = wire.NewReader(AppendTable(nil, Table{{"deep", deep}}))
	if ReadTable(&r); r.Err() == nil {
		t.Error("arrays of any depth are read")
	}
	for cut := range b {
		r := wire.NewReader(b[:cut])
		if ReadTable(&r); r.Err() == nil {
			t.Fatalf("%d of %d bytes are a table", cut, len(b))
		}
	}
}

// FuzzTable reads tables from anything, and whatever is one comes back through a record.
func FuzzTable(f *testing.F) {
	f.Add(AppendTable(nil, everyType()))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		table := ReadTable(&r)
		if r.Close() != nil {
			return
		}
		m := Message{Priority: -1, Headers: table}
		rec := recordOf(t, &m)
		if got := Read(&rec); !got.Headers.Equal(table) {
			t.Fatalf("headers %v came back as %v\n%v", table, got.Headers, rec.Headers)
		}
		agree(t, &rec)
	})
}

// FuzzRead reads records of anybody; what they say stays so when they are written again.
func FuzzRead(f *testing.F) {
	for _, seed := range [][]string{
		{"priority", "5", "a", "1", "x-types", "-l"},
		{"delay", "5", "deliver-at", "x", "x-types", "hSh-"},
		{"delay", "1", "deliver-at", "0"},
		{"t", `{"a":[1,2]}`, "x-types", "F(A(II))"},
	} {
		var b []byte
		for _, s := range seed {
			b = wire.AppendString(b, s)
		}
		f.Add(int64(1000), []byte("key"), b)
	}
	f.Fuzz(func(t *testing.T, time int64, key, headers []byte) {
		rec := core.Record{Time: time, Key: key}
		for r := wire.NewReader(headers); r.Len() > 0; {
			rec.Headers = append(rec.Headers, core.RecordHeader{Key: r.String(), Value: r.Bytes()})
		}
		agree(t, &rec)
		m := Read(&rec)
		m.Time = 1 << 40 // what came as a delay is a time now
		again := recordOf(t, &m)
		got := Read(&again)
		if !bytes.Equal(got.Key, m.Key) || !got.Headers.Equal(m.Headers) {
			t.Fatalf("%v came back as %v", m, got)
		}
		got.Headers, m.Headers = nil, nil
		if diff := cmp.Diff(m, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Whether a user id was checked goes with the message; one that was not can be made a header.
func TestVouched(t *testing.T) {
	for _, vouched := range []bool{false, true} {
		m := Message{Priority: -1, UserID: "u", Vouched: vouched, Headers: Table{{"a", String("b")}}}
		r := recordOf(t, &m)
		got := Read(&r)
		if got.Vouched != vouched || got.UserID != "u" {
			t.Errorf("%v: %+v", vouched, got)
		}
		before := got.Headers
		got.DropClaim()
		if kept := got.UserID == "u"; kept != vouched || len(before) != 1 {
			t.Errorf("%v: %+v", vouched, got)
		}
		if v, ok := got.Headers.Get(UserIDHeader); ok == vouched || ok && v.Str() != "u" {
			t.Errorf("%v: %+v", vouched, got.Headers)
		}
		// Published again it is what it has become.
		r = recordOf(t, &got)
		if again := Read(&r); again.UserID != got.UserID || len(again.Headers) != len(got.Headers) {
			t.Errorf("%v: %+v, want %+v", vouched, again, got)
		}
	}
	// A batch that vouches for no user id does not say so.
	m := Message{Priority: -1, Vouched: true}
	if r := recordOf(t, &m); r.Vouched {
		t.Error("there is nothing to vouch for")
	}
}
