package httpd

import (
	"strings"
	"testing"

	"polylog/core"
	"polylog/router"
)

// device connects an MQTT client, as a protocol does, whose session goes on with an expiry of 1000 s.
func (s *site) device(id, user string, filters ...string) *router.Lease {
	s.t.Helper()
	ctx, client := s.t.Context(), core.TopicName(id)
	l, err := s.router.AcquireLeaseFor(ctx, router.MQTTLease(client), user)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, _, err := s.router.OpenMQTTSession(ctx, l, router.MQTTOpen{Client: client, Expiry: 1000}); err != nil {
		s.t.Fatal(err)
	}
	for _, f := range filters {
		if _, _, err := s.router.SubscribeMQTT(ctx, l, router.MQTTKeep{Messages: 10}, []router.MQTTSubscription{{Filter: f, Options: 1}}); err != nil {
			s.t.Fatal(err)
		}
	}
	return l
}

// Sessions of MQTT are listed and ended on any node, whether their clients are connected or not.
func TestSessions(t *testing.T) {
	first := newSite(t, nil, nil)
	second := newSite(t, first, nil)
	first.do("PUT", "/v1/topics/t", `{"partitions": 1}`).want(t, 201)
	away := first.device("away", "", "t/#", "t/+")
	if err := first.router.CloseMQTTSession(t.Context(), away, router.MQTTClose{Expiry: 1000}); err != nil {
		t.Fatal(err)
	}
	if err := away.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	here := second.device("here/1", "", "t/#")
	clean, err := second.router.AcquireLeaseFor(t.Context(), router.MQTTLease(core.TopicName("clean")), "")
	if err != nil {
		t.Fatal(err)
	}
	first.do("POST", "/v1/topics/t/messages", `{"messages": [{"key": "t/a", "value": "1"}]}`).want(t, 200)
	if err := second.router.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}

	second.do("GET", "/v1/sessions?limit=2", "").want(t, 200, `"clientId":"away","namespace":"default","connected":false,"stored":true,"expirySeconds":1000,"disconnected":"`,
		`"expires":"`, `"subscriptionCount":2},{"clientId":"clean","namespace":"default","connected":true,"node":"2","stored":false,"expirySeconds":0,"subscriptionCount":0}],"next":"clean"`)
	second.do("GET", "/v1/sessions?cursor=clean", "").want(t, 200, `{"sessions":[{"clientId":"here/1","namespace":"default","connected":true,"node":"2","stored":true,"expirySeconds":1000,"subscriptionCount":1}]}`)
	for query, want := range map[string]int{"": 3, "?search=A": 2, "?connected": 2, "?connected=false": 1, "?search=HERE&connected": 1} {
		if r := first.do("GET", "/v1/sessions"+query, "").want(t, 200); strings.Count(r.body, "clientId") != want {
			t.Errorf("%q: %s, want %d sessions", query, r.body, want)
		}
	}
	first.do("GET", "/v1/sessions?missing", "").want(t, 400)
	first.do("GET", "/v1/sessions/away", "").want(t, 200, `"subscriptions":[`, `{"filter":"t/#","qos":1,"counts":{"ready":1,`)
	first.do("GET", "/v1/sessions/here%2F1", "").want(t, 200, `"node":"2"`)
	first.do("GET", "/v1/sessions/clean", "").want(t, 200, `"subscriptions":[]`)
	first.do("GET", "/v1/sessions/nobody", "").want(t, 404)
	first.do("GET", "/v1/namespaces/other/sessions", "").want(t, 200, `{"sessions":[]}`)

	for client, l := range map[string]*router.Lease{"away": nil, "here%2F1": here, "clean": clean} {
		first.do("DELETE", "/v1/sessions/"+client, "").want(t, 204)
		if l != nil {
			if <-l.Lost(); !l.Ended() {
				t.Errorf("%s: it is lost to somebody", client)
			}
		}
		first.do("GET", "/v1/sessions/"+client, "").want(t, 404)
		first.do("DELETE", "/v1/sessions/"+client, "").want(t, 404)
	}
	second.do("GET", "/v1/sessions", "").want(t, 200, `{"sessions":[]}`)
}

// Whoever monitors looks at all sessions, and administrators end them; others do both with their own.
func TestSessionRights(t *testing.T) {
	s := newSite(t, nil, nil)
	header := func(user string) string { _, v := as(user, "pw"); return "Authorization: " + v }
	s.do("PUT", "/v1/users/root?new=true", `{"password": "pw", "tags": ["administrator"]}`).want(t, 201)
	s.do("PUT", "/v1/users/look", `{"password": "pw", "tags": ["monitoring"]}`, header("root")).want(t, 201)
	s.do("PUT", "/v1/users/dev", `{"password": "pw"}`, header("root")).want(t, 201)
	s.device("mine", "dev")
	s.device("root's", "root")
	for user, want := range map[string]int{"root": 2, "look": 2, "dev": 1} {
		if r := s.do("GET", "/v1/sessions", "", header(user)).want(t, 200); strings.Count(r.body, "clientId") != want {
			t.Errorf("%s: %s, want %d sessions", user, r.body, want)
		}
	}
	s.do("GET", "/v1/sessions", "").want(t, 401)
	s.do("GET", "/v1/sessions/root's", "", header("look")).want(t, 200)
	s.do("DELETE", "/v1/sessions/root's", "", header("look")).want(t, 403)
	s.do("GET", "/v1/sessions/root's", "", header("dev")).want(t, 403)
	s.do("GET", "/v1/sessions/none", "", header("dev")).want(t, 403)
	s.do("DELETE", "/v1/sessions/root's", "", header("dev")).want(t, 403)
	s.do("GET", "/v1/sessions/mine", "", header("dev")).want(t, 200, `"user":"dev"`)
	s.do("DELETE", "/v1/sessions/mine", "", header("dev")).want(t, 204)
	s.do("DELETE", "/v1/sessions/root's", "", header("root")).want(t, 204)
	s.do("GET", "/v1/sessions", "", header("root")).want(t, 200, `{"sessions":[]}`)
}
