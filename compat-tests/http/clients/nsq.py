"""gnsq's client of nsqd's HTTP interface: what it publishes is pulled from a channel."""

import os

from gnsq import NsqdHTTPClient
from gnsq.errors import NSQHttpError

from polylog import call

host, port = os.environ["NSQ"].rsplit(":", 1)
nsqd = NsqdHTTPClient(host, int(port))


def refused(status, f, *args, **kwargs):
    try:
        f(*args, **kwargs)
    except NSQHttpError as e:
        assert f"<{status}>" in str(e), e
    else:
        raise AssertionError(f"{f.__name__}{args} was not refused")


def pull(channel, count):
    """The values of a channel's next messages, which are acknowledged."""
    got = []
    while len(got) < count:
        answer = call("POST", f"/v1/subscriptions/greetings:{channel}:pull", {"max": count - len(got), "waitMs": 20000}, want=200).json()
        messages = answer["messages"]
        assert messages, f"{got}, want {count} of them"
        got += [m["value"] for m in messages]
        call("POST", f"/v1/subscriptions/greetings:{channel}:ack", {"receipts": [m["receipt"] for m in messages]}, want=200)
    return got


assert nsqd.ping() == b"OK"
assert nsqd.info()["version"] == "1.3.0"

assert nsqd.publish("greetings", b"hello") == b"OK"
assert nsqd.multipublish("greetings", [b"one", b"two"]) == b"OK"
assert nsqd.multipublish("greetings", [b"three\nlines\nlong", b"four"], binary=True) == b"OK"
nsqd.create_channel("greetings", "first")
nsqd.create_channel("greetings", "second")
assert pull("first", 5) == ["hello", "one", "two", "three\nlines\nlong", "four"]

assert nsqd.publish("greetings", b"later", defer=1500) == b"OK"
assert nsqd.publish("greetings", b"now") == b"OK"
assert pull("first", 2) == ["now", "later"]
nsqd.empty_channel("greetings", "second")
assert nsqd.publish("greetings", b"last") == b"OK"
assert pull("second", 1) == ["last"]

refused(413, nsqd.publish, "greetings", b"x" * (2 << 20))
refused(400, nsqd.publish, "greetings", b"")
refused(400, nsqd.publish, "greetings", b"x", defer=-1)
refused(404, nsqd.empty_channel, "greetings", "none")
refused(404, nsqd.delete_topic, "none")
refused(501, nsqd.pause_topic, "greetings")
nsqd.create_topic("made")
nsqd.empty_topic("made")
nsqd.delete_topic("made")
nsqd.delete_channel("greetings", "first")
nsqd.delete_topic("greetings")
assert call("GET", "/v1/subscriptions/greetings:second").status == 404
