package httpd

import (
	"strconv"
	"strings"
	"testing"

	"polylog/core"
	"polylog/router"
)

func TestMetricsDetail(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/orders.new", `{"partitions": 2}`, "Content-Type: application/json").want(t, 201)
	s.do("PUT", "/v1/topics/other", `{"partitions": 1}`, "Content-Type: application/json").want(t, 201)
	s.do("PUT", "/v1/queues/orders.q", `{}`, "Content-Type: application/json").want(t, 201)
	for i := range 3 {
		s.post("/v1/topics/other/messages", `{"messages": [{"value": "x"}]}`).want(t, 200)
		if i > 0 {
			s.post("/v1/queues/orders.q/messages", `{"messages": [{"value": "x"}]}`).want(t, 200)
		}
	}
	topic, _ := s.router.Topic(core.Name{Namespace: core.DefaultNamespace, Name: "other"})
	errs, err := s.router.CommitOffsets(t.Context(), router.Principal{}, `a "group"`, []router.OffsetCommit{{Queue: topic.Partitions[0], Offset: 1}}, router.GroupMeta{})
	if err != nil || errs[0] != nil {
		t.Fatal(err, errs)
	}
	for _, c := range []struct {
		query      string
		want, lack []string
	}{
		{
			"family=topics",
			[]string{
				"# TYPE polylog_detail_topic_messages gauge\n", `polylog_detail_topic_messages{namespace="default",topic="orders.new",partition="1"} 0`,
				`polylog_detail_topic_next_offset{namespace="default",topic="other",partition="0"} 3`, `polylog_detail_truncated{family="topics"} 0`,
			},
			[]string{"queue", "group"},
		},
		{"family=topics&topic=other", []string{`topic="other"`}, []string{"orders"}},
		{"family=topics,queues&prefix=orders.", []string{`topic="orders.new"`, `polylog_detail_queue_messages_ready{namespace="default",queue="orders.q"} 2`}, []string{"other"}},
		{"family=queues&queue=nope", []string{`polylog_detail_truncated{family="queues"} 0`}, []string{"orders"}},
		{"family=queues&namespace=nope", []string{`polylog_detail_truncated{family="queues"} 0`}, []string{"orders"}},
		{"family=groups", []string{`polylog_detail_group_lag_messages{group="a \"group\"",namespace="default",topic="other",partition="0"} 2`}, []string{"orders"}},
		{"family=groups&topic=orders.new", nil, []string{"other"}},
	} {
		r := s.do("GET", "/metrics/detail?"+c.query, "").want(t, 200, c.want...)
		for _, text := range c.lack {
			if strings.Contains(strings.ReplaceAll(r.body, "polylog_detail_truncated", ""), text) {
				t.Errorf("%s: has %s: %s", c.query, text, r.body)
			}
		}
		if kind := r.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
			t.Errorf("Content-Type %q", kind)
		}
	}
	for _, query := range []string{"", "family=zork", "family=topics&zork=1"} {
		s.do("GET", "/metrics/detail?"+query, "").want(t, 400)
	}
}

// No answer has more than the bound, and says so.
func TestMetricsDetailIsBounded(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/big", `{"partitions": `+strconv.Itoa(maxDetail/2+1)+`}`, "Content-Type: application/json").want(t, 201)
	s.do("PUT", "/v1/topics/big2", `{"partitions": `+strconv.Itoa(maxDetail/2)+`}`, "Content-Type: application/json").want(t, 201)
	r := s.do("GET", "/metrics/detail?family=topics", "").want(t, 200, `polylog_detail_truncated{family="topics"} 1`)
	if n := strings.Count(r.body, "\npolylog_detail_topic_messages{"); n != maxDetail {
		t.Errorf("%d partitions, want %d", n, maxDetail)
	}
}
