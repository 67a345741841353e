package topicfilter_test

import (
	"strings"
	"testing"

	"polylog/core"
	"polylog/core/topicfilter"
)

// TestMatch has the examples of MQTT 5, section 4.7, and those that brokers got wrong.
func TestMatch(t *testing.T) {
	for _, c := range []struct {
		filter, name string
		want         bool
	}{
		{"sport/tennis/player1/#", "sport/tennis/player1", true},
		{"sport/tennis/player1/#", "sport/tennis/player1/ranking", true},
		{"sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true},
		{"sport/tennis/player1/#", "sport/tennis/player10", false},
		{"sport/#", "sport", true},
		{"#", "sport", true},
		{"#", "/", true},
		{"sport/tennis/+", "sport/tennis/player1", true},
		{"sport/tennis/+", "sport/tennis/player1/ranking", false},
		{"sport/+", "sport", false},
		{"sport/+", "sport/", true},
		{"+/+", "/finance", true},
		{"/+", "/finance", true},
		{"+", "/finance", false},
		{"+/#", "foo", true},
		{"+/+/#", "foo", false},
		{"a/+/#", "a/b", true},
		{"#", "$SYS/x", false},
		{"+/monitor/Clients", "$SYS/monitor/Clients", false},
		{"$SYS/#", "$SYS/x", true},
		{"$SYS/#", "$SYS", true},
		{"$SYS/monitor/+", "$SYS/monitor/Clients", true},
		{"a/$b/#", "a/$b", true},
		{"a/+", "a/$b", true},
		{"a", "A", false},
		{"a//b", "a/b", false},
		{"a/+/b", "a//b", true},
		{"+/+/+", "//", true},
		{"a/", "a", false},
	} {
		if got := topicfilter.Match(c.filter, c.name); got != c.want {
			t.Errorf("Match(%q, %q) = %v", c.filter, c.name, got)
		}
		var tree topicfilter.Tree[int]
		tree.Add(c.filter, 1)
		found := 0
		tree.Match(c.name, func(int) { found++ })
		if (found == 1) != c.want {
			t.Errorf("the tree finds %q for %q %d times", c.filter, c.name, found)
		}
	}
}

func TestCheck(t *testing.T) {
	for name, legal := range map[string]bool{
		"a": true, "/": true, "a b/ü/$x": true, "": false, "a/+": false, "#": false, "a\x00": false, "\xff": false,
		strings.Repeat("a", 65536): false, strings.Repeat("/", 127): true, strings.Repeat("/", 128): false,
	} {
		if err := topicfilter.CheckName(name); (err == nil) != legal || err != nil && core.KindOf(err) != core.Invalid {
			t.Errorf("name %.20q: %v", name, err)
		}
	}
	for filter, legal := range map[string]bool{
		"a/+/#": true, "#": true, "+": true, "a#": false, "a/#/b": false, "a+/b": false, "++": false, "": false, "+/a/+": true,
	} {
		if err := topicfilter.CheckFilter(filter); (err == nil) != legal {
			t.Errorf("filter %q: %v", filter, err)
		}
	}
}

func TestNamesOfRecords(t *testing.T) {
	for _, c := range []struct {
		topic, key, header, want string
		ok                       bool
	}{
		{"orders", "", "", "orders", true},
		{"orders", "k1", "", "orders/k1", true},
		{"orders", "orders", "", "orders", true},
		{"orders", "orders/eu/1", "", "orders/eu/1", true},
		{"orders", "orders2", "", "orders/orders2", true},
		{"orders", "a+b", "", "", false},
		{"orders", "\xff", "", "", false},
		{"mqtt", "x", "a b/c", "a b/c", true},
		{"mqtt", "a+b", "a b/c", "a b/c", true},
		{"mqtt", "x", "#", "", false},
	} {
		r := core.Record{Key: []byte(c.key)}
		if c.header != "" {
			r.Headers = []core.RecordHeader{{Key: "other"}, {Key: topicfilter.TopicHeader, Value: []byte(c.header)}}
		}
		got, ok := topicfilter.Of(c.topic, &r)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%+v: %q, %v", c, got, ok)
		}
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("a/+/#", "a/b")
	f.Fuzz(func(t *testing.T, filter, name string) {
		if topicfilter.CheckFilter(filter) != nil || topicfilter.CheckName(name) != nil {
			return
		}
		var tree topicfilter.Tree[int]
		tree.Add(filter, 1)
		found := false
		tree.Match(name, func(int) { found = true })
		if found != topicfilter.Match(filter, name) {
			t.Fatalf("%q and %q: the tree says %v", filter, name, found)
		}
		if !tree.Remove(filter, 1) || tree.Len() != 0 {
			t.Fatal("it cannot be removed")
		}
	})
}
