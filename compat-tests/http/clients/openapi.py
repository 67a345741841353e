"""Every call of the broker's OpenAPI description is made, well and badly, and each answer is compared with
what is described for it. The description itself is checked by openapi-spec-validator."""

import base64
import http.client
import json
import os
import re
import socket
import urllib.parse

import jsonschema
import openapi_spec_validator

from polylog import Sink, call as plain

doc = plain("GET", "/openapi.json", want=200).json()
openapi_spec_validator.validate(doc)
operations = {}  # (method, template): operation
for template, item in doc["paths"].items():
    for method, operation in item.items():
        if method in ("get", "put", "post", "delete", "options", "patch"):
            operations[method.upper(), template] = operation
patterns = [(re.compile("^" + re.sub(r"\\{\w+\\}", "[^/:]+", re.escape(t)) + "$"), t) for t in doc["paths"]]
seen = {key: set() for key in operations}  # statuses that came
validators = {}


def resolve(node):
    while "$ref" in node:
        name = node["$ref"]
        node = doc
        for part in name.removeprefix("#/").split("/"):
            node = node[part]
    return node


def check(method, template, status, kind, body):
    """Compares an answer with the description."""
    responses = operations[method, template]["responses"]
    response = resolve(responses.get(str(status)) or responses["default"])
    where = f"{method} {template}: {status}"
    if str(status) not in responses:
        assert status >= 400, f"{where} is not described"
        assert json.loads(body)["status"] == status, f"{where}: the problem says another status: {body}"
    content = response.get("content", {})
    if not content:
        assert not body, f"{where}: a body that is not described: {body[:200]}"
        return
    assert kind in content, f"{where}: {kind} is not described"
    if not kind.endswith("json"):
        return
    key = (template, method, str(status))
    if key not in validators:
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "components": doc["components"], **content[kind]["schema"]}
        jsonschema.Draft202012Validator.check_schema(schema)
        validators[key] = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    errors = [f"{'/'.join(map(str, e.path))}: {e.message}" for e in validators[key].iter_errors(json.loads(body))]
    assert not errors, f"{where}: {errors}: {body[:500]}"


connection = http.client.HTTPConnection(os.environ["HTTP"], timeout=60)


def call(method, path, body=None, want=200, headers=None):
    """Makes a call; want is the status that must come."""
    headers = dict(headers or {})
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        headers.setdefault("Content-Type", "application/json")
    connection.request(method, path, body, headers)
    r = connection.getresponse()
    if r.headers.get_content_type() == "text/event-stream":
        r.read1(1)
        answer = b"{}"
        connection.close()
    else:
        answer = r.read()
        if r.will_close:
            connection.close()
    template = next(t for p, t in patterns if p.match(urllib.parse.urlsplit(path).path))
    check(method, template, r.status, r.headers.get_content_type() if answer else None, answer)
    seen[method, template].add(r.status)
    assert r.status == want, f"{method} {path}: {r.status}, want {want}: {answer[:500]}"
    return json.loads(answer) if answer else None


