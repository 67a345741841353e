// Messages: what a topic or a queue holds, without consuming it.
import { html, useState, useEffect } from './vendor/htm-preact.js';
import { call, at, enc, useLoad } from './api.js';
import { Table, Moment, Failure, Modal, Payload, Facts, Copy, Search, link, go } from './ui.js';
import { time, bytes, num, bytesOf, hex } from './format.js';

const preview = 240; // bytes of each value in a list
const whole = 1 << 20; // bytes of a value that is looked at
const pageSize = 50;
const maxPartitions = 16; // whose newest messages are asked for at once

const sizeOf = (m) => m.valueBytes || (m.value !== undefined || m.valueBase64 !== undefined ? bytesOf(m.value, m.valueBase64).length : 0);
const keyOf = (m) => (m.keyBase64 ? `0x${hexOf(m.keyBase64)}` : m.key);
const hexOf = (b64) => [...bytesOf('', b64)].map((b) => b.toString(16).padStart(2, '0')).join('');
const shown = (m) => (m.valueBase64 !== undefined ? `0x${hexOf(m.valueBase64).slice(0, 120)}` : m.value);

export const columns = (partitions) => [
  { title: 'Time', cell: (m) => html`<${Moment} of=${m.timestamp} />` },
  partitions && { title: 'Part.', num: true, hide: true, cell: (m) => m.partition },
  { title: 'Offset', num: true, cell: (m) => num(m.offset) },
  { title: 'Key', cell: (m) => (keyOf(m) === undefined ? html`<span class="dim">null</span>` : html`<span class="mono">${String(keyOf(m)).slice(0, 48)}</span>`) },
  { title: 'Value', grow: true, cell: (m) => (shown(m) === undefined ? html`<span class="dim">null</span>` : html`<span class="mono">${shown(m)}</span>`) },
  { title: 'Size', num: true, hide: true, cell: (m) => bytes(sizeOf(m)) },
].filter(Boolean);

// Detail shows a message whole, and what became of it. find gives it: {message, readers?}.
export function Detail({ title, path, pick, close, ns }) {
  const one = useLoad(path);
  const found = one.data ? pick(one.data) : null;
  const m = found?.message;
  return html`
    <${Modal} title=${title} close=${close} wide>
      <${Failure} error=${one.error} />
      ${one.data && !m ? html`<p class="hint">It is not there any more.</p>` : null}
      ${m ? html`
        <${Facts} of=${[
          ['Time', time(m.timestamp)], ['Place', html`partition ${m.partition}, offset ${num(m.offset)}`],
          ['Key', m.key !== undefined || m.keyBase64 ? html`<span class="mono">${keyOf(m)}</span> <${Copy} text=${String(keyOf(m))} />` : html`<span class="dim">null</span>`],
          m.contentType && ['Content type', m.contentType], m.messageId && ['Message id', html`<span class="mono">${m.messageId}</span>`], m.correlationId && ['Correlation', m.correlationId],
          m.exchange && ['Exchange', m.exchange], m.routingKey && ['Routing key', m.routingKey], m.replyTo && ['Reply to', m.replyTo], m.type && ['Type', m.type],
          m.appId && ['Application', m.appId], m.userId && ['User', m.userId], m.priority !== undefined && ['Priority', m.priority],
          m.expiresAt && ['Expires', time(m.expiresAt)], m.deliverAt && ['Delivered from', time(m.deliverAt)], m.contentEncoding && ['Encoding', m.contentEncoding]]} />
        <h3>Value</h3><${Payload} text=${m.value} base64=${m.valueBase64} size=${m.valueBytes} />
        ${m.headers?.length ? html`<h3>Headers</h3><div class="table-box"><table aria-label="Headers"><tbody>${m.headers.map((h) => html`<tr><td class="mono">${h.name}</td><td class="mono grow">${h.valueBase64 ? hex(bytesOf('', h.valueBase64), 64) : typeof h.value === 'object' ? JSON.stringify(h.value) : String(h.value)}</td></tr>`)}</tbody></table></div>` : null}
        <h3>Its life</h3>
        <ol class="story">
          <li class="good">Stored ${time(m.timestamp)} as offset ${num(m.offset)} of partition ${m.partition}</li>
          ${m.deliverAt ? html`<li>To be delivered from ${time(m.deliverAt)} on</li>` : null}
          ${(m.deaths || []).map((d) => html`<li class="bad">Died in queue <a href=${link(['queues', d.queue])}>${d.queue}</a> at offset ${num(d.offset)}, ${time(d.time)}: ${d.reason.replace('_', ' ')}</li>`)}
          ${(found.readers || []).map((r) => html`<li class=${r.done ? 'good' : 'warn'}>${r.kind === 'group' ? html`Kafka group <a href=${link(['groups', r.name])}>${r.name}</a>` : html`Subscription <a href=${link(['subscriptions', r.name])}>${r.name}</a>`} ${r.done ? 'has passed it' : 'has yet to settle it'}</li>`)}
          ${m.expiresAt ? html`<li class=${new Date(m.expiresAt) < new Date() ? 'bad' : ''}>${new Date(m.expiresAt) < new Date() ? 'Expired' : 'Expires'} ${time(m.expiresAt)}</li>` : null}
          ${found.cut ? html`<li>There are more readers</li>` : null}
        </ol>` : null}
    <//>`;
}

