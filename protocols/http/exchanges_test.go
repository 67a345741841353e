package httpd

import (
	"slices"
	"testing"
)

func TestNamespaces(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/namespaces/other/topics/a", "").want(t, 404, "namespace")
	s.do("PUT", "/v1/namespaces/other", "").want(t, 201, `"name":"other"`)
	s.do("PUT", "/v1/namespaces/other", "").want(t, 200)
	s.do("GET", "/v1/namespaces", "").want(t, 200, `{"name":"default"}`, `"name":"other"`)
	s.do("PUT", "/v1/namespaces/other/topics/a", "").want(t, 201, `"namespace":"other"`, `"partitions":1`)
	s.do("GET", "/v1/topics/a", "").want(t, 404)
	s.do("POST", "/v1/namespaces/other/topics/a/messages", "x").want(t, 200)
	if got := values(t, s.do("GET", "/v1/namespaces/other/topics/a/messages", "")); !slices.Equal(got, []string{"x"}) {
		t.Fatal(got)
	}
	s.do("DELETE", "/v1/namespaces/other", "").want(t, 204)
	s.do("DELETE", "/v1/namespaces/default", "").want(t, 403)
}

func TestExchanges(t *testing.T) {
	s := newSite(t, nil, nil)
	const x = "/v1/exchanges/x"
	s.do("PUT", x, `{"type": "topic"}`).want(t, 201, `"type":"topic"`)
	s.do("PUT", x, `{"type": "topic"}`).want(t, 200)
	s.do("PUT", x, `{"type": "fanout"}`).want(t, 409)
	s.do("PUT", "/v1/exchanges/y", `{"type": "no such"}`).want(t, 400)
	s.do("GET", "/v1/exchanges?limit=1000", "").want(t, 200, `"name":"amq.topic"`, `"name":"x"`)
	s.do("GET", "/v1/exchanges?search=TOPIC&limit=1", "").want(t, 200, `{"exchanges":[{"name":"amq.topic"`, `"next":"amq.topic"`)
	s.do("GET", "/v1/exchanges?search=TOPIC&limit=1&cursor=amq.topic", "").want(t, 200, `{"exchanges":[]}`)
	for _, q := range []string{"a", "b"} {
		s.do("PUT", "/v1/queues/"+q, "").want(t, 201)
	}
	s.post(x+"/bindings", `{"queue": "a", "key": "red.*"}`).want(t, 204)
	s.post(x+"/bindings", `{"queue": "b", "key": "#"}`).want(t, 204)
	s.post(x+"/bindings", `{"queue": "none", "key": "#"}`).want(t, 404)
	s.post(x+"/bindings", `{"key": "#"}`).want(t, 400)
	s.do("GET", x+"/bindings", "").want(t, 200, `{"queue":"a","key":"red.*"}`, `{"queue":"b","key":"#"}`)
	s.post(x+"/messages", `{"messages": [{"value": "1", "routingKey": "red.1"}, {"value": "2", "key": "blue"}, {"value": "3", "partition": 0}]}`).
		want(t, 207, `{"status":200,"queues":2},{"status":200,"queues":1},{"status":400`)
	if got := values(t, s.do("GET", "/v1/queues/b/messages", "")); !slices.Equal(got, []string{"1", "2"}) {
		t.Fatal(got)
	}
	s.do("GET", "/v1/queues/a/messages", "").want(t, 200, `"exchange":"x","routingKey":"red.1"`)
	s.do("DELETE", x+"/bindings", `{"queue": "b", "key": "#"}`).want(t, 204)
	s.do("POST", x+"/messages", "4", "X-Routing-Key: red.2").want(t, 200, `"queues":1`)
	s.do("POST", "/v1/exchanges/none/messages", "4").want(t, 404)
	s.do("DELETE", x+"?ifUnused", "").want(t, 409)
	s.do("DELETE", x, "").want(t, 204)
	s.do("GET", x, "").want(t, 404)
}
