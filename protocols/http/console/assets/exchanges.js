// Exchanges and their bindings.
import { html, useState } from './vendor/htm-preact.js';
import { call, at, enc, useLoad, usePages, useSettled } from './api.js';
import { Table, Pager, Badge, Failure, Tabs, Search, Modal, Field, Action, Do, Confirm, link, go } from './ui.js';
import { useCan } from './who.js';
import { PublishForm } from './publish.js';

export function Exchanges(props) {
  return props.route.path[1] ? html`<${Exchange} key=${props.route.path[1]} ...${props} name=${props.route.path[1]} />` : html`<${List} ...${props} />`;
}

function List({ ns, can }) {
  const [text, set] = useState('');
  const [making, make] = useState(false);
  const search = useSettled(text);
  const pages = usePages((cursor) => at(ns, '/exchanges', { limit: 50, search, cursor }), search, 10000);
  return html`
    <div class="head"><h1>Exchanges</h1><${Search} label="Search exchanges" value=${text} set=${set} /><span class="space"></span><${Do} why=${can.configure} onClick=${() => make(true)}>New exchange<//></div>
    <${Table} label="Exchanges" rows=${pages.data?.exchanges} keyOf=${(x) => x.name} error=${pages.error} open=${(x) => x.name && go(['exchanges', x.name])} empty=${search ? 'No exchange has that in its name.' : 'There are no exchanges that you may see.'}
      columns=${[{ title: 'Exchange', grow: true, cell: (x) => (x.name ? html`<a class="name" href=${link(['exchanges', x.name])}>${x.name}</a>` : html`<span class="dim">(default)</span>`) }, { title: 'Type', cell: (x) => html`<${Badge}>${x.type}<//>` },
        { title: '', hide: true, cell: (x) => [x.ofTopic && 'of a topic', x.internal && 'internal', x.autoDelete && 'auto-delete'].filter(Boolean).map((w) => html`<${Badge}>${w}<//> `) }]} />
    <${Pager} pages=${pages} count=${pages.data?.exchanges.length} />
    ${making ? html`<${New} ns=${ns} close=${() => make(false)} />` : null}`;
}

// What messages go to, by type of exchange.
const types = {
  topic: 'keys of words with dots; * is a word, # any number',
  direct: 'the very key',
  fanout: 'everything that is bound',
  headers: 'headers, by the arguments of the binding',
  'x-consistent-hash': 'one of them, by the hash of the key; the binding’s key is a weight',
  'x-modulus-hash': 'one of them, by the hash of the key',
  'x-random': 'one of them, by chance',
};

function New({ ns, close }) {
  const [f, set] = useState({ name: '', type: 'topic', autoDelete: false, internal: false });
  const act = async () => {
    const { name, ...body } = f;
    await call(at(ns, `/exchanges/${enc(name)}`), { method: 'PUT', body });
    go(['exchanges', name]);
    return `Exchange ${name} is there`;
  };
  const flag = (key, label) => html`<label class="row"><input type="checkbox" checked=${f[key]} onChange=${(e) => set({ ...f, [key]: e.target.checked })} />${label}</label>`;
  return html`
    <${Modal} title="New exchange" close=${close}><div class="stack">
      <${Field} label="Name"><input value=${f.name} onInput=${(e) => set({ ...f, name: e.target.value })} spellcheck=${false} autofocus /><//>
      <${Field} label="Type" hint=${`Messages go to ${types[f.type]}.`}><select value=${f.type} onChange=${(e) => set({ ...f, type: e.target.value })}>${Object.keys(types).map((t) => html`<option value=${t}>${t}</option>`)}</select><//>
      ${flag('autoDelete', 'Delete it when its last binding goes')}${flag('internal', 'Only exchanges publish to it')}</div>
      <footer><button onClick=${close}>Cancel</button><${Action} kind="primary" label="Create" disabled=${!f.name} act=${act} /></footer><//>`;
}

// argumentsOf are a binding's, as the call takes them.
const argumentsOf = (b) => (b.arguments?.length ? { arguments: Object.fromEntries(b.arguments.map((h) => [h.name, h.value])) } : {});

