// Queues: all of them, and one.
import { html, useState } from './vendor/htm-preact.js';
import { call, at, enc, useLoad, usePages, useSettled } from './api.js';
import { Table, Pager, Search, Badge, Failure, Tabs, Modal, Field, Action, Do, Confirm, Facts, link, go } from './ui.js';
import { useCan } from './who.js';
import { num, date } from './format.js';
import { columns, Detail } from './messages.js';
import { PublishForm } from './publish.js';

export function Queues(props) {
  return props.route.path[1] ? html`<${Queue} key=${props.route.path[1]} ...${props} name=${props.route.path[1]} />` : html`<${List} ...${props} />`;
}

const count = (q, what) => (q.counts ? num(q.counts[what]) : '–');

function List({ ns, can }) {
  const [text, set] = useState('');
  const [making, make] = useState(false);
  const search = useSettled(text);
  const pages = usePages((cursor) => at(ns, '/queues', { limit: 50, search, cursor, counts: 'true' }), search, 5000);
  return html`
    <div class="head"><h1>Queues</h1><${Search} label="Search queues" value=${text} set=${set} /><span class="space"></span><${Do} why=${can.configure} onClick=${() => make(true)}>New queue<//></div>
    <${Table} label="Queues" rows=${pages.data?.queues} keyOf=${(q) => q.name} error=${pages.error} open=${(q) => go(['queues', q.name])} empty=${search ? 'No queue has that in its name.' : 'There are no queues yet.'}
      columns=${[
        { title: 'Queue', grow: true, cell: (q) => html`<a class="name" href=${link(['queues', q.name])}>${q.name}</a>${q.singleActive ? html` <${Badge}>single active<//>` : null}` },
        { title: 'Ready', num: true, cell: (q) => count(q, 'ready') }, { title: 'Unsettled', num: true, cell: (q) => count(q, 'unsettled') },
        { title: 'Delayed', num: true, hide: true, cell: (q) => count(q, 'delayed') }, { title: 'Consumers', num: true, cell: (q) => count(q, 'consumers') },
        { title: 'Dead letters to', hide: true, cell: (q) => (q.deadLetterQueue ? html`<a href=${link(['queues', q.deadLetterQueue])}>${q.deadLetterQueue}</a>` : '') },
      ]} />
    <${Pager} pages=${pages} count=${pages.data?.queues.length} />
    ${making ? html`<${New} ns=${ns} close=${() => make(false)} />` : null}`;
}

function New({ ns, close }) {
  const [name, set] = useState('');
  const [limit, setLimit] = useState('');
  const [dead, setDead] = useState('');
  const act = async () => {
    const body = {};
    if (limit) body.deliveryLimit = Number(limit);
    if (dead) body.deadLetterQueue = dead;
    await call(at(ns, `/queues/${enc(name)}`), { method: 'PUT', body });
    go(['queues', name]);
    return `Queue ${name} is there`;
  };
  return html`
    <${Modal} title="New queue" close=${close}><div class="grid">
      <${Field} label="Name" wide><input value=${name} onInput=${(e) => set(e.target.value)} spellcheck=${false} autofocus /><//>
      <${Field} label="Failed deliveries allowed" hint="Empty: the broker's."><input type="number" min="0" value=${limit} onInput=${(e) => setLimit(e.target.value)} /><//>
      <${Field} label="Dead letters to queue"><input value=${dead} onInput=${(e) => setDead(e.target.value)} spellcheck=${false} /><//></div>
      <footer><button onClick=${close}>Cancel</button><${Action} kind="primary" label="Create" disabled=${!name} act=${act} /></footer><//>`;
}

function Queue({ ns, name, route, who }) {
  const can = useCan(who, ns, name);
  const [asking, ask] = useState(null);
  const queue = useLoad(at(ns, `/queues/${enc(name)}`), 2000);
  const tab = route.query.get('tab') || 'messages';
  const q = queue.data;
  const path = at(ns, `/queues/${enc(name)}`);
  return html`
    <div class="head"><h1><a class="crumb" href="#/queues">Queues /</a> ${name}</h1><span class="space"></span>
      <${Do} why=${can.read} onClick=${() => ask('redrive')}>Redrive<//><${Do} why=${can.read} kind="danger" onClick=${() => ask('purge')}>Purge<//><${Do} why=${can.configure} kind="danger" onClick=${() => ask('delete')}>Delete<//></div>
    <${Failure} error=${queue.error} />
    <div class="tiles">${[['Ready', 'ready'], ['Unsettled', 'unsettled'], ['Delayed', 'delayed'], ['Consumers', 'consumers']].map(([title, what]) => html`<div class="tile"><span>${title}</span><b>${q ? count(q, what) : '–'}</b><small>${{ ready: 'wait for a consumer', unsettled: 'are with consumers', delayed: 'until their time', consumers: 'now' }[what]}</small></div>`)}</div>
    <div class="under"><${Tabs} at=${tab} to=${(id) => go(['queues', name], { tab: id })} tabs=${[['messages', 'Messages'], ['settings', 'Settings'], ['publish', 'Publish']]} /></div>
    ${tab === 'messages' ? html`<${Peek} ns=${ns} name=${name} />` : null}
    ${tab === 'settings' && q ? html`<div class="panel pad"><${Facts} of=${[['Created', date(q.created)], ['Namespace', q.namespace], ['Failed deliveries allowed', q.deliveryLimit ? (q.deliveryLimit < 0 ? 'any number' : q.deliveryLimit) : 'any number'], ['Dead letters to', q.deadLetterQueue ? html`<a href=${link(['queues', q.deadLetterQueue])}>${q.deadLetterQueue}</a>` : 'nowhere'], ['Single active consumer', q.singleActive ? 'yes' : 'no']]} /></div>` : null}
    ${tab === 'publish' ? html`<${PublishForm} ns=${ns} who=${who} kind="queues" name=${name} />` : null}
    ${asking === 'purge' ? html`<${Confirm} title="Purge queue" name=${name} verb="Purge" text="All messages that are ready go." close=${() => ask(null)} act=${async () => { const r = await call(`${path}:purge`, { method: 'POST' }); queue.reload(); return `${num(r.messages)} messages are gone`; }} />` : null}
    ${asking === 'delete' ? html`<${Confirm} title="Delete queue" name=${name} verb="Delete" text="The queue goes, with everything in it, for all clients." close=${() => ask(null)} act=${async () => { const r = await call(path, { method: 'DELETE' }); go(['queues']); return `Queue ${name} is gone, with ${num(r.messages)} messages`; }} />` : null}
    ${asking === 'redrive' ? html`<${Redrive} ns=${ns} name=${name} close=${() => { ask(null); queue.reload(); }} />` : null}`;
}

