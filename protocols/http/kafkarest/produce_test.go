package kafkarest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	jsonV2   = "application/vnd.kafka.json.v2+json"
	binaryV2 = "application/vnd.kafka.binary.v2+json"
)

// TestProduceV2 has what the documentation of the original shows, and each refusal's own code.
func TestProduceV2(t *testing.T) {
	f := start(t, nil)
	f.topic("t", 2, nil)
	f.topic("compact", 1, map[string]string{"cleanup.policy": "compact"})
	is(t, f.do(200, "POST", "/topics/t/partitions/1", jsonV2, `{"records":[{"key":"k","value":{"n":1.10}},{"value":null}]}`),
		`{"offsets":[{"partition":1,"offset":0,"error_code":null,"error":null},{"partition":1,"offset":1,"error_code":null,"error":null}],"key_schema_id":null,"value_schema_id":null}`)
	is(t, f.do(200, "POST", "/topics/t", binaryV2, `{"records":[{"partition":1,"key":"AAE=","value":"","headers":[{"key":"h","value":"AQ=="}]}]}`),
		`{"offsets":[{"partition":1,"offset":2,"error_code":null,"error":null}],"key_schema_id":null,"value_schema_id":null}`)
	is(t, f.do(200, "GET", "/topics/t/partitions/1/offsets", "", ""), `{"beginning_offset":0,"end_offset":3}`)
	got := f.do(200, "POST", "/topics/compact", jsonV2, `{"records":[{"value":1},{"key":1,"value":2}]}`)
	if !strings.Contains(got, `"error_code":50002`) || !strings.Contains(got, `"offset":0`) {
		t.Fatalf("a compacted topic, without a key and with one: %s", got)
	}
	for _, c := range []struct {
		code             int
		path, kind, body string
	}{
		{42206, "/topics/t", "application/vnd.kafka.avro.v2+json", `{"value_schema":"{}","records":[{"value":1}]}`},
		{42206, "/topics/t", "application/vnd.kafka.protobuf.v2+json", `{"value_schema":"{}","records":[{"value":1}]}`},
		{42206, "/topics/t", "application/vnd.kafka.jsonschema.v2+json", `{"value_schema":"{}","records":[{"value":1}]}`},
		{40401, "/topics/a%20b", jsonV2, `{"records":[{"value":1}]}`},
		{40402, "/topics/t/partitions/2", jsonV2, `{"records":[{"value":1}]}`},
		{415, "/topics/t", "application/json", `{"records":[{"value":1}]}`},
		{400, "/topics/t", jsonV2, `{"records":[{"value":1}]`},
		{422, "/topics/t", jsonV2, `{"records":[]}`},
		{422, "/topics/t", jsonV2, `{"records":[{"value":1},null]}`},
		{422, "/topics/t", jsonV2, `{"recordz":[]}`},
		{422, "/topics/t", jsonV2, ``},
		{422, "/topics/t", binaryV2, `{"records":[{"value":"*"}]}`},
		{422, "/topics/t", binaryV2, `{"records":[{"value":{}}]}`},
		{422, "/topics/t", jsonV2, `{"records":[{"value":1,"partition":-1}]}`},
		{413, "/topics/t", jsonV2, `{"records":[{"value":"` + strings.Repeat("x", 1<<20) + `"}]}`},
	} {
		f.refused(c.code, "POST", c.path, c.kind, c.body)
	}
	f.refused(40401, "GET", "/topics/none", "", "")
	f.refused(404, "GET", "/none", "", "")
	f.refused(405, "PUT", "/topics/t", "", "")
	is(t, f.do(200, "GET", "/topics/t/partitions/1/offsets", "", ""), `{"beginning_offset":0,"end_offset":3}`)
}