def publishing():
    call("PUT", "/v1/topics/words", {"partitions": 2, "configs": {"retention.ms": "3600000"}}, 201)
    call("PUT", "/v1/topics/words", {"partitions": 2})
    call("PATCH", "/v1/topics/words", {"configs": {"retention.ms": None}})
    call("PATCH", "/v1/topics/words", {"configs": {"retention.ms": "soon"}}, 400)
    call("PATCH", "/v1/topics/none", {"partitions": 3}, 404)
    call("PUT", "/v1/topics/words", {"partitons": 2}, 400)
    everything = {
        "key": "k", "value": "text", "headers": {"h": ["a", "b"], "n": 5, "t": True}, "tag": "red", "timestamp": "2026-11-30T12:00:00Z",
        "ttlMs": 3600000, "priority": 3, "contentType": "text/plain", "contentEncoding": "identity", "correlationId": "c", "replyTo": "r",
        "messageId": "m", "type": "t", "appId": "a", "userId": "u", "routingKey": "k",
    }
    results = call("POST", "/v1/topics/words/messages", {"messages": [everything, {"valueBase64": "AP8=", "keyBase64": "AP8="}, {"value": {"n": 1.10}}, {"value": None}]})
    call("POST", "/v1/topics/words/messages", {"messages": [{"value": "good"}, {"value": "bad", "keyBase64": "?"}]}, 207)
    call("POST", "/v1/topics/words/messages", {"messages": [{"value": "bad", "keyBase64": "?"}]}, 400)
    call("POST", "/v1/topics/words/messages", b'{"messages": [', 400, {"Content-Type": "application/json"})
    call("POST", "/v1/topics/words/messages", b'{"value": "a"}\n{"value": "b"}\n', headers={"Content-Type": "application/x-ndjson"})
    call("POST", "/v1/topics/words/messages?raw", b"raw", headers={"X-Key": "k", "Content-Type": "text/plain"})
    call("POST", "/v1/topics/words/messages", b"x" * (1 << 22), 413, {"Content-Type": "text/plain"})
    for _ in range(2):
        call("POST", "/v1/topics/words/messages", {"messages": [{"value": "once"}]}, headers={"Idempotency-Key": "one"})
    call("POST", "/v1/topics/words/messages", {"messages": [{"value": "other"}]}, 409, {"Idempotency-Key": "one"})
    page = call("GET", "/v1/topics/words/messages?limit=2&maxValueBytes=2")
    call("GET", "/v1/topics/words/messages?cursor=" + urllib.parse.quote(page["next"]))
    call("GET", "/v1/topics/words/messages?key=k&from=2026-01-01T00:00:00Z")
    call("GET", "/v1/topics/words/messages?messageId=m")
    call("GET", "/v1/topics/words/messages?cursor=bad", want=400)
    call("GET", "/v1/topics/none/messages", want=404)
    call("GET", "/v1/topics/words/messages/" + results["results"][0]["id"])
    call("GET", "/v1/topics/words/messages/0-999", want=404)
    call("GET", "/v1/topics?limit=1&prefix=w&search=OR")
    call("GET", "/v1/topics?limits=1", want=400)
    call("GET", "/v1/topics/words")
    call("GET", "/v1/topics/none", want=404)
    call("GET", "/v1/topics/words/configs")
    call("GET", "/v1/topics/none/configs", want=404)
    call("GET", "/v1/topics/words/stream?from=start")
    call("GET", "/v1/topics/none/stream", want=404)


def settling(source):
    call("POST", f"{source}:pull", {"max": 5000}, 400)
    messages = call("POST", f"{source}:pull", {"max": 4, "waitMs": 10000, "ackDeadlineMs": 60000})["messages"]
    assert len(messages) == 4, messages
    receipts = [m["receipt"] for m in messages]
    call("POST", f"{source}:extend", {"receipts": receipts[:1], "ackDeadlineMs": 50000})
    call("POST", f"{source}:nack", {"receipts": receipts[:1], "delayMs": 1000, "uncounted": True})
    call("POST", f"{source}:nack", {"receipts": receipts[1:2], "deadLetter": True})
    call("POST", f"{source}:ack", {"receipts": receipts[2:3]})
    call("POST", f"{source}:ack", {"receipts": receipts[2:]}, 207)
    for verb in "ack", "nack", "extend":
        call("POST", f"{source}:{verb}", {"receipts": receipts[2:3], **({"ackDeadlineMs": 5000} if verb == "extend" else {})}, 409)
        call("POST", f"{source}:{verb}", {"receipts": []}, 400)


def queues():
    call("PUT", "/v1/queues/jobs", {"deliveryLimit": 5, "deadLetterQueue": "dead"}, 201)
    call("PUT", "/v1/queues/jobs", {"deliveryLimit": 5, "deadLetterQueue": "dead"})
    call("PUT", "/v1/queues/jobs", {"deliveryLimit": 6}, 409)
    call("PUT", "/v1/queues/dead", {}, 200)
    call("POST", "/v1/queues/jobs/messages", {"messages": [{"value": str(n)} for n in range(6)]})
    call("POST", "/v1/queues/jobs/messages", {"messages": [{"value": "a"}, {"value": "b", "keyBase64": "?"}]}, 207)
    call("POST", "/v1/queues/none/messages", {"messages": [{"value": "a"}]}, 404)
    settling("/v1/queues/jobs")
    for verb, body in ("pull", {}), ("purge", None), ("redrive", {}):
        call("POST", f"/v1/queues/none:{verb}", body, 404)
    call("GET", "/v1/queues/dead/messages?limit=1")
    call("GET", "/v1/queues/none/messages", want=404)
    call("POST", "/v1/queues/dead:redrive", {"to": {"topic": "words"}, "max": 1})
    call("POST", "/v1/queues/dead:redrive", {"to": {"queue": "none"}}, 404)
    call("GET", "/v1/queues?counts&limit=1")
    call("GET", "/v1/queues?limit=0", want=400)
    call("GET", "/v1/queues/jobs")
    call("GET", "/v1/queues/none", want=404)
    call("GET", "/v1/queues/jobs/ws", want=426)
    call("GET", "/v1/queues/none/ws", want=404)
    call("DELETE", "/v1/queues/jobs?ifEmpty", want=409)
    call("POST", "/v1/queues/jobs:purge")
    call("DELETE", "/v1/queues/dead")
    call("DELETE", "/v1/queues/dead", want=404)


