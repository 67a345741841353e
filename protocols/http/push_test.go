package httpd

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"polylog/core"
	"polylog/router"
	"polylog/router/state"
)

// sink is an endpoint that keeps what it got. answer says what it answers to the n-th request,
// counting from 0; 200 where it is nil.
type sink struct {
	*httptest.Server
	t   *testing.T
	got chan delivered

	mu     sync.Mutex
	n      int                                                           // guarded by mu
	answer func(n int, w http.ResponseWriter, d *delivered) (status int) // guarded by mu
}

type delivered struct {
	method, body, id string
	header           http.Header
}

func newSink(t *testing.T, answer func(n int, w http.ResponseWriter, d *delivered) int) *sink {
	t.Helper()
	s := &sink{t: t, got: make(chan delivered, 10_000), answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // its sender gave up
		}
		d := delivered{r.Method, string(body), r.Header.Get("webhook-id"), r.Header}
		s.mu.Lock()
		status := 200
		if s.answer != nil {
			status = s.answer(s.n, w, &d)
		}
		s.n++
		s.mu.Unlock()
		w.WriteHeader(status)
		s.got <- d
	}))
	t.Cleanup(s.Close)
	return s
}

// next waits for a request.
func (s *sink) next() delivered {
	s.t.Helper()
	select {
	case d := <-s.got:
		return d
	case <-time.After(20 * time.Second):
		s.t.Fatal("nothing was delivered")
		return delivered{}
	}
}

func (s *sink) several(n int) (all []delivered) {
	for range n {
		all = append(all, s.next())
	}
	return all
}

// pushTo is a site with a topic t whose subscription s is pushed.
func pushTo(t *testing.T, url, push, rest string) *site {
	t.Helper()
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/t", `{"partitions": 1}`).want(t, 201)
	s.do("PUT", sub, fmt.Sprintf(`{"topic": "t", "from": "start", "push": {"url": %q%s}%s}`, url, push, rest)).want(t, 201)
	return s
}

// until repeats a request until its answer has a text.
func (s *site) until(method, path, want string, header ...string) reply {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		r := s.do(method, path, "", header...)
		if strings.Contains(r.body, want) {
			return r
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s %s: %s, want %s", method, path, r.body, want)
		}
	}
}

const testSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// signedBy reports whether a delivery has a signature of a secret: Standard Webhooks 1.0.
func signedBy(t *testing.T, d *delivered, secret string) bool {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(d.header.Get("webhook-id") + "." + d.header.Get("webhook-timestamp") + "." + d.body))
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return slices.Contains(strings.Fields(d.header.Get("webhook-signature")), want)
}

