package httpd

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"

	"polylog/core"
	"polylog/protocols/http/console"
	"polylog/router"
)

// as gives the header by which a user logs in.
func as(user, password string) (string, string) {
	return "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func TestUsers(t *testing.T) {
	s := newSite(t, nil, nil)
	header := func(user, password string) string { _, v := as(user, password); return "Authorization: " + v }
	root := header("root", "pw")
	s.do("GET", "/v1/whoami", "").want(t, 200, `"name":""`, `"hasUsers":false`)
	s.do("PUT", "/v1/topics/t", "{}").want(t, 201)
	s.do("PUT", "/v1/users/root", `{"password": "pw", "tags": ["monitoring"]}`).want(t, 409, "has to be an administrator")
	s.do("PUT", "/v1/users/root?new=true", `{"password": "pw", "tags": ["administrator"]}`).want(t, 201, `"tags":["administrator"]`, `"hasPassword":true`)
	for _, h := range []string{"X: y", header("root", "wrong"), header("eve", "pw"), "Authorization: Bearer x", "Authorization: Basic !"} {
		r := s.do("GET", "/v1/topics", "", h).want(t, 401, "login_failed")
		if r.header.Get("WWW-Authenticate") == "" {
			t.Error("no challenge")
		}
	}
	if r := s.do("GET", "/v1/topics", "", "Sec-Fetch-Mode: cors").want(t, 401); r.header.Get("WWW-Authenticate") != "" {
		t.Error("a page's request is answered with a challenge, for which the browser would ask")
	}
	s.do("GET", "/metrics/detail", "").want(t, 401)
	s.do("GET", "/metrics", "").want(t, 200)
	s.do("GET", "/health/ready", "").want(t, 200)
	s.do("GET", "/v1/whoami", "", root).want(t, 200, `"name":"root"`, `"tags":["administrator"]`, `"hasUsers":true`)

	dev := header("dev", "pw:ü")
	s.do("PUT", "/v1/users/dev", `{"password": "pw:ü"}`, root).want(t, 201)
	s.do("GET", "/v1/topics", "", dev).want(t, 200, `{"topics":[]}`)
	s.do("GET", "/v1/users", "", dev).want(t, 403, "denied")
	s.do("GET", "/v1/users/dev", "", dev).want(t, 200)
	s.do("PUT", "/v1/users/eve", `{"password": "x"}`, dev).want(t, 403)
	s.do("PUT", "/v1/topics/t2", "{}", dev).want(t, 403, `user \"dev\" may not create topic t2`)
	s.do("PUT", "/v1/users/dev/rights/default", `{"read": "^t$", "write": "["}`, root).want(t, 400, "expression")
	s.do("PUT", "/v1/users/dev/rights/none", `{"read": "^t$"}`, root).want(t, 404)
	s.do("PUT", "/v1/users/dev/rights/default", `{"read": "^t$"}`, root).want(t, 204)
	s.do("GET", "/v1/topics", "", dev).want(t, 200, `"name":"t"`)
	s.do("GET", "/v1/topics/t/messages", "", dev).want(t, 200)
	s.do("POST", "/v1/topics/t/messages", "x", dev).want(t, 403)
	s.do("GET", "/v1/namespaces", "", dev).want(t, 200, `"default"`)
	s.do("PUT", "/v1/hooks/h", `{"topic": "t", "preset": "bearer"}`, dev).want(t, 403)
	s.do("GET", "/v1/users?limit=1", "", root).want(t, 200, `"dev"`, `"read":"^t$"`, `"next":"dev"`)
	s.do("GET", "/v1/users?search=OO", "", root).want(t, 200, `{"users":[{"name":"root"`)
	s.do("GET", "/v1/users?search=nobody", "", root).want(t, 200, `{"users":[]}`)
	s.do("GET", "/v1/rights/t", "", dev).want(t, 200, `{"name":"t","configure":false,"write":false,"read":true}`)
	s.do("GET", "/v1/rights/t2", "", dev).want(t, 200, `{"name":"t2","configure":false,"write":false,"read":false}`)
	s.do("GET", "/v1/rights/t", "").want(t, 401)
	s.do("GET", "/v1/users?cursor=dev", "", root).want(t, 200, `"root"`)
	s.do("GET", "/v1/users/eve", "", root).want(t, 404)

	// A user changes its own password; what it had is not good any more.
	s.do("PUT", "/v1/users/dev?new=false", `{"password": "new"}`, dev).want(t, 200)
	s.do("GET", "/v1/topics", "", dev).want(t, 401)
	dev = header("dev", "new")
	s.do("GET", "/v1/topics", "", dev).want(t, 200)
	s.do("DELETE", "/v1/users/dev/rights/default", "", root).want(t, 204)
	s.do("GET", "/v1/topics", "", dev).want(t, 200, `{"topics":[]}`)
	s.do("DELETE", "/v1/users/root", "", root).want(t, 409)
	s.do("DELETE", "/v1/users/dev", "", root).want(t, 204)
	s.do("DELETE", "/v1/users/root?last=true", "", root).want(t, 204)
	s.do("GET", "/v1/topics", "").want(t, 200, `"name":"t"`)
	s.do("GET", "/v1/rights/t", "").want(t, 200, `"configure":true,"write":true,"read":true`)
}

