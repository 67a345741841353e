package spec

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"polylog/core/message"
)

// everyKind is a table with a value of each type, nested.
func everyKind() message.Table {
	t := message.Table{
		{Name: "t", Value: message.Bool(true)},
		{Name: "b", Value: message.Int(message.KindInt8, -1)},
		{Name: "B", Value: message.Int(message.KindUint8, 255)},
		{Name: "s", Value: message.Int(message.KindInt16, -2)},
		{Name: "u", Value: message.Int(message.KindUint16, 65535)},
		{Name: "I", Value: message.Int(message.KindInt32, -3)},
		{Name: "i", Value: message.Int(message.KindUint32, math.MaxUint32)},
		{Name: "l", Value: message.Int(message.KindInt64, math.MinInt64)},
		{Name: "f", Value: message.Float32(1.5)},
		{Name: "d", Value: message.Float64(-2.25)},
		{Name: "D", Value: message.Decimal(2, -314)},
		{Name: "S", Value: message.String("text")},
		{Name: "x", Value: message.Bytes([]byte{0, 1})},
		{Name: "T", Value: message.Time(1_700_000_000)},
		{Name: "V", Value: message.Void()},
		{Name: "S", Value: message.String("the same name again")},
	}
	return append(t,
		message.Header{Name: "A", Value: message.Array(message.String("a"), message.Array(), message.Nested(t[:2]))},
		message.Header{Name: "F", Value: message.Nested(t)})
}

// fill gives each field of a struct a value that is not zero.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Interface().(type) {
		case bool:
			f.SetBool(true)
		case string:
			f.SetString(strings.Repeat("n", i+1))
		case []byte:
			f.SetBytes([]byte("long"))
		case message.Table:
			f.Set(reflect.ValueOf(everyKind()))
		case int64:
			f.SetInt(int64(i) + 1)
		case PropertyFlags:
		default:
			f.SetUint(uint64(i) + 1)
		}
	}
}

var sameTable = cmp.Comparer(func(a, b message.Table) bool { return a.Equal(b) })