// TestStreamV3 holds that each record of a request is answered while the request is still open.
func TestStreamV3(t *testing.T) {
	f := start(t, nil)
	f.topic("t", 2, nil)
	in, out := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+"/v3/clusters/any/topics/t/records", in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(out, `{"partition_id":1,"value":{"type":"STRING","data":"a}\"{"}}`)
		written <- err
	}()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := <-written; err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(err, resp.Status)
	}
	answers := json.NewDecoder(resp.Body)
	var a storedJSON
	if err := answers.Decode(&a); err != nil || a.ErrorCode != 200 || a.Partition != 1 || a.Offset != 0 || a.Value.Type != "STRING" || a.Value.Size != 4 {
		t.Fatalf("%+v, %v", a, err)
	}
	if _, err := io.WriteString(out, `
		{"partition_id":1,"key":{"type":"BINARY","data":"AA=="},"value":{"type":"JSON","data":{"x":[1]}},"headers":[{"name":"h","value":null}],"timestamp":"2026-01-02T03:04:05Z"}
		{"partition_id":9} {"partition_id":-1} {"value":{"type":"AVRO","data":1}} {"value":{"type":"BINARY","data":"?"}} {"valve":1} {"value":{"type":"NONE","data":1}}`); err != nil {
		t.Fatal(err)
	}
	a = storedJSON{}
	if err := answers.Decode(&a); err != nil || a.Offset != 1 || a.Timestamp.Unix() != 1767323045 || a.Key.Size != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, want := range []int{40402, 40402, 42206, 400, 422, 400} {
		var r refusal
		if err := answers.Decode(&r); err != nil || r.Code != want {
			t.Fatalf("%+v, %v; want %d", r, err, want)
		}
	}
	go func() { _, err := io.WriteString(out, `[`); written <- err }()
	var r refusal
	if err := answers.Decode(&r); err != nil || r.Code != 400 {
		t.Fatalf("no object: %+v, %v", r, err)
	}
	<-written //nolint:errcheck // the other side reads no more
	_ = out.Close()
	if _, err := answers.Token(); err != io.EOF {
		t.Fatalf("after what cannot be read: %v", err)
	}
}

// TestStreamV3Bounds holds that what is too large, or of two lengths, is refused and no more.
func TestStreamV3Bounds(t *testing.T) {
	f := start(t, nil)
	f.topic("t", 1, nil)
	path := "/v3/clusters/any/topics/t/records"
	if got := f.do(200, "POST", path, "application/json", `{"value":{"type":"STRING","data":"`+strings.Repeat("x", 2<<20)+`"}}`); !strings.Contains(got, `"error_code":413`) {
		t.Fatal(got)
	}
	if got := f.do(200, "POST", path, "application/json", strings.Repeat(`{"a":`, 2000)); !strings.Contains(got, "nested") {
		t.Fatal(got)
	}
	f.refused(42206, "POST", path, "application/json", "")
	f.refused(415, "POST", path, "text/plain", "{}")
	if got := f.do(200, "POST", "/v3/clusters/any/topics/a%20b/records", "application/json", `{}`); !strings.Contains(got, `"error_code":40403`) {
		t.Fatal(got)
	}
	nc, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	_, _ = fmt.Fprintf(nc, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", path)
	line, err := bufio.NewReader(nc).ReadString('\n')
	if err != nil || !strings.Contains(line, " 400 ") {
		t.Fatalf("two lengths: %q, %v", line, err)
	}
}

// TestClusterV3 has what a program looks at before it produces.
func TestClusterV3(t *testing.T) {
	f := start(t, nil)
	var l listJSON[clusterJSON]
	if err := json.Unmarshal([]byte(f.do(200, "GET", "/v3/clusters", "", "")), &l); err != nil || len(l.Data) != 1 {
		t.Fatal(l, err)
	}
	c := "/v3/clusters/" + l.Data[0].ClusterID
	const kind = "application/json"
	f.do(200, "GET", c, "", "")
	f.do(200, "POST", c+"/topics", kind, `{"topic_name":"t","validate_only":true}`)
	f.do(201, "POST", c+"/topics", kind, `{"topic_name":"t","partitions_count":3,"replication_factor":3,"configs":[{"name":"cleanup.policy","value":"compact"}]}`)
	f.refused(40002, "POST", c+"/topics", kind, `{"topic_name":"t"}`)
	f.refused(40002, "POST", c+"/topics", kind, `{"topic_name":"u","configs":[{"name":"no.such","value":"1"}]}`)
	f.refused(40002, "POST", c+"/topics", kind, `{"topic_name":"u","partitions_count":0}`)
	f.refused(42206, "POST", c+"/topics", kind, `{"topic_name":"a b"}`)
	f.refused(42206, "POST", c+"/topics", kind, ``)
	f.refused(404, "GET", "/v3/clusters/other", "", "")
	var got topicV3JSON
	if err := json.Unmarshal([]byte(f.do(200, "GET", c+"/topics/t", "", "")), &got); err != nil || got.Partitions != 3 {
		t.Fatal(got, err)
	}
	f.do(200, "GET", c+"/topics", "", "")
	f.do(200, "GET", c+"/topics/t/partitions", "", "")
	f.do(200, "GET", c+"/topics/t/partitions/2", "", "")
	f.refused(40402, "GET", c+"/topics/t/partitions/3", "", "")
	f.do(204, "DELETE", c+"/topics/t", "", "")
	f.refused(40403, "GET", c+"/topics/t", "", "")
}
