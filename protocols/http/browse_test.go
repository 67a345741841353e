package httpd

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"polylog/core"
)

func TestBrowse(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/t", `{"partitions": 3}`).want(t, 201)
	var body strings.Builder
	for i := range 30 {
		fmt.Fprintf(&body, `{"value": "%d", "key": "k%d", "partition": %d, "timestamp": %d}`+"\n", i, i%5, i%3, 1_767_000_000_000+i)
	}
	s.do("POST", "/v1/topics/t/messages", body.String(), "Content-Type: application/x-ndjson").want(t, 200)

	all := func(query string) (got []string, pages int) {
		t.Helper()
		for path := "/v1/topics/t/messages?" + query; ; {
			r := s.do("GET", path, "")
			got = append(got, values(t, r)...)
			pages++
			next := into[browsed](t, r).Next
			if next == "" {
				return got, pages
			}
			path = "/v1/topics/t/messages?" + query + "&cursor=" + next
		}
	}
	got, pages := all("limit=7")
	var want []string
	for p := range 3 {
		for i := p; i < 30; i += 3 {
			want = append(want, fmt.Sprint(i))
		}
	}
	if !slices.Equal(got, want) || pages != 5 {
		t.Errorf("%d pages of %v, want %v", pages, got, want)
	}
	for query, want := range map[string]string{
		"partition=1&offset=8":                           "25 28",
		"partition=1&limit=3":                            "1 4 7 10 13 16 19 22 25 28",
		"from=1767000000025":                             "27 25 28 26 29",
		"from=2025-12-29T09:20:00.010Z&to=1767000000013": "12 10 11",
		"to=1767000000003":                               "0 1 2",
		"key=k1&partition=0":                             "6 21",
		"partition=2&offset=10":                          "",
		"from=1767000000030":                             "",
	} {
		if got, _ := all(query); strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", query, got, want)
		}
	}
	s.do("GET", "/v1/topics/t/messages?partition=0&limit=1&maxValueBytes=0", "").want(t, 200,
		`{"id":"0-0","partition":0,"offset":0,"timestamp":"2025-12-29T09:20:00Z","key":"k0","value":"0"}`)
	for _, bad := range []string{"offset=1", "partition=3", "partition=-1", "from=x", "to=x", "cursor=x", "cursor=AQAAAQA", "limit=1001"} {
		s.do("GET", "/v1/topics/t/messages?"+bad, "").want(t, 400)
	}
}

// A page's key is looked for where producers put it.
func TestBrowseByKey(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/t", `{"partitions": 8}`).want(t, 201)
	s.post("/v1/topics/t/messages", `{"messages": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}, {"key": "a", "value": "3"}]}`).want(t, 200)
	if got := values(t, s.do("GET", "/v1/topics/t/messages?key=a", "")); !slices.Equal(got, []string{"1", "3"}) {
		t.Fatal(got)
	}
}

// Whoever looks through a topic sees it as it was when they began.
func TestBrowseEnds(t *testing.T) {
	s := newSite(t, nil, nil)
	publish := func(v string) { s.do("POST", "/v1/topics/t/messages", v).want(t, 200) }
	publish("1")
	publish("2")
	r := s.do("GET", "/v1/topics/t/messages?limit=1", "")
	publish("3")
	r = s.do("GET", "/v1/topics/t/messages?limit=2&cursor="+into[browsed](t, r).Next, "")
	if got := values(t, r); !slices.Equal(got, []string{"2"}) || into[browsed](t, r).Next != "" {
		t.Fatal(r.body)
	}
}

func TestBrowseForms(t *testing.T) {
	s := newSite(t, nil, nil)
	s.post("/v1/topics/t/messages", `{"messages": [
		{"valueBase64": "/w==", "keyBase64": "/w==", "headers": {"n": 5, "b": true, "null": null}},
		{"value": null, "priority": 0, "tag": "x", "contentType": "text/plain"}, {"value": "0123456789"}, {"value": {"big": 12345678901234567890}}
	]}`).want(t, 200)
	s.do("GET", "/v1/topics/t/messages?maxValueBytes=4", "").want(t, 200,
		`"keyBase64":"/w==","valueBase64":"/w==","headers":[{"name":"n","value":5},{"name":"b","value":true},{"name":"null","value":null}]`,
		`"headers":[{"name":"tag","value":"x"}],"contentType":"text/plain","priority":0}`,
		`"value":"0123","valueBytes":10`)
	s.do("GET", "/v1/topics/t/messages", "").want(t, 200, `"value":"{\"big\": 12345678901234567890}"`)
}