// Peek shows what a queue holds.
function Peek({ ns, name }) {
  const pages = usePages((cursor) => at(ns, `/queues/${enc(name)}/messages`, { limit: 50, maxValueBytes: 240, cursor }), name);
  const [open, set] = useState(null);
  const died = { title: 'Died', hide: true, cell: (m) => (m.deaths?.length ? html`<${Badge} kind="bad">${m.deaths[m.deaths.length - 1].reason.replace('_', ' ')}<//>` : '') };
  return html`
    <div class="tools"><span class="dim">Looking at them consumes nothing.</span><span class="space"></span><button onClick=${pages.reload}>Refresh</button></div>
    <${Table} label="Messages" columns=${[...columns(false), died]} rows=${pages.data?.messages} keyOf=${(m) => m.offset} open=${(m) => set(m.offset)} error=${pages.error} empty="The queue is empty." />
    <${Pager} pages=${pages} count=${pages.data?.messages.length} />
    ${open !== null ? html`<${Detail} title=${`${name} · ${open}`} ns=${ns} path=${at(ns, `/queues/${enc(name)}/messages`, { offset: open, limit: 1, maxValueBytes: 1 << 20 })}
      pick=${(d) => (d.messages[0]?.offset === open ? { message: d.messages[0] } : null)} close=${() => set(null)} />` : null}`;
}

// Redrive moves dead letters back, in pieces, so that one sees how far it is.
export function Redrive({ ns, name, close }) {
  const [max, setMax] = useState('1000');
  const [kind, setKind] = useState('');
  const [to, setTo] = useState('');
  const [tag, setTag] = useState('');
  const [cel, setCel] = useState('');
  const [state, set] = useState(null);
  const run = async () => {
    let left = Number(max) || 1000;
    const sum = { moved: 0, skipped: 0, reasons: [] };
    for (;;) {
      const body = { max: Math.min(left, 2000) };
      if (kind && to) body.to = { [kind]: to };
      if (tag || cel) body.filter = { ...(tag ? { tags: [tag] } : {}), ...(cel ? { cel } : {}) };
      const r = await call(at(ns, `/queues/${enc(name)}:redrive`), { method: 'POST', body });
      sum.moved += r.moved;
      sum.skipped = r.skipped || 0;
      sum.reasons = r.reasons || [];
      left -= r.moved;
      set({ ...sum });
      if (!r.more || left <= 0 || r.moved === 0) break;
    }
    return `${num(sum.moved)} messages are moved`;
  };
  return html`
    <${Modal} title=${`Redrive ${name}`} close=${close}><p class="dim">Dead letters go back to where they died, those of a webhook to its endpoint, unless another place is named.</p><div class="grid">
      <${Field} label="At most"><input type="number" min="1" value=${max} onInput=${(e) => setMax(e.target.value)} /><//>
      <${Field} label="To"><select value=${kind} onChange=${(e) => setKind(e.target.value)}><option value="">where they died</option><option value="queue">queue</option><option value="topic">topic</option><option value="subscription">subscription</option></select><//>
      ${kind ? html`<${Field} label="Its name"><input value=${to} onInput=${(e) => setTo(e.target.value)} spellcheck=${false} /><//>` : null}
      <${Field} label="Of the tag"><input value=${tag} onInput=${(e) => setTag(e.target.value)} /><//>
      <${Field} label="For which is true" hint="An expression in CEL." wide><input class="mono" value=${cel} onInput=${(e) => setCel(e.target.value)} spellcheck=${false} placeholder='headers["x-webhook-status"] == "500"' /><//></div>
      ${state ? html`<p>${num(state.moved)} moved, ${num(state.skipped)} left where they are.</p>${state.reasons.map((r) => html`<p class="dim">${num(r.count)}: ${r.detail}</p>`)}` : null}
      <footer><button onClick=${close}>Close</button><${Action} kind="primary" label="Redrive" act=${run} /></footer><//>`;
}
