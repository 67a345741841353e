"""The driver for aiokafka: its coroutines run on one loop in a thread of their own."""

import asyncio
import sys
import threading

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import TopicPartition

import proto

bootstrap = sys.argv[1]
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
producers, members = {}, {}


def on_loop(f):
    """Makes a coroutine function an operation."""

    def op(a):
        return asyncio.run_coroutine_threadsafe(f(a), loop).result()

    op.__name__ = f.__name__
    return op


@on_loop
async def hello(a):
    return {"version": aiokafka.__version__}


@on_loop
async def produce(a):
    idempotent = a.get("idempotent") == "1"
    p = producers.get(a["topic"])
    if p is None:
        p = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks="all", linger_ms=5, enable_idempotence=idempotent,
            compression_type=None if a["codec"] == "none" else a["codec"],
        )
        await p.start()
    try:
        start, sent = int(a["from"]), []
        for i in range(start, start + int(a["count"])):
            sent.append(await p.send(
                a["topic"], proto.value(i), proto.key(i), partition=i % int(a["parts"]),
                timestamp_ms=int(a["ts"]) + i if "ts" in a else None, headers=[("n", proto.header(i))],
            ))
        for f in sent:
            await f
    finally:
        if idempotent:
            producers[a["topic"]] = p
        else:
            await p.stop()


@on_loop
async def consume(a):
    c = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await c.start()
    try:
        tp = TopicPartition(a["topic"], int(a["part"]))
        c.assign([tp])
        at = int(a.get("offset", 0))
        if "time" in a:
            at = (await c.offsets_for_times({tp: int(a["time"])}))[tp].offset
        c.seek(tp, at)
        recs = []
        while len(recs) < int(a["count"]):
            for m in (await c.getmany(timeout_ms=200)).get(tp, []):
                recs.append(f"{m.offset}:{proto.name(m.value)}")
        return {"recs": ",".join(recs[: int(a["count"])])}
    finally:
        await c.stop()


class Member(aiokafka.ConsumerRebalanceListener):
    def __init__(self, a):
        self.name = a["member"]
        self.leaving = False
        self.consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=a["group"], enable_auto_commit=False, auto_offset_reset="earliest",
            heartbeat_interval_ms=300, session_timeout_ms=30000, fetch_max_wait_ms=200, metadata_max_age_ms=2000,
            group_instance_id=a.get("instance"),
        )
        self.consumer.subscribe([a["topic"]], listener=self)

    def on_partitions_revoked(self, revoked):
        proto.assigned(self.name, [])

    def on_partitions_assigned(self, tps):
        proto.assigned(self.name, [f"{t.topic}-{t.partition}" for t in tps])

    async def run(self):
        await self.consumer.start()
        while not self.leaving:
            got = await self.consumer.getmany(timeout_ms=100)
            for ms in got.values():
                for m in ms:
                    proto.rec(self.name, m.topic, m.partition, m.offset, m.value)
            if got:
                try:
                    await self.consumer.commit()
                except aiokafka.errors.CommitFailedError as e:
                    print(self.name, e, file=sys.stderr)  # a rebalance came first
        await self.consumer.stop()


@on_loop
async def join(a):
    if "assignor" in a:
        raise proto.Unsupported
    m = members[a["member"]] = Member(a)
    m.task = asyncio.create_task(m.run())


@on_loop
async def leave(a):
    members[a["member"]].leaving = True
    await members[a["member"]].task


async def admin(f):
    adm = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await adm.start()
    try:
        return await f(adm)
    finally:
        await adm.close()


def check(entries):
    """Raises the first error of a response's (name, code, …) entries."""
    for e in entries:
        if e[1]:
            raise aiokafka.errors.for_code(e[1])(str(e))


@on_loop
async def create(a):
    config = dict([a["config"].split(":")]) if "config" in a else {}
    r = await admin(lambda adm: adm.create_topics([NewTopic(a["topic"], int(a["parts"]), 1, topic_configs=config)]))
    check(r.topic_errors)


@on_loop
async def delete(a):
    check((await admin(lambda adm: adm.delete_topics([a["topic"]]))).topic_error_codes)


@on_loop
async def topics(a):
    return {"topics": ",".join(await admin(lambda adm: adm.list_topics()))}


@on_loop
async def describe(a):
    [t] = await admin(lambda adm: adm.describe_topics([a["topic"]]))
    return {"parts": len(t["partitions"])}


@on_loop
async def addparts(a):
    r = await admin(lambda adm: adm.create_partitions({a["topic"]: NewPartitions(int(a["total"]))}))
    check(r.topic_errors)


@on_loop
async def getconfig(a):
    r = ConfigResource(ConfigResourceType.TOPIC, a["topic"], {a["key"]: None})
    [resp] = await admin(lambda adm: adm.describe_configs([r]))
    for res in resp.resources:
        if res[0]:
            raise aiokafka.errors.for_code(res[0])(res[1])
        for c in res[4]:
            if c[0] == a["key"]:
                return {"value": c[1]}


@on_loop
async def setconfig(a):
    r = ConfigResource(ConfigResourceType.TOPIC, a["topic"], {a["key"]: a["value"]})
    for resp in await admin(lambda adm: adm.alter_configs([r])):
        for res in resp.resources:
            if res[0]:
                raise aiokafka.errors.for_code(res[0])(res[1])


@on_loop
async def groups(a):
    return {"groups": ",".join(g[0] for g in await admin(lambda adm: adm.list_consumer_groups()))}


@on_loop
async def describegroup(a):
    [resp] = await admin(lambda adm: adm.describe_consumer_groups([a["group"]]))
    code, _, state, _, _, ms = resp.groups[0][:6]
    if code:
        raise aiokafka.errors.for_code(code)(a["group"])
    return {"state": state, "members": len(ms)}


@on_loop
async def offsets(a):
    o = await admin(lambda adm: adm.list_consumer_group_offsets(a["group"]))
    return {"offsets": ",".join(f"{tp.partition}:{m.offset}" for tp, m in o.items())}


@on_loop
async def setoffset(a):
    c = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=a["group"], enable_auto_commit=False)
    await c.start()
    try:
        tp = TopicPartition(a["topic"], int(a["part"]))
        c.assign([tp])
        await c.commit({tp: int(a["offset"])})
    finally:
        await c.stop()


@on_loop
async def deleterecords(a):
    tp = TopicPartition(a["topic"], int(a["part"]))
    r = await admin(lambda adm: adm.delete_records({tp: RecordsToDelete(before_offset=int(a["before"]))}))
    return {"low": r[tp]}


@on_loop
async def bounds(a):
    c = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await c.start()
    try:
        tp = TopicPartition(a["topic"], int(a["part"]))
        return {"low": (await c.beginning_offsets([tp]))[tp], "high": (await c.end_offsets([tp]))[tp]}
    finally:
        await c.stop()


proto.serve({f.__name__: f for f in (
    hello, produce, consume, join, leave, create, delete, topics, describe, addparts, getconfig, setconfig,
    groups, describegroup, offsets, setoffset, deleterecords, bounds,
)})
