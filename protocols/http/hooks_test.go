package httpd

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polylog/core"
	"polylog/router"
)

const hookAt = "/v1/hooks/h"

// hub is GitHub's signature of a body.
func hub(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return fmt.Sprintf("X-Hub-Signature-256: sha256=%x", mac.Sum(nil))
}

// A webhook is stored as it came, once, on whichever node and however often it is sent, and
// nobody is told its secret.
func TestHook(t *testing.T) {
	first := newSite(t, nil, nil)
	second := newSite(t, first, nil)
	first.do("PUT", "/v1/topics/events", `{"partitions": 1}`).want(t, 201)
	first.do("PUT", hookAt, `{"topic": "events", "preset": "github", "secrets": ["secret one"], "key": "json:/repository/full_name", "headers": ["X-GitHub-Hook-Id", "User-Agent"]}`).
		want(t, 201, `"path":"/hooks/h"`, `"id":"header:X-GitHub-Delivery"`, `"secrets":[{"hint":`)
	first.do("GET", "/v1/hooks?search=H", "").want(t, 200, `"name":"h"`)
	first.do("GET", "/v1/hooks?search=x", "").want(t, 200, `{"hooks":[]}`)
	for _, path := range []string{hookAt, "/v1/hooks"} {
		if r := second.do("GET", path, "").want(t, 200); strings.Contains(r.body, "secret one") || strings.Contains(r.body, `"secret":`) {
			t.Fatalf("it tells the secret: %s", r.body)
		}
	}
	const body = "{\"n\": 12345678901234567890,  \"repository\": {\"full_name\": \"a/b\"}}\n"
	send := func(s *site, body string, headers ...string) reply {
		return s.do("POST", "/hooks/h", body, append(headers, "Content-Type: application/json", "X-GitHub-Event: push", "X-GitHub-Hook-Id: 7", "User-Agent: GitHub", "X-Key: mine", "X-Delay-Ms: 100000")...)
	}
	send(first, body, "X-GitHub-Delivery: d1", hub("secret one", body)).want(t, 200, `{"duplicate":false}`)
	send(second, body, "X-GitHub-Delivery: d1", hub("secret one", body)).want(t, 200, `{"duplicate":true}`)
	send(second, "[]", "X-GitHub-Delivery: d2", hub("secret one", "[]")).want(t, 200, `{"duplicate":false}`)
	send(second, "none", hub("secret one", "none")).want(t, 200, `{"duplicate":false}`) // no id, no duplicates
	send(second, "none", hub("secret one", "none")).want(t, 200, `{"duplicate":false}`)
	send(first, body, "X-GitHub-Delivery: d3", hub("another", body)).want(t, 401, `"code":"bad_signature"`)
	rs := first.records("events", 0)
	if len(rs) != 4 {
		t.Fatalf("%d messages are stored", len(rs))
	}
	want := fmt.Sprintf("%q=%q content-type:application/json message-id:d1 type:push x-github-hook-id:7 user-agent:GitHub", "a/b", body)
	if got := show(rs[0]); !sameWords(got, want) || rs[0].Key == nil || rs[1].Key != nil {
		t.Errorf("stored  %s\nwant    %s", got, want)
	}

	// Whoever changes it needs not say its secrets again.
	first.do("PUT", hookAt, `{"topic": "events", "preset": "github", "maxBytes": 10}`).want(t, 200)
	send(first, body, "X-GitHub-Delivery: d4", hub("secret one", body)).want(t, 413)
	send(first, "[4]", "X-GitHub-Delivery: d4", hub("secret one", "[4]")).want(t, 200)
	first.do("DELETE", hookAt, "").want(t, 204)
	send(first, body, "X-GitHub-Delivery: d5", hub("secret one", body)).want(t, 404)
	first.do("DELETE", hookAt, "").want(t, 404)
}

