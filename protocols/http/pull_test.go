package httpd

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"polylog/core"
	"polylog/router"
)

type pulledPage struct {
	Messages []struct {
		Receipt, Value string
		DeliveryCount  int
		Partition      int
		Deaths         []struct{ Reason string }
	}
}

// pull pulls, and fails the test when it cannot.
func (s *site) pull(path, spec string) (p pulledPage) {
	s.t.Helper()
	return into[pulledPage](s.t, s.post(path+":pull", spec).want(s.t, 200))
}

func (p pulledPage) values() (all []string) {
	for _, m := range p.Messages {
		all = append(all, m.Value)
	}
	return all
}

// receipts is the body that settles everything that was pulled.
func (p pulledPage) receipts(more string) string {
	var all []string
	for _, m := range p.Messages {
		all = append(all, fmt.Sprintf("%q", m.Receipt))
	}
	return fmt.Sprintf(`{"receipts": [%s]%s}`, strings.Join(all, ","), more)
}

const sub = "/v1/subscriptions/s"

// subscribed is a site with a topic t and a subscription s of it.
func subscribed(t *testing.T, partitions int, spec string) *site {
	t.Helper()
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/t", fmt.Sprintf(`{"partitions": %d}`, partitions)).want(t, 201)
	s.do("PUT", sub, `{"topic": "t", "from": "start"`+spec+`}`).want(t, 201)
	return s
}

func (s *site) publish(values ...string) {
	s.t.Helper()
	for _, v := range values {
		s.do("POST", "/v1/topics/t/messages", v).want(s.t, 200)
	}
}

func TestSubscriptions(t *testing.T) {
	s := subscribed(t, 2, `, "ackDeadlineMs": 5000, "maxDeliveries": 3, "deadLetterQueue": "dead"`)
	s.do("GET", sub, "").want(t, 200, `"topic":"t"`, `"maxDeliveries":3`, `"deadLetterQueue":"dead"`, `"ackDeadlineMs":5000`, `"counts":{"ready":0`)
	s.do("GET", "/v1/queues/dead", "").want(t, 200)
	s.do("PUT", sub, `{"topic": "t", "ackDeadlineMs": 6000, "maxDeliveries": 3, "deadLetterQueue": "dead", "filter": {"tags": ["a"]}}`).want(t, 200, `"ackDeadlineMs":6000`, `"tags":["a"]`)
	s.do("PUT", sub, `{"topic": "t", "maxDeliveries": 4, "deadLetterQueue": "dead"}`).want(t, 409)
	s.do("GET", "/v1/subscriptions", "").want(t, 200, `"subscriptions":[{"name":"s"`)
	for spec, want := range map[string]string{
		`{}`:                                     "of a topic or of a queue",
		`{"topic": "t", "maxDeliveries": 1}`:     "maxDeliveries",
		`{"topic": "t", "from": "middle"}`:       "start or end",
		`{"topic": "t", "ackDeadlineMs": -1}`:    "ackDeadlineMs",
		`{"queue": "dead", "filter": {}}`:        "shares its messages",
		`{"topic": "t", "retry": {"minMs": 10}}`: "retry",
	} {
		s.do("PUT", "/v1/subscriptions/x", spec).want(t, 400, want)
	}
	s.do("PUT", "/v1/subscriptions/x", `{"topic": "none"}`).want(t, 404)
	s.do("DELETE", "/v1/topics/t", "").want(t, 204)
	s.do("GET", sub, "").want(t, 200, `"orphaned":true`)
	s.post(sub+":pull", `{}`).want(t, 404, "deleted")
	s.do("DELETE", sub, "").want(t, 204)
	s.do("GET", sub, "").want(t, 404)
}

