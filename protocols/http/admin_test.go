package httpd

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"polylog/core"
	"polylog/router"
	"polylog/router/admin"
)

// members are Kafka's groups for tests.
type members []router.LiveGroup

func (ms members) LiveGroups(_ context.Context, fn func(router.LiveGroup)) error {
	for _, g := range ms {
		fn(router.LiveGroup{Name: g.Name, State: g.State, Type: g.Type})
	}
	return nil
}

func (ms members) LiveGroup(_ context.Context, name string) (router.LiveGroup, bool, error) {
	i := slices.IndexFunc(ms, func(g router.LiveGroup) bool { return g.Name == name })
	if i < 0 {
		return router.LiveGroup{}, false, nil
	}
	return ms[i], true, nil
}

func TestOverviewAndHealth(t *testing.T) {
	s := newSite(t, nil, func(o *Options) { o.Version = "9.9" })
	s.do("PUT", "/v1/topics/a", `{"partitions": 3}`).want(t, 201)
	s.do("GET", "/v1/admin/overview", "").want(t, 200, `"version":"9.9"`, `"topics":1`, `"partitions":3`, `"ready":true`)
	s.do("GET", "/v1/admin/health", "").want(t, 501)
	h := newSite(t, nil, func(o *Options) {
		o.Health = func(context.Context) (admin.Health, error) {
			return admin.Health{Healthy: true, Problems: []string{}, Nodes: []admin.NodeHealth{}, Info: admin.Info{Members: []admin.Member{}}}, nil
		}
	})
	h.do("GET", "/v1/admin/health", "").want(t, 200, `"healthy":true`)
}

func TestMetricsOverTime(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("GET", "/v1/topics", "").want(t, 200)
	first := into[metricsJSON](t, s.do("GET", "/v1/admin/metrics?names=polylog_http_requests_total,polylog_none", "").want(t, 200))
	if len(first.Times) != 1 || len(first.Series) != 1 || *first.Series["polylog_http_requests_total"][0] < 1 {
		t.Fatalf("%+v", first)
	}
	h := &s.server.history
	h.mu.Lock()
	for range maxSamples + 5 { // more than are kept
		h.sampleLocked()
	}
	h.mu.Unlock()
	all := into[metricsJSON](t, s.do("GET", "/v1/admin/metrics", "").want(t, 200))
	if len(all.Times) != maxSamples {
		t.Fatalf("%d samples are kept", len(all.Times))
	}
	for name, v := range all.Series {
		if len(v) != maxSamples {
			t.Fatalf("%s has %d samples", name, len(v))
		}
	}
	if r := into[metricsJSON](t, s.do("GET", fmt.Sprintf("/v1/admin/metrics?since=%d", all.Times[maxSamples-1]+3_600_000), "")); len(r.Times) != 0 {
		t.Fatalf("%d samples of the future", len(r.Times))
	}
	s.do("GET", "/v1/admin/metrics?since=-1", "").want(t, 400)
	s.do("GET", "/v1/admin/metrics?node=nobody", "").want(t, 404)
}

// Connections are listed over all nodes by any of them, in pages.
func TestConnectionsOfAllNodes(t *testing.T) {
	var here, there router.Clients
	for i := range 3 {
		here.Add(func(k *router.Client) {
			k.Protocol, k.ClientID, k.Received = "mqtt", fmt.Sprint("dev", i), 7
			k.Details = append(k.Details, router.Detail{Name: "queued", Value: "5"})
		})
		there.Add(func(k *router.Client) { k.Protocol, k.Software = "kafka", fmt.Sprint("lib", i) })
	}
	a := newSite(t, nil, func(o *Options) { o.Clients = &here })
	b := newSite(t, a, func(o *Options) { o.Clients = &there })
	type page struct {
		Connections []connectionJSON
		Next        string
	}
	for _, s := range []*site{a, b} {
		var got []string
		for next := ""; ; {
			p := into[page](t, s.do("GET", "/v1/admin/connections?limit=2&cursor="+next, "").want(t, 200))
			for _, c := range p.Connections {
				if c.Protocol != "http" {
					got = append(got, c.Node+" "+c.ClientID+c.Software)
				}
			}
			if next = p.Next; next == "" {
				break
			}
		}
		if want := "1 dev0,1 dev1,1 dev2,2 lib0,2 lib1,2 lib2"; strings.Join(got, ",") != want {
			t.Fatalf("got %v, want %s", got, want)
		}
		s.do("GET", "/v1/admin/connections?protocol=mqtt&search=DEV1", "").want(t, 200, `"clientId":"dev1"`, `"receivedBytes":7`, `"queued":"5"`)
		r := s.do("GET", "/v1/admin/connections?node=2&protocol=mqtt", "").want(t, 200)
		if len(into[page](t, r).Connections) != 0 {
			t.Fatal(r.body)
		}
	}
	a.do("GET", "/v1/admin/connections?protocol=http", "").want(t, 200, `"protocol":"http"`)
	a.do("GET", "/v1/admin/connections?cursor=x", "").want(t, 400)
}

