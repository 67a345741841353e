package nsq

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"polylog/core"
	"polylog/protocols/http/subscription"
	"polylog/router"
	"polylog/router/routertest"
)

// stats asks for them as JSON, as somebody.
func (f *fixture) stats(args, user string) (j statsJSON) {
	f.t.Helper()
	status, _, body := request(f.t, "GET", f.url+"/stats?format=json"+args, "", func(r *http.Request) {
		if user != "" {
			r.SetBasicAuth(user, "pw-"+user)
		}
	})
	if err := json.Unmarshal([]byte(body), &j); status != 200 || err != nil {
		f.t.Fatalf("%s: %d %s, %v", args, status, body, err)
	}
	return j
}

// pushed makes a channel one that is sent to an endpoint at an address that is reserved for nobody.
func (f *fixture) pushed(topic, channel string) {
	f.t.Helper()
	n := channelName(core.TopicName(topic), channel)
	s, err := f.router.Subscription(f.t.Context(), n)
	if err != nil {
		f.t.Fatal(err)
	}
	o := subscription.Options{Push: &subscription.Push{URL: "http://192.0.2.1/"}}
	if err := subscription.Save(f.t.Context(), f.router, router.Principal{}, s, &o, &subscription.Secrets{}); err != nil {
		f.t.Fatal(err)
	}
}

// TestStats: nsqd's fields, with what the log knows.
func TestStats(t *testing.T) {
	var reasons []string
	f := start(t, func(o *Options) { o.Ready = func() []string { return reasons } })
	if got := f.stats("", ""); got.Version != nsqdVersion || got.Health != "OK" || got.StartTime != 1767225600 || len(got.Topics) != 0 {
		t.Fatalf("%+v", got)
	}
	f.do(200, "OK", "POST", "/mpub?topic=t", "1\n2\n3")
	f.do(200, "OK", "POST", "/pub?topic=u", "1")
	f.do(200, "", "POST", "/channel/create?topic=t&channel=a", "")
	f.do(200, "", "POST", "/channel/create?topic=t&channel=b", "")
	f.do(200, "OK", "POST", "/pub?topic=t", "4")
	s, err := f.router.Subscription(t.Context(), channelName(core.TopicName("t"), "a"))
	if err != nil {
		t.Fatal(err)
	}
	topic, _ := f.router.TopicByID(s.Topic)
	c, err := f.router.Consume(t.Context(), router.Itself("test"), router.ConsumeSpec{Queue: topic.Partitions[0], Group: s.Group, Credit: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	channel := func(name string, depth, inFlight int64, clients int) channelJSON {
		return channelJSON{Name: name, Depth: depth, BackendDepth: depth, InFlight: inFlight, Messages: 4, ClientCount: clients, Clients: []struct{}{}}
	}
	a, b := channel("a", 3, 1, 1), channel("b", 1, 0, 0)
	of := func(channels ...channelJSON) topicJSON { return topicJSON{Name: "t", Messages: 4, Channels: channels} }
	u := topicJSON{Name: "u", Messages: 1, Depth: 1, BackendDepth: 1, Channels: []channelJSON{}} // it waits for a channel
	for args, want := range map[string][]topicJSON{
		"": {of(a, b), u}, "&topic=t": {of(a, b)}, "&topic=t&channel=b": {of(b)}, "&topic=none": {},
	} {
		if diff := cmp.Diff(want, f.stats(args, "").Topics); diff != "" {
			t.Errorf("%s: %s", args, diff)
		}
	}
	_, _, got := request(t, "GET", f.url+"/stats?format=json&topic=u", "", nil)
	for _, part := range []string{`"producers":[]`, `"paused":false`, `"e2e_processing_latency":{"count":0,"percentiles":null}`} {
		if !strings.Contains(got, part) {
			t.Errorf("no %s: %s", part, got)
		}
	}
	reasons = []string{"no leader"}
	_, header, text := request(t, "GET", f.url+"/stats", "", nil)
	for _, part := range []string{"nsqd v1.3.0", "Health: NOK - no leader\n", "[t] depth: 0 be-depth: 0 msgs: 4\n", "[a] depth: 3 be-depth: 3 inflt: 1 def: 0 msgs: 4 clients: 1\n", "[u] depth: 1"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q: %s", part, text)
		}
	}
	if got := header.Get("Content-Type"); got != typeText {
		t.Error(got)
	}
}

// TestStatsOfUsers: who asks sees what he may look at.
func TestStatsOfUsers(t *testing.T) {
	f := start(t, nil)
	for _, name := range []string{"d", "other"} {
		f.do(200, "", "POST", "/topic/create?topic="+name, "")
		f.do(200, "", "POST", "/channel/create?topic="+name+"&channel=c", "")
	}
	routertest.AddUser(t, f.router, "admin", router.TagAdministrator)
	routertest.AddUser(t, f.router, "dev")
	routertest.Grant(t, f.router, "dev", "^d", "^d", "^d")
	if got := f.stats("", "dev").Topics; len(got) != 1 || got[0].Name != "d" || len(got[0].Channels) != 1 {
		t.Errorf("%+v", got)
	}
	if got := f.stats("", "admin").Topics; len(got) != 2 {
		t.Errorf("%+v", got)
	}
	f.do(401, `{"message":"AUTH_FAILED","detail":"this broker has users: log in"}`, "GET", "/stats", "")
}

// TestPause: a channel that is pushed can be paused, and goes on.
func TestPause(t *testing.T) {
	f := start(t, nil)
	f.do(200, "", "POST", "/topic/create?topic=t", "")
	f.do(200, "", "POST", "/channel/create?topic=t&channel=c", "")
	f.pushed("t", "c")
	paused := func(want bool) {
		t.Helper()
		if got := f.stats("", "").Topics[0].Channels[0].Paused; got != want {
			t.Errorf("paused: %v, want %v", got, want)
		}
	}
	paused(false)
	for range 2 {
		f.do(200, "", "POST", "/channel/pause?topic=t&channel=c", "")
		paused(true)
	}
	f.do(200, "", "POST", "/channel/unpause?topic=t&channel=c", "")
	paused(false)
}
