package manage

import (
	"strings"
	"testing"
)

// calls are made one after the other on one broker. Statuses are those of RabbitMQ 3.10.8 for the same
// calls, but where a comment says otherwise.
var calls = []struct {
	method, path, body string
	status             int
	part               string // of the answer
}{
	{"PUT", "queues/%2F/a", `{}`, 201, ""},
	{"PUT", "queues/%2F/a", `{"durable":"false"}`, 204, ""},
	{"PUT", "queues/%2F/a", `{"durable":true}`, 400, `inequivalent arg 'durable' for queue 'a' in vhost '/'`},
	{"PUT", "queues/%2F/a", `{"durable":"maybe"}`, 400, `neither true nor false`},
	{"PUT", "queues/%2F/b", `{"arguments":{"x-message-ttl":-1}}`, 400, `invalid arg 'x-message-ttl'`},
	{"PUT", "queues/nope/b", `{}`, 404, `vhost_not_found`},
	{"PUT", "queues/%2F/a", `x{`, 400, `not_json`},
	{"PUT", "queues/%2F/amq.x", `{}`, 401, `reserved prefix`},
	{"PUT", "queues/%2F/" + strings.Repeat("q", 256), `{}`, 400, `256 bytes`},
	{"PUT", "queues/%2F/quorum", `{"durable":true,"arguments":{"x-queue-type":"quorum"}}`, 201, ""},
	{"GET", "queues/%2F/quorum", ``, 200, `"type":"quorum"`},
	{"GET", "queues/%2F/a", ``, 200, `"messages":0`},
	{"GET", "queues/%2F/nope", ``, 404, `{"error":"Object Not Found","reason":"Not Found"}`},
	{"GET", "queues/nope", ``, 404, `Not Found`},

	{"PUT", "exchanges/%2F/e", `{"type":"fanout"}`, 201, ""},
	{"PUT", "exchanges/%2F/e", `{"type":"fanout"}`, 204, ""},
	{"PUT", "exchanges/%2F/e", `{"type":"direct"}`, 400, `inequivalent arg 'type'`},
	{"PUT", "exchanges/%2F/e2", `{"type":"nope"}`, 400, `unknown exchange type 'nope'`},
	{"GET", "exchanges/%2F/e", ``, 200, `"type":"fanout"`},
	{"GET", "exchanges/%2F/amq.default", ``, 200, `"name":""`},

	{"POST", "bindings/%2F/e/e/q/a", `{"routing_key":"k","arguments":{"x":1,"y":"s"}}`, 201, ""},
	{"POST", "bindings/%2F/e/e/q/a", `{"routing_key":"","arguments":[]}`, 201, ""},
	{"POST", "bindings/%2F/e/e/q/nope", `{}`, 404, `no queue 'nope' in vhost '/'`},
	{"POST", "bindings/%2F/e/e/e/amq.fanout", `{"routing_key":"z z/~"}`, 201, ""},
	{"GET", "bindings/%2F/e/e/e/amq.fanout", ``, 200, `"properties_key":"z+z%2F%7E"`},
	{"GET", "bindings/%2F/e/e/q/a/~", ``, 200, `"routing_key":""`},
	{"GET", "bindings/%2F/e/e/q/a/nope", ``, 404, ``},
	{"DELETE", "bindings/%2F/e/e/q/a/nope", ``, 404, ``},
	{"DELETE", "bindings/%2F/e/e/q/a/~", ``, 204, ``},
	{"DELETE", "bindings/%2F/e/e/q/a/~", ``, 404, ``},
	{"GET", "exchanges/%2F/e/bindings/source", ``, 200, `"destination":"amq.fanout"`},
	{"GET", "exchanges/%2F/amq.fanout/bindings/destination", ``, 200, `"source":"e"`},
	{"GET", "queues/%2F/a/bindings", ``, 200, `"source":""`},
	{"GET", "bindings", ``, 200, `"source":"e"`},
	{"GET", "bindings/%2F", ``, 200, `"source":"e"`},

	{"POST", "exchanges/%2F/e/publish", `{"properties":{"delivery_mode":2,"headers":{"a":1,"b":"x","c":[1,true]},"content_type":"text/plain","priority":"3","timestamp":1700000000,"message_id":"m"},"routing_key":"k","payload":"hello","payload_encoding":"string"}`, 200, `{"routed":true}`},
	{"POST", "exchanges/%2F/e/publish", `{"properties":[],"routing_key":"k","payload":"//8=","payload_encoding":"base64"}`, 200, `{"routed":true}`},
	{"POST", "exchanges/%2F/amq.default/publish", `{"properties":{},"routing_key":"nope","payload":"x","payload_encoding":"string"}`, 200, `{"routed":false}`},
	{"POST", "exchanges/%2F/amq.default/publish", `{"properties":{"priority":"x"},"routing_key":"a","payload":"x","payload_encoding":"string"}`, 400, `no whole number`},
	{"POST", "exchanges/%2F/amq.default/publish", `{"properties":{"priority":256},"routing_key":"a","payload":"x","payload_encoding":"string"}`, 400, `want 0 to 255`},
	{"POST", "exchanges/%2F/amq.default/publish", `{"properties":{"type":"` + strings.Repeat("t", 256) + `"},"routing_key":"a","payload":"x","payload_encoding":"string"}`, 400, `256 bytes`},
	{"POST", "exchanges/%2F/amq.default/publish", `{"routing_key":"a","payload":"x"}`, 400, `[{key_missing,properties},{key_missing,payload_encoding}]`},
	{"POST", "exchanges/%2F/amq.default/publish", `{"properties":{},"routing_key":"a","payload":"x","payload_encoding":"bin"}`, 400, `unsupported_encoding`},
	{"POST", "exchanges/%2F/amq.default/publish", `{"properties":{},"routing_key":"a","payload":"?","payload_encoding":"base64"}`, 400, `payload`},
	{"POST", "exchanges/%2F/nope/publish", `{"properties":{},"routing_key":"a","payload":"x","payload_encoding":"string"}`, 400, `no exchange 'nope'`},
	{"POST", "queues/%2F/a/get", `{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}`, 200, `"headers":{"a":1,"b":"x","c":[1,true]}`},
	{"POST", "queues/%2F/a/get", `{"count":1,"ackmode":"ack_requeue_true","encoding":"base64","truncate":2}`, 200, `"payload":"aGU="`},
	{"POST", "queues/%2F/a/get", `{"count":1,"ackmode":"zork","encoding":"auto"}`, 400, `ackmode`},
	{"POST", "queues/%2F/a/get", `{"count":0,"ackmode":"ack_requeue_true","encoding":"auto"}`, 400, `count`},
	{"POST", "queues/%2F/a/get", `{"count":1}`, 400, ``},
	{"POST", "queues/%2F/nope/get", `{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}`, 404, `no queue 'nope'`},
	{"DELETE", "queues/%2F/a?if-empty=true", ``, 400, `not empty`},
	{"POST", "queues/%2F/a/get", `{"count":1,"ackmode":"ack_requeue_false","encoding":"auto"}`, 200, `"payload":"hello"`},
	{"POST", "queues/%2F/a/get", `{"count":1,"ackmode":"reject_requeue_true","encoding":"auto"}`, 200, `"payload":"//8="`},
	{"POST", "queues/%2F/a/get", `{"count":1,"ackmode":"reject_requeue_false","encoding":"auto"}`, 200, `"redelivered":true`},
	{"POST", "queues/%2F/a/get", `{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}`, 200, `[]`},
	{"DELETE", "queues/%2F/a/contents", ``, 204, ``},
	{"POST", "queues/%2F/a/actions", `{"action":"sync"}`, 204, ``},
	{"DELETE", "queues/%2F/a", ``, 204, ``},
	{"DELETE", "queues/%2F/a", ``, 404, ``},
	{"DELETE", "exchanges/%2F/e?if-unused=true", ``, 400, `in use`},
	{"DELETE", "exchanges/%2F/amq.direct", ``, 401, `not allowed`},
	{"DELETE", "exchanges/%2F/e", ``, 204, ``},
	{"DELETE", "exchanges/%2F/e", ``, 404, ``},

	{"PUT", "policies/%2F/p", `{"pattern":"^q","definition":{"max-length":5},"priority":1,"apply-to":"queues"}`, 201, ``},
	{"PUT", "policies/%2F/p", `{"pattern":"^q","definition":{"max-length":5},"priority":"1","apply-to":"queues"}`, 204, ``},
	{"GET", "policies/%2F/p", ``, 200, `"definition":{"max-length":5}`},
	{"GET", "queues/%2F/quorum", ``, 200, `"effective_policy_definition":{"max-length":5}`},
	{"GET", "policies", ``, 200, `"name":"p"`},
	{"PUT", "policies/%2F/p2", `{"pattern":"^q","definition":{"zork":5}}`, 400, `not recognised policy settings`},
	{"PUT", "policies/%2F/p2", `{"pattern":"*(","definition":{"max-length":5}}`, 400, `Validation failed`},
	{"PUT", "policies/%2F/p2", `{"definition":{"max-length":5}}`, 400, `[{key_missing,pattern}]`},
	{"PUT", "policies/%2F/p2", `{"pattern":"x","definition":{"max-length":5},"apply-to":"zork"}`, 400, `apply-to`},
	{"GET", "policies/%2F/nope", ``, 404, ``},
	{"DELETE", "policies/%2F/p", ``, 204, ``},
	{"DELETE", "policies/%2F/p", ``, 404, ``},
	{"PUT", "operator-policies/%2F/o", `{"pattern":"^q","definition":{"max-length":5},"apply-to":"queues"}`, 201, ``},
	{"PUT", "operator-policies/%2F/o2", `{"pattern":"^q","definition":{"dead-letter-exchange":"q"},"apply-to":"queues"}`, 400, `dead-letter-exchange`},
	{"GET", "operator-policies/%2F", ``, 200, `"name":"o"`},
	{"DELETE", "operator-policies/%2F/o", ``, 204, ``},

	{"PUT", "vhosts/v1", `{"description":"d","tags":"a,b"}`, 201, ``},
	{"PUT", "vhosts/v1", ``, 204, ``},
	{"GET", "vhosts/v1", ``, 200, `"metadata":{"description":"d","tags":["a","b"]}`},
	{"GET", "vhosts", ``, 200, `"name":"v1"`},
	{"PUT", "queues/v1/x", `{}`, 201, ``},
	{"GET", "queues/v1", ``, 200, `"vhost":"v1"`},
	{"GET", "vhosts/v1/permissions", ``, 200, `"user":"guest"`},
	{"DELETE", "vhosts/v1", ``, 204, ``},
	{"DELETE", "vhosts/v1", ``, 404, ``},

	{"GET", "whoami", ``, 200, `{"name":"guest","tags":["administrator"]}`},
	{"GET", "users", ``, 200, `"name":"guest"`},
	{"GET", "users/guest", ``, 200, `"name":"guest"`},
	{"GET", "users/nope", ``, 404, ``},
	{"PUT", "users/u", `{"password":"x","tags":""}`, 400, `the first user has to be an administrator with a password`},
	{"PUT", "permissions/%2F/guest", `{"configure":".*","write":".*","read":".*"}`, 204, ``},
	{"PUT", "permissions/%2F/guest", `{"configure":"","write":".*","read":".*"}`, 400, `vhost_or_user_not_found`},
	{"GET", "permissions/%2F/guest", ``, 200, `"configure":".*"`},
	{"PUT", "parameters/federation-upstream/%2F/x", `{"value":{}}`, 400, `component federation-upstream not found`},
	{"GET", "parameters", ``, 200, `[]`},

	{"GET", "exchanges?columns=name", ``, 200, `[{"name":""},{"name":"amq.direct"},{"name":"amq.fanout"},{"name":"amq.headers"},{"name":"amq.match"},{"name":"amq.rabbitmq.trace"},{"name":"amq.topic"}]`},
	{"GET", "overview", ``, 200, `"object_totals":{"channels":0,"connections":0,"consumers":0,"exchanges":7,"queues":1}`},
	{"GET", "nodes", ``, 200, `"name":"polylog@1"`},
	{"GET", "nodes/polylog@1?columns=name,running,type", ``, 200, `{"name":"polylog@1","running":true,"type":"disc"}`},
	{"GET", "nodes/x", ``, 404, ``},
	{"GET", "cluster-name", ``, 200, `"name":`},
	{"GET", "connections/nope", ``, 404, ``},
	{"DELETE", "connections/nope", ``, 404, ``},
	{"GET", "channels/nope", ``, 404, ``},
	{"GET", "zork", ``, 404, `Not Found`},
	{"POST", "queues/%2F", `{}`, 405, ``},

	{"GET", "aliveness-test/%2F", ``, 200, `{"status":"ok"}`},
	{"GET", "aliveness-test/nope", ``, 404, ``},
	{"GET", "health/checks/alarms", ``, 200, `{"status":"ok"}`},
	{"GET", "health/checks/local-alarms", ``, 200, `{"status":"ok"}`},
	{"GET", "health/checks/virtual-hosts", ``, 200, `{"status":"ok"}`},
	{"GET", "health/checks/port-listener/1", ``, 503, `"missing":1`},
	{"GET", "health/checks/port-listener/x", ``, 400, ``},
	{"GET", "health/checks/protocol-listener/amqp", ``, 200, `"status":"ok"`},
	{"GET", "health/checks/protocol-listener/zork", ``, 503, `"reason":"No active listener"`},
	{"GET", "health/checks/node-is-quorum-critical", ``, 200, `"status":"ok"`},
}

func TestCalls(t *testing.T) {
	f := start(t)
	for _, c := range calls {
		status, answer, _ := f.do(c.method, c.path, c.body)
		if status != c.status || !strings.Contains(answer, c.part) {
			t.Errorf("%s %s %.200s: %d %s, want %d with %s", c.method, c.path, c.body, status, answer, c.status, c.part)
		}
		if status == 204 && answer != "" {
			t.Errorf("%s %s: 204 with a body: %s", c.method, c.path, answer)
		}
	}
}

// Every list can be asked for whole, and answers an array even when it is empty.
func TestListsAreArrays(t *testing.T) {
	f := start(t)
	for _, r := range routes {
		if r.method != "GET" || strings.Contains(r.path, "{") {
			continue
		}
		status, answer, _ := f.do("GET", r.path[1:], "")
		if status != 200 || answer != "null" && answer == "" || strings.HasPrefix(answer, "null") {
			t.Errorf("GET %s: %d %s", r.path, status, answer)
		}
	}
}