func TestPullAndAck(t *testing.T) {
	s := subscribed(t, 1, "")
	s.publish("1", "2", "3", "4")
	first := s.pull(sub, `{"max": 2}`)
	second := s.pull(sub, `{"max": 5}`)
	if got := append(first.values(), second.values()...); !slices.Equal(got, []string{"1", "2", "3", "4"}) || first.Messages[0].DeliveryCount != 1 {
		t.Fatalf("%+v %+v", first, second)
	}
	if got := s.pull(sub, `{}`).values(); len(got) != 0 {
		t.Fatalf("%v is delivered twice", got)
	}
	s.post(sub+":ack", first.receipts("")).want(t, 200, `{"results":[{"status":200},{"status":200}]}`)
	s.post(sub+":nack", second.receipts("")).want(t, 200)
	again := s.pull(sub, `{"max": 5, "waitMs": 5000}`)
	for len(again.Messages) < 2 {
		again.Messages = append(again.Messages, s.pull(sub, `{"waitMs": 5000}`).Messages...)
	}
	if got := again.values(); !slices.Equal(got, []string{"3", "4"}) || again.Messages[0].DeliveryCount != 2 {
		t.Fatalf("%+v", again)
	}
	s.post(sub+":ack", second.receipts("")).want(t, 409, `"code":"stale_receipt"`)
	s.post(sub+":ack", strings.Replace(again.receipts(""), "[", `["nonsense",`, 1)).want(t, 207, `"code":"bad_receipt"`)
	s.do("GET", sub, "").want(t, 200, `"counts":{"ready":0,"unsettled":0,"delayed":0`)
	s.post(sub+":ack", `{"receipts": []}`).want(t, 400)
	s.post(sub+":pull", `{"max": 1001}`).want(t, 400, "max")
	s.post(sub+":pull", `{"waitMs": 30001}`).want(t, 400, "waitMs")
}

// A pull over many partitions gives what is there, once, and never more than was asked for.
func TestPullManyPartitions(t *testing.T) {
	s := subscribed(t, 5, "")
	var body strings.Builder
	for i := range 100 {
		fmt.Fprintf(&body, `{"key": "k%d", "value": "%d"}`+"\n", i, i)
	}
	s.do("POST", "/v1/topics/t/messages", body.String(), "Content-Type: application/x-ndjson").want(t, 200)
	seen := map[string]bool{}
	for len(seen) < 100 {
		p := s.pull(sub, `{"max": 7, "waitMs": 5000}`)
		if n := len(p.Messages); n == 0 || n > 7 {
			t.Fatalf("%d messages, %d so far", n, len(seen))
		}
		for _, m := range p.Messages {
			if seen[m.Value] || m.DeliveryCount != 1 {
				t.Fatalf("%+v, seen %v", m, seen[m.Value])
			}
			seen[m.Value] = true
		}
		s.post(sub+":ack", p.receipts("")).want(t, 200)
	}
}

// Research F, row 6 (elasticmq#80): what was published with a delay, or given back with one,
// comes to a pull that waits, and not before.
func TestPullDelayed(t *testing.T) {
	s := subscribed(t, 1, "")
	pulled := make(chan pulledPage, 1)
	pull := func() { pulled <- s.pull(sub, `{"waitMs": 10000}`) }
	go pull()
	sent := time.Now().Truncate(time.Millisecond) // as times are stored
	s.do("POST", "/v1/topics/t/messages", "x", "X-Delay-Ms: 300").want(t, 200)
	p := <-pulled
	if took := time.Since(sent); len(p.Messages) != 1 || took < 300*time.Millisecond || p.Messages[0].DeliveryCount != 1 {
		t.Fatalf("%+v after %v", p, took)
	}
	sent = time.Now().Truncate(time.Millisecond)
	s.post(sub+":nack", p.receipts(`, "delayMs": 300`)).want(t, 200)
	go pull()
	p = <-pulled
	if took := time.Since(sent); len(p.Messages) != 1 || took < 300*time.Millisecond || p.Messages[0].DeliveryCount != 2 {
		t.Fatalf("%+v after %v", p, took)
	}
}

