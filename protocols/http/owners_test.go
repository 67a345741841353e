package httpd

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"polylog/core"
	"polylog/router"
)

// A webhook gets what its owner may read, at the time when it is sent.
func TestWebhooksGoWithTheirOwner(t *testing.T) {
	s := newSite(t, nil, nil)
	carl := s.addUser("carl", "^c", "^c", "^(c|secrets$)")
	root := basic("root")
	k, other := newSink(t, nil), newSink(t, nil)
	s.do("PUT", "/v1/topics/secrets", `{"partitions": 1}`, root).want(t, 201)
	s.do("PUT", "/v1/subscriptions/cw", `{"topic": "secrets", "push": {"url": "`+k.URL+`"}}`, carl).want(t, 201, `"owner":"carl"`)
	s.do("PUT", "/v1/subscriptions/rw", `{"topic": "secrets", "push": {"url": "`+other.URL+`"}}`, root).want(t, 201, `"owner":"root"`)
	publish := func(v string) {
		t.Helper()
		s.do("POST", "/v1/topics/secrets/messages", v, root).want(t, 200)
		if got := other.next().body; got != v {
			t.Fatalf("%s, want %s", got, v)
		}
	}
	publish("1")
	if got := k.next().body; got != "1" {
		t.Fatal(got)
	}
	s.do("GET", "/v1/subscriptions/cw", "", root).want(t, 200, `"state":"active"`)

	s.addUser("carl", "^c", "^c", "^c")
	publish("2")
	s.do("GET", "/v1/subscriptions/cw", "", root).want(t, 200, `"owner":"carl"`, `"state":"refused"`, `user \"carl\" may not read topic secrets`)
	s.addUser("carl", "^c", "^c", "^(c|secrets$)") // and what waited comes
	if got := k.next().body; got != "2" {
		t.Fatal(got)
	}
	// To rotate its secret or to pause it does not make it somebody else's.
	s.do("POST", "/v1/subscriptions/cw:rotate", `{}`, root).want(t, 200)
	if err := s.router.DeleteUser(t.Context(), router.Itself("test"), "carl", false); err != nil {
		t.Fatal(err)
	}
	publish("3")
	s.do("GET", "/v1/subscriptions?search=cw", "", root).want(t, 200, `"owner":"carl"`, `"state":"refused"`, `user \"carl\" is gone`)
	if n := len(k.got); n > 0 {
		t.Errorf("%d messages went to a webhook whose owner may not read them", n)
	}
	s.do("PUT", "/v1/subscriptions/cw", `{"topic": "secrets", "push": {"url": "`+k.URL+`"}}`, root).want(t, 200, `"owner":"root"`, `"state":"active"`)
	if got := k.next().body; got != "3" {
		t.Fatal(got)
	}
}

// What was set while there were no users goes on, and says that it is nobody's.
func TestWebhooksOfNobodyGoOn(t *testing.T) {
	k := newSink(t, nil)
	s := pushTo(t, k.URL, "", "")
	root := s.addUser("root", ".*", ".*", ".*")
	s.do("POST", "/v1/topics/t/messages", "x", root).want(t, 200)
	if got := k.next().body; got != "x" {
		t.Fatal(got)
	}
	if r := s.do("GET", sub, "", root).want(t, 200, `"state":"active"`); strings.Contains(r.body, "owner") {
		t.Error(r.body)
	}
}

// A hook writes what its owner may write, at the time when it is sent something.
func TestHooksGoWithTheirOwner(t *testing.T) {
	s := newSite(t, nil, nil)
	carl := s.addUser("carl", "^c", "^in$", "^c")
	root := basic("root")
	s.do("PUT", "/v1/topics/in", `{}`, root).want(t, 201)
	const hook = `{"topic": "in", "preset": "bearer", "secrets": ["0123456789"]}`
	s.do("PUT", "/v1/hooks/ch", hook, carl).want(t, 201, `"owner":"carl"`)
	send := func() reply { return s.do("POST", "/hooks/ch", "m", "Authorization: Bearer 0123456789") }
	send().want(t, 200)
	s.addUser("carl", "^c", "", "^c")
	if r := send().want(t, 503, "cannot store anything now"); strings.Contains(r.body, "carl") {
		t.Errorf("strangers learn of users: %s", r.body)
	}
	s.do("GET", "/v1/hooks/ch", "", root).want(t, 200, `"owner":"carl"`, `user \"carl\" may not write to topic in`)
	s.do("POST", "/v1/hooks/ch:rotate", `{"secret": "9876543210"}`, carl).want(t, 200, `"owner":"carl"`)
	send().want(t, 503)
	s.do("PUT", "/v1/hooks/ch", hook, root).want(t, 200, `"owner":"root"`)
	send().want(t, 200)
}

