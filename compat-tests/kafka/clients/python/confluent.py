"""The driver for confluent-kafka, Python on librdkafka."""

import sys
import threading

import confluent_kafka as ck
from confluent_kafka import admin as cka

import proto

bootstrap = sys.argv[1]
admin = cka.AdminClient({"bootstrap.servers": bootstrap})
producers, members = {}, {}


def hello(a):
    return {"version": f"{ck.__version__}/librdkafka-{ck.libversion()[0]}"}


def produce(a):
    conf = {
        "bootstrap.servers": bootstrap,
        "compression.type": a["codec"],
        "enable.idempotence": a.get("idempotent") == "1",
        "acks": "all",
        "linger.ms": 5,
    }
    if a.get("idempotent") == "1":
        p = producers.setdefault(a["topic"], None) or ck.Producer(conf)
        producers[a["topic"]] = p
    else:
        p = ck.Producer(conf)
    errors = []
    start = int(a["from"])
    for i in range(start, start + int(a["count"])):
        more = {"timestamp": int(a["ts"]) + i} if "ts" in a else {}
        p.produce(
            a["topic"], proto.value(i), proto.key(i), i % int(a["parts"]),
            on_delivery=lambda e, m: errors.append(e) if e else None,
            headers=[("n", proto.header(i))], **more,
        )
    left = p.flush(30)
    if left or errors:
        raise RuntimeError(f"{left} not delivered, {errors[:3]}")


def consume(a):
    c = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    tp = ck.TopicPartition(a["topic"], int(a["part"]), int(a.get("offset", 0)))
    if "time" in a:
        tp.offset = int(a["time"])
        [tp] = c.offsets_for_times([tp], timeout=60)
    c.assign([tp])
    recs = []
    while len(recs) < int(a["count"]):
        for m in c.consume(100, 0.2):
            if m.error():
                raise ck.KafkaException(m.error())
            recs.append(f"{m.offset()}:{proto.name(m.value())}")
    c.close()
    return {"recs": ",".join(recs[: int(a["count"])])}


class Member:
    def __init__(self, a):
        conf = {
            "bootstrap.servers": bootstrap,
            "group.id": a["group"],
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 300,
            "session.timeout.ms": 30000,
            "fetch.wait.max.ms": 200,
            "partition.assignment.strategy": "cooperative-sticky" if a.get("assignor") == "cooperative" else "range",
        }
        if "instance" in a:
            conf["group.instance.id"] = a["instance"]
        self.name = a["member"]
        self.cooperative = a.get("assignor") == "cooperative"
        self.parts = set()
        self.leaving = threading.Event()
        self.consumer = ck.Consumer(conf)
        self.consumer.subscribe([a["topic"]], on_assign=self.on_assign, on_revoke=self.on_revoke)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def on_assign(self, c, tps):
        c.incremental_assign(tps) if self.cooperative else c.assign(tps)
        self.parts |= {f"{t.topic}-{t.partition}" for t in tps}
        proto.assigned(self.name, self.parts)

    def on_revoke(self, c, tps):
        c.incremental_unassign(tps) if self.cooperative else c.unassign()
        self.parts -= {f"{t.topic}-{t.partition}" for t in tps}
        proto.assigned(self.name, self.parts)

    def run(self):
        while not self.leaving.is_set():
            ms = self.consumer.consume(100, 0.1)
            for m in ms:
                if m.error():
                    print(self.name, m.error(), file=sys.stderr)
                    continue
                proto.rec(self.name, m.topic(), m.partition(), m.offset(), m.value())
            if ms:
                self.commit()
        self.commit()
        self.consumer.close()

    def commit(self):
        try:
            self.consumer.commit(asynchronous=False)
        except ck.KafkaException as e:
            if e.args[0].code() != ck.KafkaError._NO_OFFSET:
                print(self.name, e, file=sys.stderr)


def join(a):
    members[a["member"]] = Member(a)


def leave(a):
    m = members[a["member"]]
    m.leaving.set()
    m.thread.join()


def done(futures):
    return [f.result(20) for f in futures.values()][0]


def create(a):
    config = dict([a["config"].split(":")]) if "config" in a else {}
    done(admin.create_topics([cka.NewTopic(a["topic"], int(a["parts"]), 1, config=config)]))


def delete(a):
    done(admin.delete_topics([a["topic"]]))


def topics(a):
    return {"topics": ",".join(admin.list_topics(timeout=60).topics)}


def describe(a):
    return {"parts": len(admin.list_topics(a["topic"], timeout=60).topics[a["topic"]].partitions)}


def addparts(a):
    done(admin.create_partitions([cka.NewPartitions(a["topic"], int(a["total"]))]))


def resource(a):
    return cka.ConfigResource(cka.ResourceType.TOPIC, a["topic"])


def getconfig(a):
    return {"value": done(admin.describe_configs([resource(a)]))[a["key"]].value}


def setconfig(a):
    r = resource(a)
    r.add_incremental_config(cka.ConfigEntry(a["key"], a["value"], incremental_operation=cka.AlterConfigOpType.SET))
    done(admin.incremental_alter_configs([r]))


def groups(a):
    return {"groups": ",".join(g.group_id for g in admin.list_consumer_groups().result(20).valid)}


def describegroup(a):
    g = done(admin.describe_consumer_groups([a["group"]]))
    return {"state": g.state.name.lower(), "members": len(g.members)}


def offsets(a):
    r = done(admin.list_consumer_group_offsets([ck.ConsumerGroupTopicPartitions(a["group"])]))
    return {"offsets": ",".join(f"{t.partition}:{t.offset}" for t in r.topic_partitions)}


def setoffset(a):
    tp = ck.TopicPartition(a["topic"], int(a["part"]), int(a["offset"]))
    r = done(admin.alter_consumer_group_offsets([ck.ConsumerGroupTopicPartitions(a["group"], [tp])]))
    for t in r.topic_partitions:
        if t.error:
            raise ck.KafkaException(t.error)


def deletegroup(a):
    done(admin.delete_consumer_groups([a["group"]]))


def deleterecords(a):
    r = done(admin.delete_records([ck.TopicPartition(a["topic"], int(a["part"]), int(a["before"]))]))
    return {"low": r.low_watermark}


def bounds(a):
    c = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    low, high = c.get_watermark_offsets(ck.TopicPartition(a["topic"], int(a["part"])), timeout=60)
    c.close()
    return {"low": low, "high": high}


proto.serve({f.__name__: f for f in (
    hello, produce, consume, join, leave, create, delete, topics, describe, addparts, getconfig, setconfig,
    groups, describegroup, offsets, setoffset, deletegroup, deleterecords, bounds,
)})