// What clients say of themselves makes no answer that is too large for another node to give.
func TestConnectionsThatSayMuch(t *testing.T) {
	var there router.Clients
	for range maxPage {
		there.Add(func(k *router.Client) {
			k.Protocol, k.ClientID, k.Software = "mqtt", strings.Repeat("ü", 30_000), strings.Repeat("x", maxSaid)
		})
	}
	a := newSite(t, nil, nil)
	newSite(t, a, func(o *Options) { o.Clients = &there })
	r := a.do("GET", "/v1/admin/connections?node=2&limit=1000", "").want(t, 200)
	page := into[struct{ Connections []connectionJSON }](t, r)
	if len(r.body) <= core.MaxStreamMessage || len(page.Connections) != maxPage {
		t.Fatalf("%d connections in %d bytes: %.200s", len(page.Connections), len(r.body), r.body)
	}
	if c := page.Connections[0]; c.ClientID != strings.Repeat("ü", maxSaid/2)+"…" || c.Software != strings.Repeat("x", maxSaid) {
		t.Fatalf("%+v", c)
	}
}

// A connection is off the list when it is gone.
func TestHTTPConnectionsLeaveTheList(t *testing.T) {
	var clients router.Clients
	s := newSite(t, nil, func(o *Options) { o.Clients = &clients })
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	listed := func() bool {
		all, _ := clients.List(0, 100, func(k *router.Client) bool { return k.Remote == c.LocalAddr().String() })
		return len(all) == 1
	}
	for !listed() {
		s.do("GET", "/health/live", "")
	}
	_ = c.Close()
	for listed() {
		s.do("GET", "/health/live", "")
	}
}

// So is one that has become a stream.
func TestStreamsAreListed(t *testing.T) {
	var clients router.Clients
	s := newSite(t, nil, func(o *Options) { o.Clients = &clients })
	s.do("PUT", "/v1/topics/t", "").want(t, 201)
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("GET /v1/topics/t/stream HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := awaitText(c, ": hello"); err != nil {
		t.Fatal(err)
	}
	listed := func() bool {
		all, _ := clients.List(0, 100, func(k *router.Client) bool { return k.Remote == c.LocalAddr().String() })
		return len(all) == 1
	}
	for !listed() { // once, when the connection that it was is no more
		s.do("GET", "/health/live", "")
	}
	_ = c.Close()
	for listed() {
		s.do("GET", "/health/live", "")
	}
}

// awaitText reads until a text has come.
func awaitText(r io.Reader, text string) error {
	var all []byte
	for b := make([]byte, 512); !strings.Contains(string(all), text); {
		n, err := r.Read(b)
		if all = append(all, b[:n]...); err != nil {
			return err
		}
	}
	return nil
}

