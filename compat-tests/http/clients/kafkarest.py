"""The Kafka REST interface through requests: what Confluent documents of its REST proxy."""

import json
import os
import time

import requests

BASE = "http://" + os.environ["KAFKA_REST"]
V2 = "application/vnd.kafka.v2+json"
FORMATS = {"json": "application/vnd.kafka.json.v2+json", "binary": "application/vnd.kafka.binary.v2+json"}


def call(method, path, body=None, kind=V2, want=200, accept=None):
    headers = {"Content-Type": kind} if body is not None else {}
    if accept:
        headers["Accept"] = accept
    url = path if path.startswith("http") else BASE + path
    r = requests.request(method, url, data=None if body is None else json.dumps(body), headers=headers, timeout=60)
    status = want if want < 1000 else want // 100
    assert r.status_code == status, f"{method} {path}: {r.status_code} {r.text}, want {want}"
    if want >= 400:
        assert r.json()["error_code"] == want and r.json()["message"], r.text
    return r.json() if r.text else None


def instance(group, **config):
    made = call("POST", "/consumers/" + group, config)
    assert made["base_uri"].startswith(BASE)
    return made["base_uri"]


def read(uri, n, kind="json"):
    got, deadline = [], time.monotonic() + 60
    while len(got) < n:
        assert time.monotonic() < deadline, f"{len(got)} records, want {n}"
        got += call("GET", uri + "/records?timeout=5000", accept=FORMATS[kind])
    assert len(got) == n, got
    return got


def round_trip():
    for kind, value in (("json", {"n": 1.5, "a": [None, "ü"]}), ("binary", "AAH/")):
        topic = "rt-" + kind
        body = {"records": [{"key": "AA==" if kind == "binary" else {"k": 1}, "value": value}, {"value": None}]}
        got = call("POST", "/topics/" + topic, body, FORMATS[kind])
        assert [o["offset"] for o in got["offsets"] if o["error_code"] is None] and len(got["offsets"]) == 2, got
        uri = instance("g-" + kind, **{"format": kind, "auto.offset.reset": "earliest", "auto.commit.enable": "false"})
        call("POST", uri + "/subscription", {"topics": [topic]}, want=204)
        assert sorted(json.dumps(r["value"]) for r in read(uri, 2, kind)) == sorted([json.dumps(value), "null"])
        call("GET", uri + "/records", want=40601, accept=FORMATS["binary" if kind == "json" else "json"])
        call("POST", uri + "/offsets")
        parts = call("GET", uri + "/assignments")
        assert sum(o["offset"] for o in call("GET", uri + "/offsets", parts)["offsets"]) == 2
        call("POST", uri + "/positions/beginning", parts, want=204)
        read(uri, 2, kind)
        call("DELETE", uri, want=204)
        call("DELETE", uri, want=40403)


def group():
    """Two instances share a group; when one goes the other one has everything, from what was committed on."""
    cluster = call("GET", "/v3/clusters")["data"][0]["metadata"]["self"]
    call("POST", cluster + "/topics", {"topic_name": "shared", "partitions_count": 4}, "application/json", 201)
    one, two = (instance("team", **{"format": "json", "auto.offset.reset": "earliest"}) for _ in range(2))
    call("POST", one + "/subscription", {"topic_pattern": "share."}, want=204)
    call("POST", two + "/subscription", {"topics": ["shared"]}, want=204)

    def share(uri, n):
        deadline = time.monotonic() + 90
        while len(call("GET", uri + "/assignments")["partitions"]) != n:
            assert time.monotonic() < deadline, f"{uri} has not {n} partitions"
            time.sleep(0.1)

    def send(v):
        call("POST", "/topics/shared", {"records": [{"partition": p, "value": v} for p in range(4)]}, FORMATS["json"])

    share(one, 2)
    share(two, 2)
    send(1)
    assert {(r["partition"], r["value"]) for r in read(one, 2) + read(two, 2)} == {(p, 1) for p in range(4)}
    call("DELETE", two, want=204)
    share(one, 4)
    send(2)
    want, deadline = {(p, 2) for p in range(4)}, time.monotonic() + 60
    while want:  # what was not committed when the group was divided anew may come again
        assert time.monotonic() < deadline, f"{want} did not come"
        want -= {(r["partition"], r["value"]) for r in call("GET", one + "/records?timeout=5000")}
    call("DELETE", one, want=204)


def refusals():
    call("GET", "/topics/none", want=40401)
    call("POST", "/topics/rt-json/partitions/99", {"records": [{"value": 1}]}, FORMATS["json"], 40402)
    call("POST", "/topics/rt-json", {"value_schema": "{}", "records": [{"value": 1}]}, "application/vnd.kafka.avro.v2+json", 42206)
    call("POST", "/topics/rt-json", {"records": [{"value": 1}]}, "application/json", 415)
    call("GET", "/consumers/none/instances/none/records", want=40403)
    uri = instance("refused", name="r")
    call("POST", "/consumers/refused", {"name": "r"}, want=40902)
    call("POST", "/consumers/refused", {"auto.offset.reset": "?"}, want=42204)
    call("GET", uri + "/records", want=40903)
    call("DELETE", uri, want=204)


def stream():
    """Each record of a chunked request has its answer."""
    answers = []

    def records():
        for i in range(5):
            yield json.dumps({"value": {"type": "JSON", "data": i}}).encode()

    url = BASE + "/v3/clusters/any/topics/streamed/records"
    r = requests.post(url, data=records(), headers={"Content-Type": "application/json"}, stream=True, timeout=60)
    for line in r.iter_lines():
        answers.append(json.loads(line))
    assert [a["error_code"] for a in answers] == [200] * 5 and sorted(a["offset"] for a in answers) == list(range(5)), answers


round_trip()
group()
refusals()
stream()