// all are the ids of all methods.
func all() (ids []MethodID) {
	for class := range MethodID(100) {
		for method := range MethodID(130) {
			if id := class<<16 | method; newMethod(id) != nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

func TestMethodsRoundTrip(t *testing.T) {
	if n := len(all()); n < 65 {
		t.Fatalf("%d methods", n)
	}
	for _, id := range all() {
		for _, filled := range []bool{false, true} {
			m := newMethod(id)
			if filled {
				fill(reflect.ValueOf(m).Elem())
			}
			b := AppendMethod(nil, 7, m)
			h := ParseFrameHead(b)
			if h != (FrameHead{FrameMethod, 7, uint32(len(b) - FrameOverhead)}) || b[len(b)-1] != FrameEnd {
				t.Fatalf("%s: frame %v", id, b)
			}
			payload := b[FrameHeadLen : len(b)-1]
			if PeekMethod(payload) != id {
				t.Fatalf("%s: id %s", id, PeekMethod(payload))
			}
			var d Decoder
			got, err := d.Method(payload)
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			if diff := cmp.Diff(m, got, sameTable); diff != "" {
				t.Errorf("%s: %s", id, diff)
			}
			for n := 4; n < len(payload); n++ {
				if _, err := d.Method(payload[:n]); !errors.Is(err, ErrSyntax) {
					t.Fatalf("%s cut to %d bytes: %v", id, n, err)
				}
			}
			if _, err := d.Method(append(payload, 0)); !errors.Is(err, ErrSyntax) {
				t.Errorf("%s with a byte more: %v", id, err)
			}
		}
	}
}

// TestGolden has frames as RabbitMQ's clients send them.
func TestGolden(t *testing.T) {
	for _, tc := range []struct {
		m    Method
		want string
	}{
		{&QueueDeclare{Queue: "q", Durable: true, NoWait: true}, "\x01\x00\x01\x00\x00\x00\x0d\x00\x32\x00\x0a\x00\x00\x01q\x12\x00\x00\x00\x00\xce"},
		{&BasicAck{DeliveryTag: 258, Multiple: true}, "\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x01\x02\x01\xce"},
		{&ConfirmSelectOk{}, "\x01\x00\x01\x00\x00\x00\x04\x00\x55\x00\x0b\xce"},
	} {
		if got := AppendMethod(nil, 1, tc.m); string(got) != tc.want {
			t.Errorf("%s: %q, want %q", tc.m.ID(), got, tc.want)
		}
	}
	if got := string(AppendHeartbeat(nil)); got != "\x08\x00\x00\x00\x00\x00\x00\xce" {
		t.Errorf("heartbeat %q", got)
	}
	if got := string(AppendBody(nil, 2, []byte("hi"))); got != "\x03\x00\x02\x00\x00\x00\x02hi\xce" {
		t.Errorf("body %q", got)
	}
}

func TestPropertiesRoundTrip(t *testing.T) {
	var full Properties
	fill(reflect.ValueOf(&full).Elem())
	for name, p := range map[string]Properties{
		"none":                      {},
		"all":                       full,
		"empty ones, but there":     {Present: HasPriority | HasContentType | HasHeaders},
		"two":                       {MessageID: "m", DeliveryMode: 2},
		"a flag without a property": {Present: hasReserved, AppID: "a"},
	} {
		b := AppendHeader(nil, 1, 5, &p)
		var d Decoder
		var got Properties
		class, size, err := d.Header(b[FrameHeadLen:len(b)-1], &got)
		if err != nil || class != BasicClass || size != 5 {
			t.Fatalf("%s: class %d, size %d, %v", name, class, size, err)
		}
		p.Present = p.flags()
		if diff := cmp.Diff(p, got, sameTable); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	var d Decoder
	if _, _, err := d.Header(append(make([]byte, 12), 0, 1), &Properties{}); !errors.Is(err, ErrSyntax) {
		t.Errorf("continued flags: %v", err)
	}
	if _, _, err := d.Header(append(make([]byte, 12), 0, 4, 1, 'c'), &Properties{}); err != nil { // cluster-id of 0-8
		t.Errorf("the reserved property: %v", err)
	}
}

func TestTables(t *testing.T) {
	want := everyKind()
	got, err := ReadTable(AppendTable(nil, want)[4:])
	if err != nil || !got.Equal(want) {
		t.Fatalf("%v, %v", got, err)
	}
	big := message.Table{{Name: "n", Value: message.Uint64(math.MaxUint64)}, {Name: "m", Value: message.Uint64(7)}}
	if got, err = ReadTable(AppendTable(nil, big)[4:]); err != nil || got[0].Value.Str() != "18446744073709551615" || !got[1].Value.Same(big[1].Value) {
		t.Errorf("unsigned: %v, %v", got, err)
	}
	for name, b := range map[string]string{
		"unknown type":               "\x01nZ\x00",
		"text longer than the table": "\x01nS\xff\xff\xff\xff",
		"array longer than it":       "\x01nA\x00\x00\x00\x09t\x01",
		"value cut off":              "\x01nl\x00",
		"no value":                   "\x01n",
	} {
		if got, err := ReadTable([]byte(b)); !errors.Is(err, ErrSyntax) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestDeepTables refuses what is nested too deep without going down.
func TestDeepTables(t *testing.T) {
	nest := func(letter byte, depth int) []byte {
		b := []byte{}
		for range depth {
			inner := appendLongstr([]byte{letter}, b)
			if letter == 'F' {
				inner = append([]byte{1, 'n'}, inner...)
			}
			b = inner
		}
		if letter == 'A' {
			b = append([]byte{1, 'n'}, b...)
		}
		return b
	}
	for _, letter := range []byte("AF") {
		if _, err := ReadTable(nest(letter, message.MaxDepth-1)); err != nil {
			t.Errorf("%c: %v", letter, err)
		}
		for _, depth := range []int{message.MaxDepth + 1, 20_000} {
			if _, err := ReadTable(nest(letter, depth)); !errors.Is(err, ErrSyntax) || !strings.Contains(err.Error(), "deeper") {
				t.Errorf("%c, %d deep: %v", letter, depth, err)
			}
		}
	}
}

func TestShortStrings(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		strings.Repeat("a", 255): strings.Repeat("a", 255),
		strings.Repeat("a", 256): strings.Repeat("a", 255),
		strings.Repeat("é", 128): strings.Repeat("é", 127),
	} {
		if got := Cut(in); got != want {
			t.Errorf("%d bytes become %d", len(in), len(got))
		}
		if got := appendShortstr(nil, in); len(got) != 1+len(want) || int(got[0]) != len(want) {
			t.Errorf("%d bytes take %d", len(in), len(got))
		}
	}
}

// apart reports whether all of some names are remembered: hashes differ from process to process.
func apart(all ...string) bool {
	var n names
	for _, s := range all {
		n.keep(s)
	}
	return !slices.ContainsFunc(all, func(s string) bool { _, ok := n.find([]byte(s)); return !ok })
}

// TestDecodingIsCheap allocates nothing for what comes with each message.
func TestDecodingIsCheap(t *testing.T) {
	exchange, key, kind := "e", "k", "t"
	for i := 0; !apart(exchange, key, kind); i++ {
		exchange, key, kind = fmt.Sprint("e", i), fmt.Sprint("k", i), fmt.Sprint("t", i)
	}
	publish := AppendMethod(nil, 1, &BasicPublish{Exchange: exchange, RoutingKey: key})
	ack := AppendMethod(nil, 1, &BasicAck{DeliveryTag: 1})
	header := AppendHeader(nil, 1, 10, &Properties{ContentType: kind, DeliveryMode: 2})
	var d Decoder
	var p Properties
	decode := func() {
		for _, b := range [][]byte{publish, ack} {
			if _, err := d.Method(b[FrameHeadLen : len(b)-1]); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := d.Header(header[FrameHeadLen:len(header)-1], &p); err != nil {
			t.Fatal(err)
		}
	}
	// The count is the process's: what the runtime does meanwhile is in it.
	var n float64
	for range 10 {
		if n = testing.AllocsPerRun(100, decode); n == 0 {
			return
		}
	}
	t.Errorf("%v allocations", n)
}

func FuzzMethod(f *testing.F) {
	for _, id := range all() {
		m := newMethod(id)
		fill(reflect.ValueOf(m).Elem())
		b := AppendMethod(nil, 1, m)
		f.Add(b[FrameHeadLen : len(b)-1])
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var d Decoder
		m, err := d.Method(payload)
		if err != nil {
			return
		}
		once := m.AppendTo(nil)
		again, err := (&Decoder{}).Method(append(appendLong(nil, uint32(m.ID())), once...))
		if err != nil {
			t.Fatalf("%+v cannot be read back: %v", m, err)
		}
		if twice := again.AppendTo(nil); !bytes.Equal(once, twice) {
			t.Fatalf("%x becomes %x", once, twice)
		}
	})
}

func FuzzHeader(f *testing.F) {
	var p Properties
	fill(reflect.ValueOf(&p).Elem())
	b := AppendHeader(nil, 1, 5, &p)
	f.Add(b[FrameHeadLen : len(b)-1])
	f.Fuzz(func(t *testing.T, payload []byte) {
		var p, q Properties
		_, size, err := (&Decoder{}).Header(payload, &p)
		if err != nil {
			return
		}
		if size > math.MaxInt64 {
			size = 0
		}
		b := AppendHeader(nil, 1, int(size), &p)
		if _, _, err := (&Decoder{}).Header(b[FrameHeadLen:len(b)-1], &q); err != nil || !bytes.Equal(p.AppendTo(nil), q.AppendTo(nil)) {
			t.Fatalf("%+v becomes %+v: %v", p, q, err)
		}
	})
}

func FuzzTable(f *testing.F) {
	f.Add(AppendTable(nil, everyKind())[4:])
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := ReadTable(b)
		if err != nil {
			return
		}
		if again, err := ReadTable(AppendTable(nil, table)[4:]); err != nil || !again.Equal(table) {
			t.Fatalf("%v becomes %v: %v", table, again, err)
		}
	})
}
