"""The driver for pika's BlockingConnection; the conversation is described in clients/proto.

pika runs callbacks only while it is asked to, so the one loop here lets it work and looks for the
runner's next line in turn."""

import datetime
import json
import queue
import sys
import threading

import pika
from pika import exceptions

from proto import Refused, answer, say

PROPERTIES = ["content_type", "content_encoding", "priority", "correlation_id", "reply_to", "expiration", "message_id", "timestamp", "type", "user_id", "app_id"]


def field(v):
    if isinstance(v, dict):
        if "time" in v:
            return datetime.datetime.fromtimestamp(v["time"], datetime.timezone.utc)
        return {k: field(x) for k, x in v.items()}
    if isinstance(v, list):
        return [field(x) for x in v]
    return v


def plain(v):
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    if isinstance(v, list):
        return [plain(x) for x in v]
    if isinstance(v, datetime.datetime):
        return {"time": int(v.replace(tzinfo=v.tzinfo or datetime.timezone.utc).timestamp())}
    if isinstance(v, bytes):
        return v.decode()
    return v


def delivery(method, properties, body, tag=""):
    d = {"number": method.delivery_tag, "redelivered": method.redelivered, "exchange": method.exchange, "key": method.routing_key, "body": body.decode(), "tag": tag}
    for name in PROPERTIES:
        if (v := getattr(properties, name)) is not None:
            d[name] = v
    if properties.delivery_mode == 2:
        d["persistent"] = True
    if properties.headers is not None:
        d["headers"] = plain(properties.headers)
    return d


class Driver:
    def __init__(self, addr):
        host, port = addr.rsplit(":", 1)
        self.parameters = pika.ConnectionParameters(host, int(port), "/", pika.PlainCredentials("guest", "guest"), heartbeat=2)
        self.channels, self.confirming, self.returned = {}, set(), {}

    def run(self):
        lines = queue.Queue()
        threading.Thread(target=lambda: [lines.put(line) for line in sys.stdin] + [lines.put(None)], daemon=True).start()
        connection = None
        while True:
            try:
                line = lines.get(block=connection is None)
            except queue.Empty:
                connection.process_data_events(time_limit=0.01)
                continue
            if line is None:
                return
            answer(json.loads(line), self.do)
            connection = getattr(self, "connection", None)

    def do(self, r):
        try:
            return self.op(r)
        except exceptions.ChannelClosedByBroker as e:
            raise Refused(e.reply_code, e.reply_text) from e
        except exceptions.ConnectionClosedByBroker as e:
            raise Refused(e.reply_code, e.reply_text) from e

    def op(self, r):
        op, name = r["op"], r.get("ch")
        if op == "hello":
            self.connection = pika.BlockingConnection(self.parameters)
            return {"client": "pika", "version": pika.__version__}
        if op == "channel":
            ch = self.channels[name] = self.connection.channel()
            ch.add_on_cancel_callback(lambda frame: say({"event": "cancelled", "ch": name, "tag": frame.method.consumer_tag}))
            self.confirming.discard(name)
            return
        ch, args = self.channels[name], field(r.get("args"))
        if op == "close":
            ch.close()
        elif op == "confirm":
            ch.confirm_delivery()
            self.confirming.add(name)
        elif op == "tx":
            ch.tx_select()
        elif op == "commit":
            ch.tx_commit()
        elif op == "rollback":
            ch.tx_rollback()
        elif op == "exchange":
            ch.exchange_declare(r["name"], r["type"], durable=r.get("durable", False), internal=r.get("internal", False), arguments=args)
        elif op == "queue":
            m = ch.queue_declare(
                r.get("name", ""), passive=r.get("passive", False), durable=r.get("durable", False), exclusive=r.get("exclusive", False),
                auto_delete=r.get("auto_delete", False), arguments=args,
            ).method
            return {"name": m.queue, "messages": m.message_count, "consumers": m.consumer_count}
        elif op == "bind":
            ch.queue_bind(r["queue"], r["exchange"], r.get("key", ""), args)
        elif op == "unbind":
            ch.queue_unbind(r["queue"], r["exchange"], r.get("key", ""), args)
        elif op == "xbind":
            ch.exchange_bind(r["destination"], r["source"], r.get("key", ""))
        elif op == "purge":
            return {"messages": ch.queue_purge(r["queue"]).method.message_count}
        elif op == "delete":
            ch.queue_delete(r["queue"])
        elif op == "publish":
            return self.publish(ch, name, r)
        elif op == "qos":
            ch.basic_qos(prefetch_count=r["prefetch"])
        elif op == "consume":
            tag = r.get("tag", "")

            def got(_, method, properties, body):
                say({"event": "deliver", "ch": name, "delivery": delivery(method, properties, body, method.consumer_tag)})

            ch.basic_consume(r["queue"], got, r.get("no_ack", False), r.get("exclusive", False), tag or None, args)
        elif op == "get":
            method, properties, body = ch.basic_get(r["queue"], r.get("no_ack", False))
            return {"empty": True} if method is None else {"delivery": delivery(method, properties, body)}
        elif op == "ack":
            ch.basic_ack(r.get("number", 0), r.get("multiple", False))
        elif op == "nack":
            ch.basic_nack(r.get("number", 0), r.get("multiple", False), r.get("requeue", False))
        elif op == "reject":
            ch.basic_reject(r.get("number", 0), r.get("requeue", False))
        elif op == "cancel":
            ch.basic_cancel(r["tag"])
        else:
            raise NotImplementedError

    def publish(self, ch, name, r):
        m = r.get("message", {})
        properties = pika.BasicProperties(headers=field(m.get("headers")), delivery_mode=2 if m.get("persistent") else None, **{k: m[k] for k in PROPERTIES if k in m})
        try:
            ch.basic_publish(r.get("exchange", ""), r.get("key", ""), r.get("body", "").encode(), properties, r.get("mandatory", False))
        except exceptions.UnroutableError as e:
            return {"acked": True, "returned": e.messages[0].method.reply_code}
        except exceptions.NackError:
            return {"acked": False}
        return {"acked": name in self.confirming}


Driver(sys.argv[1]).run()
