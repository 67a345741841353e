package httpd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"polylog/core"
)

// show is a record in one line.
func show(r core.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q=%q", r.Key, r.Value)
	if r.Value == nil {
		b.WriteString("(null)")
	}
	for _, h := range r.Headers {
		fmt.Fprintf(&b, " %s:%s", h.Key, h.Value)
	}
	return b.String()
}

// What a message's parts become in the record is docs/semantics.md's table.
func TestPublishForms(t *testing.T) {
	const event = `{"specversion":"1.0","id":"7","source":"/s","type":"t","data":{"n":12345678901234567890}}`
	for _, c := range []struct {
		name, kind, body string
		headers          []string
		want             []string
	}{
		{"batch", "application/json", `{"messages": [
			{"key": "k", "value": "text"},
			{"keyBase64": "//8=", "valueBase64": "AAE="},
			{"key": "gone", "value": null},
			{"value": {"big": 12345678901234567890, "a": 1.10}},
			{"value": "", "contentType": "text/plain", "tag": "red", "messageId": "m1", "correlationId": "c", "replyTo": "r", "type": "y", "appId": "a", "userId": "u", "priority": 3, "contentEncoding": "gzip"}
		]}`, nil, []string{
			`"k"="text"`, `"\xff\xff"="\x00\x01"`, `"gone"=""(null)`, `""="{\"big\": 12345678901234567890, \"a\": 1.10}" content-type:application/json`,
			`""="" content-type:text/plain content-encoding:gzip correlation-id:c reply-to:r message-id:m1 priority:3 type:y app-id:a user-id:u tag:red`,
		}},
		{"headers", "application/json", `{"messages": [
			{"value": "1", "headers": {"z": "1", "a": ["x", "y"], "n": 5, "null": null}},
			{"value": "2", "headers": [{"name": "b", "value": "1"}, {"name": "a", "valueBase64": "/w=="}, {"name": "b", "value": true}]}
		]}`, nil, []string{
			`""="1" z:1 a:x a:y n:5 null: x-types:---l-`,
			"\"\"=\"2\" b:1 a:\xff b:true x-types:--t",
		}},
		{"lines", "application/x-ndjson", "{\"value\": \"1\"}\r\n\n{\"value\": \"2\", \"key\": \"k\"}\n", nil, []string{`""="1"`, `"k"="2"`}},
		{"raw", "text/plain; charset=utf-8", "line\n", []string{"X-Key: k", "X-Header: Trace-Id=1=2", "X-Header: b=", "X-Tag: red", "Content-Encoding: br", "X-Priority: 9"}, []string{
			`"k"="line\n" content-type:text/plain; charset=utf-8 content-encoding:br priority:9 Trace-Id:1=2 b: tag:red`,
		}},
		{"raw JSON", "application/json?raw", `{"a":1}`, nil, []string{`""="{\"a\":1}" content-type:application/json`}},
		{"no body", "", "", nil, []string{`""=""`}},
		{"binary event", "application/json", `{"a":1}`, []string{"ce-specversion: 1.0", "ce-id: 1", "ce-type: t", "ce-source: /%E2%82%AC%20x", "ce-partitionkey: p"}, []string{
			`"p"="{\"a\":1}" content-type:application/json message-id:1 ce_id:1 ce_partitionkey:p ce_source:/€ x ce_specversion:1.0 ce_type:t`,
		}},
		{"structured event", "application/cloudevents+json; charset=utf-8", event, nil, []string{
			fmt.Sprintf("\"\"=%q content-type:application/cloudevents+json message-id:7", event),
		}},
		{"events", "application/cloudevents-batch+json", "[" + event + ",\n " + event + "]", nil, []string{
			fmt.Sprintf("\"\"=%q content-type:application/cloudevents+json message-id:7", event),
			fmt.Sprintf("\"\"=%q content-type:application/cloudevents+json message-id:7", event),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, nil, nil)
			kind, query, raw := strings.Cut(c.kind, "?")
			path := "/v1/topics/t/messages"
			if raw {
				path += "?" + query
			}
			s.do("POST", path, c.body, append(c.headers, "Content-Type: "+kind)...).want(t, 200)
			var got []string
			for _, r := range s.records("t", 0) {
				line := show(r)
				if strings.Contains(line, "ce_") { // in no order
					fields := strings.Split(line, " ce_")
					slices.Sort(fields[1:])
					line = strings.Join(fields, " ce_")
				}
				got = append(got, line)
			}
			if !slices.Equal(got, c.want) {
				t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestPublishTimes(t *testing.T) {
	s := newSite(t, nil, nil)
	s.post("/v1/topics/t/messages", `{"messages": [{"value": "x", "timestamp": "2026-01-02T03:04:05Z", "expiresAt": 1900000000000, "deliverAt": "2030-01-01T00:00:00Z"}]}`).want(t, 200)
	if got := s.records("t", 0)[0]; got.Time != 1767323045000 || show(got) != `""="x" expires-at:1900000000000 deliver-at:1893456000000` {
		t.Fatalf("%d %s", got.Time, show(got))
	}
	before := s.server.opts.now()
	s.do("POST", "/v1/topics/u/messages", "x", "X-Ttl-Ms: 5000").want(t, 200)
	m := s.records("u", 0)[0]
	if want := fmt.Sprint(m.Time + 5000); m.Time < before || string(m.Headers[len(m.Headers)-1].Value) != want {
		t.Fatalf("%s, want expires-at %s", show(m), want)
	}
}

// Messages are spread as Kafka's clients spread them, and a request's own order holds.
func TestPublishPartitions(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/t", `{"partitions": 4}`).want(t, 201)
	r := s.post("/v1/topics/t/messages", `{"messages": [
		{"key": "foobar", "value": "1"}, {"key": "foobar", "value": "2"}, {"partition": 3, "value": "3"}, {"value": "4"}, {"value": "5"}, {"partition": 4, "value": "6"}
	]}`).want(t, 207, `"status":404`)
	type answer struct{ Results []resultJSON }
	got := into[answer](t, r).Results
	want := int32(core.PartitionOf([]byte("foobar"), 4))
	if *got[0].Partition != want || *got[1].Partition != want || *got[1].Offset != *got[0].Offset+1 {
		t.Errorf("key: %s, want partition %d", r.body, want)
	}
	if *got[2].Partition != 3 || *got[3].Partition != *got[4].Partition || got[5].Status != 404 {
		t.Errorf("%s", r.body)
	}
}

// Some messages of a request may be good and others not; all that are good are stored.
func TestPublishMixed(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/t", `{"configs": {"max.message.bytes": "1500", "cleanup.policy": "compact"}}`).want(t, 201)
	large := strings.Repeat("x", 1000)
	r := s.post("/v1/topics/t/messages", fmt.Sprintf(`{"messages": [
		{"key": "1", "value": %q}, {"key": "2", "value": %q}, {"value": "no key"}, {"key": "3", "valueBase64": "?"}, {"key": "4"},
		{"key": "5", "value": "%s%s"}, {"key": "6", "value": "x", "delayMs": -1}, {"key": "7", "value": "x", "ttlMs": 1, "expiresAt": 1}
	]}`, large, large, large, large)).want(t, 207)
	type answer struct{ Results []resultJSON }
	var got []int
	for _, one := range into[answer](t, r).Results {
		got = append(got, one.Status)
	}
	if want := []int{200, 200, 400, 400, 400, 413, 400, 400}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v: %s", got, want, r.body)
	}
	if n := len(s.records("t", 0)); n != 2 {
		t.Fatalf("%d records", n)
	}
	s.post("/v1/topics/t/messages", `{"messages": [{"value": "no key"}]}`).want(t, 400, `"code":"invalid"`, `"results":[{"status":400`)
	s.do("POST", "/v1/topics/t/messages", "{\"key\":\"a\",\"value\":\"1\"}\n{oops\n", "Content-Type: application/x-ndjson").want(t, 207, `"status":400,"code":"bad_json"`)
}

// A publish is confirmed only when it is committed.
func TestPublishRefused(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/t", "").want(t, 201)
	s.log.Refuse(core.E(core.Unavailable, "no quorum"))
	r := s.post("/v1/topics/t/messages", `{"messages": [{"value": "x"}]}`).want(t, 503, `"code":"unavailable"`, `"retryable":true`)
	if len(s.records("t", 0)) != 0 {
		t.Fatal(r.body)
	}
	s.log.Refuse(core.E(core.Uncertain, "lost"))
	s.do("POST", "/v1/topics/t/messages", "x").want(t, 504, `"code":"uncertain"`)
}

func TestPublishBadBodies(t *testing.T) {
	s := newSite(t, nil, func(o *Options) { o.MaxBody = 1 << 10 })
	const json, path = "Content-Type: application/json", "/v1/topics/t/messages"
	for body, want := range map[string]string{
		`{"messages": [{"value": }]}`:                           "byte 25",
		`{"messages": [{"value": "x"}`:                          "ends in the middle",
		`{"messages": []}`:                                      "0 messages",
		`{"messages": [{"valeu": "x"}]}`:                        "valeu",
		`{"messages": [{"value": "x", "priority": "high"}]}`:    "messages.priority",
		`{"messages": [{"value": "x"}]} {}`:                     "more after the end",
		`{"messages": [{"value": "x", "headers": 1}]}`:          "headers",
		`{"messages": [{"value": "x", "headers": {"a": {}}}]}`:  "needs a name and a scalar",
		`{"messages": [{"value": "x", "timestamp": "monday"}]}`: "RFC 3339",
		``:                       "ends in the middle",
		strings.Repeat("[", 900): "",
	} {
		s.do("POST", path, body, json).want(t, 400, want)
	}
	s.do("POST", path, strings.Repeat("x", 1<<10)).want(t, 200)
	s.do("POST", path, strings.Repeat("x", 1<<10+1)).want(t, 413, `"code":"too_large"`)
	s.do("POST", path, "x", "Content-Type: application/cloudevents+xml").want(t, 415)
	s.do("POST", path, `{"specversion":"1.0","id":"1","type":"t"}`, "Content-Type: application/cloudevents+json").want(t, 400, "source")
	s.do("POST", path, `x`, "ce-specversion: 0.3", "ce-id: 1", "ce-type: t", "ce-source: s").want(t, 400, "specversion")
	s.do("POST", path, `x`, "ce-specversion: 1.0", "ce-id: %ff", "ce-type: t", "ce-source: s").want(t, 400, "UTF-8")
	s.do("POST", path, "x", "X-Header: novalue").want(t, 400, "X-Header")
	s.do("POST", path, "x", "X-Partition: 99999999999").want(t, 400, "X-Partition")
	s.do("POST", path, "x", "Origin: http://evil.example").want(t, 403, `"code":"cross_origin"`)
	s.do("POST", path, "x", "Origin: http://"+s.addr).want(t, 200)
}

// What appendResults writes by hand is what reflection would.
func TestAppendResults(t *testing.T) {
	partition, offset, queues := int32(7), core.Offset(1<<40), 3
	for _, rs := range [][]resultJSON{
		{{Status: 200, ID: messageID(partition, offset), Partition: &partition, Offset: &offset}},
		{{Status: 200, Queues: &queues}, {Status: 200}},
		{{Status: 200, ID: "0-0", Partition: new(int32), Offset: new(core.Offset)}, {Status: 400, Code: "invalid", Detail: "\"<\n", Retryable: true}, {Status: 200, ID: "0-1", Partition: new(int32), Offset: &offset}},
	} {
		want, err := json.Marshal(map[string]any{"results": rs})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := appendResults(nil, rs); err != nil || string(got) != string(want) {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}

// More than there may be is refused before it takes memory.
func TestPublishTooMany(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/t", "").want(t, 201)
	for kind, body := range map[string]string{
		"application/json":                   `{"messages": [` + strings.Repeat("{},", 1<<20) + `{}]}`,
		"application/cloudevents-batch+json": `[` + strings.Repeat("1,", 1<<20) + `1]`,
	} {
		s.do("POST", "/v1/topics/t/messages", body, "Content-Type: "+kind).want(t, 400, "more than 10000")
	}
	one := `{"value": [` + strings.Repeat("1,", 20_000) + `1], "headers": {"a": ",,\",,"}}`
	s.do("POST", "/v1/topics/t/messages", `{"messages": [`+one+`]}`, "Content-Type: application/json").want(t, 200)
	s.post("/v1/queues/q:ack", `{"receipts": [`+strings.Repeat(`"",`, 1<<16)+`""]}`).want(t, 400, "more than 10000")
}
