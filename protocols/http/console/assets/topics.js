// Topics: all of them, and one.
import { html, useState } from './vendor/htm-preact.js';
import { call, at, enc, useLoad, usePages, useSettled } from './api.js';
import { Table, Pager, Search, Badge, Failure, Tabs, Modal, Field, Action, Do, Confirm, Facts, link, go } from './ui.js';
import { useCan } from './who.js';
import { num, count, bytes, date } from './format.js';
import { TopicMessages } from './messages.js';
import { PublishForm } from './publish.js';
import { TailView } from './tail.js';

export function Topics(props) {
  return props.route.path[1] ? html`<${Topic} key=${props.route.path[1]} ...${props} name=${props.route.path[1]} />` : html`<${List} ...${props} />`;
}

function List({ ns, can }) {
  const [text, set] = useState('');
  const [making, make] = useState(false);
  const search = useSettled(text);
  const pages = usePages((cursor) => at(ns, '/topics', { limit: 50, search, cursor }), search, 10000);
  return html`
    <div class="head"><h1>Topics</h1><${Search} label="Search topics" value=${text} set=${set} /><span class="space"></span><${Do} why=${can.configure} onClick=${() => make(true)}>New topic<//></div>
    <${Table} label="Topics" rows=${pages.data?.topics} keyOf=${(t) => t.id} error=${pages.error} open=${(t) => go(['topics', t.name])} empty=${search ? 'No topic has that in its name.' : 'There are no topics yet.'}
      columns=${[
        { title: 'Topic', grow: true, cell: (t) => html`<a class="name" href=${link(['topics', t.name])}>${t.name}</a>${t.internal ? html` <${Badge}>internal<//>` : null}` },
        { title: 'Partitions', num: true, cell: (t) => num(t.partitions) },
        { title: 'Settings', hide: true, cell: (t) => Object.entries(t.configs).slice(0, 3).map(([k, v]) => html`<${Badge}>${k} ${v}<//> `) },
        { title: 'Created', hide: true, cell: (t) => date(t.created) },
      ]} />
    <${Pager} pages=${pages} count=${pages.data?.topics.length} />
    ${making ? html`<${New} ns=${ns} close=${() => make(false)} />` : null}`;
}

function New({ ns, close }) {
  const [name, set] = useState('');
  const [partitions, setPartitions] = useState('1');
  const [retention, setRetention] = useState('');
  const act = async () => {
    await call(at(ns, `/topics/${enc(name)}`), { method: 'PUT', body: { partitions: Number(partitions), configs: retention ? { 'retention.ms': retention } : {} } });
    go(['topics', name]);
    return `Topic ${name} is there`;
  };
  return html`
    <${Modal} title="New topic" close=${close}>
      <div class="grid"><${Field} label="Name" wide><input value=${name} onInput=${(e) => set(e.target.value)} spellcheck=${false} autofocus /><//>
      <${Field} label="Partitions"><input type="number" min="1" value=${partitions} onInput=${(e) => setPartitions(e.target.value)} /><//>
      <${Field} label="retention.ms" hint="Empty: the broker's."><input inputmode="numeric" value=${retention} onInput=${(e) => setRetention(e.target.value)} /><//></div>
      <footer><button onClick=${close}>Cancel</button><${Action} kind="primary" label="Create" disabled=${!name} act=${act} /></footer>
    <//>`;
}