def exchanges():
    call("PUT", "/v1/exchanges/by-key", {"type": "topic"}, 201)
    call("PUT", "/v1/exchanges/by-key", {"type": "topic"})
    call("PUT", "/v1/exchanges/by-key", {"type": "fanout"}, 409)
    call("PUT", "/v1/exchanges/odd", {"type": "odd"}, 400)
    call("POST", "/v1/exchanges/by-key/bindings", {"queue": "jobs", "key": "red.*", "arguments": {"x": 1}}, 204)
    call("POST", "/v1/exchanges/by-key/bindings", {"queue": "none"}, 404)
    call("GET", "/v1/exchanges/by-key/bindings")
    call("GET", "/v1/exchanges/none/bindings", want=404)
    call("POST", "/v1/exchanges/by-key/messages", {"messages": [{"value": "a", "routingKey": "red.one"}, {"value": "b"}]})
    call("POST", "/v1/exchanges/by-key/messages", {"messages": [{"value": "a"}, {"value": "b", "keyBase64": "?"}]}, 207)
    call("POST", "/v1/exchanges/none/messages", {"messages": [{"value": "a"}]}, 404)
    call("GET", "/v1/exchanges?limit=1")
    call("GET", "/v1/exchanges?limit=x", want=400)
    call("GET", "/v1/exchanges/by-key")
    call("GET", "/v1/exchanges/none", want=404)
    call("DELETE", "/v1/exchanges/by-key?ifUnused", want=409)
    call("DELETE", "/v1/exchanges/by-key/bindings", {"queue": "jobs", "key": "red.*", "arguments": {"x": 1}}, 204)
    call("DELETE", "/v1/exchanges/by-key/bindings", {"queues": "none"}, 400)
    call("DELETE", "/v1/exchanges/by-key", want=204)
    call("DELETE", "/v1/exchanges/by-key", want=404)
    call("DELETE", "/v1/queues/jobs")


def subscriptions():
    spec = {"topic": "words", "from": "start", "maxDeliveries": 5, "deadLetterQueue": "lost", "retry": {"minMs": 100, "maxMs": 1000}}
    call("PUT", "/v1/subscriptions/reader", spec, 201)
    call("PUT", "/v1/subscriptions/reader", {**spec, "ackDeadlineMs": 5000, "filter": {"cel": "bytes >= 0"}})
    call("PUT", "/v1/subscriptions/reader", {"topic": "words", "filter": {"cel": "nonsense("}}, 400)
    call("PUT", "/v1/subscriptions/other", {"topic": "none"}, 404)
    call("GET", "/v1/subscriptions?counts&limit=1")
    call("GET", "/v1/subscriptions?limit=x", want=400)
    call("GET", "/v1/subscriptions/reader")
    call("GET", "/v1/subscriptions/none", want=404)
    call("GET", "/v1/topics/words/readers")
    call("GET", "/v1/topics/none/readers", want=404)
    settling("/v1/subscriptions/reader")
    call("POST", "/v1/subscriptions/none:pull", {}, 404)
    call("POST", "/v1/subscriptions/reader:seek", {"to": "start"}, 204)
    call("POST", "/v1/subscriptions/reader:seek", {"time": "2026-11-30T00:00:00Z"}, 204)
    call("POST", "/v1/subscriptions/reader:seek", {"offsets": {"0": 0}}, 204)
    call("POST", "/v1/subscriptions/reader:seek", {"offsets": {"7": 0}}, 400)
    call("GET", "/v1/subscriptions/reader/ws", want=426)
    call("GET", "/v1/subscriptions/none/ws", want=404)
    for path, method in (":test", "POST"), (":rotate", "POST"), (":pause", "POST"), (":enable", "POST"), ("/attempts", "GET"):
        call(method, "/v1/subscriptions/none" + path, None, 404)


