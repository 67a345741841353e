// The driver for amqplib's promise API; the conversation is described in clients/proto.
'use strict'

const amqp = require('amqplib')
const path = require('path')
const readline = require('readline')

// The package hides what it does not mean for users.
const inside = (file) => require(path.join(__dirname, 'node_modules', 'amqplib', file))
const { version } = inside('package.json')
const channels = new Map()
let connection

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n')

// field is a value of JSON as the library wants it.
function field(v) {
  if (Array.isArray(v)) return v.map(field)
  if (v && typeof v === 'object') {
    if ('time' in v) return { '!': 'timestamp', value: v.time }
    return table(v)
  }
  return v
}

const table = (m) => m && Object.fromEntries(Object.entries(m).map(([k, v]) => [k, field(v)]))

// plain is a value of the library as JSON has it.
function plain(v) {
  if (Array.isArray(v)) return v.map(plain)
  if (Buffer.isBuffer(v)) return v.toString()
  if (v && typeof v === 'object') {
    if (v['!'] === 'timestamp') return { time: v.value }
    if ('!' in v) return v.value
    return Object.fromEntries(Object.entries(v).map(([k, x]) => [k, plain(x)]))
  }
  return v
}

function delivery({ fields, properties: p, content }) {
  const set = (v) => (v === null ? undefined : v)
  return {
    tag: set(fields.consumerTag), number: fields.deliveryTag, redelivered: fields.redelivered, exchange: fields.exchange, key: fields.routingKey, body: content.toString(),
    content_type: set(p.contentType), content_encoding: set(p.contentEncoding), persistent: p.deliveryMode === 2, priority: set(p.priority), correlation_id: set(p.correlationId),
    reply_to: set(p.replyTo), expiration: set(p.expiration), message_id: set(p.messageId), timestamp: set(p.timestamp), type: set(p.type), user_id: set(p.userId),
    app_id: set(p.appId), headers: set(plain(p.headers)),
  }
}

// opened makes a channel whose errors are kept for the operation that they end.
async function opened(name, confirming) {
  const ch = await (confirming ? connection.createConfirmChannel() : connection.createChannel())
  const c = { ch, confirming, returned: 0 }
  c.failed = new Promise((_, reject) => ch.on('error', (e) => { c.error = e; reject(e) }))
  c.failed.catch(() => {})
  ch.on('return', (m) => { c.returned = m.fields.replyCode })
  channels.set(name, c)
}

function publish(c, r) {
  const m = r.message || {}
  const options = {
    mandatory: r.mandatory, contentType: m.content_type, contentEncoding: m.content_encoding, persistent: m.persistent, priority: m.priority, correlationId: m.correlation_id,
    replyTo: m.reply_to, expiration: m.expiration, messageId: m.message_id, timestamp: m.timestamp, type: m.type, userId: m.user_id, appId: m.app_id, headers: table(m.headers),
  }
  const body = Buffer.from(r.body || '')
  if (!c.confirming) {
    c.ch.publish(r.exchange || '', r.key || '', body, options)
    return {}
  }
  c.returned = 0
  return new Promise((resolve) => {
    c.ch.publish(r.exchange || '', r.key || '', body, options, (e) => resolve({ acked: !e, returned: c.returned || undefined }))
  })
}

// Methods that amqplib has no call for go by its own way of asking for an answer.
const defs = inside('lib/defs')
const tx = (c, method, ok) => c.ch.rpc(method, {}, ok)

async function op(r) {
  if (r.op === 'hello') {
    connection = await amqp.connect(`amqp://guest:guest@${process.argv[2]}/?heartbeat=1`)
    connection.on('error', () => {})
    return { client: 'amqplib', version }
  }
  if (r.op === 'channel') return opened(r.ch, false)
  const c = channels.get(r.ch)
  const ch = c.ch
  const args = table(r.args)
  switch (r.op) {
    case 'close': return ch.close()
    case 'confirm':
      await ch.close()
      return opened(r.ch, true)
    case 'tx': return tx(c, defs.TxSelect, defs.TxSelectOk)
    case 'commit': return tx(c, defs.TxCommit, defs.TxCommitOk)
    case 'rollback': return tx(c, defs.TxRollback, defs.TxRollbackOk)
    case 'exchange': return ch.assertExchange(r.name, r.type, { durable: !!r.durable, internal: !!r.internal, arguments: args })
    case 'queue': {
      const q = await (r.passive ? ch.checkQueue(r.name) : ch.assertQueue(r.name || '', { durable: !!r.durable, exclusive: !!r.exclusive, autoDelete: !!r.auto_delete, arguments: args }))
      return { name: q.queue, messages: q.messageCount, consumers: q.consumerCount }
    }
    case 'bind': return ch.bindQueue(r.queue, r.exchange, r.key || '', args)
    case 'unbind': return ch.unbindQueue(r.queue, r.exchange, r.key || '', args)
    case 'xbind': return ch.bindExchange(r.destination, r.source, r.key || '')
    case 'purge': return { messages: (await ch.purgeQueue(r.queue)).messageCount }
    case 'delete': return ch.deleteQueue(r.queue)
    case 'publish': return publish(c, r)
    case 'qos': return ch.prefetch(r.prefetch)
    case 'consume':
      return ch.consume(r.queue, (m) => {
        if (m === null) say({ event: 'cancelled', ch: r.ch, tag: r.tag })
        else say({ event: 'deliver', ch: r.ch, delivery: delivery(m) })
      }, { consumerTag: r.tag, noAck: !!r.no_ack, exclusive: !!r.exclusive, arguments: args })
    case 'get': {
      const m = await ch.get(r.queue, { noAck: !!r.no_ack })
      return m ? { delivery: delivery(m) } : { empty: true }
    }
    case 'ack': return void ch.ack({ fields: { deliveryTag: r.number || 0 } }, !!r.multiple)
    case 'nack': return void ch.nack({ fields: { deliveryTag: r.number || 0 } }, !!r.multiple, !!r.requeue)
    case 'reject': return void ch.reject({ fields: { deliveryTag: r.number || 0 } }, !!r.requeue)
    case 'cancel': return ch.cancel(r.tag)
  }
  throw new Error(`no operation ${r.op}`)
}

const OUTCOMES = new Set(['hello', 'queue', 'purge', 'publish', 'get'])

async function serve() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const r = JSON.parse(line)
    const c = channels.get(r.ch)
    try {
      const out = await (c && r.op !== 'confirm' && r.op !== 'channel' ? Promise.race([op(r), c.failed]) : op(r))
      say({ id: r.id, ok: (OUTCOMES.has(r.op) && out) || {} })
    } catch (e) {
      const why = (c && c.error) || e
      say({ id: r.id, error: { code: why.code || 0, text: String(why.message) } })
    }
  }
  process.exit(0)
}

serve()
