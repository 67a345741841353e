// What GitHub's and Stripe's own libraries sign is believed by hooks with their presets; and a browser's
// EventSource, as the package eventsource is it for Node.
const assert = require('node:assert');
const crypto = require('node:crypto');
const base = `http://${process.env.HTTP}`;

async function call(method, path, body, headers = {}) {
  if (body !== undefined && typeof body !== 'string') {
    body = JSON.stringify(body);
    headers = { 'Content-Type': 'application/json', ...headers };
  }
  const r = await fetch(base + path, { method, body, headers });
  const text = await r.text();
  return { status: r.status, body: text ? JSON.parse(text) : null };
}

async function ok(...args) {
  const r = await call(...args);
  assert(r.status < 300, `${args[0]} ${args[1]}: ${r.status} ${JSON.stringify(r.body)}`);
  return r.body;
}

async function stored(topic) {
  const page = await ok('GET', `/v1/topics/${topic}/messages`);
  return page.messages.map((m) => [m.messageId, m.type, m.value]);
}

async function github() {
  const { sign, verify } = await import('@octokit/webhooks-methods');
  const { secret } = await ok('PUT', '/v1/hooks/gh', { topic: 'github', preset: 'github', key: 'json:/repository/full_name' });
  const body = '{"repository": {"full_name": "a/b"}, "n": 1.10, "text": "süß"}';
  const signature = await sign(secret, body);
  assert(await verify(secret, body, signature));
  const post = (text, signature, id) => call('POST', '/hooks/gh', text,
    { 'Content-Type': 'application/json', 'X-Hub-Signature-256': signature, 'X-GitHub-Delivery': id, 'X-GitHub-Event': 'push' });
  assert.deepStrictEqual(await post(body, signature, 'd1'), { status: 200, body: { duplicate: false } });
  assert.deepStrictEqual(await post(body, signature, 'd1'), { status: 200, body: { duplicate: true } });
  assert.strictEqual((await post(body + ' ', signature, 'd2')).status, 401);
  assert.strictEqual((await post(body, await sign('another secret', body), 'd3')).status, 401);
  assert.deepStrictEqual(await stored('github'), [['d1', 'push', body]]);
}

async function stripe() {
  const Stripe = require('stripe');
  const client = new (Stripe.default ?? Stripe)('sk_test_x');
  const secret = 'whsec_a_secret_of_stripe';
  await ok('PUT', '/v1/hooks/pay', { topic: 'stripe', preset: 'stripe', secrets: [secret] });
  const payload = JSON.stringify({ id: 'evt_1', object: 'event', type: 'charge.succeeded' }, null, 2);
  const sign = (o) => client.webhooks.generateTestHeaderString({ payload, secret, ...o });
  assert.strictEqual(client.webhooks.constructEvent(payload, sign({}), secret).id, 'evt_1');
  const post = (signature, text = payload) => call('POST', '/hooks/pay', text, { 'Content-Type': 'application/json', 'Stripe-Signature': signature });
  assert.deepStrictEqual(await post(sign({})), { status: 200, body: { duplicate: false } });
  assert.deepStrictEqual(await post(sign({})), { status: 200, body: { duplicate: true } });
  assert.strictEqual((await post(sign({}), payload + ' ')).body.code, 'bad_signature');
  assert.strictEqual((await post(sign({ secret: 'whsec_another_secret' }))).body.code, 'bad_signature');
  assert.strictEqual((await post(sign({ timestamp: Math.floor(Date.now() / 1000) - 301 }))).body.code, 'bad_timestamp');
  assert.deepStrictEqual(await stored('stripe'), [['evt_1', 'charge.succeeded', payload]]);
}

async function eventSource() {
  const { EventSource } = await import('eventsource');
  await ok('PUT', '/v1/topics/browser', { partitions: 1 });
  await ok('POST', '/v1/topics/browser/messages', { messages: [{ value: 'before' }] });
  const source = new EventSource(`${base}/v1/topics/browser/stream?from=start`);
  const got = [];
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`only ${got}`)), 30000).unref();
    source.onmessage = async (e) => {
      got.push(JSON.parse(e.data).value);
      if (got.length === 1) await ok('POST', '/v1/topics/browser/messages', { messages: [{ value: 'after' }] }).catch(reject);
      if (got.length === 2) resolve();
    };
  });
  source.close();
  assert.deepStrictEqual(got, ['before', 'after']);
}

const parts = { github, stripe, eventSource };
parts[process.argv[2]]().then(() => process.exit(0), (e) => { console.error(e); process.exit(1); });
