package manage

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"polylog/protocols/amqp/spec"
)

// names are the names of what a list answers.
func names(items []object) (all []string) {
	for _, o := range items {
		all = append(all, fmt.Sprint(o["name"]))
	}
	return all
}

type pageJSON struct {
	Filtered int      `json:"filtered_count"`
	Count    int      `json:"item_count"`
	Items    []object `json:"items"`
	Page     int      `json:"page"`
	Pages    int      `json:"page_count"`
	Size     int      `json:"page_size"`
	Total    int      `json:"total_count"`
}

func TestPages(t *testing.T) {
	f := start(t)
	for i := range 5 {
		f.ok("PUT", fmt.Sprintf("queues/%%2F/q%d", i), `{}`, 201)
	}
	f.ok("PUT", "queues/%2F/other", `{}`, 201)
	for range 3 {
		f.ok("POST", "exchanges/%2F/amq.default/publish", `{"properties":{},"routing_key":"q1","payload":"x","payload_encoding":"string"}`, 200)
	}
	for _, c := range []struct {
		query string
		want  pageJSON
		names []string
	}{
		{"page=1&page_size=2", pageJSON{Filtered: 6, Count: 2, Page: 1, Pages: 3, Size: 2, Total: 6}, []string{"other", "q0"}},
		{"page=3&page_size=2", pageJSON{Filtered: 6, Count: 2, Page: 3, Pages: 3, Size: 2, Total: 6}, []string{"q3", "q4"}},
		{"page=1&name=Q", pageJSON{Filtered: 5, Count: 5, Page: 1, Pages: 1, Size: 100, Total: 6}, []string{"q0", "q1", "q2", "q3", "q4"}},
		{"page=1&name=^q[12]&use_regex=true", pageJSON{Filtered: 2, Count: 2, Page: 1, Pages: 1, Size: 100, Total: 6}, []string{"q1", "q2"}},
		{"page=1&page_size=2&sort=name&sort_reverse=true", pageJSON{Filtered: 6, Count: 2, Page: 1, Pages: 3, Size: 2, Total: 6}, []string{"q4", "q3"}},
		{"page=1&page_size=1&sort=messages&sort_reverse=true", pageJSON{Filtered: 6, Count: 1, Page: 1, Pages: 6, Size: 1, Total: 6}, []string{"q1"}},
		{"page=1&name=none", pageJSON{Page: 1, Pages: 1, Size: 100, Total: 6}, nil},
	} {
		got := fetch[pageJSON](f, "queues?"+c.query)
		if !slices.Equal(names(got.Items), c.names) {
			t.Errorf("%s: %v, want %v", c.query, names(got.Items), c.names)
		}
		got.Items = nil
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.query, diff)
		}
	}
	for query, status := range map[string]int{
		"page=0": 400, "page=x": 400, "page=1&page_size=1000": 400, "page=9&page_size=10": 400, "page=9223372036854775807&page_size=500": 400, "page=1&name=(&use_regex=true": 400,
	} {
		if got, answer, _ := f.do("GET", "queues?"+query, ""); got != status {
			t.Errorf("%s: %d %s, want %d", query, got, answer, status)
		}
	}
}

// Pages in the order of names, or its reverse, show any number of queues, of several namespaces and with streams
// between them; other orders have a bound, and say so.
func TestPagesOfVeryMany(t *testing.T) {
	f := start(t)
	f.api.maxNames = 3
	f.ok("PUT", "vhosts/a", `{}`, 201)
	var want []string
	for _, c := range []struct{ vhost, prefix string }{{"%2F", "d"}, {"a", "a"}} {
		for i := range 4 {
			name := fmt.Sprintf("%sq%d", c.prefix, i)
			f.ok("PUT", "queues/"+c.vhost+"/"+name, `{}`, 201)
			want = append(want, name)
		}
		f.ok("PUT", "queues/"+c.vhost+"/"+c.prefix+"a", `{"durable":true,"arguments":{"x-queue-type":"stream"}}`, 201)
		want = append(want, c.prefix+"a")
	}
	pages := func(query string, want []string) {
		t.Helper()
		var got []string
		for page := 1; page <= (len(want)+2)/3; page++ {
			p := fetch[pageJSON](f, fmt.Sprintf("queues?page_size=3&page=%d%s", page, query))
			if p.Filtered != len(want) || p.Total != 10 || p.Count != len(p.Items) || p.Pages != (len(want)+2)/3 {
				t.Fatalf("%s, page %d: %+v", query, page, p)
			}
			got = append(got, names(p.Items)...)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", query, got, want)
		}
	}
	pages("", want)
	pages("&name=Q", []string{"dq0", "dq1", "dq2", "dq3", "aq0", "aq1", "aq2", "aq3"})
	slices.Reverse(want)
	pages("&sort=name&sort_reverse=true", want)
	pages("&sort=name&sort_reverse=true&name=a", []string{"aa", "aq3", "aq2", "aq1", "aq0", "da"})
	for _, query := range []string{"", "?page=1&sort=messages"} {
		if status, answer, _ := f.do("GET", "queues"+query, ""); status != 400 || !strings.Contains(answer, "more than 3 queues: only pages in the order of names") {
			t.Errorf("%q: %d %s", query, status, answer)
		}
	}
}

