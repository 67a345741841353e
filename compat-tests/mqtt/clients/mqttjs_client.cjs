// MQTT.js against a broker: mqttjs_client.cjs URL 4|5. Ends with 0 when all is as it should be.
const assert = require('node:assert')
const mqtt = require('mqtt')

const [url, version] = [process.argv[2], Number(process.argv[3])]
const wait = setTimeout(() => { console.error('nothing more came'); process.exit(1) }, 250_000)

async function connect (id, more) {
  const c = mqtt.connect(url, { clientId: id, protocolVersion: version, clean: true, reconnectPeriod: 0, ...more })
  const got = []
  const waiting = []
  c.on('message', (topic, payload, packet) => {
    const m = { topic, payload: payload.toString(), qos: packet.qos, retain: packet.retain, properties: packet.properties }
    const next = waiting.shift()
    if (next) next(m); else got.push(m)
  })
  c.on('error', err => { console.error(err); process.exit(1) })
  c.resumed = (await new Promise(resolve => c.once('connect', resolve))).sessionPresent
  c.next = () => got.length > 0 ? Promise.resolve(got.shift()) : new Promise(resolve => waiting.push(resolve))
  return c
}

async function expect (c, topic, payload, qos, retain = false) {
  const m = await c.next()
  assert.deepStrictEqual([m.topic, m.payload, m.qos, m.retain], [topic, payload, qos, retain])
  return m
}

async function main () {
  const root = `js${version}${url.startsWith('ws') ? 'ws' : ''}`
  const sub = await connect(`${root}-sub`)
  const pub = await connect(`${root}-pub`)
  for (const qos of [0, 1, 2]) {
    const granted = await sub.subscribeAsync(`${root}/${qos}/#`, { qos })
    assert.strictEqual(granted[0].qos, qos)
    const n = 200
    const all = []
    for (let i = 0; i < n; i++) all.push(pub.publishAsync(`${root}/${qos}/x`, String(i), { qos }))
    for (let i = 0; i < n; i++) await expect(sub, `${root}/${qos}/x`, String(i), qos)
    await Promise.all(all)
  }
  const big = 'x'.repeat(300_000)
  await pub.publishAsync(`${root}/1/big`, big, { qos: 1 })
  await expect(sub, `${root}/1/big`, big, 1)
  await pub.publishAsync(`${root}/kept`, 'new', { qos: 1, retain: true })
  await sub.subscribeAsync(`${root}/+`, { qos: 1 })
  await expect(sub, `${root}/kept`, 'new', 1, true)
  await pub.publishAsync(`${root}/kept`, '', { qos: 1, retain: true })
  await expect(sub, `${root}/kept`, '', 1)
  const lost = await connect(`${root}-lost`, { will: { topic: `${root}/will`, payload: Buffer.from('gone'), qos: 1, retain: false } })
  lost.stream.destroy()
  await expect(sub, `${root}/will`, 'gone', 1)
  if (version === 5) {
    const properties = { contentType: 't', responseTopic: 'r', correlationData: Buffer.from([0, 255]), userProperties: { a: ['1', '2'], b: '3' } }
    await pub.publishAsync(`${root}/p`, 'x', { qos: 1, properties })
    const m = await expect(sub, `${root}/p`, 'x', 1)
    assert.strictEqual(m.properties.contentType, 't')
    assert.strictEqual(m.properties.responseTopic, 'r')
    assert.deepStrictEqual([...m.properties.correlationData], [0, 255])
    assert.deepStrictEqual({ ...m.properties.userProperties }, { a: ['1', '2'], b: '3' })
  }
  await (await connect(`${root}-session`)).endAsync() // what an earlier run has left ends here
  const keep = { clean: false, ...(version === 5 && { properties: { sessionExpiryInterval: 3600 } }) }
  let session = await connect(`${root}-session`, keep)
  assert.strictEqual(session.resumed, false)
  for (const qos of [1, 2]) await session.subscribeAsync(`${root}/session/${qos}`, { qos })
  await session.endAsync()
  for (let i = 0; i < 50; i++) {
    for (const qos of [1, 2]) await pub.publishAsync(`${root}/session/${qos}`, String(i), { qos })
  }
  session = await connect(`${root}-session`, keep)
  assert.strictEqual(session.resumed, true)
  const wanted = Array.from({ length: 50 }, (_, i) => String(i))
  const came = [[], [], []]
  for (let i = 0; i < 100; i++) {
    const m = await session.next()
    came[m.qos].push(m.payload)
  }
  assert.deepStrictEqual(came, [[], wanted, wanted])

  const members = [await connect(`${root}-a`), await connect(`${root}-b`)]
  for (const c of members) await c.subscribeAsync(`$share/workers/${root}-shared/#`, { qos: 1 })
  const shared = []
  const all = new Promise(resolve => {
    for (const c of members) c.on('message', (topic, payload) => { if (shared.push(payload.toString()) === 100) resolve() })
  })
  for (let i = 0; i < 100; i++) await pub.publishAsync(`${root}-shared/x`, String(i), { qos: 1 })
  await all
  assert.strictEqual(new Set(shared).size, 100)
  await Promise.all([sub, pub, session, ...members].map(c => c.endAsync()))
  clearTimeout(wait)
  process.exit(0)
}

main().catch(err => { console.error(err); process.exit(1) })
