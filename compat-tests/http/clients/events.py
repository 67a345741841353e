"""The cloudevents library makes events that the broker stores, in each mode, and reads those that the
broker sends."""

import datetime
import json

from cloudevents.core.bindings.http import (
    HTTPMessage, from_binary_event, from_http_event, from_structured_event, to_binary_event, to_structured_event,
)
from cloudevents.core.v1.event import CloudEvent

from polylog import Sink, call


def event(n, data, **more):
    return CloudEvent({
        "specversion": "1.0", "id": f"id-{n}", "source": "/compat/test", "type": "com.example.thing",
        "subject": 'a "quoted" süß 100%', "time": datetime.datetime(2026, 11, 30, 12, 0, n, tzinfo=datetime.timezone.utc),
        **more,
    }, data)


def same(got, want):
    a, b = dict(got.get_attributes()), dict(want.get_attributes())
    for name in b:
        assert a[name] == b[name], f"{name}: {a[name]!r}, want {b[name]!r}"
    assert got.get_data() == want.get_data(), f"{got.get_data()!r}, want {want.get_data()!r}"


call("PUT", "/v1/topics/events", {"partitions": 1}, want=201)
sinks = {}
for mode in "cloudevents-binary", "cloudevents-structured":
    sinks[mode] = Sink()
    call("PUT", f"/v1/subscriptions/{mode}",
         {"topic": "events", "push": {"url": sinks[mode].url, "format": mode, "ordered": True, "handshake": True}}, want=201)

events = [
    event(0, {"n": 1, "text": "süß"}, datacontenttype="application/json", partitionkey="k"),
    event(1, {"n": 2}, datacontenttype="application/json", partitionkey="k", traceparent="00-abc"),
    event(2, b"\x00\xff bytes", datacontenttype="application/octet-stream", partitionkey="k"),
    event(3, {"n": 4}, datacontenttype="application/json", partitionkey="k"),
    event(4, {"n": 5}, datacontenttype="application/json", partitionkey="k"),
]
for e, encode in (events[0], to_binary_event), (events[1], to_structured_event), (events[2], to_binary_event):
    message = encode(e)
    call("POST", "/v1/topics/events/messages", message.body, dict(message.headers), want=200)
batch = [json.loads(to_structured_event(e).body) for e in events[3:]]
results = call("POST", "/v1/topics/events/messages", json.dumps(batch).encode(),
               {"Content-Type": "application/cloudevents-batch+json"}, want=200).json()["results"]
assert [r["status"] for r in results] == [200, 200], results

stored = call("GET", "/v1/topics/events/messages", want=200).json()["messages"]
assert [m["messageId"] for m in stored] == [f"id-{n}" for n in range(5)], stored
assert {m["key"] for m in stored} == {"k"}, stored

for mode, decode in ("cloudevents-binary", from_binary_event), ("cloudevents-structured", from_structured_event):
    for want in events:
        _, headers, body = sinks[mode].next()
        assert headers["Origin"], "no Origin, after a handshake"
        message = HTTPMessage(dict(headers), body)
        same(from_http_event(message), want)
        if want is not events[1] and not (mode == "cloudevents-binary" and want in events[3:]):
            same(decode(message), want)  # an event goes out in the mode that it came in, or in the one that was asked for

# What is no event becomes one.
call("POST", "/v1/topics/events/messages", {"messages": [{"key": "k", "value": {"plain": True}, "messageId": "p"}]}, want=200)
for mode, sink in sinks.items():
    _, headers, body = sink.next()
    got = from_http_event(HTTPMessage(dict(headers), body))
    assert got.get_data() == {"plain": True} and got.get_id(), (mode, got.get_attributes(), got.get_data())

# Broken events are refused, each for itself.
call("POST", "/v1/topics/events/messages", b"{}", {"Content-Type": "application/cloudevents+json"}, want=400)
call("POST", "/v1/topics/events/messages", b"x", {"ce-specversion": "1.0", "ce-id": "1"}, want=400)
bad = call("POST", "/v1/topics/events/messages", json.dumps([batch[0], {"specversion": "1.0"}]).encode(),
           {"Content-Type": "application/cloudevents-batch+json"}, want=207).json()["results"]
assert [r["status"] for r in bad] == [200, 400], bad
