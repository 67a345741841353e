// Clients of all protocols, which make what the console shows and go on while it is looked at.
import http from 'node:http';
import amqp from 'amqplib';
import { Kafka, logLevel } from 'kafkajs';
import mqtt from 'mqtt';

export const bigNumber = '12345678901234567890123';

export async function post(address, path, body, method = 'POST') {
  const res = await fetch(`http://${address}${path}`, { method, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  const text = await res.text();
  if (!res.ok) throw new Error(`${method} ${path}: ${res.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

// start brings everything up; what it gives ends it.
export async function start({ HTTP, KAFKA, AMQP, MQTT }) {
  const ends = [];
  // HTTP: topics, big numbers, bytes, a queue with a dead letter.
  await post(HTTP, '/v1/topics/orders', { partitions: 3, configs: { 'retention.ms': '86400000' } }, 'PUT');
  for (let i = 0; i < 60; i++) await post(HTTP, `/v1/topics/topic-${String(i).padStart(2, '0')}`, { partitions: 1 + (i % 4) }, 'PUT');
  await post(HTTP, '/v1/topics/orders/messages', { messages: [
    { key: 'big', messageId: 'order-big', value: JSON.stringify({ id: 0 }).replace('0', bigNumber), contentType: 'application/json', headers: { kind: 'test', region: 'eu' } },
    { key: 'bytes', valueBase64: Buffer.from([0, 1, 2, 255, 254, 80, 111, 108, 121]).toString('base64') },
    { key: 'gone', value: null },
  ] });
  // Kafka: a producer, and a group with a member that reads some.
  const kafka = new Kafka({ clientId: 'shop', brokers: [KAFKA], logLevel: logLevel.NOTHING });
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic: 'orders', messages: Array.from({ length: 400 }, (_, i) => ({ key: `customer-${i % 17}`, value: JSON.stringify({ order: i, total: (i * 7.31).toFixed(2), items: ['bread', 'milk'].slice(0, 1 + (i % 2)), paid: i % 3 === 0 }), headers: { tenant: 'north' } })) });
  const consumer = kafka.consumer({ groupId: 'billing' });
  await consumer.connect();
  await consumer.subscribe({ topic: 'orders', fromBeginning: true });
  let read = 0;
  const gotSome = new Promise((resolve) => {
    consumer.run({ autoCommitThreshold: 50, eachMessage: async () => { if (++read === 100) resolve(); } });
  });
  await gotSome;
  await consumer.commitOffsets([{ topic: 'orders', partition: 0, offset: '20' }]);
  // AMQP: an exchange with a queue, a consumer that keeps some deliveries, dead letters.
  const conn = await amqp.connect(`amqp://guest:guest@${AMQP}`, { clientProperties: { connection_name: 'warehouse' } });
  const ch = await conn.createChannel();
  await ch.assertExchange('shipping', 'topic', { durable: true });
  await ch.assertQueue('parcels', { durable: true });
  await ch.bindQueue('parcels', 'shipping', 'parcel.#');
  for (let i = 0; i < 40; i++) ch.publish('shipping', `parcel.${i % 2 ? 'eu' : 'us'}`, Buffer.from(`parcel ${i}`), { persistent: true, messageId: `p-${i}`, contentType: 'text/plain' });
  await ch.prefetch(5);
  await new Promise((resolve) => { let n = 0; ch.consume('parcels', () => { if (++n === 5) resolve(); }); });
  await post(HTTP, '/v1/queues/returns.dead', {}, 'PUT');
  await post(HTTP, '/v1/queues/returns', { deliveryLimit: 3, deadLetterQueue: 'returns.dead' }, 'PUT');
  await post(HTTP, '/v1/queues/returns/messages', { messages: [{ value: 'broken cup' }, { value: 'wrong size' }, { value: 'late' }] });
  const pulled = await post(HTTP, '/v1/queues/returns:pull', { max: 2 });
  await post(HTTP, '/v1/queues/returns:nack', { receipts: pulled.messages.map((m) => m.receipt), deadLetter: true });
  // MQTT: a device that listens and one that talks.
  const device = await mqtt.connectAsync(`mqtt://${MQTT}`, { clientId: 'thermostat-7', clean: false, protocolVersion: 5, properties: { sessionExpiryInterval: 3600 } });
  await device.subscribeAsync('home/#', { qos: 1 });
  await device.publishAsync('home/kitchen/temperature', '21.5', { qos: 1 });
  // Webhooks: an endpoint that takes everything, and one that fails.
  const got = [];
  const sink = http.createServer((req, res) => {
    req.resume().on('end', () => {
      got.push(req.headers['webhook-id']);
      res.statusCode = req.url === '/bad' ? 422 : 204;
      res.end(req.url === '/bad' ? 'the total is missing' : '');
    });
  });
  await new Promise((resolve) => sink.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${sink.address().port}`;
  await post(HTTP, '/v1/subscriptions/invoices', { topic: 'orders', push: { url: `${url}/good`, ordered: true } }, 'PUT');
  await post(HTTP, '/v1/subscriptions/ledger', { topic: 'orders', filter: { tags: ['paid'] }, push: { url: `${url}/bad`, permanentStatuses: [422] } }, 'PUT');
  await post(HTTP, '/v1/subscriptions/audit', { topic: 'orders', from: 'start' }, 'PUT');
  await post(HTTP, '/v1/topics/orders/messages', { messages: [{ key: 'customer-1', value: 'for the webhooks', tag: 'paid' }] });
  await post(HTTP, '/v1/hooks/github', { topic: 'events', preset: 'github', key: 'json:/repository/full_name' }, 'PUT');
  // And all of it goes on.
  let n = 0;
  const timer = setInterval(() => {
    n++;
    const many = 6 + Math.round(5 * Math.sin(n / 9));
    producer.send({ topic: 'orders', messages: Array.from({ length: many }, (_, i) => ({ key: `customer-${(n + i) % 17}`, value: JSON.stringify({ order: 1000 + n, total: n }) })) }).catch(() => {});
    if (n % 3 === 0) ch.publish('shipping', 'parcel.eu', Buffer.from(`parcel ${n}`));
    device.publishAsync('home/kitchen/temperature', String(20 + Math.sin(n)), { qos: 1 }).catch(() => {});
  }, 250);
  ends.push(() => clearInterval(timer), () => consumer.disconnect(), () => producer.disconnect(), () => conn.close(), () => device.endAsync(), () => new Promise((r) => { sink.close(r); sink.closeAllConnections(); }));
  return { got, end: async () => { for (const end of ends) await end(); } };
}
