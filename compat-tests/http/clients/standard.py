"""The official library of Standard Webhooks believes what the broker signs, and the broker's hooks
believe what the library signs; both refuse what was changed, and secrets rotate."""

import datetime

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from polylog import Sink, call


def believed(secret, headers, body):
    try:
        Webhook(secret).verify(body, headers, json_parse=False)
    except WebhookVerificationError:
        return False
    return True


def outgoing():
    sink = Sink()
    call("PUT", "/v1/topics/bills", {"partitions": 1}, want=201)
    first = call("PUT", "/v1/subscriptions/signed", {"topic": "bills", "push": {"url": sink.url}}, want=201).json()["push"]["secret"]

    def send(value):
        call("POST", "/v1/topics/bills/messages", {"messages": [{"value": value}]}, want=200)
        _, headers, body = sink.next()
        return {k.lower(): v for k, v in headers.items()}, body

    def rotate(to, **how):
        """Gives the endpoint a new secret, by which the next request is signed."""
        secret = call("POST", f"/v1/subscriptions/{to}:rotate", how, want=200).json()["secret"]
        headers, body = send({"n": 1})
        assert believed(secret, headers, body), "the first request after a rotation is not signed by the new secret"
        return secret, headers, body

    headers, body = send({"n": 1})
    assert Webhook(first).verify(body, headers) == {"n": 1}
    assert not believed(first, headers, body + b" "), "a body that was changed is believed"
    assert not believed(first, {**headers, "webhook-id": "another"}, body), "an id that was changed is believed"
    assert "secret" not in call("GET", "/v1/subscriptions/signed", want=200).json()["push"], "a secret is shown again"

    second, headers, body = rotate("signed")
    assert believed(first, headers, body), "while both are good, a receiver that has the old secret does not believe"
    third, headers, body = rotate("signed", keepMs=0)
    assert not believed(first, headers, body) and not believed(second, headers, body), "a secret that was not to be kept still signs"

    headers, body = send("Grüße, 世界")  # what is signed is bytes
    assert believed(third, headers, body) and body.decode() == "Grüße, 世界", body


def incoming():
    made = call("PUT", "/v1/hooks/inbox", {"topic": "inbox", "preset": "standard"}, want=201).json()
    first = made["secret"]

    def post(secret, msg_id, body, when=None, change=b""):
        when = when or datetime.datetime.now(tz=datetime.timezone.utc)
        return call("POST", "/hooks/inbox", body.encode() + change, {
            "webhook-id": msg_id,
            "webhook-timestamp": str(int(when.timestamp())),
            "webhook-signature": Webhook(secret).sign(msg_id, when, body),
            "Content-Type": "application/json",
        })

    assert post(first, "msg_1", '{"a": 1.10}').json() == {"duplicate": False}
    assert post(first, "msg_1", '{"a": 1.10}').json() == {"duplicate": True}
    assert post(first, "msg_2", "{}", change=b" ").status == 401
    ago = datetime.datetime.now(tz=datetime.timezone.utc) - datetime.timedelta(minutes=6)
    stale = post(first, "msg_3", "{}", when=ago)
    assert (stale.status, stale.json()["code"]) == (401, "bad_timestamp")
    second = call("POST", "/v1/hooks/inbox:rotate", {}, want=200).json()["secret"]
    assert post(first, "msg_4", '"old"').status == 200
    assert post(second, "msg_5", '"new"').status == 200
    third = call("POST", "/v1/hooks/inbox:rotate", {"keepMs": 0}, want=200).json()["secret"]
    assert post(second, "msg_6", "{}").status == 401
    assert post(third, "msg_7", '"newest"').status == 200
    stored = call("GET", "/v1/topics/inbox/messages", want=200).json()["messages"]
    assert sorted((m["messageId"], m["value"]) for m in stored) == [
        ("msg_1", '{"a": 1.10}'), ("msg_4", '"old"'), ("msg_5", '"new"'), ("msg_7", '"newest"')], stored


outgoing()
incoming()
