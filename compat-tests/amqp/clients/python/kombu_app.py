"""kombu as its users use it: entities, producers that retry, consumers, simple queues, broadcasts."""

import socket
import sys
import threading

import kombu
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.common import Broadcast
from kombu.pidbox import Mailbox
from kombu.pools import producers

from steps import equal, say, step, until

say(version=kombu.__version__)
URL = f"amqp://guest:guest@{sys.argv[1]}//"


def drain(connection, condition):
    """Lets callbacks run until the condition holds."""

    def once():
        try:
            connection.drain_events(timeout=0.2)
        except socket.timeout:
            pass
        return condition()

    until("deliveries", once)


@step("entities and serializers")
def _():
    exchange = Exchange("kombu.media", "topic", durable=True)
    queue = Queue("kombu.videos", exchange, routing_key="media.#", message_ttl=60, max_priority=5, expires=600)
    with Connection(URL) as c:
        got = []
        with Producer(c) as p:
            for serializer in ["json", "pickle"]:
                p.publish({"name": "größe", "n": [1, 2.5, None]}, exchange=exchange, routing_key="media.video", declare=[queue], serializer=serializer, retry=True, priority=3)
            p.publish(b"\x00\xff", exchange=exchange, routing_key="media.raw", content_type="application/data", content_encoding="binary")
            p.publish({"x": 1}, exchange=exchange, routing_key="media.zip", compression="zlib")

        def on(body, message):
            got.append((body, message.properties.get("priority"), message.content_type))
            message.ack()

        with Consumer(c, queue, callbacks=[on], accept=["json", "pickle", "application/data"], prefetch_count=10):
            drain(c, lambda: len(got) == 4)
        same = {"name": "größe", "n": [1, 2.5, None]}
        equal(sorted(str(g) for g in got), sorted(str(g) for g in [
            (same, 3, "application/json"), (same, 3, "application/x-python-serialize"), (b"\x00\xff", 0, "application/data"), ({"x": 1}, 0, "application/json"),
        ]))


@step("confirms")
def _():
    with Connection(URL, transport_options={"confirm_publish": True}) as c:
        q = c.SimpleQueue("kombu.confirmed")
        for i in range(100):
            q.put({"i": i})
        equal(q.qsize(), 100)
        for i in range(100):
            m = q.get(timeout=10)
            equal(m.payload, {"i": i})
            m.ack()
        q.close()


@step("requeue and reject")
def _():
    with Connection(URL) as c:
        q = c.SimpleQueue("kombu.requeue")
        q.put("a")
        m = q.get(timeout=10)
        equal(m.delivery_info["redelivered"], False)
        m.requeue()
        m = q.get(timeout=10)
        equal(m.delivery_info["redelivered"], True)
        m.reject()
        equal(q.qsize(), 0)
        q.close()


@step("broadcast")
def _():
    with Connection(URL) as c:
        got = []
        queue = Broadcast("kombu.news")
        with Consumer(c.channel(), queue, callbacks=[lambda b, m: got.append(("a", b))], no_ack=True):
            with Consumer(c.channel(), Broadcast("kombu.news"), callbacks=[lambda b, m: got.append(("b", b))], no_ack=True):
                with Producer(c) as p:
                    p.publish("hello", exchange=queue.exchange)
                drain(c, lambda: len(got) == 2)
        equal(sorted(got), [("a", "hello"), ("b", "hello")])


@step("mailbox")
def _():
    mailbox = Mailbox("kombu.box", type="direct")
    with Connection(URL) as c, Connection(URL) as c2:
        node = mailbox(c).Node("worker", state=None)
        node.handlers["echo"] = lambda state, text="": {"echo": text}
        with node.listen(c.channel()):
            stop = threading.Event()

            def serve():
                while not stop.is_set():
                    try:
                        c.drain_events(timeout=0.2)
                    except socket.timeout:
                        pass

            t = threading.Thread(target=serve)
            t.start()
            try:
                equal(mailbox(c2)._broadcast("echo", {"text": "hi"}, destination=["worker"], reply=True, timeout=10, limit=1), [{"worker": {"echo": "hi"}}])
            finally:
                stop.set()
                t.join()


@step("pools and reconnecting")
def _():
    with Connection(URL) as c:
        with producers[c].acquire(block=True) as p:
            p.publish("a", routing_key="kombu.pool", declare=[Queue("kombu.pool")], retry=True)
            p.connection.collect()  # as if the broker had gone
        with producers[c].acquire(block=True) as p:
            p.publish("b", routing_key="kombu.pool", declare=[Queue("kombu.pool")], retry=True)
        q = c.SimpleQueue("kombu.pool")
        equal([q.get(timeout=10).payload for _ in range(2)], ["a", "b"])
        q.close()


@step("missing queue is an error that recovers")
def _():
    with Connection(URL) as c:
        ch = c.channel()
        try:
            ch.queue_declare("kombu.nowhere", passive=True)
        except c.channel_errors as e:
            equal(e.reply_code, 404)
        else:
            raise AssertionError("a missing queue was found")
        equal(c.default_channel.queue_declare("kombu.there", durable=True).message_count, 0)