// TopicMessages shows a topic's messages.
export function TopicMessages({ ns, name, query }) {
  const topic = useLoad(at(ns, `/topics/${enc(name)}`));
  const [how, setHow] = useState(query.get('by') || 'newest');
  const [partition, setPartition] = useState(query.get('partition') || '');
  const [value, setValue] = useState(query.get('value') || '');
  const [state, set] = useState({ rows: null, error: null, next: null });
  const [open, setOpen] = useState(query.get('id') || null);
  const [asked, ask] = useState(0);
  const base = at(ns, `/topics/${enc(name)}/messages`);
  const ranges = topic.data?.ranges || [];

  // page loads rows; before are the offsets, by partition, below which the next page of the newest is.
  const page = async (cursor, before, signal) => {
    if (how === 'newest') return newest(ranges, partition, before, base, signal);
    const args = { limit: pageSize, maxValueBytes: preview, partition };
    if (how === 'offset') args.offset = value || '0';
    if (how === 'time') { args.from = isNaN(Number(value)) ? new Date(value).toISOString() : value; }
    if (how === 'key') args.key = value;
    if (how === 'id') args.messageId = value;
    if (how === 'offset' && partition === '') args.partition = '0';
    const rows = [];
    for (let steps = 0; steps < 20; steps++) { // pages may be short: a search goes on for a while
      const got = await call(`${base}?${new URLSearchParams(Object.entries({ ...args, cursor }).filter(([k, v]) => v !== '' && v !== undefined || (k === 'key' && how === 'key')))}`, { signal });
      rows.push(...got.messages);
      cursor = got.next;
      if (rows.length >= pageSize || !cursor) break;
    }
    return { rows, next: cursor ? { cursor } : null };
  };

  const needs = ['time', 'key', 'id', 'place'].includes(how);
  useEffect(() => {
    if (!topic.data || (needs && !value)) {
      set({ rows: needs ? [] : null, error: null, next: null });
      return undefined;
    }
    const stop = new AbortController();
    const run = async () => {
      try {
        if (how === 'place') {
          setOpen(value);
          set({ rows: [], error: null, next: null });
          return;
        }
        const got = await page(undefined, null, stop.signal);
        set({ ...got, error: null });
      } catch (error) {
        if (!stop.signal.aborted) set({ rows: [], error, next: null });
      }
    };
    const timer = setTimeout(run, asked ? 0 : 200);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [topic.data, how, partition, value, asked]);

  const more = async () => {
    try {
      const got = await page(state.next.cursor, state.next.before);
      set({ rows: [...state.rows, ...got.rows], next: got.next, error: null });
    } catch (error) {
      set({ ...state, error });
    }
  };
  const labels = { offset: 'Offset', time: 'From: 2026-11-30T12:00 or ms', key: 'Key', id: 'Message id', place: 'Id, such as 0-15' };
  const wide = ranges.length > maxPartitions && partition === '' && how === 'newest';
  return html`
    <div class="tools">
      <select aria-label="Which messages" value=${how} onChange=${(e) => { setHow(e.target.value); setValue(''); }}>
        <option value="newest">newest</option><option value="offset">from an offset</option><option value="time">from a time</option><option value="key">of a key</option><option value="id">by message id</option><option value="place">by place</option>
      </select>
      ${how !== 'newest' ? html`<${Search} label=${labels[how]} value=${value} set=${setValue} />` : null}
      <select aria-label="Partition" value=${partition} onChange=${(e) => setPartition(e.target.value)}><option value="">all partitions</option>${ranges.map((r) => html`<option value=${String(r.partition)}>partition ${r.partition}</option>`)}</select>
      <button onClick=${() => { topic.reload(); ask(asked + 1); }}>Refresh</button>
    </div>
    ${wide ? html`<div class="notice">Of the first ${maxPartitions} partitions only; choose one to see another.</div>` : null}
    <${Table} label="Messages" columns=${columns(true)} rows=${state.rows} keyOf=${(m) => m.id} open=${(m) => setOpen(m.id)} error=${state.error || topic.error}
      empty=${needs && !value ? 'Say what to look for.' : 'No messages.'} />
    <div class="pager">${state.rows ? html`<span>${num(state.rows.length)} shown</span>` : null}<button disabled=${!state.next} onClick=${more}>${how === 'newest' ? 'Older' : 'More'} ↓</button></div>
    ${open ? html`<${Detail} title=${`${name} · ${open}`} ns=${ns} path=${at(ns, `/topics/${enc(name)}/messages/${enc(open)}`, { maxValueBytes: whole })} pick=${(d) => d} close=${() => setOpen(null)} />` : null}`;
}

// newest are the last messages of the partitions, the newest first.
async function newest(ranges, partition, before, base, signal) {
  const chosen = ranges.filter((r) => partition === '' || String(r.partition) === partition).slice(0, maxPartitions);
  const each = Math.max(5, Math.ceil(pageSize / Math.max(chosen.length, 1)));
  const below = {};
  const parts = await Promise.all(chosen.map(async (r) => {
    const end = before ? before[r.partition] : r.end;
    const from = Math.max(r.start, end - each);
    below[r.partition] = from;
    if (end <= r.start) return [];
    const got = await call(`${base}?partition=${r.partition}&offset=${from}&limit=${each}&maxValueBytes=${preview}`, { signal });
    return got.messages.filter((m) => m.offset < end);
  }));
  const rows = parts.flat().sort((a, b) => (a.timestamp < b.timestamp ? 1 : a.timestamp > b.timestamp ? -1 : b.offset - a.offset));
  return { rows, next: chosen.some((r) => below[r.partition] > r.start) ? { before: below } : null };
}

// Messages asks first what to look into.
export function Messages({ route, ns }) {
  const [name, set] = useState('');
  const [search, setSearch] = useState('');
  const topics = useLoad(at(ns, '/topics', { limit: 200, search }));
  const chosen = route.path[1] || '';
  return html`
    <div class="head"><h1>Messages</h1><span class="dim">looking at them consumes nothing</span></div>
    <div class="tools">
      <input list="topics" aria-label="Topic" placeholder="Topic…" value=${name || chosen} onInput=${(e) => { set(e.target.value); setSearch(e.target.value); }} onChange=${(e) => e.target.value && go(['messages', e.target.value])} spellcheck=${false} />
      <datalist id="topics">${(topics.data?.topics || []).map((t) => html`<option value=${t.name} />`)}</datalist>
      <button onClick=${() => (name || chosen) && go(['messages', name || chosen])}>Look</button>
      <span class="dim">Queues show theirs in <a href="#/queues">Queues</a>.</span>
    </div>
    ${chosen ? html`<${TopicMessages} key=${chosen} ns=${ns} name=${chosen} query=${route.query} />` : html`
      <${Table} label="Topics" columns=${[{ title: 'Topic', grow: true, cell: (t) => html`<a class="name" href=${link(['messages', t.name])}>${t.name}</a>` }, { title: 'Partitions', num: true, cell: (t) => t.partitions }]}
        rows=${topics.data?.topics} keyOf=${(t) => t.id} error=${topics.error} open=${(t) => go(['messages', t.name])} empty="There are no topics." />`}`;
}