// Research F, row 7 (aws-sdk-java-v2#1395): a client that is gone while its pull waits takes
// no message with it.
func TestPullOfAVanishedClient(t *testing.T) {
	s := subscribed(t, 1, "")
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"waitMs": 20000}`
	request := fmt.Sprintf("POST %s:pull HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", sub, len(body), body)
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	topic, _ := s.router.Topic(core.TopicName("t"))
	awaitConsumers(t, s, topic.Partitions[0], 2) // the pull and its keeper
	_ = c.Close()
	s.publish("x")
	p := s.pull(sub, `{"waitMs": 10000}`)
	if len(p.Messages) != 1 || p.Messages[0].DeliveryCount != 1 {
		t.Fatalf("%+v", p)
	}
}

// awaitConsumers waits until the group of the subscription s has that many consumers.
func awaitConsumers(t *testing.T, s *site, q core.QueueID, n int) {
	t.Helper()
	sub, err := s.router.Subscription(t.Context(), core.TopicName("s"))
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		c, err := s.router.CountQueue(t.Context(), q, sub.Group)
		if err != nil {
			t.Fatal(err)
		}
		if c.Consumers >= n {
			return
		}
		<-tick.C
	}
}

func TestLeases(t *testing.T) {
	s := subscribed(t, 1, "")
	s.publish("x")
	p := s.pull(sub, `{"ackDeadlineMs": 60000}`)
	s.post(sub+":extend", p.receipts(`, "ackDeadlineMs": 50`)).want(t, 200)
	again := s.pull(sub, `{"waitMs": 10000}`) // when the lease has ended
	if len(again.Messages) != 1 || again.Messages[0].DeliveryCount != 2 {
		t.Fatalf("%+v", again)
	}
	s.post(sub+":extend", p.receipts("")).want(t, 409, "stale_receipt")
	s.post(sub+":ack", p.receipts("")).want(t, 409, "stale_receipt")
	s.post(sub+":ack", again.receipts("")).want(t, 200)
}

func TestDeadLetters(t *testing.T) {
	s := subscribed(t, 1, `, "maxDeliveries": 2, "deadLetterQueue": "dead", "retry": {"minMs": 1, "maxMs": 1}`)
	s.publish("x", "y")
	for range 2 {
		p := s.pull(sub, `{"max": 1, "waitMs": 10000}`)
		if got := p.values(); !slices.Equal(got, []string{"x"}) {
			// "y" may come before "x" is due again.
			s.post(sub+":nack", p.receipts(`, "uncounted": true`)).want(t, 200)
			p = s.pull(sub, `{"max": 1, "waitMs": 10000}`)
		}
		s.post(sub+":nack", p.receipts("")).want(t, 200)
	}
	p := s.pull(sub, `{"waitMs": 10000}`)
	s.post(sub+":nack", p.receipts(`, "deadLetter": true`)).want(t, 200)
	r := s.do("GET", "/v1/queues/dead/messages", "").want(t, 200, `"reason":"delivery_limit"`, `"reason":"rejected"`)
	got := values(t, r)
	slices.Sort(got)
	if !slices.Equal(got, []string{"x", "y"}) {
		t.Fatal(r.body)
	}
	dead := s.pull("/v1/queues/dead", `{"max": 5, "waitMs": 10000}`)
	if len(dead.Messages) != 2 || len(dead.Messages[0].Deaths) != 1 {
		t.Fatalf("%+v", dead)
	}
	s.post("/v1/queues/dead:nack", dead.receipts(`, "delayMs": 0`)).want(t, 200)
	s.post("/v1/queues/dead:redrive", `{}`).want(t, 200, `"moved":0,"skipped":2`, "it died in a subscription of topic t")
	dead = s.pull("/v1/queues/dead", `{"max": 5, "waitMs": 10000}`)
	for len(dead.Messages) < 2 {
		dead.Messages = append(dead.Messages, s.pull("/v1/queues/dead", `{"waitMs": 10000}`).Messages...)
	}
	s.post("/v1/queues/dead:ack", dead.receipts("")).want(t, 200)
	s.do("DELETE", "/v1/queues/dead?ifEmpty", "").want(t, 200)
}

func TestFilters(t *testing.T) {
	s := subscribed(t, 1, `, "filter": {"tags": ["a", "b"], "headers": {"n": "5"}}`)
	s.post("/v1/topics/t/messages", `{"messages": [
		{"value": "1", "tag": "a", "headers": {"n": 5}}, {"value": "2", "tag": "c", "headers": {"n": 5}}, {"value": "3", "tag": "b", "headers": {"n": "5"}},
		{"value": "4", "tag": "a"}, {"value": "5", "headers": {"n": 5}}, {"value": "6", "tag": "b", "headers": {"n": 5}, "ttlMs": 0}
	]}`).want(t, 200)
	var got []string
	for len(got) < 2 {
		p := s.pull(sub, `{"waitMs": 10000}`)
		got = append(got, p.values()...)
		s.post(sub+":ack", p.receipts("")).want(t, 200)
	}
	if !slices.Equal(got, []string{"1", "3"}) {
		t.Fatal(got)
	}
	if p := s.pull(sub, `{}`); len(p.Messages) != 0 {
		t.Fatalf("%+v", p)
	}
}

func TestSeek(t *testing.T) {
	s := subscribed(t, 2, "")
	s.do("POST", "/v1/topics/t/messages", "old", "X-Partition: 0", "X-Timestamp: 1000").want(t, 200)
	s.do("POST", "/v1/topics/t/messages", "new", "X-Partition: 0", "X-Timestamp: 2000").want(t, 200)
	before := s.pull(sub, `{"waitMs": 10000}`)
	for spec, want := range map[string]string{
		`{"to": "start"}`:                  "old",
		`{"time": 1500}`:                   "new",
		`{"offsets": {"0": 1}}`:            "new",
		`{"time": "1970-01-01T00:00:00Z"}`: "old",
	} {
		s.post(sub+":seek", spec).want(t, 204)
		if got := s.pull(sub, `{"max": 1, "waitMs": 10000}`).values(); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v, want %s", spec, got, want)
		}
	}
	s.post(sub+":ack", before.receipts("")).want(t, 409, "stale_receipt")
	s.post(sub+":seek", `{"to": "end"}`).want(t, 204)
	if got := s.pull(sub, `{}`).values(); len(got) != 0 {
		t.Error(got)
	}
	for _, bad := range []string{`{}`, `{"to": "x"}`, `{"to": "end", "time": 1}`, `{"offsets": {"2": 0}}`, `{"offsets": {"0": -1}}`} {
		s.post(sub+":seek", bad).want(t, 400)
	}
}

// Partitions that a topic gets later belong to its subscriptions, from their first message.
func TestSubscriptionOfAGrowingTopic(t *testing.T) {
	s := subscribed(t, 1, "")
	s.do("PATCH", "/v1/topics/t", `{"partitions": 3}`).want(t, 200)
	s.do("POST", "/v1/topics/t/messages", "x", "X-Partition: 2").want(t, 200)
	if p := s.pull(sub, `{"waitMs": 10000}`); len(p.Messages) != 1 || p.Messages[0].Partition != 2 {
		t.Fatalf("%+v", p)
	}
}

// A subscription is served by any node, and goes on when the leader changes.
func TestPullFromAnyNode(t *testing.T) {
	first := subscribed(t, 2, "")
	sites := []*site{first, newSite(t, first, nil), newSite(t, first, nil)}
	first.publish("1", "2", "3", "4", "5", "6")
	seen := map[string]bool{}
	for i, left := 0, true; left; i++ {
		p := sites[i%3].pull(sub, `{"max": 1, "waitMs": 500, "ackDeadlineMs": 200}`)
		for _, m := range p.Messages {
			seen[m.Value] = true
		}
		if len(p.Messages) > 0 { // what the old leader gave out may be with others by now
			if r := sites[(i+1)%3].post(sub+":ack", p.receipts("")); r.status != 200 && i < 3 {
				r.want(t, 200)
			}
		}
		if i == 2 {
			sites[1].log.SetLeader(true)
		}
		n := into[subscriptionJSON](t, sites[(i+2)%3].do("GET", sub, "").want(t, 200)).Counts
		left = n.Ready+n.Unsettled+n.Delayed > 0
	}
	if len(seen) != 6 {
		t.Fatalf("seen %v", seen)
	}
}

// What waits does not hold up the end.
func TestCloseEndsPulls(t *testing.T) {
	s := subscribed(t, 1, "")
	done := make(chan int, 1)
	go func() {
		done <- s.post(sub+":pull", `{"waitMs": 30000}`).status
	}()
	topic, _ := s.router.Topic(core.TopicName("t"))
	awaitConsumers(t, s, topic.Partitions[0], 2)
	s.server.CloseAPI()
	if status := <-done; status != 503 {
		t.Fatal(status)
	}
	s.server.CloseAPI()
	s.do("GET", "/v1/topics", "").want(t, 503, "not_ready")
}

func FuzzReceipts(f *testing.F) {
	good := receipt{3, 2, router.Receipt{Offset: 7, Serial: 9}}
	f.Add(good.encode("g"))
	f.Fuzz(func(t *testing.T, text string) {
		r, err := decodeReceipt(text, "g", 8)
		if err == nil && r.partition >= 8 {
			t.Fatalf("%+v", r)
		}
	})
	if got, err := decodeReceipt(good.encode("g"), "g", 4); err != nil || got != good {
		f.Fatalf("%+v, %v", got, err)
	}
	if _, err := decodeReceipt(good.encode("g"), "h", 4); err != errStale { //nolint:errorlint // the very one
		f.Fatal(err)
	}
}

// A subscription whose topic has just got another partition, on which it has no group yet, is still there.
func TestSubscriptionOfATopicThatGrows(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/t", `{"partitions": 1}`).want(t, 201)
	s.do("PUT", "/v1/subscriptions/s", `{"topic": "t", "from": "start"}`).want(t, 201)
	s.do("PATCH", "/v1/topics/t", `{"partitions": 2}`).want(t, 200)
	s.do("GET", "/v1/subscriptions/s", "").want(t, 200, `"counts":`)
	s.do("GET", "/v1/subscriptions?counts=true", "").want(t, 200, `"counts":`)
}
