package manage

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"polylog/core/message"
)

func escape(s string) string { return url.PathEscape(s) }

func TestLogin(t *testing.T) {
	f := start(t)
	for _, c := range []struct {
		user, password string
		status         int
	}{{"guest", "guest", 200}, {"guest", "x", 401}, {"", "", 401}, {"nobody", "guest", 401}} {
		status, answer, header := f.as(c.user, c.password, "GET", "whoami", "")
		if status != c.status {
			t.Errorf("%q %q: %d %s, want %d", c.user, c.password, status, answer, c.status)
		}
		if realm := header.Get("WWW-Authenticate"); (status == 401) != (realm == `Basic realm="RabbitMQ Management"`) {
			t.Errorf("%q %q: %d with WWW-Authenticate %q", c.user, c.password, status, realm)
		}
	}
}

// What is refused leaves nothing behind.
func TestBadRequests(t *testing.T) {
	f := start(t)
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"PUT", "queues/%2F/q", `{"arguments":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, 400},
		{"PUT", "queues/%2F/q", `{"arguments":{"a":"` + strings.Repeat("x", maxDefinition) + `"}}`, 413},
		{"PUT", "queues/%2F/q", `{"arguments":{"a":"` + strings.Repeat("x", maxDefinition-1000) + `"}}`, 400}, // no frame holds it
		{"PUT", "queues/%2F/q", `[]`, 400},
		{"PUT", "queues/%2F/q", `{"arguments":["x"]}`, 400},
		{"PUT", "queues/%2F/..", `{}`, 400},
		{"POST", "definitions", `{"queues":` + strings.Repeat(" ", 2<<20) + `[]}`, 413},
		{"POST", "definitions", `{"queues":[{"name":"imp","vhost":"nope","durable":true}]}`, 400},
		{"POST", "definitions", `{"policies":[{"vhost":"/","name":"p"}]}`, 400},
		{"GET", "queues?columns=" + strings.Repeat("a,", 300), ``, 400},
	} {
		if status, answer, _ := f.do(c.method, c.path, c.body); status != c.status {
			t.Errorf("%s %.40s %.60s: %d %.300s, want %d", c.method, c.path, c.body, status, answer, c.status)
		}
	}
	if all := fetch[[]object](f, "queues"); len(all) != 0 {
		t.Errorf("queues %v, want none", all)
	}
}

func TestNotReady(t *testing.T) {
	f := start(t)
	f.why.Store(&[]string{"no leader"})
	status, answer, _ := f.do("GET", "health/checks/alarms", "")
	if status != 503 || answer != `{"reason":"no leader","status":"failed"}` {
		t.Errorf("%d %s", status, answer)
	}
}

// What is exported can be imported into an empty broker, which exports the same then.
func TestDefinitions(t *testing.T) {
	from, to := start(t), start(t)
	for _, c := range [][2]string{
		{"vhosts/v", `{"description":"d","tags":["a"]}`},
		{"queues/v/q", `{"durable":true,"arguments":{"x-max-length":3,"x-queue-type":"quorum"}}`},
		{"queues/%2F/q", `{"durable":true}`},
		{"exchanges/v/x", `{"type":"topic","durable":true,"arguments":{"alternate-exchange":"amq.fanout"}}`},
		{"policies/v/p", `{"pattern":"^q","definition":{"max-length":5},"priority":1,"apply-to":"queues"}`},
		{"operator-policies/v/o", `{"pattern":"^q","definition":{"max-length":4},"apply-to":"queues"}`},
	} {
		from.ok("PUT", c[0], c[1], 201)
	}
	from.ok("POST", "bindings/v/e/x/q/q", `{"routing_key":"a.*","arguments":{"k":"v"}}`, 201)
	from.ok("POST", "bindings/v/e/x/e/amq.direct", `{"routing_key":"b"}`, 201)
	exported := from.ok("GET", "definitions", "", 200)
	to.ok("POST", "definitions", exported, 204)
	to.ok("POST", "definitions", exported, 204) // what is there stays
	if got := to.ok("GET", "definitions", "", 200); got != exported {
		t.Errorf("exported\n%s\nand after the import\n%s", exported, got)
	}
	one := from.ok("GET", "definitions/v", "", 200)
	if strings.Contains(one, `"vhost":`) || !strings.Contains(one, `"a.*"`) {
		t.Errorf("definitions of a virtual host: %s", one)
	}
	to.ok("PUT", "vhosts/w", "", 201)
	to.ok("POST", "definitions/w", one, 204)
	if got := to.ok("GET", "definitions/w", "", 200); got != one {
		t.Errorf("exported\n%s\nand after the import into another\n%s", one, got)
	}
	_, _, header := to.do("POST", "definitions", `{"users":[{"name":"guest"},{"name":"bob"}],"parameters":[{}],"global_parameters":[{"name":"internal_cluster_id"},{"name":"cluster_tags"}]}`)
	if left := header.Get("X-Not-Imported"); left != "1 users, 1 parameters, 1 global_parameters" {
		t.Errorf("not imported: %q", left)
	}
}

// FuzzBodies reads bodies as the calls do: what is accepted is in AMQP's bounds.
func FuzzBodies(f *testing.F) {
	for _, c := range calls {
		f.Add([]byte(c.body))
	}
	f.Add([]byte(`{"queues":[{"name":"q","arguments":{"a":[1,{"b":null}]}}],"properties":{"headers":{"x":1.5}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if !json.Valid(body) {
			return
		}
		var d definitions
		_ = decode(body, &d)
		d.into("/")
		_ = d.left()
		for i := range d.Policies {
			_, _ = d.Policies[i].policy("default", i%2 == 0)
		}
		for i := range d.Queues {
			_ = message.AppendTable(nil, message.Table(d.Queues[i].Arguments))
		}
		var j publishJSON
		if decode(body, &j) != nil || j.Properties == nil {
			return
		}
		p, err := j.properties()
		if err != nil {
			return
		}
		if err := short(p.ContentType, p.MessageID, p.CorrelationID, p.Expiration); err != nil {
			t.Errorf("accepted: %v", err)
		}
		shown, err := json.Marshal((&gotten{props: p}).properties())
		if err != nil || !json.Valid(shown) {
			t.Errorf("shown as %s: %v", shown, err)
		}
	})
}
