package kafkarest

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestConsume is the round that the documentation of the original shows.
func TestConsume(t *testing.T) {
	f := start(t, nil)
	f.topic("t", 1, nil)
	f.do(200, "POST", "/topics/t", jsonV2, `{"records":[{"key":"k","value":{"n":1.10}},{"value":[1]},{"value":"x"}]}`)
	in := f.instance("g", `{"name":"one","format":"json","auto.offset.reset":"earliest","auto.commit.enable":"false"}`)
	f.refused(40902, "POST", "/consumers/g", v2, `{"name":"one"}`)
	f.refused(40903, "GET", in+"/records", "", "")
	f.do(204, "POST", in+"/subscription", v2, `{"topics":["t"]}`)
	is(t, f.do(200, "GET", in+"/subscription", "", ""), `{"topics":["t"]}`)
	rs := f.read(in, 3)
	if string(rs[0].Value) != `{"n":1.10}` || string(rs[0].Key) != `"k"` || string(rs[1].Key) != "null" || rs[2].Offset != 2 {
		t.Fatalf("%+v", rs)
	}
	is(t, f.do(200, "GET", in+"/assignments", "", ""), `{"partitions":[{"topic":"t","partition":0}]}`)
	is(t, f.do(200, "GET", in+"/offsets", v2, `{"partitions":[{"topic":"t","partition":0}]}`), `{"offsets":[]}`)
	is(t, f.do(200, "POST", in+"/offsets", v2, `{"offsets":[{"topic":"t","partition":0,"offset":1,"metadata":"m"}]}`), `[]`)
	is(t, f.do(200, "GET", in+"/offsets", v2, `{"partitions":[{"topic":"t","partition":0}]}`), `{"offsets":[{"topic":"t","partition":0,"offset":2,"metadata":"m"}]}`)
	f.do(204, "POST", in+"/positions/beginning", v2, `{"partitions":[{"topic":"t","partition":0}]}`)
	f.read(in, 3)
	f.do(204, "POST", in+"/positions", v2, `{"offsets":[{"topic":"t","partition":0,"offset":2}]}`)
	if rs := f.read(in, 1); rs[0].Offset != 2 {
		t.Fatalf("%+v", rs)
	}
	f.do(204, "POST", in+"/positions", v2, `{"timestamps":[{"topic":"t","partition":0,"timestamp":"2001-01-01T00:00:00Z"}]}`)
	f.read(in, 3)
	f.do(204, "POST", in+"/positions/end", v2, `{"partitions":[{"topic":"t","partition":0}]}`)
	is(t, f.do(200, "GET", in+"/records?timeout=1", "", ""), `[]`)
	f.refused(40903, "POST", in+"/positions/end", v2, `{"partitions":[{"topic":"t","partition":1}]}`)
	f.refused(40903, "POST", in+"/assignments", v2, `{"partitions":[{"topic":"t","partition":0}]}`)
	is(t, f.do(200, "POST", in+"/offsets", v2, ``), `[]`)
	f.do(204, "DELETE", in+"/subscription", "", "")
	is(t, f.do(200, "GET", in+"/assignments", "", ""), `{"partitions":[]}`)
	f.do(204, "DELETE", in, "", "")
	f.refused(40403, "DELETE", in, "", "")
	f.refused(40403, "GET", in+"/records", "", "")

	in = f.instance("g", `{"format":"binary"}`) // goes on where the group is
	f.do(204, "POST", in+"/assignments", v2, `{"partitions":[{"topic":"t","partition":0}]}`)
	f.refused(40903, "POST", in+"/subscription", v2, `{"topics":["t"]}`)
	is(t, f.do(200, "GET", in+"/records?timeout=1", "", ""), `[]`)
	f.do(200, "POST", "/topics/t", binaryV2, `{"records":[{"key":"AA==","value":"","headers":[{"key":"h","value":null}]}]}`)
	is(t, f.do(200, "GET", in+"/records?timeout=10000", "", ""),
		`[{"topic":"t","key":"AA==","value":"","partition":0,"offset":3,"headers":[{"key":"h","value":null}]}]`)
	is(t, f.do(200, "POST", in+"/offsets", v2, ``), `[]`)
}