func TestPush(t *testing.T) {
	k := newSink(t, nil)
	s := pushTo(t, k.URL+"/in", `, "secrets": ["`+testSecret+`"], "headers": {"Authorization": "Bearer 1234"}`, "")
	s.do("POST", "/v1/topics/t/messages", `{"messages": [{"key": "k1", "value": "hello", "contentType": "text/plain", "type": "greeting", "headers": {"a": "b"}}]}`,
		"Content-Type: application/json").want(t, 200)
	d := k.next()
	if d.body != "hello" || !signedBy(t, &d, testSecret) || !strings.HasPrefix(d.id, "msg_") {
		t.Fatalf("%+v", d)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer 1234", "Content-Type": "text/plain", "X-Key": "k1", "X-Type": "greeting", "X-Header": "a=b", "User-Agent": "polylog/",
	} {
		if got := d.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	s.until("GET", sub, `"counts":{"ready":0,"unsettled":0,"delayed":0`)
	got := s.do("GET", sub, "").want(t, 200, `"headerNames":["Authorization"]`, `"state":"active"`, `"maxDeliveries":10`, `"deadLetterQueue":"s.dead"`, `"hint"`)
	if strings.Contains(got.body, "1234") || strings.Contains(got.body, testSecret[6:]) {
		t.Fatalf("a secret is shown: %s", got.body)
	}
	s.until("GET", sub+"/attempts", `"outcome":"delivered"`).want(t, 200, `"id":"`+d.id+`"`, `"status":200`)
	s.post(sub+":pull", `{}`).want(t, 409, "pushed")
	s.do("POST", sub+":test", "").want(t, 200, `"id":"test_`, `"status":200`)
	if test := k.next(); test.body != `{"test":true}` || !signedBy(t, &test, testSecret) {
		t.Fatalf("%+v", test)
	}
	// Who is made to send elsewhere keeps the secret; a new subscription gets one, and it is told once.
	s.do("PUT", sub, fmt.Sprintf(`{"topic": "t", "push": {"url": %q}}`, k.URL)).want(t, 200, `"headerNames":["Authorization"]`)
	made := into[struct{ Push struct{ Secret string } }](t, s.do("PUT", sub+"2", fmt.Sprintf(`{"topic": "t", "push": {"url": %q}}`, k.URL)).want(t, 201))
	if !strings.HasPrefix(made.Push.Secret, "whsec_") {
		t.Fatalf("%+v", made)
	}
	// For a while both secrets sign.
	rotated := into[struct{ Secret string }](t, s.post(sub+":rotate", `{}`).want(t, 200, `"until"`))
	s.do("POST", sub+":test", "").want(t, 200)
	if d := k.next(); !signedBy(t, &d, testSecret) || !signedBy(t, &d, rotated.Secret) {
		t.Fatalf("%+v", d.header)
	}
	for range 2 {
		s.post(sub+":rotate", `{}`).want(t, 200)
	}
	s.post(sub+":rotate", `{}`).want(t, 409, "4 secrets sign already") // none that was promised to go on is dropped
	s.post(sub+":rotate", `{"secret": "`+testSecret+`", "keepMs": 0}`).want(t, 200)
	s.do("POST", sub+":test", "").want(t, 200)
	if d := k.next(); !signedBy(t, &d, testSecret) || signedBy(t, &d, rotated.Secret) {
		t.Fatalf("%+v", d.header)
	}
	s.do("DELETE", sub, "").want(t, 204)
}

// An endpoint that fails gets a message as often as it is said, under the same id and a new
// signature; then it is dead, with what it died of, and can be delivered once more.
func TestPushDeadLetters(t *testing.T) {
	good := make(chan struct{})
	k := newSink(t, func(int, http.ResponseWriter, *delivered) int {
		select {
		case <-good:
			return 204
		default:
			return 403
		}
	})
	s := pushTo(t, k.URL, "", `, "maxDeliveries": 4, "retry": {"minMs": 1, "maxMs": 1}`)
	s.publish("one")
	all := k.several(4)
	for _, d := range all {
		if d.id != all[0].id || d.body != "one" {
			t.Fatalf("%+v", all)
		}
	}
	dead := s.until("GET", "/v1/queues/s.dead/messages", `"value":"one"`)
	for _, want := range []string{all[0].id, "x-webhook-cause", `"value":"403"`, `"x-webhook-subscription","value":"s"`, `"x-webhook-attempts","value":"4"`, "/v1/topics/t"} {
		dead.want(t, 200, want)
	}
	s.until("GET", sub+"/attempts", `"outcome":"dead"`).want(t, 200, `"outcome":"retry"`, `"attempt":4`, `"class":"status"`)
	s.until("GET", sub, `"counts":{"ready":0,"unsettled":0,"delayed":0`)
	close(good)
	s.post("/v1/queues/s.dead:redrive", `{"filter": {"headers": {"x-webhook-status": "500"}}}`).want(t, 200, `{"moved":0,"skipped":1,"more":false,"reasons":[{"detail":"the filter does not want it","count":1}]}`)
	s.post("/v1/queues/s.dead:redrive", `{"filter": {"cel": "headers['x-webhook-status'] == '403'"}}`).want(t, 200, `{"moved":1,"skipped":0,"more":false}`)
	if d := k.next(); d.id != all[0].id || d.body != "one" {
		t.Fatalf("%+v", d)
	}
	s.until("GET", "/v1/queues/s.redrive", `"counts":{"ready":0,"unsettled":0`)
	s.post("/v1/queues/s.dead:redrive", `{"to": {"topic": "t", "queue": "x"}}`).want(t, 400)
	s.post("/v1/queues/s.dead:redrive", `{"to": {"queue": "s.dead"}}`).want(t, 400)
	s.post("/v1/queues/s.dead:redrive", `{"max": 0}`).want(t, 400)
	s.do("DELETE", sub, "").want(t, 204)
	s.do("GET", "/v1/queues/s.redrive", "").want(t, 404)
}

// A status that can never become better makes a message dead at once; 410 switches the endpoint
// off and loses nothing; 429 is no failure.
func TestPushAnswers(t *testing.T) {
	k := newSink(t, func(n int, w http.ResponseWriter, d *delivered) int {
		switch {
		case d.body == "bad":
			return 422
		case n == 1:
			w.Header().Set("Retry-After", "0")
			w.Header().Set("Location", "http://127.0.0.1/elsewhere")
			return 302
		case n == 3:
			return 410
		}
		return 200
	})
	s := pushTo(t, k.URL, `, "permanentStatuses": [422]`, `, "retry": {"minMs": 1, "maxMs": 1}`)
	s.publish("bad", "moved")
	k.several(3)
	s.until("GET", sub+"/attempts", `"class":"redirect"`)
	s.until("GET", "/v1/queues/s.dead/messages", `"value":"bad"`)
	s.publish("gone")
	k.next()
	s.until("GET", sub, `"state":"disabled"`).want(t, 200, "410")
	s.until("GET", sub, `"counts":{"ready":1,"unsettled":0`)
	s.do("POST", sub+":enable", "").want(t, 204)
	if d := k.next(); d.body != "gone" {
		t.Fatalf("%+v", d)
	}
	s.until("GET", sub, `"state":"active"`)
}

// A subscription that is paused is sent nothing: not by the next leader either, and not before somebody enables it.
func TestPushPaused(t *testing.T) {
	k := newSink(t, nil)
	s := pushTo(t, k.URL, "", "")
	s.do("POST", sub+":pause", "").want(t, 204)
	s.do("POST", sub+":pause", "").want(t, 204)
	s.do("GET", sub, "").want(t, 200, `"state":"paused"`, `"paused":true`)
	b := newSite(t, s, nil)
	s.publish("waits")
	b.log.SetLeader(true)
	s.until("GET", sub, `"counts":{"ready":1,"unsettled":0`)
	b.do("POST", sub+":enable", "").want(t, 204)
	if d := k.next(); d.body != "waits" {
		t.Fatalf("%+v", d)
	}
	b.do("GET", sub, "").want(t, 200, `"state":"active"`)
}

// What is published after the answer to :pause is not sent, however soon it comes, and is signed by the new secret after
// that to :rotate.
func TestPushChangesAtOnce(t *testing.T) {
	k := newSink(t, nil)
	s := pushTo(t, k.URL, "", "")
	for n := range 5 {
		first, later := fmt.Sprint("first ", n), fmt.Sprint("later ", n)
		s.publish(first)
		if d := k.next(); d.body != first {
			t.Fatalf("%+v, want %s", d, first)
		}
		s.do("POST", sub+":pause", "").want(t, 204)
		s.publish(later)
		s.until("GET", sub, `"counts":{"ready":1,"unsettled":0`) // had it been sent it would be settled
		if len(k.got) > 0 {
			t.Fatalf("%+v came while it was paused", <-k.got)
		}
		s.do("POST", sub+":enable", "").want(t, 204)
		if d := k.next(); d.body != later {
			t.Fatalf("%+v, want %s", d, later)
		}
	}
	rotated := into[struct{ Secret string }](t, s.post(sub+":rotate", `{}`).want(t, 200))
	s.publish("signed")
	if d := k.next(); d.body != "signed" || !signedBy(t, &d, rotated.Secret) {
		t.Fatalf("%+v is not signed by the new secret", d)
	}
}

// Subscriptions are found by their name, by what they are of, and by their endpoint.
func TestSubscriptionSearch(t *testing.T) {
	k := newSink(t, nil)
	s := pushTo(t, k.URL, "", "") // s, of topic t
	s.do("PUT", "/v1/topics/orders", "").want(t, 201)
	for _, name := range []string{"reader-1", "reader-2", "reader-3"} {
		s.do("PUT", "/v1/subscriptions/"+name, `{"topic": "orders"}`).want(t, 201)
	}
	for query, want := range map[string][]string{
		"": {"reader-1", "reader-2", "reader-3", "s"}, "search=READER-2": {"reader-2"}, "search=orders&limit=2": {"reader-1", "reader-2"},
		"search=orders&limit=2&cursor=reader-2": {"reader-3"}, "pushed": {"s"}, "pushed=false&limit=3": {"reader-1", "reader-2", "reader-3"},
		"search=127.0.0.1": {"s"}, "search=nix": nil,
	} {
		r := s.do("GET", "/v1/subscriptions?"+query, "").want(t, 200)
		var page struct{ Subscriptions []struct{ Name string } }
		if err := json.Unmarshal([]byte(r.body), &page); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, one := range page.Subscriptions {
			got = append(got, one.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
		if more := strings.Contains(r.body, `"next"`); more != (query == "search=orders&limit=2") && query != "pushed=false&limit=3" {
			t.Errorf("%s: next: %v", query, more)
		}
	}
}

// In ordered mode a key that fails holds up itself alone, and its messages come in their order.
func TestPushOrdered(t *testing.T) {
	const tries = 4
	k := newSink(t, nil)
	k.answer = func() func(int, http.ResponseWriter, *delivered) int {
		failed := 0
		return func(_ int, _ http.ResponseWriter, d *delivered) int {
			if d.body == "a0" && failed < tries {
				failed++
				return 500
			}
			return 200
		}
	}()
	s := pushTo(t, k.URL, `, "ordered": true`, `, "retry": {"minMs": 20, "maxMs": 20}`)
	var body strings.Builder
	for i := range 20 {
		fmt.Fprintf(&body, `{"key": "a", "value": "a%d"}`+"\n"+`{"key": "b", "value": "b%d"}`+"\n", i, i)
	}
	s.do("POST", "/v1/topics/t/messages", body.String(), "Content-Type: application/x-ndjson").want(t, 200)
	byKey := map[string][]string{}
	for _, d := range k.several(40 + tries) {
		key := d.header.Get("X-Key")
		byKey[key] = append(byKey[key], d.body)
	}
	for _, key := range []string{"a", "b"} {
		want := []string{}
		if key == "a" {
			want = slices.Repeat([]string{"a0"}, tries)
		}
		for i := range 20 {
			want = append(want, fmt.Sprintf("%s%d", key, i))
		}
		if !slices.Equal(byKey[key], want) {
			t.Errorf("%s: %v", key, byKey[key])
		}
	}
}

// A message that was put off and then trimmed holds up those behind it no longer.
func TestPushOrderedTrimmed(t *testing.T) {
	k := newSink(t, nil)
	k.answer = func(_ int, _ http.ResponseWriter, d *delivered) int {
		if d.body == "0" {
			return 500
		}
		return 200
	}
	s := pushTo(t, k.URL, `, "ordered": true`, `, "retry": {"minMs": 300, "maxMs": 300}`)
	for i := range 2 {
		s.do("POST", "/v1/topics/t/messages", fmt.Sprint(i), "X-Key: k").want(t, 200)
	}
	k.next()
	topic, _ := s.router.Topic(core.TopicName("t"))
	if out, err := s.router.Trim(t.Context(), router.Principal{}, []router.TrimRequest{{Queue: topic.Partitions[0], Before: 1}}); err != nil || out[0].Err != nil {
		t.Fatal(out, err)
	}
	for k.next().body != "1" {
	}
}

// A message of a queue that somebody else took while it was put off holds up those behind it no longer.
func TestPushOrderedTaken(t *testing.T) {
	k := newSink(t, func(_ int, _ http.ResponseWriter, d *delivered) int {
		if d.body == "0" {
			return 500
		}
		return 200
	})
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/queues/q", "").want(t, 201)
	s.do("PUT", sub, fmt.Sprintf(`{"queue": "q", "push": {"url": %q, "ordered": true}, "retry": {"minMs": 300, "maxMs": 300}}`, k.URL)).want(t, 201)
	s.do("POST", "/v1/queues/q/messages", "later", "X-Delay-Ms: 600000").want(t, 200) // what is before it is not over
	s.do("POST", "/v1/queues/q/messages", "0", "X-Key: k").want(t, 200)
	k.next()
	p := s.pull("/v1/queues/q", `{"max": 1, "waitMs": 20000}`)
	s.post("/v1/queues/q:ack", fmt.Sprintf(`{"receipts": [%q]}`, p.Messages[0].Receipt)).want(t, 200)
	s.do("POST", "/v1/queues/q/messages", "1", "X-Key: k").want(t, 200)
	for k.next().body != "1" {
	}
}

// Whoever changes a subscription while a message of it fails has its key go on in order, though the log is slow.
func TestPushOrderedChanged(t *testing.T) {
	begun, change := make(chan struct{}, 1), make(chan struct{})
	k := newSink(t, func(n int, _ http.ResponseWriter, _ *delivered) int {
		if n > 0 {
			return 200
		}
		begun <- struct{}{}
		<-change
		return 500
	})
	s := pushTo(t, k.URL, `, "ordered": true`, `, "retry": {"minMs": 1000, "maxMs": 1000}`)
	for i := range 2 {
		s.do("POST", "/v1/topics/t/messages", fmt.Sprint(i), "X-Key: k").want(t, 200)
	}
	<-begun
	s.do("PUT", sub, fmt.Sprintf(`{"topic": "t", "push": {"url": %q, "ordered": true}, "retry": {"minMs": 1000, "maxMs": 1001}}`, k.URL)).want(t, 200)
	other := newSink(t, nil) // when it is pushed to, the engine has noticed
	s.do("PUT", "/v1/topics/u", `{"partitions": 1}`).want(t, 201)
	s.do("POST", "/v1/topics/u/messages", "noticed").want(t, 200)
	s.do("PUT", sub+"2", fmt.Sprintf(`{"topic": "u", "from": "start", "push": {"url": %q}}`, other.URL)).want(t, 201)
	other.next()
	s.log.Hold()
	close(change)
	k.next()
	for range 100 { // meanwhile whoever comes after reads what was put off
		s.do("GET", "/v1/topics/t", "").want(t, 200)
	}
	s.log.Release()
	for _, want := range []string{"0", "1"} {
		if d := k.next(); d.body != want {
			t.Fatalf("%+v, want %s", d, want)
		}
	}
}

// What the endpoint before answers at last switches off nobody who came after it.
func TestPushMovedWhileGone(t *testing.T) {
	begun, moved := make(chan struct{}, 1), make(chan struct{})
	before := newSink(t, func(int, http.ResponseWriter, *delivered) int {
		begun <- struct{}{}
		<-moved
		return 410
	})
	after := newSink(t, nil)
	s := pushTo(t, before.URL, "", "")
	s.publish("one")
	<-begun
	s.do("PUT", sub, fmt.Sprintf(`{"topic": "t", "push": {"url": %q}}`, after.URL)).want(t, 200)
	close(moved)
	before.next()
	if d := after.next(); d.body != "one" {
		t.Fatalf("%+v", d)
	}
	s.do("GET", sub, "").want(t, 200, `"state":"active"`)
}

// A queue that is deleted while dead letters go to it takes none with it that did not go yet, and the answer says that there are more.
func TestRedriveToDeleted(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/queues/dead", "").want(t, 201)
	s.do("PUT", "/v1/queues/q", "").want(t, 201)
	for i := range 2 {
		s.do("POST", "/v1/queues/dead/messages", fmt.Sprint(i)).want(t, 200)
	}
	moved := make(chan reply)
	go func() {
		moved <- s.post("/v1/queues/dead:redrive", `{"to": {"queue": "q"}, "ratePerSecond": 1}`)
	}()
	s.until("GET", "/v1/queues/q", `"ready":1`)
	s.do("DELETE", "/v1/queues/q", "").want(t, 200)
	(<-moved).want(t, 200, `{"moved":1,"skipped":0,"more":true}`)
	s.until("GET", "/v1/queues/dead", `"ready":1`)
}

// A node that is behind puts nothing back that was changed over another one.
func TestPushChangedOverTwoNodes(t *testing.T) {
	a := pushTo(t, "http://127.0.0.1:1/before", "", "")
	b := newSite(t, a, nil)
	b.do("GET", sub, "").want(t, 200, "/before")
	b.log.Hold()
	a.do("PUT", sub, `{"topic": "t", "push": {"url": "http://127.0.0.1:1/after"}}`).want(t, 200, "/after")
	sent := a.log.Commands(state.CodeSetSubscription)
	rotated := make(chan reply)
	go func() { rotated <- b.do("POST", sub+":rotate", "{}", "Content-Type: application/json") }()
	for b.log.Waiting() == 0 && a.log.Commands(state.CodeSetSubscription) == sent {
		runtime.Gosched()
	}
	b.log.Release()
	(<-rotated).want(t, 200, "/after")
	a.do("GET", sub, "").want(t, 200, "/after")
}

// Filters, expiry and delays are as with pulls.
func TestPushFiltered(t *testing.T) {
	k := newSink(t, nil)
	s := pushTo(t, k.URL, "", `, "filter": {"cel": "headers.n > 1 && key != 'x'"}`)
	s.do("POST", "/v1/topics/t/messages", `{"messages": [{"value": "no", "headers": {"n": 1}}, {"value": "late", "headers": {"n": 2}, "expiresAt": 1},
		{"value": "delayed", "headers": {"n": 2}, "delayMs": 200}, {"value": "yes", "headers": {"n": 3}}]}`, "Content-Type: application/json").want(t, 200)
	got := []string{k.next().body, k.next().body} // in either order: the delay may be over before the first request
	if slices.Sort(got); !slices.Equal(got, []string{"delayed", "yes"}) {
		t.Fatalf("%q", got)
	}
	s.until("GET", sub, `"counts":{"ready":0,"unsettled":0,"delayed":0`)
	s.do("PUT", sub, `{"topic": "t", "filter": {"cel": "nonsense"}}`).want(t, 400, "undeclared")
}

// CloudEvents: what came as an event goes out as one, in either mode; other messages become one.
func TestPushCloudEvents(t *testing.T) {
	binary, structured := newSink(t, nil), newSink(t, nil)
	s := pushTo(t, binary.URL, `, "format": "cloudevents-binary"`, "")
	s.do("PUT", sub+"2", fmt.Sprintf(`{"topic": "t", "from": "start", "push": {"url": %q, "format": "cloudevents-structured"}}`, structured.URL)).want(t, 201)
	s.do("POST", "/v1/topics/t/messages", `{"n":1}`, "ce-specversion: 1.0", "ce-id: e 1", "ce-source: /s", "ce-type: t1", "Content-Type: application/json").want(t, 200)
	one, two := binary.next(), structured.next()
	if one.header.Get("ce-id") != "e%201" || one.header.Get("ce-type") != "t1" || one.body != `{"n":1}` || one.header.Get("Content-Type") != "application/json" {
		t.Errorf("%+v", one)
	}
	var e map[string]any
	if err := json.Unmarshal([]byte(two.body), &e); err != nil || e["id"] != "e 1" || fmt.Sprint(e["data"]) != "map[n:1]" || e["specversion"] != "1.0" {
		t.Errorf("%v: %+v", err, two)
	}
	event := `{"specversion":"1.0","id":"e2","source":"/s","type":"t2","datacontenttype":"text/plain","data":"é","n":5}`
	s.do("POST", "/v1/topics/t/messages", event, "Content-Type: application/cloudevents+json").want(t, 200)
	one, two = binary.next(), structured.next()
	if one.header.Get("ce-id") != "e2" || one.body != "é" || one.header.Get("ce-n") != "5" || one.header.Get("Content-Type") != "text/plain" || two.body != event {
		t.Errorf("%+v %+v", one, two)
	}
	s.do("POST", "/v1/topics/t/messages", "\xff", "X-Key: k").want(t, 200)
	one, two = binary.next(), structured.next()
	if one.header.Get("ce-type") != "polylog.message" || one.header.Get("ce-source") != "/v1/topics/t" || one.header.Get("ce-id") != one.id || one.body != "\xff" ||
		one.header.Get("ce-partitionkey") != "k" || !strings.Contains(two.body, `"data_base64":"/w=="`) {
		t.Errorf("%+v %+v", one, two)
	}
}

// Without the endpoint's consent there is no subscription.
func TestPushHandshake(t *testing.T) {
	consent := ""
	k := newSink(t, func(_ int, w http.ResponseWriter, d *delivered) int {
		if d.method == "OPTIONS" && consent != "" {
			w.Header().Set("WebHook-Allowed-Origin", consent)
			w.Header().Set("WebHook-Allowed-Rate", "6000")
		}
		return 200
	})
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/t", `{"partitions": 1}`).want(t, 201)
	gone := httptest.NewServer(nil)
	gone.Close()
	s.do("PUT", sub, fmt.Sprintf(`{"topic": "t", "push": {"url": %q, "handshake": true}}`, gone.URL)).want(t, 503, `"retryable":true`, "handshake")
	spec := fmt.Sprintf(`{"topic": "t", "push": {"url": %q, "handshake": true}}`, k.URL)
	s.do("PUT", sub, spec).want(t, 403, "did not consent")
	s.do("GET", sub, "").want(t, 404)
	k.next()
	k.mu.Lock()
	consent = "polylog"
	k.mu.Unlock()
	s.do("PUT", sub, spec).want(t, 201, `"allowedPerMinute":6000`)
	if d := k.next(); d.header.Get("WebHook-Request-Origin") != "polylog" {
		t.Fatalf("%+v", d)
	}
	s.publish("x")
	if d := k.next(); d.header.Get("Origin") != "polylog" || d.body != "x" {
		t.Fatalf("%+v", d)
	}
}

// What an endpoint may not be is refused when it is said.
func TestPushRefused(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/t", `{"partitions": 1}`).want(t, 201)
	for push, want := range map[string]string{
		`{"url": ""}`:                                                         "push.url",
		`{"url": "ftp://example.com"}`:                                        "http or https",
		`{"url": "http://user:pass@example.com"}`:                             "user",
		`{"url": "http://example.com:99999"}`:                                 "port",
		`{"url": "http://10.0.0.1/"}`:                                         "webhook-allow",
		`{"url": "http://127.0.0.1", "format": "xml"}`:                        "push.format",
		`{"url": "http://127.0.0.1", "maxInFlight": -1}`:                      "maxInFlight",
		`{"url": "http://127.0.0.1", "secrets": ["x"]}`:                       "whsec_",
		`{"url": "http://127.0.0.1", "secrets": ["whsec_eA=="]}`:              "24 to 64",
		`{"url": "http://127.0.0.1", "headers": {"Webhook-Id": "x"}}`:         "not yours",
		`{"url": "http://127.0.0.1", "headers": {"a b": "x"}}`:                "no name",
		`{"url": "http://127.0.0.1", "headers": {"a": "x\r\ny"}}`:             "control",
		`{"url": "http://127.0.0.1", "permanentStatuses": [200]}`:             "300 to 599",
		`{"url": "http://127.0.0.1", "timeoutMs": 60001}`:                     "timeoutMs",
		`{"url": "http://127.0.0.1", "handshake": true, "nonsense": "field"}`: "nonsense",
	} {
		r := s.do("PUT", sub, `{"topic": "t", "push": `+push+`}`)
		if r.status != 400 && r.status != 403 || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s", push, r.status, r.body)
		}
	}
	s.do("POST", sub+":test", "").want(t, 404)
	s.do("PUT", sub, `{"topic": "t"}`).want(t, 201)
	for _, verb := range []string{":test", ":enable", ":pause", ":rotate"} {
		s.do("POST", sub+verb, "").want(t, 409, "not pushed")
	}
}

// The next leader goes on where the one before was: what it had put off comes when it is due,
// what was under way comes again, in order and under the same id.
func TestPushSurvivesLeaderChange(t *testing.T) {
	var mu sync.Mutex
	broken := true
	k := newSink(t, func(_ int, _ http.ResponseWriter, d *delivered) int {
		mu.Lock()
		defer mu.Unlock()
		if broken && d.body == "0" {
			return 500
		}
		return 200
	})
	a := pushTo(t, k.URL, `, "ordered": true`, `, "retry": {"minMs": 300, "maxMs": 300}`)
	b := newSite(t, a, nil)
	for i := range 5 {
		a.do("POST", "/v1/topics/t/messages", fmt.Sprint(i), "X-Key: k").want(t, 200)
	}
	first := k.next()
	b.log.SetLeader(true)
	mu.Lock()
	broken = false
	mu.Unlock()
	var got []string
	for len(got) < 5 {
		d := k.next()
		if d.body == "0" && d.id != first.id {
			t.Fatalf("%+v, then %+v", first, d)
		}
		if !slices.Contains(got, d.body) {
			got = append(got, d.body)
		}
	}
	if !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) {
		t.Fatal(got)
	}
	b.until("GET", sub, `"counts":{"ready":0,"unsettled":0,"delayed":0`)
}

// While an endpoint is left alone its attempts say so, and not when the message alone would be due; who
// mends it has it tried at once.
func TestPushLeftAlone(t *testing.T) {
	good := make(chan struct{})
	k := newSink(t, func(int, http.ResponseWriter, *delivered) int {
		select {
		case <-good:
			return 200
		default:
			return 500
		}
	})
	s := pushTo(t, k.URL, "", `, "maxDeliveries": 100, "retry": {"minMs": 1, "maxMs": 1}`)
	s.publish("one")
	k.several(10)
	s.until("GET", sub, `"state":"failing"`)
	s.until("GET", sub+"/attempts", `"attempt":10`)
	page := into[struct {
		Attempts []struct {
			Attempt    int
			Time, Next time.Time
		}
	}](t, s.do("GET", sub+"/attempts", "").want(t, 200))
	for _, a := range page.Attempts {
		if wait := a.Next.Sub(a.Time); (wait > 20*time.Second) != (a.Attempt == 10) {
			t.Errorf("attempt %d is tried again after %v", a.Attempt, wait)
		}
	}
	close(good)
	s.do("POST", sub+":enable", "").want(t, 204)
	if d := k.next(); d.body != "one" {
		t.Fatalf("%+v", d)
	}
	s.until("GET", sub, `"state":"active"`)
	s.until("GET", sub, `"counts":{"ready":0,"unsettled":0,"delayed":0`)
}

// An endpoint that is made among dead ones with messages waiting gets all of its own; each of the dead is tried, and
// one that comes to life gets what it missed.
func TestPushBesideDead(t *testing.T) {
	const dead = 40
	live, nobody := newSink(t, nil), newSink(t, nil)
	nobody.Close()
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/t", `{"partitions": 1}`).want(t, 201)
	for i := range 3 {
		s.publish(fmt.Sprint(i))
	}
	spec := func(url string) string {
		return fmt.Sprintf(`{"topic": "t", "from": "start", "maxDeliveries": 100, "retry": {"minMs": 1, "maxMs": 1}, "push": {"url": %q}}`, url)
	}
	for i := range dead {
		s.do("PUT", fmt.Sprintf("/v1/subscriptions/dead-%d", i), spec(nobody.URL)).want(t, 201)
	}
	s.do("PUT", sub, spec(live.URL)).want(t, 201)
	s.until("GET", sub, `"counts":{"ready":0,"unsettled":0,"delayed":0`)
	live.several(3)
	for i := range dead {
		s.until("GET", fmt.Sprintf("/v1/subscriptions/dead-%d", i), `"state":"failing"`)
	}
	s.do("PUT", "/v1/subscriptions/dead-7", spec(live.URL)).want(t, 200)
	s.do("POST", "/v1/subscriptions/dead-7:enable", "").want(t, 204)
	live.several(3)
	s.until("GET", "/v1/subscriptions/dead-7", `"counts":{"ready":0,"unsettled":0,"delayed":0`)
}

// Research F, row 11 (outpost#314): an endpoint whose name does not exist (RFC 6761, 6.4) is tried again, as
// others are.
func TestPushToNowhere(t *testing.T) {
	s := pushTo(t, "http://nope.invalid/in", `, "timeoutMs": 1000`, "")
	s.publish("one")
	s.until("GET", sub+"/attempts", `"class":"dns"`).want(t, 200, `"outcome":"retry"`, `"attempt":1`, `"next":"`)
	s.do("GET", sub, "").want(t, 200, `"unsettled":0,"delayed":1`)
}

// Research F, row 12 (knative/eventing#5427): a page of HTML that an endpoint answers with breaks nothing.
func TestPushAnsweredWithAPage(t *testing.T) {
	const page = "<html>\r\n<body>\n\"405\"\x00</body>\n"
	k := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusMethodNotAllowed)
		_, _ = io.WriteString(w, page)
	}))
	defer k.Close()
	s := pushTo(t, k.URL, "", `, "maxDeliveries": 2, "retry": {"minMs": 1, "maxMs": 1}`)
	s.publish("one")
	s.until("GET", "/v1/queues/s.dead/messages", `"value":"one"`).want(t, 200,
		`{"name":"x-webhook-status","value":"405"}`, `{"name":"x-webhook-detail","value":"405 Method Not Allowed"}`)
	s.until("GET", sub+"/attempts", `"outcome":"dead"`)
	all := into[struct {
		Attempts []struct{ Detail, Response string }
	}](t, s.do("GET", sub+"/attempts", "").want(t, 200))
	for _, a := range all.Attempts {
		if a.Detail != "405 Method Not Allowed" || a.Response != page {
			t.Errorf("%+v", a)
		}
	}
}
