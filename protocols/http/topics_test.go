package httpd

import (
	"strings"
	"testing"

	"polylog/core"
)

func TestTopics(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/a", `{"partitions": 2, "configs": {"retention.ms": "1000"}}`).want(t, 201, `"partitions":2`, `"retention.ms":"1000"`)
	s.do("PUT", "/v1/topics/a", `{"partitions": 3}`).want(t, 200, `"partitions":3`, `"retention.ms":"1000"`)
	s.do("PATCH", "/v1/topics/a", `{"configs": {"retention.ms": null, "cleanup.policy": "compact"}}`).want(t, 200, `"configs":{"cleanup.policy":"compact"}`)
	s.do("GET", "/v1/topics/a", "").want(t, 200, `{"partition":2,"start":0,"end":0,"bytes":0}`)
	s.do("GET", "/v1/topics/a/configs", "").want(t, 200, `{"name":"cleanup.policy","value":"compact","default":false`)

	s.do("PATCH", "/v1/topics/a", `{"partitions": 1}`).want(t, 400, `"code":"invalid"`, `"retryable":false`)
	s.do("PUT", "/v1/topics/b", `{"configs": {"no.such": "1"}}`).want(t, 400, "no.such")
	s.do("PUT", "/v1/topics/b", `{"partition": 1}`).want(t, 400, `"code":"bad_json"`, "partition")
	s.do("PUT", "/v1/topics/b%2Fc", "").want(t, 400, "topic name")
	s.do("GET", "/v1/topics/b", "").want(t, 404, `"code":"not_found"`, `"title":"Not Found"`)
	if r := s.do("POST", "/v1/topics/a", ""); r.status != 405 || r.header.Get("Allow") != "DELETE, GET, HEAD, PATCH, PUT" {
		t.Fatalf("%+v", r)
	}
	if r := s.do("GET", "/v1/topics/b", ""); r.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%+v", r)
	}
	s.do("DELETE", "/v1/topics/a", "").want(t, 204)
	s.do("DELETE", "/v1/topics/a", "").want(t, 404)
}

func TestTopicPages(t *testing.T) {
	s := newSite(t, nil, nil)
	for _, n := range []string{"c", "a", "b", "other"} {
		s.do("PUT", "/v1/topics/"+n, "").want(t, 201)
	}
	type list struct {
		Topics []struct{ Name string }
		Next   string
	}
	var names []string
	for path := "/v1/topics?limit=2"; ; {
		l := into[list](t, s.do("GET", path, "").want(t, 200))
		for _, one := range l.Topics {
			names = append(names, one.Name)
		}
		if l.Next == "" {
			break
		}
		path = "/v1/topics?limit=2&cursor=" + l.Next
	}
	if got := strings.Join(names, " "); got != "a b c other" {
		t.Fatal(got)
	}
	s.do("GET", "/v1/topics?prefix=o", "").want(t, 200, `[{"name":"other"`)
	s.do("GET", "/v1/topics?limit=0", "").want(t, 400, "limit")
	s.do("GET", "/v1/topics?limits=1", "").want(t, 400, "limits")
}

// Whoever publishes to a topic that is not there gets it, as with Kafka, unless that is
// switched off.
func TestPublishMakesTheTopic(t *testing.T) {
	s := newSite(t, nil, nil)
	s.post("/v1/topics/new/messages", `{"messages": [{"value": "x"}]}`).want(t, 200, `"id":"0-0"`)
	if _, ok := s.router.Topic(core.TopicName("new")); !ok {
		t.Fatal("there is no topic")
	}
	s.post("/v1/topics/b%21/messages", `{"messages": [{"value": "x"}]}`).want(t, 400)
}