// TestConsumerRefusals has each refusal's own code.
func TestConsumerRefusals(t *testing.T) {
	f := start(t, func(o *Options) { o.MaxInstances = 1 })
	f.topic("t", 1, nil)
	for body, code := range map[string]int{
		`{"format":"avro"}`:                    42206,
		`{"format":"xml"}`:                     422,
		`{"auto.offset.reset":"middle"}`:       42204,
		`{"auto.commit.enable":"perhaps"}`:     42204,
		`{"fetch.min.bytes":"20000000"}`:       40001,
		`{"consumer.request.timeout.ms":"-1"}`: 42204,
		`{"unknown":1}`:                        422,
		`{`:                                    400,
	} {
		f.refused(code, "POST", "/consumers/g", v2, body)
	}
	f.refused(415, "POST", "/consumers/g", "text/plain", `{}`)
	in := f.instance("g", `{"format":"json","auto.offset.reset":"earliest"}`)
	f.refused(429, "POST", "/consumers/g", v2, `{}`)
	f.refused(422, "POST", in+"/subscription", v2, ``)
	f.refused(422, "POST", in+"/subscription", v2, `{"topic_pattern":"("}`)
	f.refused(40903, "POST", in+"/subscription", v2, `{"topics":["t"],"topic_pattern":"t"}`)
	f.refused(40401, "POST", in+"/assignments", v2, `{"partitions":[{"topic":"none","partition":0}]}`)
	f.refused(40402, "POST", in+"/assignments", v2, `{"partitions":[{"topic":"t","partition":1}]}`)
	f.refused(40402, "GET", in+"/offsets", v2, ``)
	f.do(204, "POST", in+"/assignments", v2, `{"partitions":[{"topic":"t","partition":0}]}`)
	f.do(200, "POST", "/topics/t", binaryV2, `{"records":[{"value":"AA=="}]}`)
	f.refused(50002, "GET", in+"/records?timeout=10000", "", "") // it is not JSON
	f.do(204, "POST", in+"/positions/end", v2, `{"partitions":[{"topic":"t","partition":0}]}`)
	is(t, f.do(200, "GET", in+"/records?timeout=1", "", ""), `[]`)
	f.refused(404, "GET", in+"/records?timeout=soon", "", "")
}

// TestMaxBytes holds that an answer has no more bytes than are asked for, but for one record, and that
// what is left out comes next.
func TestMaxBytes(t *testing.T) {
	f := start(t, nil)
	f.topic("t", 1, nil)
	f.do(200, "POST", "/topics/t", jsonV2, `{"records":[{"value":"0123456789"},{"value":"0123456789"},{"value":"0123456789"}]}`)
	in := f.instance("g", `{"format":"json","auto.offset.reset":"earliest"}`)
	f.do(204, "POST", in+"/assignments", v2, `{"partitions":[{"topic":"t","partition":0}]}`)
	for _, want := range []struct{ most, n int }{{1, 1}, {24, 2}} {
		var rs []consumed
		text := f.do(200, "GET", fmt.Sprintf("%s/records?timeout=10000&max_bytes=%d", in, want.most), "", "")
		if err := json.Unmarshal([]byte(text), &rs); err != nil || len(rs) != want.n {
			t.Fatalf("%s, %v", text, err)
		}
	}
}

// TestGroupWithKafkaClient holds that an instance shares a group's partitions with a Kafka client, and
// that each goes on where the other one was.
func TestGroupWithKafkaClient(t *testing.T) {
	f := start(t, nil)
	f.topic("t", 2, nil)
	in := f.instance("g", `{"format":"json","auto.offset.reset":"earliest"}`)
	f.do(204, "POST", in+"/subscription", v2, `{"topic_pattern":"t.*"}`)
	f.assigned(in, 2)
	k := f.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.Balancers(kgo.RangeBalancer()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	done := make(chan struct{})
	polled := make(chan struct{}, 1)
	go func() {
		defer close(done)
		for {
			fs := k.PollFetches(t.Context())
			if fs.IsClientClosed() || t.Context().Err() != nil {
				return
			}
			if fs.NumRecords() > 0 {
				polled <- struct{}{}
			}
		}
	}()
	f.assigned(in, 1)
	f.do(200, "POST", "/topics/t", jsonV2, `{"records":[{"partition":0,"value":0},{"partition":1,"value":1}]}`)
	f.read(in, 1)
	<-polled
	k.Close()
	<-done
	f.assigned(in, 2)
	f.do(204, "DELETE", in, "", "")
}

// assigned waits until an instance has n partitions.
func (f *fixture) assigned(in string, n int) {
	f.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // polls
		var got partitionsJSON
		if err := json.Unmarshal([]byte(f.do(200, "GET", in+"/assignments", "", "")), &got); err != nil {
			f.t.Fatal(err)
		}
		if len(got.Partitions) == n {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d partitions, want %d", len(got.Partitions), n)
		}
	}
}

