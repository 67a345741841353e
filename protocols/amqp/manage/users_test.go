package manage

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"

	"polylog/protocols/amqp/spec"
)

// called is a call of a user, whose password is pw-NAME, and what comes back.
type called struct {
	user, method, path, body string
	status                   int
	part                     string // of the answer
}

func (f *fixture) called(all []called) {
	f.t.Helper()
	for _, c := range all {
		password := "pw-" + c.user
		if c.user == "guest" {
			password = "guest"
		}
		status, answer, _ := f.as(c.user, password, c.method, c.path, c.body)
		if status != c.status || !strings.Contains(answer, c.part) {
			f.t.Errorf("%s: %s %s %.200s: %d %s, want %d with %s", c.user, c.method, c.path, c.body, status, answer, c.status, c.part)
		}
	}
}

// firstUsers are an administrator, and one user for each tag.
var firstUsers = []called{
	{"guest", "PUT", "users/admin", `{"password":"pw-admin","tags":"administrator"}`, 201, ""},
	{"guest", "GET", "whoami", "", 401, "Login failed"},
	{"admin", "GET", "whoami", "", 200, `{"name":"admin","tags":["administrator"]}`},
	{"admin", "PUT", "users/watch", `{"password":"pw-watch","tags":["monitoring"]}`, 201, ""},
	{"admin", "PUT", "users/manage", `{"password":"pw-manage","tags":"management, other"}`, 201, ""},
	{"admin", "PUT", "users/alice", `{"password":"pw-alice","tags":""}`, 201, ""},
	{"admin", "PUT", "permissions/%2F/admin", `{"configure":".*","write":".*","read":".*"}`, 201, ""},
	{"admin", "PUT", "permissions/%2F/manage", `{"configure":"^m","write":"^m","read":"^m"}`, 201, ""},
}

func TestUsers(t *testing.T) {
	f := start(t)
	f.called(firstUsers)
	f.called([]called{
		{"admin", "GET", "users", "", 200, `[{"hashing_algorithm":"rabbit_password_hashing_sha256","limits":{},"name":"admin","password_hash":"","tags":["administrator"]},`},
		{"admin", "GET", "users/manage", "", 200, `"tags":["management","other"]`},
		{"admin", "GET", "users/nope", "", 404, ""},
		{"admin", "GET", "users/guest", "", 404, ""},
		{"admin", "GET", "users/without-permissions?columns=name", "", 200, `[{"name":"alice"},{"name":"watch"}]`},
		{"admin", "PUT", "users/manage", `{"password":"pw-manage","tags":"management"}`, 204, ""},
		{"admin", "PUT", "users/new", `{"password":"x"}`, 400, "tags_not_present"},
		{"admin", "PUT", "users/new", `{"password":"","tags":""}`, 400, "the password is empty"},
		{"admin", "PUT", "users/new", `{"password":"x","password_hash":"y","tags":""}`, 400, "both_password_and_password_hash_are_provided"},
		{"admin", "PUT", "users/new", `{"password_hash":"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR","tags":""}`, 400, "cannot be made of RabbitMQ's hash"},
		{"admin", "PUT", "users/new", `{"password":"x","tags":{}}`, 400, "neither a text nor texts"},
		{"admin", "GET", "users/new", "", 404, ""},
		{"admin", "PUT", "users/new", `{"password_hash":"","administrator":"true","permissions":{"/":{"configure":"","write":"","read":"^x"}}}`, 201, ""},
		{"admin", "GET", "users/new/permissions", "", 200, `[{"configure":"","read":"^x","user":"new","vhost":"/","write":""}]`},
		{"new", "GET", "whoami", "", 401, "Login failed"}, // by no password
		{"admin", "POST", "users/bulk-delete", `{"users":["new","nope"]}`, 204, ""},
		{"admin", "POST", "users/bulk-delete", `{}`, 400, "[{key_missing,users}]"},
		{"admin", "DELETE", "users/new", "", 404, ""},
		{"admin", "DELETE", "users/admin", "", 400, "the last administrator"},
		{"admin", "PUT", "users/admin", `{"tags":"administrator"}`, 400, "the last administrator"}, // it would have no password

		{"admin", "GET", "permissions", "", 200, `[{"configure":".*","read":".*","user":"admin","vhost":"/","write":".*"},{"configure":"^m","read":"^m","user":"manage","vhost":"/","write":"^m"}]`},
		{"admin", "GET", "vhosts/%2F/permissions?columns=user", "", 200, `[{"user":"admin"},{"user":"manage"}]`},
		{"admin", "GET", "permissions/%2F/manage", "", 200, `"configure":"^m"`},
		{"admin", "GET", "permissions/%2F/alice", "", 404, ""},
		{"admin", "GET", "permissions/nope/alice", "", 404, ""},
		{"admin", "PUT", "permissions/%2F/manage", `{"configure":"^m","write":"^m","read":"^m"}`, 204, ""},
		{"admin", "PUT", "permissions/%2F/nope", `{"configure":"","write":"","read":""}`, 400, "vhost_or_user_not_found"},
		{"admin", "PUT", "permissions/nope/alice", `{"configure":"","write":"","read":""}`, 400, "vhost_or_user_not_found"},
		{"admin", "PUT", "permissions/default/alice", `{"configure":"","write":"","read":""}`, 400, "vhost_or_user_not_found"},
		{"admin", "PUT", "permissions/%2F/alice", `{"read":""}`, 400, "[{key_missing,configure},{key_missing,write}]"},
		{"admin", "PUT", "permissions/%2F/alice", `{"configure":"(","write":"","read":""}`, 400, "missing closing )"},
		{"admin", "DELETE", "permissions/%2F/alice", "", 404, ""},
		{"admin", "PUT", "topic-permissions/%2F/alice", `{"exchange":"","write":"","read":""}`, 400, "no permissions for topics"},
		{"admin", "GET", "topic-permissions", "", 200, "[]"},
		{"admin", "GET", "vhosts/%2F/topic-permissions", "", 200, "[]"},
		{"admin", "GET", "users/alice/topic-permissions", "", 200, "[]"},
		{"admin", "DELETE", "permissions/%2F/manage", "", 204, ""},
		{"admin", "DELETE", "users/manage", "", 204, ""},
		{"admin", "DELETE", "users/manage", "", 404, ""},
	})
}

