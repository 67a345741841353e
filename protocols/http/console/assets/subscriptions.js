// Subscriptions: those that clients pull from, and those that are pushed to webhooks.
import { html, useState } from './vendor/htm-preact.js';
import { call, at, enc, useLoad, usePages, useSettled } from './api.js';
import { Table, Moment, Pager, Badge, State, Failure, Tabs, Modal, Field, Action, Do, Confirm, Facts, Search, Secret, link, go } from './ui.js';
import { useCan } from './who.js';
import { num, time, date } from './format.js';
import { Redrive } from './queues.js';

export function Subscriptions(props) {
  return props.route.path[1] ? html`<${Subscription} key=${props.route.path[1]} ...${props} name=${props.route.path[1]} />` : html`<${List} ...${props} />`;
}

function List({ ns, can }) {
  const [kind, setKind] = useState('');
  const [text, set] = useState('');
  const [making, make] = useState(false);
  const search = useSettled(text);
  const pages = usePages((cursor) => at(ns, '/subscriptions', { limit: 50, cursor, counts: 'true', search, pushed: kind }), `${ns}/${kind}/${search}`, 5000);
  return html`
    <div class="head"><h1>Subscriptions</h1><${Search} label="Search subscriptions" value=${text} set=${set} />
      <select aria-label="Kind" value=${kind} onChange=${(e) => setKind(e.target.value)}><option value="">all</option><option value="true">webhooks</option><option value="false">pulled</option></select>
      <span class="space"></span><${Do} why=${can.read} onClick=${() => make(true)}>New subscription<//></div>
    <${Table} label="Subscriptions" rows=${pages.data?.subscriptions} keyOf=${(s) => s.name} error=${pages.error} open=${(s) => go(['subscriptions', s.name])} empty=${search || kind ? 'No subscription has that in its name, its topic or its endpoint.' : 'There are no subscriptions here.'}
      columns=${[{ title: 'Subscription', cell: (s) => html`<a class="name" href=${link(['subscriptions', s.name])}>${s.name}</a>` }, { title: 'Of', hide: true, cell: (s) => (s.orphaned ? html`<${Badge} kind="bad">deleted<//>` : s.topic || s.queue) },
        { title: 'Endpoint', grow: true, cell: (s) => (s.push ? html`<span class="mono">${s.push.url}</span>` : html`<span class="dim">clients pull</span>`) }, { title: 'State', cell: (s) => (s.push ? html`<${State} of=${s.push.state} />` : '') },
        { title: 'Ready', num: true, cell: (s) => num(s.counts?.ready) }, { title: 'In flight', num: true, hide: true, cell: (s) => num(s.counts?.unsettled) }, { title: 'Delayed', num: true, hide: true, cell: (s) => num(s.counts?.delayed) }]} />
    <${Pager} pages=${pages} />
    ${making ? html`<${New} ns=${ns} close=${() => { make(false); pages.reload(); }} />` : null}`;
}

function New({ ns, close }) {
  const [f, set] = useState({ name: '', topic: '', from: 'end', url: '', tag: '', cel: '', max: '', ordered: false });
  const [secret, setSecret] = useState(null);
  const on = (key) => (e) => set({ ...f, [key]: e.target.type === 'checkbox' ? e.target.checked : e.target.value });
  const act = async () => {
    const body = { topic: f.topic, from: f.from };
    if (f.url) body.push = { url: f.url, ordered: f.ordered };
    if (f.max) body.maxDeliveries = Number(f.max);
    if (f.tag || f.cel) body.filter = { ...(f.tag ? { tags: [f.tag] } : {}), ...(f.cel ? { cel: f.cel } : {}) };
    const r = await call(at(ns, `/subscriptions/${enc(f.name)}`), { method: 'PUT', body });
    if (r.push?.secret) setSecret(r.push.secret);
    else close();
    return `Subscription ${f.name} is there`;
  };
  if (secret) return html`<${Secret} secret=${secret} close=${close} />`;
  return html`
    <${Modal} title="New subscription" close=${close}><div class="grid">
      <${Field} label="Name"><input value=${f.name} onInput=${on('name')} spellcheck=${false} autofocus /><//><${Field} label="Topic"><input value=${f.topic} onInput=${on('topic')} spellcheck=${false} /><//>
      <${Field} label="Push to" hint="An https address; empty: clients pull." wide><input value=${f.url} onInput=${on('url')} placeholder="https://…" spellcheck=${false} /><//>
      <${Field} label="Begins at"><select value=${f.from} onChange=${on('from')}><option value="end">what comes from now on</option><option value="start">what is there</option></select><//><${Field} label="Deliveries at most"><input type="number" min="2" value=${f.max} onInput=${on('max')} /><//>
      <${Field} label="Only of the tag"><input value=${f.tag} onInput=${on('tag')} /><//><${Field} label="In order of each key"><input type="checkbox" checked=${f.ordered} onChange=${on('ordered')} disabled=${!f.url} /><//>
      <${Field} label="Only those for which is true" hint="An expression in CEL, such as json.total > 100.0" wide><input class="mono" value=${f.cel} onInput=${on('cel')} spellcheck=${false} /><//></div>
      <footer><button onClick=${close}>Cancel</button><${Action} kind="primary" label="Create" disabled=${!f.name || !f.topic} act=${act} /></footer><//>`;
}