// TestFarTimes: a time that JSON cannot say, as of who takes ms for s, stops nobody.
func TestFarTimes(t *testing.T) {
	for ms, want := range map[int64]string{1796049334124000: "9999-12-31T23:59:59.999Z", math.MinInt64: "0000-01-01T00:00:00Z"} {
		b, err := json.Marshal(outgoing(0, &core.Record{Time: ms}, 0))
		if err != nil || !strings.Contains(string(b), `"timestamp":"`+want+`"`) {
			t.Errorf("%d: %s, %v", ms, b, err)
		}
	}
}

func TestQueues(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/queues/q", `{"deliveryLimit": 3, "deadLetterQueue": "dead"}`).want(t, 201)
	s.do("PUT", "/v1/queues/q", `{"deliveryLimit": 3, "deadLetterQueue": "dead"}`).want(t, 200)
	s.do("GET", "/v1/queues/dead", "").want(t, 200)
	s.do("PUT", "/v1/queues/far", `{"deliveryLimit": 99999999999}`).want(t, 400, "deliveryLimit")
	s.do("PUT", "/v1/topics/minus", `{"partitions": -1}`).want(t, 400, "partitions")
	s.do("PUT", "/v1/queues/q", `{"deliveryLimit": 4}`).want(t, 409, `"code":"conflict"`)
	s.do("PUT", "/v1/queues/a", "").want(t, 201)
	s.do("GET", "/v1/queues?limit=1", "").want(t, 200, `"name":"a"`, `"next":"a"`)
	s.do("GET", "/v1/queues?cursor=a", "").want(t, 200, `"name":"q"`)
	s.do("POST", "/v1/queues/none/messages", "x").want(t, 404)
	s.post("/v1/queues/q/messages", `{"messages": [{"value": "1"}, {"value": "2"}, {"value": "3"}]}`).want(t, 200, `"id":"0-2"`)
	if got := values(t, s.do("GET", "/v1/queues/q/messages?limit=2", "")); !slices.Equal(got, []string{"1", "2"}) {
		t.Error(got)
	}
	s.do("GET", "/v1/queues/q", "").want(t, 200, `"counts":{"ready":3,"unsettled":0,"delayed":0,"consumers":0}`)
	s.do("DELETE", "/v1/queues/q?ifEmpty", "").want(t, 409)
	s.do("POST", "/v1/queues/q:purge", "").want(t, 200, `{"messages":3}`)
	if got := values(t, s.do("GET", "/v1/queues/q/messages", "")); len(got) != 0 {
		t.Error(got)
	}
	s.do("DELETE", "/v1/queues/q?ifEmpty", "").want(t, 200, `{"messages":0}`)
	s.do("GET", "/v1/queues/q", "").want(t, 404)
}

// Every node serves every call, and sees at once what another one has confirmed.
func TestAnyNodeServes(t *testing.T) {
	first := newSite(t, nil, nil)
	sites := []*site{first, newSite(t, first, nil), newSite(t, first, nil)}
	for i, s := range sites {
		next, last := sites[(i+1)%3], sites[(i+2)%3]
		topic, queue := fmt.Sprintf("/v1/topics/t%d", i), fmt.Sprintf("/v1/queues/q%d", i)
		s.do("PUT", topic, `{"partitions": 2}`).want(t, 201)
		next.do("POST", topic+"/messages", "x", "X-Partition: 1").want(t, 200, `"id":"1-0"`)
		if got := values(t, last.do("GET", topic+"/messages", "")); !slices.Equal(got, []string{"x"}) {
			t.Errorf("%s: %v", topic, got)
		}
		s.do("PUT", queue, "").want(t, 201)
		next.do("POST", queue+"/messages", "y").want(t, 200)
		last.do("GET", queue, "").want(t, 200, `"ready":1`)
		s.do("POST", queue+":purge", "").want(t, 200, `{"messages":1}`)
		next.do("DELETE", queue, "").want(t, 200)
		last.do("DELETE", topic, "").want(t, 204)
	}
	first.log.SetLeader(false)
	sites[1].do("POST", "/v1/topics/t/messages", "x").want(t, 503, `"code":"no_leader"`, `"retryable":true`)
	if r := sites[1].do("PUT", "/v1/queues/q", ""); r.status != 503 || r.header.Get("Retry-After") != "1" {
		t.Errorf("%+v", r)
	}
}