// TestTags say who may see and do what, as in RabbitMQ.
func TestTags(t *testing.T) {
	f := start(t)
	f.called(firstUsers)
	f.called([]called{
		{"alice", "GET", "whoami", "", 401, "Not management user"},
		{"manage", "GET", "whoami", "", 200, `"name":"manage"`},
		{"manage", "GET", "users", "", 401, "Not administrator user"},
		{"manage", "GET", "users/manage", "", 401, "Not administrator user"},
		{"manage", "PUT", "users/manage", `{"password":"x","tags":"administrator"}`, 401, "Not administrator user"},
		{"manage", "PUT", "permissions/%2F/manage", `{"configure":".*","write":".*","read":".*"}`, 401, "Not administrator user"},
		{"manage", "GET", "definitions", "", 401, "Not administrator user"},
		{"manage", "POST", "definitions", `{}`, 401, "Not administrator user"},
		{"manage", "PUT", "vhosts/v", ``, 401, "Not administrator user"},
		{"manage", "GET", "nodes", "", 401, "Not monitor user"},
		{"watch", "GET", "nodes", "", 200, `"name":"polylog@1"`},
		{"watch", "GET", "users", "", 401, "Not administrator user"},
		{"watch", "PUT", "queues/%2F/m", `{}`, 401, "access to vhost '/' refused for user 'watch'"},

		{"admin", "PUT", "queues/%2F/x", `{}`, 201, ""},
		{"manage", "PUT", "queues/%2F/m", `{}`, 201, ""},
		{"manage", "PUT", "queues/%2F/x2", `{}`, 401, "configure access to queue 'x2' in vhost '/' refused for user 'manage'"},
		{"manage", "DELETE", "queues/%2F/x/contents", ``, 404, ""}, // which it does not see
		{"manage", "POST", "queues/%2F/x/get", `{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}`, 401, "read access to queue 'x'"},
		{"manage", "POST", "exchanges/%2F/amq.default/publish", `{"properties":{},"routing_key":"m","payload":"x","payload_encoding":"string"}`, 401, "write access to exchange 'amq.default'"},
		{"manage", "PUT", "policies/%2F/p", `{"pattern":"^q","definition":{"max-length":5}}`, 401, "may not change"},
		{"manage", "PUT", "operator-policies/%2F/p", `{"pattern":"^q","definition":{"max-length":5}}`, 401, "Not administrator user"},
		{"manage", "GET", "queues?columns=name", "", 200, `[{"name":"m"}]`},
		{"watch", "GET", "queues?columns=name", "", 200, `[{"name":"m"},{"name":"x"}]`},
		{"admin", "PUT", "vhosts/v", ``, 201, ""},
		{"manage", "GET", "queues/v", "", 401, "User not authorised to access virtual host"},
		{"manage", "GET", "vhosts/v", "", 401, "User not authorised to access virtual host"},
		{"manage", "GET", "vhosts?columns=name", "", 200, `[{"name":"/"}]`},
		{"watch", "GET", "vhosts?columns=name", "", 200, `[{"name":"/"},{"name":"v"}]`},
		{"admin", "PUT", "queues/v/q", `{}`, 401, "access to vhost 'v' refused for user 'admin'"}, // until it gives itself rights
	})
}

