package manage

import (
	"math"
	"strings"
	"testing"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
)

// What JSON has no number for is text: a message that is taken off a queue is shown in any case.
func TestGetShowsWhatIsNoNumber(t *testing.T) {
	f := start(t)
	f.ok("PUT", "queues/%2F/q", `{}`, 201)
	odd := message.Table{
		{Name: "nan", Value: message.Float64(math.NaN())},
		{Name: "inf", Value: message.Array(message.Float32(float32(math.Inf(-1))), message.Float64(1e300))},
	}
	publishTo(t, f.connect(), "q", odd)
	got := f.ok("POST", "queues/%2F/q/get", `{"count":1,"ackmode":"ack_requeue_false","encoding":"auto"}`, 200)
	if want := `"headers":{"inf":["-Inf",1e+300],"nan":"NaN"}`; !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// Headers take memory as bodies do, and are bounded with them.
func TestGetIsBounded(t *testing.T) {
	f := start(t)
	f.ok("PUT", "queues/%2F/q", `{}`, 201)
	k := f.connect()
	big := message.Table{{Name: "h", Value: message.String(strings.Repeat("x", 100<<10))}}
	const n = maxGetBytes/(100<<10) + 10
	for range n {
		publishTo(t, k, "q", big)
	}
	got := f.ok("POST", "queues/%2F/q/get", `{"count":10000,"ackmode":"ack_requeue_true","encoding":"auto"}`, 200)
	if some := strings.Count(got, `"redelivered"`); some == 0 || some >= n {
		t.Errorf("%d messages of %d, want those that there is room for", some, n)
	}
	if q := fetch[object](f, "queues/%2F/q"); q["messages"] != float64(n) {
		t.Errorf("%v messages after they were looked at, want %d", q["messages"], n)
	}
}

// publishTo puts an empty message into a queue.
func publishTo(t *testing.T, k *client, queue string, headers message.Table) {
	t.Helper()
	ok, err := k.publishConfirmed(&spec.BasicPublish{RoutingKey: queue, Mandatory: true}, &spec.Properties{Headers: headers}, nil)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
}