// TestFollower holds that an instance of a node that does not lead is a member all the same, and reads
// from its own log.
func TestFollower(t *testing.T) {
	a := start(t, nil)
	a.topic("t", 2, nil)
	b := a.join("2")
	one, two := a.instance("g", `{"format":"json","auto.offset.reset":"earliest"}`), b.instance("g", `{"format":"json","auto.offset.reset":"earliest"}`)
	a.do(204, "POST", one+"/subscription", v2, `{"topics":["t"]}`)
	b.do(204, "POST", two+"/subscription", v2, `{"topics":["t"]}`)
	a.assigned(one, 1)
	b.assigned(two, 1)
	a.refused(40403, "GET", two+"/records", "", "")
	b.do(200, "POST", "/topics/t", jsonV2, `{"records":[{"partition":0,"value":0},{"partition":1,"value":1}]}`)
	a.read(one, 1)
	rs := b.read(two, 1)
	is(t, b.do(200, "POST", two+"/offsets", v2, ``), `[]`)
	got := b.do(200, "GET", two+"/offsets", v2, fmt.Sprintf(`{"partitions":[{"topic":"t","partition":%d}]}`, rs[0].Partition))
	if !strings.Contains(got, `"offset":1`) {
		t.Fatal(got)
	}
	b.do(204, "DELETE", two, "", "")
	a.assigned(one, 2)
}

// TestVanishedClient holds that who goes away while it waits for records loses none.
func TestVanishedClient(t *testing.T) {
	f := start(t, nil)
	f.topic("t", 1, nil)
	in := f.instance("g", `{"name":"one","format":"json","auto.offset.reset":"earliest"}`)
	f.do(204, "POST", in+"/assignments", v2, `{"partitions":[{"topic":"t","partition":0}]}`)
	nc, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintf(nc, "GET %s/records?timeout=60000 HTTP/1.1\r\nHost: x\r\n\r\n", in)
	i, err := f.server.instances.find("g", "one")
	if err != nil {
		t.Fatal(err)
	}
	defer i.leave()
	for len(i.reading) == 0 { // until the call waits
		time.Sleep(time.Millisecond) //nolint:forbidigo // polls
	}
	_ = nc.Close()
	f.do(200, "POST", "/topics/t", jsonV2, `{"records":[{"value":1}]}`)
	f.read(in, 1)
}

// TestExpiry holds that an instance that nobody asks for long leaves its group, with nothing committed
// that its client may not have got.
func TestExpiry(t *testing.T) {
	f := start(t, func(o *Options) { o.InstanceTimeout = 200 * time.Millisecond })
	f.topic("t", 1, nil)
	f.do(200, "POST", "/topics/t", jsonV2, `{"records":[{"value":1}]}`)
	in := f.instance("g", `{"format":"json","auto.offset.reset":"earliest"}`)
	f.do(204, "POST", in+"/assignments", v2, `{"partitions":[{"topic":"t","partition":0}]}`)
	f.read(in, 1)
	for f.server.instances.count() > 0 {
		time.Sleep(time.Millisecond) //nolint:forbidigo // polls
	}
	top, _ := f.router.Topic(topicName("t"))
	if o, ok, err := f.router.FetchOffset("g", top.Partitions[0]); err != nil || ok && o.Offset > 0 {
		t.Fatalf("committed %+v, %v", o, err)
	}
}