function Exchange({ ns, name, route, who }) {
  const can = useCan(who, ns, name);
  const [asking, ask] = useState(null); // bind, delete, or a binding that is to go
  const path = at(ns, `/exchanges/${enc(name)}`);
  const x = useLoad(path);
  const bindings = useLoad(`${path}/bindings`, 5000);
  const tab = route.query.get('tab') || 'bindings';
  const to = (b) => b.queue || b.exchange;
  const unbind = async () => {
    const { queue, exchange, key } = asking;
    await call(`${path}/bindings`, { method: 'DELETE', body: { ...(queue ? { queue } : { exchange }), key, ...argumentsOf(asking) } });
    const left = await call(`${path}/bindings`);
    bindings.reload();
    if (left.bindings.some((b) => JSON.stringify(b) === JSON.stringify(asking))) throw new Error('It is still there: its arguments are of types that JSON does not have. Unbind it over AMQP');
    return `Nothing more goes from ${name} to ${to(asking)} by this binding`;
  };
  return html`
    <div class="head"><h1><a class="crumb" href="#/exchanges">Exchanges /</a> ${name}</h1>${x.data ? html`<${Badge}>${x.data.type}<//>` : null}<span class="space"></span>
      <${Do} why=${can.read} onClick=${() => ask('bind')}>Bind<//>${x.data?.ofTopic ? null : html`<${Do} why=${can.configure} kind="danger" onClick=${() => ask('delete')}>Delete<//>`}</div><${Failure} error=${x.error} />
    <div class="under"><${Tabs} at=${tab} to=${(id) => go(['exchanges', name], { tab: id })} tabs=${[['bindings', 'Bindings'], ['publish', 'Publish']]} /></div>
    ${tab === 'publish' ? html`<${PublishForm} ns=${ns} who=${who} kind="exchanges" name=${name} />` : html`
    <${Table} label="Bindings" rows=${bindings.data?.bindings} keyOf=${(b) => JSON.stringify(b)} error=${bindings.error} empty="Nothing is bound to it."
      columns=${[{ title: 'To', cell: (b) => html`<a class="name" href=${link([b.queue ? 'queues' : 'exchanges', to(b)])}>${to(b)}</a>` }, { title: 'Kind', hide: true, cell: (b) => html`<${Badge}>${b.queue ? 'queue' : 'exchange'}<//>` },
        { title: 'Key', cell: (b) => html`<span class="mono">${b.key}</span>` }, { title: 'Arguments', grow: true, cell: (b) => html`<span class="mono">${(b.arguments || []).map((h) => `${h.name}=${h.value}`).join(', ')}</span>` },
        { title: '', cell: (b) => html`<${Do} why=${can.read} kind="small" onClick=${() => ask(b)}>Unbind<//>` }]} />`}
    ${asking === 'bind' ? html`<${Bind} ns=${ns} path=${path} type=${x.data?.type} close=${() => { ask(null); bindings.reload(); }} />` : null}
    ${asking === 'delete' ? html`<${Confirm} title="Delete exchange" name=${name} verb="Delete" text="It goes, with its bindings; the queues and what is in them stay. Publishing to it fails from then on." close=${() => ask(null)} act=${async () => { await call(path, { method: 'DELETE' }); go(['exchanges']); return `Exchange ${name} is gone`; }} />` : null}
    ${asking?.key !== undefined ? html`<${Modal} title="Unbind" close=${() => ask(null)}><p>What is published to <b>${name}</b>${asking.key ? html` with <b class="mono">${asking.key}</b>` : ''} does not go to <b>${to(asking)}</b> any more by this binding. What is there stays.</p>
      <footer><button onClick=${() => ask(null)}>Cancel</button><${Action} kind="danger" label="Unbind" act=${unbind} done=${() => ask(null)} /></footer><//>` : null}`;
}

function Bind({ ns, path, type, close }) {
  const [f, set] = useState({ kind: 'queue', to: '', key: '', args: '' });
  const on = (key) => (e) => set({ ...f, [key]: e.target.value });
  const search = useSettled(f.to);
  const found = useLoad(at(ns, f.kind === 'queue' ? '/queues' : '/exchanges', { limit: 20, search }));
  const act = async () => {
    const lines = f.args.split('\n').map((l) => l.trim()).filter(Boolean);
    const args = Object.fromEntries(lines.map((l) => { const i = l.indexOf('='); if (i < 1) throw new Error(`Arguments: “${l}” is not name=value`); return [l.slice(0, i), l.slice(i + 1)]; }));
    await call(`${path}/bindings`, { method: 'POST', body: { [f.kind]: f.to, key: f.key, ...(lines.length ? { arguments: args } : {}) } });
    return 'It is bound';
  };
  return html`
    <${Modal} title="Bind" close=${close}><div class="grid">
      <${Field} label="To"><select value=${f.kind} onChange=${on('kind')}><option value="queue">queue or topic</option><option value="exchange">exchange</option></select><//>
      <${Field} label="Its name"><input list="bind-to" value=${f.to} onInput=${on('to')} spellcheck=${false} autocomplete="off" autofocus /><//>
      <datalist id="bind-to">${(found.data?.queues || found.data?.exchanges || []).map((q) => html`<option value=${q.name} />`)}</datalist>
      <${Field} label="Key" hint=${types[type] ? `Messages go to ${types[type]}.` : ''} wide><input class="mono" value=${f.key} onInput=${on('key')} spellcheck=${false} /><//>
      <${Field} label="Arguments" hint="One name=value a line, as headers exchanges have." wide><textarea class="low" value=${f.args} onInput=${on('args')} spellcheck=${false}></textarea><//></div>
      <footer><button onClick=${close}>Cancel</button><${Action} kind="primary" label="Bind" disabled=${!f.to} act=${act} done=${close} /></footer><//>`;
}
