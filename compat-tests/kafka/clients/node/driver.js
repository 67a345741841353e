// The driver for kafkajs; the conversation is described in clients/proto.
'use strict';

const readline = require('readline');
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs');
const snappy = require('kafkajs-snappy');
const lz4 = require('lz4js');
const { ZstdCodec } = require('zstd-codec');
const { version } = require('kafkajs/package.json');

// kafkajs has gzip itself and takes the other codecs from packages.
CompressionCodecs[CompressionTypes.Snappy] = snappy;
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => {
    // lz4js says in the frame's flags that blocks depend on each other, which Kafka refuses. Of a
    // single block it is not true; 0x60 0x73 are the flags without it and the header's checksum then.
    const frame = Buffer.from(lz4.compress(encoder.buffer));
    frame[4] = 0x60;
    frame[6] = 0x73;
    return frame;
  },
  decompress: async (buffer) => Buffer.from(lz4.decompress(buffer)),
});
const zstd = new Promise((resolve) => ZstdCodec.run((z) => resolve(new z.Streaming())));
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from((await zstd).compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from((await zstd).decompress(buffer)),
});
const codecs = {
  none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD,
};

const kafka = new Kafka({
  clientId: 'compat',
  brokers: [process.argv[2]],
  logLevel: logLevel.ERROR,
  logCreator: () => (entry) => process.stderr.write(JSON.stringify(entry) + '\n'),
});
const say = (line) => process.stdout.write(line + '\n');
const words = (args) => Object.entries(args || {}).map(([k, v]) => ` ${k}=${v}`).join('');
const name = (value) => value.toString().replace(/\.+$/, '');
class Unsupported extends Error {}

const producers = new Map();
const members = new Map();

async function admin(f) {
  const a = kafka.admin();
  await a.connect();
  try {
    return await f(a);
  } finally {
    await a.disconnect();
  }
}

async function produce(a) {
  const idempotent = a.idempotent === '1';
  const key = a.topic;
  let p = producers.get(key);
  if (!p) {
    p = kafka.producer({
      idempotent,
      maxInFlightRequests: idempotent ? 1 : 5,
      createPartitioner: () => ({ message }) => message.partition,
    });
    await p.connect();
  }
  const messages = [];
  for (let i = +a.from; i < +a.from + +a.count; i++) {
    const m = { key: `k${i}`, value: `v${i}` + '.'.repeat(100), partition: i % +a.parts, headers: { n: `${i}` } };
    if (a.ts) m.timestamp = `${+a.ts + i}`;
    messages.push(m);
  }
  try {
    await p.send({ topic: a.topic, acks: -1, compression: codecs[a.codec], messages });
  } finally {
    if (idempotent) producers.set(key, p);
    else await p.disconnect();
  }
}

// kafkajs reads only through groups; seek puts the one partition where it should start.
async function consume(a) {
  const part = +a.part;
  let at = a.offset;
  if (a.time) {
    const found = await admin((adm) => adm.fetchTopicOffsetsByTimestamp(a.topic, +a.time));
    at = found.find((p) => p.partition === part).offset;
  }
  const c = kafka.consumer({ groupId: `${a.topic}-${part}-${at}`, maxWaitTimeInMs: 200, rebalanceTimeout: 5000 });
  await c.connect();
  await c.subscribe({ topic: a.topic, fromBeginning: true });
  const recs = [];
  await new Promise((resolve, reject) => {
    c.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        if (partition !== part || recs.length >= +a.count || +message.offset < +at) return;
        recs.push(`${message.offset}:${name(message.value)}`);
        if (recs.length === +a.count) resolve();
      },
    }).catch(reject);
    c.seek({ topic: a.topic, partition: part, offset: at });
  });
  await c.disconnect();
  return { recs: recs.join(',') };
}