def webhooks():
    sink = Sink()
    push = {"url": sink.url, "timeoutMs": 5000, "maxInFlight": 4, "headers": {"Authorization": "Bearer x"}, "permanentStatuses": [422]}
    call("PUT", "/v1/subscriptions/pushed", {"topic": "words", "from": "start", "push": push}, 201)
    call("PUT", "/v1/subscriptions/bad", {"topic": "words", "push": {"url": "http://169.254.169.254/"}}, 403)
    sink.next()
    call("POST", "/v1/subscriptions/pushed:test", {"messages": [{"value": "test"}]})
    call("POST", "/v1/subscriptions/pushed:rotate", {"keepMs": 1000})
    call("POST", "/v1/subscriptions/pushed:rotate", {"keepMs": -1}, 400)
    call("POST", "/v1/subscriptions/pushed:pause", None, 204)
    call("POST", "/v1/subscriptions/pushed:enable", None, 204)
    call("GET", "/v1/subscriptions/pushed/attempts?limit=1")
    call("DELETE", "/v1/subscriptions/pushed", want=204)
    call("DELETE", "/v1/subscriptions/pushed", want=404)


def hooks():
    call("PUT", "/v1/hooks/in", {"topic": "words", "preset": "bearer", "secrets": ["a-long-token"], "id": "header:X-Id"}, 201)
    call("PUT", "/v1/hooks/in", {"topic": "words", "preset": "bearer"})
    call("PUT", "/v1/hooks/in", {"topic": "words", "preset": "odd"}, 400)
    call("GET", "/v1/hooks?limit=1")
    call("GET", "/v1/hooks?limit=x", want=400)
    call("GET", "/v1/hooks/in")
    call("GET", "/v1/hooks/none", want=404)
    call("POST", "/hooks/in", b"x", headers={"Authorization": "Bearer a-long-token", "X-Id": "1"})
    call("POST", "/hooks/in", b"x", 401, {"Authorization": "Bearer another-token"})
    call("OPTIONS", "/hooks/in", None, 204, {"WebHook-Request-Origin": "x.example"})
    call("OPTIONS", "/hooks/none", None, 404, {"WebHook-Request-Origin": "x.example"})
    call("PUT", "/v1/namespaces/tenant", None, 201)
    call("PUT", "/v1/namespaces/tenant", None, 200)
    call("PUT", "/v1/namespaces/%00", None, 400)
    plain("PUT", "/v1/namespaces/tenant/hooks/in", {"topic": "words", "preset": "bearer", "secrets": ["a-long-token"]}, want=201)
    call("POST", "/hooks/tenant/in", b"x", headers={"Authorization": "Bearer a-long-token"})
    call("POST", "/hooks/tenant/none", b"x", 404)
    call("OPTIONS", "/hooks/tenant/in", None, 204, {"WebHook-Request-Origin": "x.example"})
    call("OPTIONS", "/hooks/tenant/none", None, 404, {"WebHook-Request-Origin": "x.example"})
    call("POST", "/v1/hooks/in:rotate", {})
    call("POST", "/v1/hooks/none:rotate", {}, 404)
    call("DELETE", "/v1/hooks/in", want=204)
    call("DELETE", "/v1/hooks/in", want=404)
    call("GET", "/v1/namespaces")
    call("DELETE", "/v1/namespaces/tenant", want=204)
    call("DELETE", "/v1/namespaces/tenant", want=404)


def sessions():
    host, port = os.environ["MQTT"].rsplit(":", 1)
    with socket.create_connection((host, int(port)), 20) as device, device.makefile("rb") as answers:
        device.sendall(b"\x10\x10\0\4MQTT\4\0\0\0\0\4dev1")  # without clean session
        assert answers.read(4) == b"\x20\2\0\0"
        device.sendall(b"\x82\x08\0\1\0\3a/b\1")
        assert answers.read(5) == b"\x90\3\0\1\1"
        call("GET", "/v1/sessions?limit=1")
        call("GET", "/v1/sessions?limit=x", want=400)
        call("GET", "/v1/sessions/dev1")
        call("GET", "/v1/sessions/dev2", want=404)
        call("DELETE", "/v1/sessions/dev1", want=204)
        assert answers.read() == b""
    call("DELETE", "/v1/sessions/dev1", want=404)