// Whoever is logged in to the console is that user, until the password is another one.
func TestConsoleOfUsers(t *testing.T) {
	s := newSite(t, nil, func(o *Options) {
		page, err := console.New(console.Options{Loopback: true})
		if err != nil {
			t.Fatal(err)
		}
		o.Console = page
	})
	origin := "Origin: http://" + s.addr
	if _, err := s.router.SetUser(t.Context(), router.Principal{Host: "127.0.0.1"}, "root", router.UserChange{Tags: &[]string{"administrator"}, Password: new("pw")}); err != nil {
		t.Fatal(err)
	}
	s.do("GET", "/console/session", "").want(t, 200, `"loggedIn":false`, `"canUnlock":false`, `"hasUsers":true`)
	s.do("POST", "/console/session", `{"unlock": true}`, origin).want(t, 403)
	s.do("POST", "/console/session", `{"user": "root", "password": "x"}`, origin).want(t, 403)
	r := s.do("POST", "/console/session", `{"user": "root", "password": "pw"}`, origin).want(t, 200, `"loggedIn":true`, `"user":"root"`)
	cookie, _, _ := strings.Cut(r.header.Get("Set-Cookie"), ";")
	session := "Cookie: " + cookie
	s.do("PUT", "/v1/namespaces/v", "", origin, session).want(t, 201)
	s.do("PUT", "/v1/namespaces/w", "", origin).want(t, 403, "login_needed")
	s.do("GET", "/v1/whoami", "", session).want(t, 200, `"name":"root"`)
	s.do("GET", "/console/session", "", session).want(t, 200, `"loggedIn":true`)
	name, _, _ := strings.Cut(cookie, "=")
	s.do("GET", "/v1/whoami", "", "Cookie: "+name+"=AAAA").want(t, 401)
	if _, err := s.router.SetUser(t.Context(), router.Itself("test"), "root", router.UserChange{Password: new("other")}); err != nil {
		t.Fatal(err)
	}
	s.do("GET", "/v1/whoami", "", session).want(t, 401)
}

// Streams end with what their user was.
func TestStreamsEndWithTheirUser(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/t", "{}").want(t, 201)
	admin := router.Itself("test")
	for _, name := range []string{"root", "dev"} {
		tags := []string{"administrator"}
		if _, err := s.router.SetUser(t.Context(), admin, name, router.UserChange{Tags: &tags, Password: new("pw")}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.router.SetRights(t.Context(), admin, name, core.DefaultNamespace, ".*", ".*", ".*"); err != nil {
			t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr+"/v1/topics/t/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("dev", "pw")
	res, err := s.client.Do(req)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res, err)
	}
	if err := s.router.DeleteUser(t.Context(), admin, "dev", false); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body) // until it ends
	_ = res.Body.Close()
}