async function join(a) {
  if (a.instance || a.assignor) throw new Unsupported();
  const c = kafka.consumer({
    groupId: a.group, heartbeatInterval: 300, sessionTimeout: 30000, rebalanceTimeout: 30000, maxWaitTimeInMs: 200,
    retry: { initialRetryTime: 100 },
  });
  members.set(a.member, c);
  const assigned = (parts) => say(`! assigned member=${a.member} parts=${parts.sort().join(',')}`);
  c.on(c.events.GROUP_JOIN, ({ payload }) => {
    assigned(Object.entries(payload.memberAssignment).flatMap(([t, ps]) => ps.map((p) => `${t}-${p}`)));
  });
  c.on(c.events.REBALANCING, () => assigned([]));
  await c.connect();
  await c.subscribe({ topic: a.topic, fromBeginning: true });
  c.run({
    autoCommit: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat, isRunning, isStale }) => {
      let last = null;
      for (const m of batch.messages) {
        if (!isRunning() || isStale()) break;
        say(`! rec member=${a.member} part=${batch.topic}-${batch.partition} offset=${m.offset} value=${name(m.value)}`);
        resolveOffset(m.offset);
        last = m.offset;
      }
      if (last !== null) {
        await c.commitOffsets([{ topic: batch.topic, partition: batch.partition, offset: `${BigInt(last) + 1n}` }]);
      }
      await heartbeat();
    },
  }).catch((e) => process.stderr.write(`${a.member} ${e}\n`));
}

async function leave(a) {
  await members.get(a.member).disconnect();
}

const ops = {
  hello: async () => ({ version }),
  produce, consume, join, leave,
  create: (a) => admin(async (adm) => {
    const configEntries = [];
    if (a.config) {
      const [k, v] = a.config.split(':');
      configEntries.push({ name: k, value: v });
    }
    // Without waitForLeaders it answers as the broker does.
    const made = await adm.createTopics({
      topics: [{ topic: a.topic, numPartitions: +a.parts, replicationFactor: 1, configEntries }],
    });
    if (!made) throw new Error('topic exists');
  }),
  delete: (a) => admin(async (adm) => { await adm.deleteTopics({ topics: [a.topic] }); }),
  topics: () => admin(async (adm) => ({ topics: (await adm.listTopics()).join(',') })),
  describe: (a) => admin(async (adm) => (
    { parts: (await adm.fetchTopicMetadata({ topics: [a.topic] })).topics[0].partitions.length })),
  addparts: (a) => admin(async (adm) => {
    await adm.createPartitions({ topicPartitions: [{ topic: a.topic, count: +a.total }] });
  }),
  getconfig: (a) => admin(async (adm) => {
    const r = await adm.describeConfigs({ resources: [{ type: 2, name: a.topic, configNames: [a.key] }] });
    return { value: r.resources[0].configEntries.find((e) => e.configName === a.key).configValue };
  }),
  setconfig: (a) => admin(async (adm) => {
    const configEntries = [{ name: a.key, value: a.value }];
    await adm.alterConfigs({ resources: [{ type: 2, name: a.topic, configEntries }] });
  }),
  groups: () => admin(async (adm) => ({ groups: (await adm.listGroups()).groups.map((g) => g.groupId).join(',') })),
  describegroup: (a) => admin(async (adm) => {
    const [g] = (await adm.describeGroups([a.group])).groups;
    return { state: g.state, members: g.members.length };
  }),
  offsets: (a) => admin(async (adm) => {
    const [t] = await adm.fetchOffsets({ groupId: a.group, topics: [a.topic] });
    return { offsets: t.partitions.map((p) => `${p.partition}:${p.offset}`).join(',') };
  }),
  setoffset: (a) => admin(async (adm) => {
    await adm.setOffsets({ groupId: a.group, topic: a.topic, partitions: [{ partition: +a.part, offset: a.offset }] });
  }),
  deletegroup: (a) => admin(async (adm) => { await adm.deleteGroups([a.group]); }),
  deleterecords: (a) => admin(async (adm) => {
    await adm.fetchTopicOffsets(a.topic); // kafkajs knows the topic's leaders only after this
    await adm.deleteTopicRecords({ topic: a.topic, partitions: [{ partition: +a.part, offset: a.before }] });
    return {};
  }),
  bounds: (a) => admin(async (adm) => {
    const p = (await adm.fetchTopicOffsets(a.topic)).find((o) => o.partition === +a.part);
    return { low: p.low, high: p.high };
  }),
};

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const [id, op, ...rest] = line.trim().split(/\s+/);
  const args = Object.fromEntries(rest.map((w) => [w.slice(0, w.indexOf('=')), w.slice(w.indexOf('=') + 1)]));
  try {
    if (!ops[op]) throw new Unsupported();
    say(`${id} ok${words(await ops[op](args))}`);
  } catch (e) {
    if (e instanceof Unsupported) say(`${id} unsupported`);
    else say(`${id} err ${String(e.message || e).replace(/\s+/g, ' ')}`);
  }
}).on('close', () => process.exit(0));