def administration():
    call("GET", "/v1/admin/overview")
    call("GET", "/v1/admin/health")
    call("GET", "/v1/admin/metrics")
    call("GET", "/v1/admin/connections?limit=5")
    call("GET", "/v1/admin/connections?limit=x", want=400)
    call("GET", "/v1/admin/groups")
    call("GET", "/v1/admin/groups?limit=x", want=400)
    call("GET", "/v1/admin/groups/none", want=404)


def cleaning():
    call("DELETE", "/v1/subscriptions/reader", want=204)
    call("DELETE", "/v1/topics/words", want=204)
    call("DELETE", "/v1/topics/words", want=404)


def users():
    def basic(user, password):
        return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}

    call("GET", "/v1/whoami")
    call("GET", "/v1/rights/words")
    call("PUT", "/v1/users/alice", {"password": "a"}, 409)
    call("PUT", "/v1/users/admin?new", {"password": "admins", "tags": ["administrator"]}, 201)
    admin = basic("admin", "admins")
    for path in "whoami", "users", "users/admin", "rights/words":
        call("GET", f"/v1/{path}", want=401)
    for method in "PUT", "DELETE":
        call(method, "/v1/users/admin", {} if method == "PUT" else None, 401)
        call(method, "/v1/users/admin/rights/default", {} if method == "PUT" else None, 401)
    call("GET", "/v1/whoami", headers=admin)
    call("PUT", "/v1/users/alice", {"password": "alices", "rights": [{"namespace": "default", "read": "^w"}]}, 201, admin)
    call("PUT", "/v1/users/alice?new", {}, 409, admin)
    call("PUT", "/v1/users/alice", {"tags": ["monitoring"]}, headers=admin)
    call("GET", "/v1/users?limit=1", headers=admin)
    call("GET", "/v1/users/alice", headers=admin)
    call("GET", "/v1/users/none", want=404, headers=admin)
    alice = basic("alice", "alices")
    assert call("GET", "/v1/rights/words", headers=alice) == {"name": "words", "configure": False, "write": False, "read": True}
    call("GET", "/v1/users", want=403, headers=alice)
    call("GET", "/v1/whoami", want=401, headers=basic("alice", "wrong"))
    call("PUT", "/v1/users/alice/rights/default", {"configure": "(", "write": "", "read": ""}, 400, admin)
    call("PUT", "/v1/users/alice/rights/default", {"configure": "", "write": "^w", "read": "^w"}, 204, admin)
    call("DELETE", "/v1/users/alice/rights/default", want=204, headers=admin)
    call("DELETE", "/v1/users/alice/rights/default", want=404, headers=admin)
    call("DELETE", "/v1/users/admin", want=409, headers=admin)
    call("DELETE", "/v1/users/alice", want=204, headers=admin)
    call("DELETE", "/v1/users/admin?last", want=204, headers=admin)


for part in publishing, queues, exchanges, subscriptions, webhooks, hooks, sessions, administration, cleaning, users:
    part()

# The only successes that no answer over HTTP can be: those of WebSockets, which streams.py tries; of groups, which need
# a Kafka client (the console's test has one).
apart = {("GET", "/v1/queues/{queue}/ws"), ("GET", "/v1/subscriptions/{subscription}/ws"), ("GET", "/v1/admin/groups/{group}")}
missing = [f"{m} {t}: no success" for (m, t), s in seen.items() if (m, t) not in apart and not any(c < 400 for c in s)]
# Calls without arguments cannot be made badly.
safe = {("GET", "/v1/namespaces"), ("GET", "/v1/admin/overview"), ("GET", "/v1/admin/health"), ("GET", "/v1/admin/metrics")}
missing += [f"{m} {t}: no error" for (m, t), s in seen.items() if (m, t) not in safe and not any(c >= 400 for c in s)]
assert not missing, "\n".join(missing)
try:
    check("GET", "/v1/topics", 200, "application/json", b'{"topics": [{"name": 5}]}')
except AssertionError:
    print(len(operations), "operations,", sum(map(len, seen.values())), "kinds of answers")
else:
    raise AssertionError("an answer that is not as described passes")
