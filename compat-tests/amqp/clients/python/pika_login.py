"""Users, with pika: pika_login.py AMQP MANAGEMENT, the addresses of a broker as ../../login.sh makes it."""

import base64
import sys
import time
import urllib.request

import pika
from pika import exceptions

host, port = sys.argv[1].rsplit(":", 1)


def connect(user, password, vhost="/"):
    return pika.BlockingConnection(pika.ConnectionParameters(host, int(port), vhost, pika.PlainCredentials(user, password)))


def refused(kind, text, fn):
    """fn has to fail with an error of a kind that says a text."""
    try:
        fn()
    except kind as e:
        assert text in str(e), f"{e!r}, want {text}"
        return
    raise AssertionError(f"it went well, want {kind.__name__} with {text}")


login = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
refused(exceptions.ProbableAuthenticationError, login, lambda: connect("alice", "wrong"))
refused(exceptions.ProbableAuthenticationError, login, lambda: connect("nobody", "alices"))
refused(exceptions.ProbableAuthenticationError, login, lambda: connect("guest", "guest"))
refused(exceptions.ProbableAccessDeniedError, "NOT_ALLOWED - access to vhost 'other' refused for user 'alice'", lambda: connect("alice", "alices", "other"))

conn = connect("alice", "alices")
ch = conn.channel()
ch.queue_declare("my-queue")
ch.exchange_declare("my-exchange", "fanout")
ch.queue_bind("my-queue", "my-exchange")
ch.confirm_delivery()
ch.basic_publish("my-exchange", "", b"hello", pika.BasicProperties(user_id="alice"), mandatory=True)
method, _, body = ch.basic_get("my-queue", auto_ack=True)
assert method and body == b"hello", body


def denied(text, fn):
    """fn of a new channel has to close it with 403 and a text."""
    ch = conn.channel()
    ch.confirm_delivery()
    refused(exceptions.ChannelClosedByBroker, f"(403, \"ACCESS_REFUSED - {text} in vhost '/' refused for user 'alice'\")", lambda: fn(ch))


denied("write access to exchange 'amq.default'", lambda ch: ch.basic_publish("", "my-queue", b"x"))
denied("configure access to queue 'b'", lambda ch: ch.queue_declare("b"))
denied("configure access to exchange 'b'", lambda ch: ch.exchange_declare("b", "direct"))
denied("read access to queue 'b'", lambda ch: ch.basic_consume("b", lambda *_: None))
denied("read access to exchange 'amq.topic'", lambda ch: ch.queue_bind("my-queue", "amq.topic", "#"))
refused(
    exceptions.ChannelClosedByBroker,
    "user_id property set to 'bob' but authenticated user was 'alice'",
    lambda: ch.basic_publish("my-exchange", "", b"x", pika.BasicProperties(user_id="bob")),
)

request = urllib.request.Request(f"http://{sys.argv[2]}/api/users/alice", method="DELETE")
request.add_header("Authorization", "Basic " + base64.b64encode(b"admin:admins").decode())
urllib.request.urlopen(request, timeout=30).close()


def listen():
    until = time.monotonic() + 30
    while time.monotonic() < until:
        conn.process_data_events(time_limit=1)


refused(exceptions.ConnectionClosedByBroker, "CONNECTION_FORCED - user 'alice' is deleted", listen)
refused(exceptions.ProbableAuthenticationError, login, lambda: connect("alice", "alices"))
