package kafkarest

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/protocols/kafka"
)

// TestEndWithinAnAnswer holds that an instance which ends while the coordinator answers it is nothing
// to warn of: the fixture looks at what Kafka's side says.
func TestEndWithinAnAnswer(t *testing.T) {
	f := start(t, nil)
	nc, err := f.server.opts.Kafka.DialCoordinator(t.Context(), kafka.Caller{From: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Write(kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrHeartbeatRequest(), 1)); err != nil {
		t.Fatal(err)
	}
	var one [1]byte
	if _, err := io.ReadFull(nc, one[:]); err != nil { // the rest is being written
		t.Fatal(err)
	}
	if err := nc.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSubscribeWhileUnsubscribing holds that a subscription that was answered is there, whatever else
// was asked meanwhile.
func TestSubscribeWhileUnsubscribing(t *testing.T) {
	f := start(t, nil)
	f.topic("t", 1, nil)
	path := f.instance("g", `{"name":"one","format":"json"}`)
	in, err := f.server.instances.find("g", "one")
	if err != nil {
		t.Fatal(err)
	}
	defer in.leave()
	for range 20 {
		f.do(204, "POST", path+"/subscription", v2, `{"topics":["t"]}`)
		in.mu.Lock()
		was := in.membership
		in.mu.Unlock()
		var wg sync.WaitGroup
		wg.Go(func() { in.unsubscribe(true) })
		<-was.ended // it is in the middle
		if err := in.subscribe([]string{"t"}, nil); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if !in.subscribed() {
			t.Fatal("the subscription is lost")
		}
	}
	f.do(204, "DELETE", path, "", "")
	if err := in.subscribe([]string{"t"}, nil); err != errInstanceNotFound { //nolint:errorlint // our own, as it is
		t.Fatalf("an instance that is gone subscribes: %v", err)
	}
}

// TestLargeHeaders holds that headers count for the memory that an answer takes.
func TestLargeHeaders(t *testing.T) {
	f := start(t, func(o *Options) { o.BodyMemory = 1 << 20 }) // of which a request may fill all
	f.topic("t", 1, nil)
	const n = 8
	header := strings.Repeat("A", 400<<10)
	for range n {
		f.do(200, "POST", "/topics/t", jsonV2, `{"records":[{"headers":[{"key":"h","value":"`+header+`"}]}]}`)
	}
	in := f.instance("g", `{"format":"json","auto.offset.reset":"earliest"}`)
	f.do(204, "POST", in+"/assignments", v2, `{"partitions":[{"topic":"t","partition":0}]}`)
	for at := 0; at < n; {
		text := f.do(200, "GET", in+"/records?timeout=10000", "", "")
		got := strings.Count(text, `"topic":"t"`)
		if got == 0 || len(text) > 1<<20 {
			t.Fatalf("%d records in %d bytes", got, len(text))
		}
		at += got
	}
}

// TestNamesThatKafkaCannotSay holds that what Kafka's protocol has no room for is refused.
func TestNamesThatKafkaCannotSay(t *testing.T) {
	f := start(t, nil)
	f.topic("t", 1, nil)
	in := f.instance("g", `{"format":"json"}`)
	long := strings.Repeat("x", 40_000)
	f.refused(40002, "POST", in+"/subscription", v2, `{"topics":["`+long+`"]}`)
	f.do(204, "POST", in+"/assignments", v2, `{"partitions":[{"topic":"t","partition":0}]}`)
	f.refused(40002, "POST", in+"/offsets", v2, `{"offsets":[{"topic":"`+long+`","partition":0,"offset":1}]}`)
	f.refused(422, "POST", in+"/offsets", v2, fmt.Sprintf(`{"offsets":[{"topic":"t","partition":0,"offset":1,"metadata":%q}]}`, long))
}

// TestTombstones holds that a record of no bytes is something to answer with.
func TestTombstones(t *testing.T) {
	f := start(t, nil)
	f.topic("t", 1, nil)
	f.do(200, "POST", "/topics/t", jsonV2, `{"records":[{"value":null}]}`)
	in := f.instance("g", `{"format":"json","auto.offset.reset":"earliest","consumer.request.timeout.ms":600000}`)
	f.do(204, "POST", in+"/assignments", v2, `{"partitions":[{"topic":"t","partition":0}]}`)
	// Nothing else ends the call: it would wait for 5 minutes, and the test fail at its own time.
	is(t, f.do(200, "GET", in+"/records", "", ""), `[{"topic":"t","key":null,"value":null,"partition":0,"offset":0}]`)
}