// TestOthersConnections are seen by those who monitor, and closed by administrators.
func TestOthersConnections(t *testing.T) {
	f := start(t)
	f.called(firstUsers)
	nc, err := net.Dial("tcp", f.amqp)
	if err != nil {
		t.Fatal(err)
	}
	k, err := open(context.Background(), nc, "admin", "pw-admin", "/")
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	_, answer, _ := f.as("admin", "pw-admin", "GET", "connections?columns=name", "")
	var names []struct{ Name string }
	if err := json.Unmarshal([]byte(answer), &names); err != nil || len(names) != 1 {
		t.Fatalf("%v: %s", err, answer)
	}
	one := "connections/" + escape(names[0].Name)
	f.called([]called{
		{"manage", "GET", "connections", "", 200, "[]"},
		{"manage", "GET", "channels", "", 200, "[]"},
		{"manage", "GET", one, "", 401, "User not authorised to access object"},
		{"manage", "DELETE", one, "", 401, "User not authorised to access object"},
		{"watch", "GET", one, "", 200, `"user":"admin"`},
		{"watch", "GET", "channels?columns=user", "", 200, `[{"user":"admin"}]`},
		{"watch", "DELETE", one, "", 401, "User not authorised to access object"},
		{"admin", "DELETE", one, "", 204, ""},
	})
	if _, err := next[*spec.ChannelOpenOk](k, 1); err == nil || !strings.Contains(err.Error(), "CONNECTION_FORCED") {
		t.Errorf("%v, want that it was closed", err)
	}
}

// TestDefinitionsCarryUsers from a broker to another one, which has none.
func TestDefinitionsCarryUsers(t *testing.T) {
	f := start(t)
	f.called(firstUsers)
	_, all, _ := f.as("admin", "pw-admin", "GET", "definitions", "")
	if strings.Contains(all, "pw-") {
		t.Fatal("a password is exported")
	}
	to := start(t)
	status, answer, header := to.do("POST", "definitions", all)
	if left := header.Get("X-Not-Imported"); status != 204 || left != "" {
		t.Fatalf("%d %s, without %q", status, answer, left)
	}
	to.called([]called{
		{"guest", "GET", "whoami", "", 401, ""},
		{"admin", "GET", "whoami", "", 200, `"tags":["administrator"]`},
		{"admin", "GET", "users?columns=name", "", 200, `[{"name":"admin"},{"name":"alice"},{"name":"manage"},{"name":"watch"}]`},
		{"manage", "PUT", "queues/%2F/m", `{}`, 201, ""},
		{"manage", "PUT", "queues/%2F/x", `{}`, 401, ""},
		{"admin", "POST", "definitions", all, 204, ""}, // is all there already
	})
}

// TestImportFromRabbitMQ brings users without passwords where there are users, and leaves them out where
// there are none: nobody could log in otherwise.
func TestImportFromRabbitMQ(t *testing.T) {
	const theirs = `{"users":[
		{"name":"guest","password_hash":"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR","tags":["administrator"]},
		{"name":"shop","password_hash":"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR","hashing_algorithm":"rabbit_password_hashing_sha256","tags":"","limits":{}}],
		"permissions":[{"user":"shop","vhost":"/","configure":"","write":"^s","read":""},{"user":"gone","vhost":"/","configure":"","write":"","read":""}]}`
	f := start(t)
	status, answer, header := f.do("POST", "definitions", theirs)
	if left := header.Get("X-Not-Imported"); status != 204 || left != "2 users, 2 permissions" {
		t.Fatalf("%d %s, without %q", status, answer, left)
	}
	f.called(firstUsers)
	status, answer, header = f.as("admin", "pw-admin", "POST", "definitions", theirs)
	if left := header.Get("X-Not-Imported"); status != 204 || left != "2 passwords, 1 permissions" {
		t.Fatalf("%d %s, without %q", status, answer, left)
	}
	f.called([]called{
		{"admin", "GET", "users/shop/permissions", "", 200, `"write":"^s"`},
		{"admin", "GET", "users/guest", "", 200, `"tags":["administrator"]`},
		{"guest", "GET", "whoami", "", 401, "Login failed"},
	})
	// An administrator in the middle with a password is made first.
	f = start(t)
	withAdmin := strings.Replace(theirs, `"users":[`, `"users":[{"name":"a","tags":""},{"name":"admin","password":"pw-admin","tags":"administrator"},`, 1)
	if status, answer, header := f.do("POST", "definitions", withAdmin); status != 204 || header.Get("X-Not-Imported") != "2 passwords, 1 permissions" {
		t.Fatalf("%d %s, without %q", status, answer, header.Get("X-Not-Imported"))
	}
	var names []string
	for _, u := range f.router.Users() {
		names = append(names, u.Name)
	}
	if !slices.Equal(names, []string{"a", "admin", "guest", "shop"}) {
		t.Errorf("users %v", names)
	}
}
