package httpd

import (
	"strings"
	"testing"

	"polylog/core"
)

// A request that is sent again is done once, whichever node gets it.
func TestIdempotencyKey(t *testing.T) {
	first := newSite(t, nil, nil)
	second := newSite(t, first, nil)
	const path, key = "/v1/topics/t/messages", "Idempotency-Key: order-7"
	const body = `{"messages": [{"value": "1"}, {"value": "2", "key": "k"}, {"value": "3", "priority": -1}]}`
	first.do("PUT", "/v1/topics/t", `{"partitions": 3}`).want(t, 201)
	one := first.do("POST", path, body, key, "Content-Type: application/json").want(t, 207)
	again := second.do("POST", path, body, key, "Content-Type: application/json").want(t, 207)
	if one.body != again.body || one.header.Get("Idempotency-Replayed") != "" || again.header.Get("Idempotency-Replayed") != "true" {
		t.Fatalf("%+v\n%+v", one, again)
	}
	if n := len(first.records("t", 0)) + len(first.records("t", 1)) + len(first.records("t", 2)); n != 2 {
		t.Fatalf("%d messages are stored", n)
	}
	second.do("POST", path, "else", key).want(t, 409, "under this key")
	first.do("POST", "/v1/topics/u/messages", "x", key).want(t, 200, `"id":"0-0"`) // another topic
	if got := show(first.records("u", 0)[0]); got != `""="x" content-type:application/octet-stream message-id:order-7` && got != `""="x" message-id:order-7` {
		t.Fatal(got)
	}
	first.do("POST", path, "x", "Idempotency-Key: "+strings.Repeat("k", 256)).want(t, 400)
	first.do("PUT", "/v1/queues/q", "").want(t, 201)
	first.do("POST", "/v1/queues/q/messages", "x", key).want(t, 501)

	// Of one that failed nothing is known: it may be tried again.
	first.log.Refuse(core.E(core.Unavailable, "no quorum"))
	first.do("POST", path, "x", "Idempotency-Key: a").want(t, 503)
	first.log.Refuse(nil)
	if r := first.do("POST", path, "x", "Idempotency-Key: a").want(t, 200); r.header.Get("Idempotency-Replayed") != "" {
		t.Fatalf("%+v", r)
	}
}