// sameWords reports whether two texts have the same words, whatever their order.
func sameWords(a, b string) bool {
	count := map[string]int{}
	for w := range strings.FieldsSeq(a) {
		count[w]++
	}
	for w := range strings.FieldsSeq(b) {
		count[w]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

func TestHookSecrets(t *testing.T) {
	s := newSite(t, nil, nil)
	type hook struct {
		Secret  string
		Secrets []struct{ Hint string }
	}
	made := into[hook](t, s.do("PUT", hookAt, `{"topic": "events", "preset": "bearer"}`).want(t, 201))
	send := func(secret string) reply { return s.do("POST", "/hooks/h", "x", "Authorization: Bearer "+secret) }
	send(made.Secret).want(t, 200)
	if r := send("wrong").want(t, 401, "bad_credentials"); r.header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("%v", r.header)
	}
	next := into[hook](t, s.do("POST", hookAt+":rotate", `{}`).want(t, 200))
	send(made.Secret).want(t, 200)
	send(next.Secret).want(t, 200)
	last := into[hook](t, s.do("POST", hookAt+":rotate", `{"secret": "one of my own", "keepMs": 0}`).want(t, 200))
	if last.Secret != "" || len(last.Secrets) != 1 {
		t.Errorf("%+v", last)
	}
	send(next.Secret).want(t, 401)
	send("one of my own").want(t, 200)
	s.do("POST", hookAt+":rotate", `{"secret": "short"}`).want(t, 400)
	s.do("POST", "/v1/hooks/none:rotate", `{}`).want(t, 404)

	// With another preset the secret is another one, too.
	basic := into[hook](t, s.do("PUT", hookAt, `{"topic": "events", "preset": "basic", "username": "me"}`).want(t, 200))
	auth := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+basic.Secret))
	s.do("POST", "/hooks/h", "x", auth).want(t, 200)
	s.do("POST", "/hooks/h", "x", auth, "Origin: https://evil.example").want(t, 403, "cross_origin")
	s.do("PUT", hookAt, `{"topic": "events", "preset": "stripe"}`).want(t, 400, "Stripe makes the secret")
	s.do("PUT", hookAt, `{"topic": "a/b", "preset": "github"}`).want(t, 400)
	s.do("PUT", hookAt, `{"topic": "a", "preset": "standard", "secrets": ["whsec_x"]}`).want(t, 400)
}

// Those who rotate at the same time do not undo each other's.
func TestHookRotatedByMany(t *testing.T) {
	first := newSite(t, nil, nil)
	sites := []*site{first, newSite(t, first, nil)}
	first.do("PUT", hookAt, `{"topic": "events", "preset": "bearer", "secrets": ["secret zero"]}`).want(t, 201)
	var all sync.WaitGroup
	for i, s := range sites {
		all.Go(func() { s.do("POST", hookAt+":rotate", fmt.Sprintf(`{"secret": "secret no. %d"}`, i)).want(t, 200) })
	}
	all.Wait()
	for _, secret := range []string{"secret zero", "secret no. 0", "secret no. 1"} {
		first.do("POST", "/hooks/h", "x", "Authorization: Bearer "+secret).want(t, 200)
	}
}

// What is not committed is not answered as if it were, and comes again.
func TestHookAnswersAfterCommit(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", hookAt, `{"topic": "events", "preset": "bearer", "secrets": ["a long secret"], "id": "json:/id"}`).want(t, 201)
	const auth = "Authorization: Bearer a long secret"
	s.do("POST", "/hooks/h", `{"id": 1}`, auth).want(t, 200)
	s.log.Refuse(core.E(core.Unavailable, "no quorum"))
	for _, body := range []string{`{"id": 2}`, `{}`} {
		s.do("POST", "/hooks/h", body, auth).want(t, 503)
	}
	s.log.Refuse(nil)
	s.do("POST", "/hooks/h", `{"id": 2}`, auth).want(t, 200, `{"duplicate":false}`)
	s.do("POST", "/hooks/h", `{"id": 1}`, auth).want(t, 200, `{"duplicate":true}`)
	if n := len(s.records("events", 0)); n != 2 {
		t.Fatalf("%d messages", n)
	}
	s.do("DELETE", "/v1/topics/events", "").want(t, 204)
	change := []router.ConfigChange{{Key: "auto.create.topics.enable", Value: "false"}}
	if err := s.router.AlterBrokerConfig(t.Context(), router.Principal{}, change, false, false); err != nil {
		t.Fatal(err)
	}
	s.do("POST", "/hooks/h", `{"id": 3}`, auth).want(t, 503) // its sender is to come again
}