function Subscription({ ns, name, route, who }) {
  const can = useCan(who, ns, name);
  const [asking, ask] = useState(null);
  const [secret, setSecret] = useState(null);
  const path = at(ns, `/subscriptions/${enc(name)}`);
  const sub = useLoad(path, 3000);
  const s = sub.data;
  const tab = route.query.get('tab') || (s?.push ? 'attempts' : 'settings');
  const tabs = s?.push ? [['attempts', 'Deliveries'], ['settings', 'Settings']] : [['settings', 'Settings']];
  return html`
    <div class="head"><h1><a class="crumb" href="#/subscriptions">Subscriptions /</a> ${name}</h1>${s?.push ? html`<${State} of=${s.push.state} />` : null}<span class="space"></span>
      ${s?.push ? html`<${Do} why=${can.read} onClick=${() => ask('test')}>Test-fire<//>` : null}
      ${s?.push ? (['disabled', 'paused'].includes(s.push.state) ? html`<${Action} label="Go on" why=${can.configure} act=${async () => { await call(`${path}:enable`, { method: 'POST' }); sub.reload(); return 'It is sent to again'; }} />`
        : html`<${Action} label="Pause" why=${can.configure} act=${async () => { await call(`${path}:pause`, { method: 'POST' }); sub.reload(); return 'Nothing more is sent to it'; }} />`) : null}
      ${s?.push ? html`<${Action} label="Rotate secret" why=${can.configure} act=${async () => { const r = await call(`${path}:rotate`, { method: 'POST', body: {} }); setSecret(r.secret); }} />` : null}
      ${s?.deadLetterQueue ? html`<${Do} why=${can.read} onClick=${() => ask('redrive')}>Redrive<//>` : null}
      <${Do} why=${can.read} onClick=${() => ask('seek')}>Seek<//><${Do} why=${can.configure} kind="danger" onClick=${() => ask('delete')}>Delete<//></div>
    <${Failure} error=${sub.error} />
    ${s?.push?.lastError ? html`<div class="notice">Failing since ${date(s.push.failingSince)}: ${s.push.lastError}</div>` : null}
    <div class="tiles">${[['Ready', 'ready', 'not delivered yet'], ['In flight', 'unsettled', 'delivered, not settled'], ['Delayed', 'delayed', 'until the next attempt']].map(([t, k, note]) => html`<div class="tile"><span>${t}</span><b>${num(s?.counts?.[k])}</b><small>${note}</small></div>`)}
      <div class="tile"><span>Dead letters</span><b>${s?.deadLetterQueue ? html`<${Dead} ns=${ns} name=${s.deadLetterQueue} />` : '–'}</b><small>${s?.deadLetterQueue ? html`<a href=${link(['queues', s.deadLetterQueue])}>${s.deadLetterQueue}</a>` : 'go nowhere'}</small></div></div>
    <div class="under"><${Tabs} at=${tab} to=${(id) => go(['subscriptions', name], { tab: id })} tabs=${tabs} /></div>
    ${tab === 'attempts' && s?.push ? html`<${Attempts} ns=${ns} name=${name} topic=${s.topic} />` : null}
    ${tab === 'settings' && s ? html`<div class="panel pad"><${Facts} of=${[
      ['Of', s.topic ? html`topic <a href=${link(['topics', s.topic])}>${s.topic}</a>` : html`queue <a href=${link(['queues', s.queue])}>${s.queue}</a>`], ['Created', date(s.created)], ['Deliveries at most', s.maxDeliveries || 'any number'], ['A delivery lasts', s.ackDeadlineMs ? `${num(s.ackDeadlineMs)} ms` : '–'],
      s.filter?.tags && ['Tags', s.filter.tags.join(', ')], s.filter?.cel && ['Expression', html`<span class="mono">${s.filter.cel}</span>`], s.filter?.headers && ['Headers', Object.entries(s.filter.headers).map(([k, v]) => `${k}=${v}`).join(', ')],
      ...(s.push ? [['Endpoint', html`<span class="mono">${s.push.url}</span>`], ['Form', s.push.format || 'raw'], ['In order of keys', s.push.ordered ? 'yes' : 'no'], ['Requests at a time', s.push.maxInFlight || 16], ['Requests a second', s.push.ratePerSecond || 'any number'], ['Time-out', `${num(s.push.timeoutMs || 15000)} ms`],
        ['Secrets', (s.push.secrets || []).map((k) => html`<span class="mono">${k.hint}${k.until ? ` until ${date(k.until)}` : ''} </span>`)], s.push.headerNames?.length && ['Own headers', s.push.headerNames.join(', ')]] : [])]} /></div>` : null}
    ${asking === 'test' ? html`<${Test} path=${path} close=${() => ask(null)} />` : null}
    ${asking === 'seek' ? html`<${Seek} path=${path} close=${() => { ask(null); sub.reload(); }} />` : null}
    ${asking === 'redrive' ? html`<${Redrive} ns=${ns} name=${s.deadLetterQueue} close=${() => ask(null)} />` : null}
    ${asking === 'delete' ? html`<${Confirm} title="Delete subscription" name=${name} verb="Delete" text="Its position goes; the messages stay in the topic." close=${() => ask(null)} act=${async () => { await call(path, { method: 'DELETE' }); go(['subscriptions']); return `Subscription ${name} is gone`; }} />` : null}
    ${secret ? html`<${Secret} secret=${secret} close=${() => setSecret(null)} />` : null}`;
}

function Dead({ ns, name }) {
  const q = useLoad(at(ns, `/queues/${enc(name)}`), 5000);
  return q.data?.counts ? num(q.data.counts.ready + q.data.counts.unsettled + q.data.counts.delayed) : '–';
}

function Attempts({ ns, name, topic }) {
  const pages = usePages((cursor) => at(ns, `/subscriptions/${enc(name)}/attempts`, { limit: 50, cursor }), name, 3000);
  const [one, open] = useState(null);
  const kinds = { delivered: 'good', dead: 'bad', disabled: 'bad' };
  return html`
    <${Table} label="Deliveries" rows=${pages.data?.attempts} keyOf=${(a) => `${a.time}${a.partition}-${a.offset}-${a.attempt}`} open=${open} error=${pages.error} empty="Nothing was sent to it in the last three days."
      columns=${[{ title: 'Time', cell: (a) => html`<${Moment} of=${a.time} />` }, { title: 'Message', cell: (a) => html`<span class="mono">${a.partition}-${a.offset}</span>` }, { title: 'Try', num: true, hide: true, cell: (a) => a.attempt }, { title: 'Outcome', cell: (a) => html`<${Badge} kind=${kinds[a.outcome] || 'warn'}>${a.outcome}<//>` },
        { title: 'Status', num: true, cell: (a) => a.status || '–' }, { title: 'Took', num: true, hide: true, cell: (a) => `${num(a.latencyMs)} ms` }, { title: 'Why', grow: true, hide: true, cell: (a) => html`<span class="dim">${[a.class, a.detail].filter(Boolean).join(': ')}</span>` }, { title: 'Again', hide: true, cell: (a) => (a.next ? time(a.next) : '') }]} />
    <${Pager} pages=${pages} count=${pages.data?.attempts.length} />
    ${one ? html`<${Modal} title="Delivery" close=${() => open(null)} wide><${Facts} of=${[['Time', time(one.time)], ['Message', topic ? html`<a href=${link(['messages', topic], { id: `${one.partition}-${one.offset}` })}>${one.partition}-${one.offset}</a>` : `${one.partition}-${one.offset}`], ['webhook-id', html`<span class="mono">${one.id || '–'}</span>`], ['Attempt', one.attempt], ['Outcome', one.outcome], ['Status', one.status || '–'], ['Took', `${num(one.latencyMs)} ms`], one.class && ['Error', one.class], one.detail && ['Detail', one.detail], one.next && ['Again', time(one.next)]]} />
      ${one.response ? html`<h3>Its answer</h3><pre class="code wrap">${one.response}</pre>` : null}<//>` : null}`;
}

function Test({ path, close }) {
  const [value, set] = useState('{"test": true}');
  const [result, setResult] = useState(null);
  return html`
    <${Modal} title="Test-fire" close=${close}><p class="dim">One request to the endpoint, signed as all others; it is in no topic.</p>
      <${Field} label="Value" wide><textarea value=${value} onInput=${(e) => set(e.target.value)} spellcheck=${false}></textarea><//>
      ${result ? html`<h3>What came of it</h3><${Facts} of=${[['Outcome', result.status >= 200 && result.status < 300 ? 'delivered' : 'failed'], ['Status', result.status || '–'], ['Took', `${num(result.latencyMs)} ms`], result.class && ['Error', result.class], result.detail && ['Detail', result.detail]]} />${result.response ? html`<pre class="code wrap">${result.response}</pre>` : null}` : null}
      <footer><button onClick=${close}>Close</button><${Action} kind="primary" label="Send" act=${async () => { setResult(await call(`${path}:test`, { method: 'POST', body: { messages: [{ value }] } })); }} /></footer><//>`;
}

function Seek({ path, close }) {
  const [to, set] = useState('start');
  const [when, setWhen] = useState('');
  return html`
    <${Modal} title="Seek" close=${close}><p class="dim">The subscription moves for all its clients; what is with them is theirs no more.</p><div class="grid">
      <${Field} label="To"><select value=${to} onChange=${(e) => set(e.target.value)}><option value="start">the start</option><option value="end">the end</option><option value="time">a time</option></select><//>
      ${to === 'time' ? html`<${Field} label="Time"><input type="datetime-local" value=${when} onInput=${(e) => setWhen(e.target.value)} /><//>` : null}</div>
      <footer><button onClick=${close}>Cancel</button><${Action} kind="primary" label="Seek" disabled=${to === 'time' && !when} done=${close}
        act=${async () => { await call(`${path}:seek`, { method: 'POST', body: to === 'time' ? { time: new Date(when).toISOString() } : { to } }); return 'It is moved'; }} /></footer><//>`;
}
