"""The driver for kafka-python.

Of the 2.x line: in 3.0.12 a consumer's poll can stop for ever in NetworkSelector.run, when the
coroutine it schedules on the client's I/O thread is never run, whatever the broker does.
"""

import sys
import threading

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import OffsetAndMetadata

import proto

bootstrap = sys.argv[1]
producers, members = {}, {}


def hello(a):
    return {"version": kafka.__version__}


def produce(a):
    idempotent = a.get("idempotent") == "1"
    p = producers.get(a["topic"]) or KafkaProducer(
        bootstrap_servers=bootstrap, acks="all", linger_ms=5, enable_idempotence=idempotent,
        compression_type=None if a["codec"] == "none" else a["codec"],
    )
    start = int(a["from"])
    sent = [
        p.send(
            a["topic"], proto.value(i), proto.key(i), partition=i % int(a["parts"]),
            timestamp_ms=int(a["ts"]) + i if "ts" in a else None, headers=[("n", proto.header(i))],
        )
        for i in range(start, start + int(a["count"]))
    ]
    p.flush(30)
    for f in sent:
        f.get(10)
    if idempotent:
        producers[a["topic"]] = p
    else:
        p.close()


def consume(a):
    c = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    tp = TopicPartition(a["topic"], int(a["part"]))
    c.assign([tp])
    at = int(a.get("offset", 0))
    if "time" in a:
        at = c.offsets_for_times({tp: int(a["time"])})[tp].offset
    c.seek(tp, at)
    recs = []
    while len(recs) < int(a["count"]):
        for m in c.poll(200).get(tp, []):
            recs.append(f"{m.offset}:{proto.name(m.value)}")
    c.close()
    return {"recs": ",".join(recs[: int(a["count"])])}


class Member(kafka.ConsumerRebalanceListener):
    def __init__(self, a):
        self.name = a["member"]
        self.leaving = threading.Event()
        self.consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=a["group"], enable_auto_commit=False, auto_offset_reset="earliest",
            heartbeat_interval_ms=300, session_timeout_ms=30000, fetch_max_wait_ms=200,
            group_instance_id=a.get("instance"), partition_assignment_strategy=[RangePartitionAssignor],
        )
        self.consumer.subscribe([a["topic"]], listener=self)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def on_partitions_revoked(self, revoked):
        proto.assigned(self.name, [])

    def on_partitions_assigned(self, tps):
        proto.assigned(self.name, [f"{t.topic}-{t.partition}" for t in tps])

    def run(self):
        while not self.leaving.is_set():
            got = self.consumer.poll(100)
            for ms in got.values():
                for m in ms:
                    proto.rec(self.name, m.topic, m.partition, m.offset, m.value)
            if got:
                try:
                    self.consumer.commit()
                except kafka.errors.CommitFailedError as e:
                    print(self.name, e, file=sys.stderr)  # a rebalance came first
        self.consumer.close()


def join(a):
    if "assignor" in a:
        raise proto.Unsupported
    members[a["member"]] = Member(a)


def leave(a):
    m = members[a["member"]]
    m.leaving.set()
    m.thread.join()


def admin(f):
    adm = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        return f(adm)
    finally:
        adm.close()


def create(a):
    config = dict([a["config"].split(":")]) if "config" in a else {}
    admin(lambda adm: adm.create_topics([NewTopic(a["topic"], int(a["parts"]), 1, topic_configs=config)]))


def delete(a):
    admin(lambda adm: adm.delete_topics([a["topic"]]))


def topics(a):
    return {"topics": ",".join(admin(lambda adm: adm.list_topics()))}


def describe(a):
    [t] = admin(lambda adm: adm.describe_topics([a["topic"]]))
    return {"parts": len(t["partitions"])}


def addparts(a):
    admin(lambda adm: adm.create_partitions({a["topic"]: NewPartitions(int(a["total"]))}))


def getconfig(a):
    r = ConfigResource(ConfigResourceType.TOPIC, a["topic"])
    [response] = admin(lambda adm: adm.describe_configs([r]))
    [(_, _, _, _, entries)] = response.resources
    return {"value": next(e[1] for e in entries if e[0] == a["key"])}


def setconfig(a):
    admin(lambda adm: adm.alter_configs([ConfigResource(ConfigResourceType.TOPIC, a["topic"], {a["key"]: a["value"]})]))


def groups(a):
    return {"groups": ",".join(name for name, _ in admin(lambda adm: adm.list_consumer_groups()))}


def describegroup(a):
    [g] = admin(lambda adm: adm.describe_consumer_groups([a["group"]]))
    return {"state": g.state, "members": len(g.members)}


def offsets(a):
    got = admin(lambda adm: adm.list_consumer_group_offsets(a["group"]))
    return {"offsets": ",".join(f"{tp.partition}:{m.offset}" for tp, m in got.items())}


def setoffset(a):
    tp = TopicPartition(a["topic"], int(a["part"]))
    c = KafkaConsumer(bootstrap_servers=bootstrap, group_id=a["group"], enable_auto_commit=False)
    try:
        c.assign([tp])
        c.commit({tp: OffsetAndMetadata(int(a["offset"]), "", -1)})
    finally:
        c.close()


def deletegroup(a):
    [(_, err)] = admin(lambda adm: adm.delete_consumer_groups([a["group"]]))
    if err is not kafka.errors.NoError:
        raise err


def deleterecords(a):
    tp = TopicPartition(a["topic"], int(a["part"]))
    got = admin(lambda adm: adm.delete_records({tp: int(a["before"])}))
    return {"low": got[tp]["low_watermark"]}


def bounds(a):
    c = KafkaConsumer(bootstrap_servers=bootstrap)
    tp = TopicPartition(a["topic"], int(a["part"]))
    try:
        return {"low": c.beginning_offsets([tp])[tp], "high": c.end_offsets([tp])[tp]}
    finally:
        c.close()


proto.serve({f.__name__: f for f in (
    hello, produce, consume, join, leave, create, delete, topics, describe, addparts, getconfig, setconfig,
    groups, describegroup, offsets, setoffset, deletegroup, deleterecords, bounds,
)})