function Topic({ ns, name, route, who }) {
  const can = useCan(who, ns, name);
  const [asking, ask] = useState(null);
  const topic = useLoad(at(ns, `/topics/${enc(name)}`), 5000);
  const tab = route.query.get('tab') || 'messages';
  const t = topic.data;
  const stored = t ? t.ranges.reduce((n, r) => n + r.end - r.start, 0) : null;
  return html`
    <div class="head"><h1><a class="crumb" href="#/topics">Topics /</a> ${name}</h1>${t?.internal ? html`<${Badge}>internal<//>` : null}
      <span class="dim">${t ? html`${count(stored, 'message')} · ${bytes(t.ranges.reduce((n, r) => n + r.bytes, 0))} · ${count(t.partitions, 'partition')}` : ' '}</span>
      <span class="space"></span><${Do} why=${can.configure} kind="danger" onClick=${() => ask('delete')}>Delete<//></div>
    <${Failure} error=${topic.error} />
    <div class="under"><${Tabs} at=${tab} to=${(id) => go(['topics', name], { tab: id })} tabs=${[['messages', 'Messages'], ['tail', 'Live tail'], ['partitions', 'Partitions'], ['readers', 'Readers'], ['settings', 'Settings'], ['publish', 'Publish']]} /></div>
    ${tab === 'messages' ? html`<${TopicMessages} ns=${ns} name=${name} query=${route.query} />` : null}
    ${tab === 'tail' ? html`<${TailView} ns=${ns} name=${name} />` : null}
    ${tab === 'partitions' ? html`<div class="tools"><span class="dim">Keys go to other partitions when there are more of them.</span><span class="space"></span><${Do} why=${can.configure} disabled=${!t} onClick=${() => ask('partitions')}>Add partitions<//></div><${Table} label="Partitions" rows=${t?.ranges} keyOf=${(r) => r.partition} columns=${[
      { title: 'Partition', num: true, cell: (r) => r.partition }, { title: 'First', num: true, cell: (r) => num(r.start) }, { title: 'Next', num: true, cell: (r) => num(r.end) },
      { title: 'Messages', num: true, cell: (r) => num(r.end - r.start) }, { title: 'Size', num: true, cell: (r) => bytes(r.bytes) }, { title: '', grow: true, cell: () => '' }]} />` : null}
    ${tab === 'readers' ? html`<${Readers} ns=${ns} name=${name} />` : null}
    ${tab === 'settings' ? html`<${Settings} ns=${ns} name=${name} topic=${t} can=${can} />` : null}
    ${tab === 'publish' ? html`<${PublishForm} ns=${ns} who=${who} kind="topics" name=${name} />` : null}
    ${asking === 'partitions' ? html`<${Partitions} ns=${ns} topic=${t} close=${() => ask(null)} reload=${topic.reload} />` : null}
    ${asking === 'delete' ? html`<${Confirm} title="Delete topic" name=${name} verb="Delete" text="The topic goes, with everything in it, for all clients." close=${() => ask(null)}
      act=${async () => { await call(at(ns, `/topics/${enc(name)}`), { method: 'DELETE' }); go(['topics']); return `Topic ${name} is gone`; }} />` : null}`;
}

function Partitions({ ns, topic, close, reload }) {
  const [n, set] = useState(String(topic.partitions + 1));
  const act = async () => {
    const r = await call(at(ns, `/topics/${enc(topic.name)}`), { method: 'PATCH', body: { partitions: Number(n) } });
    reload();
    return `${topic.name} has ${count(r.partitions, 'partition')}`;
  };
  return html`
    <${Modal} title=${`Partitions of ${topic.name}`} close=${close}><p class="dim">There can be more, never fewer. What is stored stays where it is; new messages of a key may go to another partition than the old ones, so that their order is lost once.</p>
      <${Field} label="Partitions"><input type="number" min=${topic.partitions + 1} value=${n} onInput=${(e) => set(e.target.value)} autofocus /><//>
      <footer><button onClick=${close}>Cancel</button><${Action} kind="primary" label="Add" disabled=${!(Number(n) > topic.partitions)} act=${act} done=${close} /></footer><//>`;
}

function Readers({ ns, name }) {
  const pages = usePages((cursor) => at(ns, `/topics/${enc(name)}/readers`, { limit: 50, cursor }), name, 5000);
  return html`
    <${Table} label="Readers" rows=${pages.data?.readers} keyOf=${(r) => r.kind + r.name} error=${pages.error} empty="No group and no subscription has a position here." open=${(r) => go([r.kind === 'group' ? 'groups' : 'subscriptions', r.name])}
      columns=${[{ title: 'Reader', grow: true, cell: (r) => html`<a class="name" href=${link([r.kind === 'group' ? 'groups' : 'subscriptions', r.name])}>${r.name}</a>` },
        { title: 'Kind', cell: (r) => html`<${Badge} kind=${r.kind === 'group' ? 'kafka' : 'http'}>${r.kind === 'group' ? 'Kafka group' : 'subscription'}<//>` },
        { title: 'Lag', num: true, cell: (r) => num(r.lag) }]} />
    <${Pager} pages=${pages} />`;
}

function Settings({ ns, name, topic, can }) {
  const configs = useLoad(at(ns, `/topics/${enc(name)}/configs`));
  const [one, edit] = useState(null);
  const [text, set] = useState('');
  const save = (v) => async () => {
    await call(at(ns, `/topics/${enc(name)}`), { method: 'PATCH', body: { configs: { [one.name]: v } } });
    configs.reload();
    return v === null ? `${one.name} is the default again` : `${one.name} is ${v}`;
  };
  return html`
    <div class="panel pad"><${Facts} of=${topic ? [['Id', html`<span class="mono">${topic.id}</span>`], ['Created', date(topic.created)], ['Namespace', topic.namespace]] : []} /></div><h3>Settings</h3>
    <${Table} label="Settings" rows=${configs.data?.configs} keyOf=${(c) => c.name} error=${configs.error} open=${(c) => { edit(c); set(c.value); }}
      columns=${[{ title: 'Setting', cell: (c) => html`<span class="name mono" title=${c.doc}>${c.name}</span>` }, { title: 'Value', cell: (c) => html`<span class="mono">${c.value}</span>` },
        { title: '', cell: (c) => (c.default ? '' : html`<${Badge} kind="good">set here<//>`) }, { title: 'Meaning', grow: true, hide: true, cell: (c) => html`<span class="dim" title=${c.doc}>${c.doc}</span>` }]} />
    ${one ? html`<${Modal} title=${one.name} close=${() => edit(null)}><p class="dim">${one.doc}</p>
      <${Field} label="Value"><input value=${text} onInput=${(e) => set(e.target.value)} spellcheck=${false} autofocus /><//>
      <footer><${Action} label="Back to the default" why=${can.configure} act=${save(null)} done=${() => edit(null)} /><${Action} kind="primary" label="Set" why=${can.configure} act=${save(text)} done=${() => edit(null)} /></footer><//>` : null}`;
}