func TestGroupsWithLagAndMembers(t *testing.T) {
	live := members{{Name: "live", State: "Stable", Type: "consumer", Protocol: "uniform", Members: []router.GroupMember{
		{ID: "m1", ClientID: "c", Host: "h", Assigned: []router.Assigned{{Topic: "t", Partitions: []int32{0, 1}}, {Topic: "gone", Partitions: []int32{0}}}},
	}}}
	a := newSite(t, nil, func(o *Options) { o.Coordinator = func() Coordinator { return live } })
	b := newSite(t, a, nil) // not the leader
	a.do("PUT", "/v1/topics/t", `{"partitions": 2}`).want(t, 201)
	a.post("/v1/topics/t/messages", `{"messages": [{"value": "x", "partition": 0}, {"value": "y", "partition": 0}, {"value": "z", "partition": 1}]}`).want(t, 200)
	topic, _ := a.router.Topic(core.TopicName("t"))
	for _, g := range []string{"live", "stored", "Stored too"} {
		if _, err := a.router.CommitOffsets(t.Context(), router.Principal{}, g, []router.OffsetCommit{{Queue: topic.Partitions[0], Offset: 1, LeaderEpoch: -1}}, router.GroupMeta{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.router.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*site{a, b} {
		s.do("GET", "/v1/admin/groups?limit=1", "").want(t, 200, `"name":"Stored too"`, `"state":"Empty"`, `"next":"Stored too"`)
		s.do("GET", "/v1/admin/groups?cursor=Stored%20too&limit=1", "").want(t, 200, `"name":"live"`, `"state":"Stable"`, `"lastCommit"`)
		if r := s.do("GET", "/v1/admin/groups?search=STORED", "").want(t, 200); strings.Contains(r.body, "live") {
			t.Fatal(r.body)
		}
		s.do("GET", "/v1/admin/groups/live", "").want(t, 200, `"lag":2`, `"partition":1,"committed":null,"start":0,"end":1,"lag":1,"member":"m1"`, `"host":"h"`)
		s.do("GET", "/v1/admin/groups/stored?limit=1", "").want(t, 200, `"state":"Empty"`, `"lag":1`, `"members":[]`)
		s.do("GET", "/v1/admin/groups/nobody", "").want(t, 404)
	}
}

func TestReadersAndStoryOfAMessage(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/t", `{"partitions": 1}`).want(t, 201)
	s.post("/v1/topics/t/messages", `{"messages": [{"value": {"big": 12345678901234567890123}}, {"value": "y", "messageId": "m-2"}]}`).want(t, 200)
	topic, _ := s.router.Topic(core.TopicName("t"))
	if _, err := s.router.CommitOffsets(t.Context(), router.Principal{}, "g", []router.OffsetCommit{{Queue: topic.Partitions[0], Offset: 1, LeaderEpoch: -1}}, router.GroupMeta{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"s1", "s2"} {
		s.do("PUT", "/v1/subscriptions/"+name, `{"topic": "t", "from": "start"}`).want(t, 201)
	}
	got := s.post("/v1/subscriptions/s1:pull", `{"max": 1}`).want(t, 200)
	s.post("/v1/subscriptions/s1:ack", `{"receipts": ["`+into[struct{ Messages []struct{ Receipt string } }](t, got).Messages[0].Receipt+`"]}`).want(t, 200)

	var names []string
	for next := ""; ; {
		p := into[struct {
			Readers []readerJSON
			Next    string
		}](t, s.do("GET", "/v1/topics/t/readers?limit=1&cursor="+next, "").want(t, 200))
		for _, r := range p.Readers {
			names = append(names, fmt.Sprint(r.Kind, r.Name, r.Lag))
		}
		if next = p.Next; next == "" {
			break
		}
	}
	if want := "groupg1,subscriptions11,subscriptions22"; strings.Join(names, ",") != want {
		t.Fatalf("%v, want %s", names, want)
	}
	s.do("GET", "/v1/topics/t/readers?cursor=x", "").want(t, 400)

	s.do("GET", "/v1/topics/t/messages/0-0", "").want(t, 200, "12345678901234567890123",
		`{"name":"g","kind":"group","done":true}`, `{"name":"s1","kind":"subscription","done":true}`, `{"name":"s2","kind":"subscription","done":false}`)
	s.do("GET", "/v1/topics/t/messages/0-1", "").want(t, 200, `{"name":"g","kind":"group","done":false}`)
	for path, status := range map[string]int{"0-2": 404, "1-0": 404, "x": 400, "0-": 400, "0--1": 400, "0-9223372036854775807": 400} {
		s.do("GET", "/v1/topics/t/messages/"+path, "").want(t, status)
	}
	s.do("GET", "/v1/topics/t/messages?messageId=m-2", "").want(t, 200, `"id":"0-1"`)
	if v := values(t, s.do("GET", "/v1/topics/t/messages?messageId=none", "")); len(v) != 0 {
		t.Fatal(v)
	}
}

func TestSearchInLists(t *testing.T) {
	s := newSite(t, nil, nil)
	for _, n := range []string{"Orders.eu", "orders.us", "other"} {
		s.do("PUT", "/v1/topics/"+n, "").want(t, 201)
		s.do("PUT", "/v1/queues/"+n, "").want(t, 201)
	}
	s.do("PUT", "/v1/subscriptions/sub", `{"topic": "other"}`).want(t, 201)
	s.do("GET", "/v1/subscriptions?counts", "").want(t, 200, `"ready":0`)
	for _, kind := range []string{"topics", "queues"} {
		s.do("GET", "/v1/"+kind+"?search=ORD&limit=1", "").want(t, 200, "Orders.eu", `"next":"Orders.eu"`)
		if r := s.do("GET", "/v1/"+kind+"?search=ord&limit=1&cursor=Orders.eu", "").want(t, 200, "orders.us"); strings.Contains(r.body, "Orders.eu") {
			t.Fatal(r.body)
		}
	}
	s.do("GET", "/v1/queues?search=us&counts", "").want(t, 200, `"consumers":0`)
}