// basic is the header by which a user logs in whose password is its name.
func basic(user string) string {
	_, v := as(user, user)
	return "Authorization: " + v
}

// addUser makes a user whose password is its name, with rights in the default namespace: configure, write and read. One
// that is there gets other rights.
// The first one is root, an administrator with all rights.
func (s *site) addUser(name, configure, write, read string) (header string) {
	s.t.Helper()
	if !s.router.HasUsers() && name != "root" {
		s.addUser("root", ".*", ".*", ".*")
	}
	tags := []string{}
	if name == "root" {
		tags = append(tags, router.TagAdministrator)
	}
	us := router.Itself("test")
	if s.router.User(name) == nil { // else it only gets other rights
		if _, err := s.router.SetUser(s.t.Context(), us, name, router.UserChange{Tags: &tags, Password: &name}); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := s.router.SetRights(s.t.Context(), us, name, core.DefaultNamespace, configure, write, read); err != nil {
		s.t.Fatal(err)
	}
	return basic(name)
}

// Nobody gets messages by dead letters to where he may not write himself.
func TestDeadLettersNeedWrite(t *testing.T) {
	s := newSite(t, nil, nil)
	bob := s.addUser("bob", "^b", "^b", "^(b|pub$)")
	root := basic("root")
	s.do("PUT", "/v1/queues/jobs", "{}", root).want(t, 201)
	s.do("PUT", "/v1/topics/pub", "{}", root).want(t, 201)
	const refusal = `user \"bob\" may not write to queue jobs`
	s.do("PUT", "/v1/queues/bq", `{"deadLetterQueue": "jobs"}`, bob).want(t, 403, refusal)
	s.do("PUT", "/v1/queues/bq", `{"deadLetterQueue": "missing"}`, bob).want(t, 403, "queue missing")
	s.do("PUT", "/v1/subscriptions/bs", `{"topic": "pub", "deadLetterQueue": "jobs"}`, bob).want(t, 403, refusal)
	s.do("PUT", "/v1/subscriptions/bs", `{"topic": "pub", "deadLetterQueue": "jobs", "push": {"url": "http://127.0.0.1:1/"}}`, bob).want(t, 403, refusal)
	for _, path := range []string{"/v1/queues/bq", "/v1/queues/missing", "/v1/subscriptions/bs"} {
		s.do("GET", path, "", root).want(t, 404)
	}
	s.do("PUT", "/v1/queues/bq", `{"deadLetterQueue": "bdead"}`, bob).want(t, 201)
	s.do("PUT", "/v1/subscriptions/bs", `{"topic": "pub", "deadLetterQueue": "bdead"}`, bob).want(t, 201)
	s.do("PUT", "/v1/subscriptions/bx", `{"topic": "pub", "deadLetterQueue": "jobs", "push": {"url": "http://127.0.0.1:1/"}}`, root).want(t, 201)
	s.do("POST", "/v1/subscriptions/bx:pause", "", bob).want(t, 204) // which asks for no dead letters

	// Over HTTP a push that is refused leaves nothing behind.
	s.do("PUT", "/v1/subscriptions/r", `{"topic": "pub", "push": {"url": "http://10.0.0.1/"}}`, root).want(t, 403)
	s.do("GET", "/v1/queues/r.dead", "", root).want(t, 404)
}

// Dead letters are given to whom the caller may write to, by its own name.
func TestRedriveNeedsWrite(t *testing.T) {
	s := newSite(t, nil, nil)
	bob := s.addUser("bob", "^b", `^(b|amq\.default$)`, "^b")
	root := basic("root")
	s.do("PUT", "/v1/queues/secret", `{"deadLetterQueue": "bdead"}`, root).want(t, 201)
	s.do("PUT", "/v1/topics/secrets", "{}", root).want(t, 201)
	s.do("PUT", "/v1/subscriptions/watch", `{"topic": "secrets", "push": {"url": "http://127.0.0.1:1/"}}`, root).want(t, 201)
	s.do("PUT", "/v1/queues/bq", `{}`, bob).want(t, 201)
	s.do("POST", "/v1/queues/secret/messages", "m", root).want(t, 200)
	pulled := s.do("POST", "/v1/queues/secret:pull", `{}`, root).want(t, 200).body
	_, receipt, _ := strings.Cut(pulled, `"receipt":"`)
	receipt, _, _ = strings.Cut(receipt, `"`)
	s.do("POST", "/v1/queues/secret:nack", `{"deadLetter": true, "receipts": ["`+receipt+`"]}`, root).want(t, 200)
	for to, refusal := range map[string]string{
		`{"to": {"topic": "secrets"}}`:      "may not write to topic secrets",
		`{"to": {"queue": "secret"}}`:       "may not write to queue secret",
		`{"to": {"subscription": "watch"}}`: "may not write to group watch",
	} {
		s.do("POST", "/v1/queues/bdead:redrive", to, bob).want(t, 403, refusal)
	}
	s.do("POST", "/v1/queues/bdead:redrive", `{}`, bob).want(t, 200, `"moved":0`, `"skipped":1`, "may not write to queue secret")
	s.addUser("bob", "^b", "^b", "^b") // the default exchange is not what it asks for
	s.do("POST", "/v1/queues/bdead:redrive", `{"to": {"queue": "bq"}}`, bob).want(t, 200, `"moved":1`)
	s.do("GET", "/v1/queues/bq", "", bob).want(t, 200, `"ready":1`)
}

// A user id is the caller's, or that of somebody in whose name he may publish.
func TestUserIDIsTheCallers(t *testing.T) {
	s := newSite(t, nil, nil)
	header := func(user string) string { _, v := as(user, "pw"); return "Authorization: " + v }
	s.do("PUT", "/v1/topics/t", `{"partitions": 1}`).want(t, 201)
	s.do("PUT", "/v1/queues/q", "").want(t, 201)
	s.do("PUT", "/v1/exchanges/x", `{"type": "fanout"}`).want(t, 201)
	s.do("POST", "/v1/topics/t/messages", "x", "X-User-Id: anybody").want(t, 200)
	const all = `"rights": [{"namespace": "default", "configure": ".*", "write": ".*", "read": ".*"}]`
	s.do("PUT", "/v1/users/root", `{"password": "pw", "tags": ["administrator"], `+all+`}`).want(t, 201)
	s.do("PUT", "/v1/users/gate", `{"password": "pw", "tags": ["impersonator"], `+all+`}`, header("root")).want(t, 201)
	const two = `{"messages": [{"value": "1", "key": "q", "routingKey": "q", "userId": "root"}, {"value": "2", "key": "q", "routingKey": "q", "userId": "gate"}]}`
	for _, path := range []string{"/v1/topics/t/messages", "/v1/queues/q/messages", "/v1/exchanges/x/messages"} {
		json := "Content-Type: application/json"
		s.do("POST", path, two, json, header("root")).want(t, 207, `{"results":[{"status":200`, `"status":403,"code":"denied","detail":"user \"root\" may not publish as user \"gate\""`)
		s.do("POST", path, two, json, header("gate")).want(t, 200)
	}
	s.do("POST", "/v1/topics/t/messages", "x", "X-User-Id: gate", "Idempotency-Key: k", header("root")).want(t, 403, "may not publish as user")
	topic, _ := s.router.Topic(core.TopicName("t"))
	vouched := 0
	if _, err := s.router.Browse(router.Itself("a test"), topic.Partitions[0], 0, 100, 1<<20, func(r router.Browsed) bool {
		if r.Record.Vouched {
			vouched++
		}
		return true
	}); err != nil || vouched != 3 {
		t.Errorf("%d user ids are vouched for, want 3; %v", vouched, err)
	}
}