func TestColumns(t *testing.T) {
	f := start(t)
	f.ok("PUT", "queues/%2F/q", `{"arguments":{"x-max-length":3}}`, 201)
	for path, want := range map[string]string{
		"queues?columns=name":                         `[{"name":"q"}]`,
		"queues/%2F/q?columns=name,arguments":         `{"arguments":{"x-max-length":3},"name":"q"}`,
		"queues/%2F/q?columns=message_stats.publish":  `{"message_stats":{"publish":0}}`,
		"queues/%2F/q?columns=zork,policy":            `{"policy":null}`,
		"queues?page=1&columns=name&page_size=1":      `{"filtered_count":1,"item_count":1,"items":[{"name":"q"}],"page":1,"page_count":1,"page_size":1,"total_count":1}`,
		"queues?sort=name&sort_reverse=true&columns=": `"q"`,
	} {
		got := f.ok("GET", path, "", 200)
		if path[len(path)-1] == '=' {
			continue // all columns
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// What is asked for twice, whole and in part, is not written to: some of it is everybody's.
func TestColumnsAreCopied(t *testing.T) {
	original := func() object { return object{"a": object{"x": 1}, "b": object{"y": 2, "z": object{"v": 3, "w": 4}}} }
	for _, c := range []struct {
		columns string
		want    object
	}{
		{"a,a.x,a.y", object{"a": object{"x": 1}}},
		{"a.x,a", object{"a": object{"x": 1}}},
		{"b.z.v,b.z,b.zork,c", object{"b": object{"z": object{"v": 3, "w": 4}}}},
		{"b.z.v,b.y", object{"b": object{"y": 2, "z": object{"v": 3}}}},
	} {
		o := original()
		if diff := cmp.Diff(c.want, pick(o, strings.Split(c.columns, ","))); diff != "" {
			t.Errorf("%s: %s", c.columns, diff)
		}
		if diff := cmp.Diff(original(), o); diff != "" {
			t.Errorf("%s writes to it: %s", c.columns, diff)
		}
	}
	const twice = "overview?columns=churn_rates,churn_rates.queue_created,churn_rates.queue_deleted"
	f := start(t)
	var wg sync.WaitGroup
	for range 4 { // the race detector sees who writes
		wg.Go(func() { f.ok("GET", twice, "", 200) })
	}
	wg.Wait()
}

// Who wants no statistics makes no leader count, and learns how many queues there are.
func TestDisableStats(t *testing.T) {
	f := start(t)
	f.ok("PUT", "queues/%2F/q", `{}`, 201)
	for query, counted := range map[string]bool{"": true, "?disable_stats=true": false, "?disable_stats=true&enable_queue_totals=true": true} {
		if q := fetch[[]object](f, "queues"+query)[0]; (q["messages"] != nil) != counted {
			t.Errorf("%q: %v", query, q)
		}
	}
	o := fetch[object](f, "overview?disable_stats=true")
	if o["queue_totals"] != nil || o["object_totals"].(object)["queues"] != 1.0 {
		t.Errorf("overview: %v", o)
	}
}

// What is connected over AMQP is listed, and can be closed with a reason.
func TestConnections(t *testing.T) {
	f := start(t)
	f.ok("PUT", "queues/%2F/q", `{}`, 201)
	k := f.connect()
	if _, err := ask[*spec.BasicQosOk](k, 1, &spec.BasicQos{PrefetchCount: 7}); err != nil {
		t.Fatal(err)
	}
	if _, err := ask[*spec.BasicConsumeOk](k, 1, &spec.BasicConsume{Queue: "q", ConsumerTag: "tag"}); err != nil {
		t.Fatal(err)
	}
	all := fetch[[]object](f, "connections")
	if len(all) != 1 || all[0]["user"] != "guest" || all[0]["vhost"] != "/" || all[0]["channels"] != 1.0 {
		t.Fatalf("connections %v", all)
	}
	name := fmt.Sprint(all[0]["name"])
	path := "connections/" + escape(name)
	if one := fetch[object](f, path); one["name"] != name {
		t.Errorf("connection %v", one)
	}
	if chs := fetch[[]object](f, path+"/channels"); len(chs) != 1 || chs[0]["prefetch_count"] != 7.0 || chs[0]["consumer_count"] != 1.0 {
		t.Errorf("channels %v", chs)
	}
	if ch := fetch[object](f, "channels/"+escape(name+" (1)")); len(ch["consumer_details"].([]any)) != 1 {
		t.Errorf("channel %v", ch)
	}
	if ks := fetch[[]object](f, "consumers/%2F"); len(ks) != 1 || ks[0]["consumer_tag"] != "tag" || ks[0]["prefetch_count"] != 7.0 {
		t.Errorf("consumers %v", ks)
	}
	if q := fetch[object](f, "queues/%2F/q"); q["consumers"] != 1.0 || len(q["consumer_details"].([]any)) != 1 {
		t.Errorf("queue %v", q)
	}
	if total := fetch[object](f, "overview")["object_totals"].(object); total["connections"] != 1.0 || total["channels"] != 1.0 || total["consumers"] != 1.0 {
		t.Errorf("totals %v", total)
	}
	f.ok("DELETE", path, "", 204)
	if _, err := k.method(); err == nil || err.Error() == "" {
		t.Error("the connection goes on")
	}
}
