package filter_test

import (
	"fmt"
	"strings"
	"testing"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/http/filter"
)

// record is one with everything that filters look at.
func record(t testing.TB, value string) *core.Record {
	t.Helper()
	m := message.Message{
		Key: []byte("k1"), Value: []byte(value), Time: 1_700_000_000_000, Priority: 5, ContentType: "application/json", Type: "order",
		Headers: message.Table{
			{Name: "tag", Value: message.String("red")},
			{Name: "kind", Value: message.String("x")},
			{Name: "n", Value: message.Int(message.KindInt64, 7)},
			{Name: "ok", Value: message.Bool(true)},
		},
	}
	batch, err := m.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range core.Records(batch, core.MaxInflated) {
		if err != nil {
			t.Fatal(err)
		}
		return &r
	}
	return nil
}

func TestWants(t *testing.T) {
	r := record(t, `{"total": 120, "items": [{"sku": "a"}, {"sku": "b"}]}`)
	for _, c := range []struct {
		spec filter.Spec
		want bool
	}{
		{filter.Spec{}, true},
		{filter.Spec{Tags: []string{"blue", "red"}}, true},
		{filter.Spec{Tags: []string{"blue"}}, false},
		{filter.Spec{Headers: map[string]string{"kind": "x", "n": "7"}}, true},
		{filter.Spec{Headers: map[string]string{"kind": "y"}}, false},
		{filter.Spec{Tags: []string{"red"}, CEL: `key == "k2"`}, false},
		{filter.Spec{CEL: `key == "k1" && tag == "red" && type == "order" && priority == 5`}, true},
		{filter.Spec{CEL: `headers.kind == "x" && headers["n"] > 6 && headers.ok`}, true},
		{filter.Spec{CEL: `headers.missing == "x"`}, false},
		{filter.Spec{CEL: `has(headers.missing) || "kind" in headers`}, true},
		{filter.Spec{CEL: `json.total > 100.0 && json.items.exists(i, i.sku == "b")`}, true},
		{filter.Spec{CEL: `json.total > 200.0`}, false},
		{filter.Spec{CEL: `value.contains("sku") && bytes < 100 && contentType.startsWith("application/")`}, true},
		{filter.Spec{CEL: `time < timestamp("2024-01-01T00:00:00Z")`}, true},
	} {
		f, err := filter.Compile(&c.spec)
		if err != nil {
			t.Errorf("%+v: %v", c.spec, err)
			continue
		}
		if got := f.Wants(r); got != c.want {
			t.Errorf("%+v: %v", c.spec, got)
		}
	}
	if f, err := filter.Compile(nil); err != nil || !f.Wants(r) {
		t.Error(err)
	}
	noJSON, err := filter.Compile(&filter.Spec{CEL: `json.total > 1.0`})
	if err != nil || noJSON.Wants(record(t, "{")) {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	many := filter.Spec{Headers: map[string]string{}}
	for i := range filter.MaxTerms + 1 {
		many.Headers[fmt.Sprint(i)] = ""
	}
	for want, s := range map[string]filter.Spec{
		"at most 100":           many,
		"Syntax error":          {CEL: `key == `},
		"undeclared reference":  {CEL: `nonsense == 1`},
		"want a bool":           {CEL: `key`},
		"at most 4096":          {CEL: `key == "` + strings.Repeat("x", filter.MaxExpression) + `"`},
		"no matching overload":  {CEL: `priority == "high"`},
		"recursion limit":       {CEL: strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200)},
		"found no matching ove": {CEL: `key > 5`},
	} {
		if _, err := filter.Compile(&s); core.KindOf(err) != core.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// An expression that would go on for very long is given up: the message is not chosen.
func TestCostIsBounded(t *testing.T) {
	list := "[" + strings.Repeat("1,", 200) + "1]"
	f, err := filter.Compile(&filter.Spec{CEL: `json.all(a, json.all(b, json.all(c, a + b + c > 0.0)))`})
	if err != nil {
		t.Fatal(err)
	}
	if !f.Wants(record(t, "[1, 2]")) || f.Wants(record(t, list)) {
		t.Error("the cost is not bounded, or too tightly")
	}
}

func BenchmarkCEL(b *testing.B) {
	f, err := filter.Compile(&filter.Spec{CEL: `headers.kind == "x" && key.startsWith("k")`})
	if err != nil {
		b.Fatal(err)
	}
	r := record(b, "hello")
	for b.Loop() {
		f.Wants(r)
	}
}
