// Users, with MQTT.js: login.cjs URL PROTOCOL, with 4 or 5. The broker is as ../login.sh makes it.
const assert = require('node:assert');
const mqtt = require('mqtt');

const [url, version] = [process.argv[2], Number(process.argv[3])];

const connect = (username, password) => mqtt.connectAsync(url, {
  protocolVersion: version, username, password, reconnectPeriod: 0, connectTimeout: 30000,
});

const refused = async (code, username, password) => {
  await assert.rejects(connect(username, password), (e) => e.code === code, `${username}: want code ${code}`);
};

(async () => {
  await refused(version === 5 ? 0x86 : 4, 'alice', 'wrong');
  await refused(version === 5 ? 0x86 : 4, 'nobody', 'alices');
  await refused(version === 5 ? 0x87 : 5);
  const c = await connect('alice', 'alices');
  const message = new Promise((done) => c.once('message', (topic, payload) => done([topic, payload.toString()])));
  await c.subscribeAsync('my/#', { qos: 1 });
  await c.publishAsync('my/topic', 'hello', { qos: 1 });
  assert.deepStrictEqual(await message, ['my/topic', 'hello']);
  await assert.rejects(c.subscribeAsync('secret/#', { qos: 1 }));
  await c.endAsync();
  console.log('ok');
})().catch((e) => {
  console.error(e);
  process.exit(1);
});