// An attempt has its own time and bytes; its id says what is the same.
func TestHookAttempts(t *testing.T) {
	var away atomic.Int64 // ms
	s := newSite(t, nil, func(o *Options) {
		o.Clock = func() time.Time { return time.Now().Add(time.Duration(away.Load()) * time.Millisecond) }
	})
	s.do("PUT", hookAt, `{"topic": "events", "preset": "standard", "secrets": ["`+testSecret+`"]}`).want(t, 201)
	send := func(id string, at int64, body string) reply {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(testSecret, "whsec_"))
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(mac, "%s.%d.%s", id, at, body) // never fails
		return s.do("POST", "/hooks/h", body, "webhook-id: "+id, fmt.Sprintf("webhook-timestamp: %d", at),
			"webhook-signature: v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	at := time.Now().Unix()
	send("msg_1", at, `{"type": "order.paid"}`).want(t, 200, "false")
	away.Store(time.Hour.Milliseconds())
	send("msg_1", at, `{"type": "order.paid"}`).want(t, 401, "bad_timestamp")
	send("msg_1", at+3600, `{"type": "order.paid", "attempt": 2}`).want(t, 200, "true")
	if r := s.records("events", 0); len(r) != 1 || !strings.Contains(show(r[0]), "type:order.paid") {
		t.Fatalf("%+v", r)
	}
}

func TestHookHandshakeAndEvents(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/namespaces/other", "").want(t, 201)
	s.do("PUT", "/v1/namespaces/other/hooks/h%2F1", `{"topic": "events", "preset": "hmac", "secrets": ["a long secret"], "id": "header:ce-id"}`).want(t, 201, `"path":"/hooks/other/h%2F1"`)
	r := s.do("OPTIONS", "/hooks/other/h%2F1", "", "WebHook-Request-Origin: events.example.com", "WebHook-Request-Rate: 120").want(t, 204)
	if r.header.Get("WebHook-Allowed-Origin") != "events.example.com" || r.header.Get("WebHook-Allowed-Rate") != "*" {
		t.Errorf("%v", r.header)
	}
	s.do("OPTIONS", "/hooks/other/h%2F1", "").want(t, 400)
	s.do("OPTIONS", "/hooks/none", "", "WebHook-Request-Origin: events.example.com").want(t, 404)
	s.do("GET", "/hooks/other/h%2F1", "").want(t, 405)
	s.do("POST", "/hooks/other/../h", "").want(t, 400)
	mac := hmac.New(sha256.New, []byte("a long secret"))
	mac.Write([]byte("x"))
	s.do("POST", "/hooks/other/h%2F1", "x", fmt.Sprintf("X-Signature: %x", mac.Sum(nil)),
		"ce-specversion: 1.0", "ce-id: e1", "ce-source: /s", "ce-type: a.b", "ce-subject: Euro%20%E2%82%AC").want(t, 200)
	page := s.do("GET", "/v1/namespaces/other/topics/events/messages", "").want(t, 200,
		`"messageId":"e1"`, `{"name":"ce_type","value":"a.b"}`, `{"name":"ce_subject","value":"Euro €"}`)
	if strings.Contains(page.body, "X-Signature") {
		t.Error(page.body)
	}
}
