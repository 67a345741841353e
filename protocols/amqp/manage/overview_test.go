package manage

import (
	"fmt"
	"testing"

	"polylog/core"
	"polylog/router"
)

// The overview counts what there is by counts that are kept: one more, one less.
func TestOverviewCounts(t *testing.T) {
	f := start(t)
	queues := func() float64 {
		return fetch[object](f, "overview")["object_totals"].(object)["queues"].(float64)
	}
	for i := range 3 {
		f.ok("PUT", fmt.Sprintf("queues/%%2F/q%d", i), `{}`, 201)
		f.ok("PUT", fmt.Sprintf("queues/%%2F/q%d", i), `{}`, 204)
	}
	f.ok("PUT", "queues/%2F/s", `{"type":"stream","durable":true}`, 201)
	f.ok("PUT", "vhosts/other", ``, 201)
	f.ok("PUT", "queues/other/q", `{}`, 201)
	if n := queues(); n != 5 {
		t.Errorf("%v queues, want 5", n)
	}
	f.ok("DELETE", "queues/%2F/q1", ``, 204)
	if n := queues(); n != 4 {
		t.Errorf("%v queues, want 4", n)
	}
	f.ok("DELETE", "vhosts/other", ``, 204)
	if n := queues(); n != 3 {
		t.Errorf("%v queues, want 3", n)
	}
}

// BenchmarkOverview is a GET of the overview of a broker with a million queues.
func BenchmarkOverview(b *testing.B) {
	f := start(b)
	for i := range 1_000_000 {
		if _, _, err := f.router.DeclareQueue(b.Context(), router.Principal{}, core.TopicName(fmt.Sprint("queue-", i)), router.QueueConfig{}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		f.ok("GET", "overview", "", 200)
	}
}