// Who waits for messages gets none that were published after he may not read them any more.
func TestPullsEndWithRights(t *testing.T) {
	s := newSite(t, nil, nil)
	root := s.addUser("root", ".*", ".*", ".*")
	for name, end := range map[string]func() error{
		"gone":    func() error { return s.router.DeleteUser(t.Context(), router.Itself("test"), "gone", false) },
		"revoked": func() error { s.addUser("revoked", "", "", "^x"); return nil },
	} {
		header := s.addUser(name, "", "", "^q")
		queue := "/v1/queues/q" + name
		s.do("PUT", queue, `{}`, root).want(t, 201)
		pulled := make(chan reply)
		go func() { pulled <- s.do("POST", queue+":pull", `{"waitMs": 30000}`, header) }()
		q, err := s.router.Queue(core.TopicName("q" + name))
		if err != nil {
			t.Fatal(err)
		}
		for { // one consumer waits, the other keeps the queue at work
			n, err := s.router.CountQueue(t.Context(), q.ID, "")
			if err != nil {
				t.Fatal(err)
			}
			if n.Consumers == 2 {
				break
			}
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		s.do("POST", queue+"/messages", "secret", root).want(t, 200)
		r := <-pulled
		r.want(t, 403, `"code":"denied"`, name)
		s.do("POST", queue+":pull", `{"waitMs": 30000}`, root).want(t, 200, "secret") // it went back
	}
}

// Streams say why they end.
func TestStreamsSayWhyTheyEnd(t *testing.T) {
	s := newSite(t, nil, nil)
	dev := s.addUser("dev", "", "", "^q")
	root := basic("root")
	s.do("PUT", "/v1/queues/q", `{}`, root).want(t, 201)
	s.do("PUT", "/v1/topics/qt", `{}`, root).want(t, 201)
	_, value, _ := strings.Cut(dev, ": ")
	dial := func() wsOf {
		t.Helper()
		c, res, err := websocket.DefaultDialer.DialContext(t.Context(), "ws://"+s.addr+"/v1/queues/q/ws", http.Header{"Authorization": {value}})
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		t.Cleanup(func() { _ = c.Close() })
		return wsOf{c, t}
	}
	w := dial()
	w.say(`{"credit": 1}`)
	s.do("POST", "/v1/queues/q/messages", "1", root).want(t, 200)
	w.message("1")
	w.say(`{"credit": 1}`)
	s.addUser("dev", "", "", "^qt")
	s.do("POST", "/v1/queues/q/messages", "2", root).want(t, 200)
	if f := w.hear(); f.Error == nil || f.Error.Code != "denied" || !strings.Contains(f.Error.Detail, "may not read queue q") {
		t.Errorf("%+v", f)
	}
	if _, _, err := w.ReadMessage(); !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
		t.Error(err)
	}
	s.addUser("dev", "", "", "^q")
	w = dial()
	e := s.events("/v1/topics/qt/stream", dev)
	if err := s.router.DeleteUser(t.Context(), router.Itself("test"), "dev", false); err != nil {
		t.Fatal(err)
	}
	if f := w.hear(); f.Error == nil || !strings.Contains(f.Error.Detail, "log in again") {
		t.Errorf("%+v", f)
	}
	var text strings.Builder
	for e.in.Scan() {
		text.WriteString(e.in.Text() + "\n")
	}
	if !strings.Contains(text.String(), "event: error") || !strings.Contains(text.String(), `"title":"Forbidden"`) {
		t.Error(text.String())
	}
}

// Who sees a webhook sees what was tried with it, and nothing of others'. What the endpoint has answered is for
// those who may read or change the webhook.
func TestAttemptsAreTheOwners(t *testing.T) {
	s := newSite(t, nil, nil)
	root := s.addUser("root", ".*", ".*", ".*")
	carl := s.addUser("carl", "^c", "^c", "^c")
	eve := s.addUser("eve", "^e", "^e", "^e")
	write := s.addUser("writer", "", "^c", "")
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this endpoint takes nothing", http.StatusBadRequest)
	}))
	t.Cleanup(endpoint.Close)
	s.do("PUT", "/v1/topics/c", `{"partitions": 1}`, carl).want(t, 201)
	s.do("PUT", "/v1/topics/other", `{"partitions": 1}`, root).want(t, 201)
	s.do("PUT", "/v1/subscriptions/ch", `{"topic": "c", "push": {"url": "`+endpoint.URL+`", "permanentStatuses": [400]}}`, carl).want(t, 201)
	s.do("PUT", "/v1/subscriptions/rh", `{"topic": "other", "push": {"url": "`+endpoint.URL+`", "permanentStatuses": [400]}}`, root).want(t, 201)
	s.do("POST", "/v1/topics/c/messages", "m", carl).want(t, 200)
	s.do("POST", "/v1/topics/other/messages", "m", root).want(t, 200)
	s.until("GET", "/v1/subscriptions/rh/attempts", `"outcome":"dead"`, root)
	s.until("GET", "/v1/subscriptions/ch/attempts", `"outcome":"dead"`, carl).want(t, 200, `"status":400`, "this endpoint takes nothing")
	if r := s.do("GET", "/v1/subscriptions/ch/attempts", "", write).want(t, 200, `"status":400`); strings.Contains(r.body, "takes nothing") {
		t.Error(r.body)
	}
	s.do("GET", "/v1/subscriptions/rh/attempts", "", carl).want(t, 403)
	s.do("GET", "/v1/subscriptions/ch/attempts", "", eve).want(t, 403)
}
