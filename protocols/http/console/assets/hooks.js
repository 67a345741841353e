// Hooks: addresses that take other people's webhooks.
import { html, useState } from './vendor/htm-preact.js';
import { call, at, enc, useLoad, usePages, useSettled } from './api.js';
import { Table, Pager, Search, Badge, Failure, Modal, Field, Action, Do, Confirm, Facts, Copy, Secret, link, go } from './ui.js';
import { useCan } from './who.js';
import { num, date, duration } from './format.js';

export function Hooks(props) {
  return props.route.path[1] ? html`<${Hook} key=${props.route.path[1]} ...${props} name=${props.route.path[1]} />` : html`<${List} ...${props} />`;
}

function List({ ns, can }) {
  const [making, make] = useState(false);
  const [text, set] = useState('');
  const search = useSettled(text);
  const pages = usePages((cursor) => at(ns, '/hooks', { limit: 50, search, cursor }), search, 10000);
  return html`
    <div class="head"><h1>Hooks</h1><${Search} label="Search hooks" value=${text} set=${set} /><span class="dim">Addresses that take webhooks into a topic.</span><span class="space"></span><${Do} why=${can.configure} onClick=${() => make(true)}>New hook<//></div>
    <${Table} label="Hooks" rows=${pages.data?.hooks} keyOf=${(h) => h.name} error=${pages.error} open=${(h) => go(['hooks', h.name])} empty=${search ? 'No hook has that in its name.' : 'There are no hooks here.'}
      columns=${[{ title: 'Hook', cell: (h) => html`<a class="name" href=${link(['hooks', h.name])}>${h.name}</a>` }, { title: 'Believes', cell: (h) => html`<${Badge}>${h.preset}<//>` },
        { title: 'Topic', cell: (h) => html`<a class="name" href=${link(['topics', h.topic])}>${h.topic}</a>` }, { title: 'Senders post to', grow: true, hide: true, cell: (h) => html`<span class="mono">${h.path}</span>` }]} />
    <${Pager} pages=${pages} count=${pages.data?.hooks.length} />
    ${making ? html`<${New} ns=${ns} close=${() => { make(false); pages.reload(); }} />` : null}`;
}

const presets = ['standard', 'github', 'stripe', 'hmac', 'bearer', 'basic'];

function New({ ns, close }) {
  const [f, set] = useState({ name: '', topic: '', preset: 'standard', secret: '', id: '', key: '', username: '', signatureHeader: '', signaturePrefix: '', algorithm: '', encoding: '', signed: '', timestampHeader: '' });
  const [secret, setSecret] = useState(null);
  const on = (key) => (e) => set({ ...f, [key]: e.target.value });
  const text = (key, label, hint, props = {}) => html`<${Field} label=${label} hint=${hint}><input value=${f[key]} onInput=${on(key)} spellcheck=${false} autocomplete="off" ...${props} /><//>`;
  const act = async () => {
    const body = { topic: f.topic, preset: f.preset };
    const own = { hmac: ['signatureHeader', 'signaturePrefix', 'algorithm', 'encoding', 'signed', 'timestampHeader'], basic: ['username'] }[f.preset] || [];
    for (const k of ['id', 'key', ...own]) if (f[k]) body[k] = f[k];
    if (f.secret) body.secrets = [f.secret];
    const h = await call(at(ns, `/hooks/${enc(f.name)}`), { method: 'PUT', body });
    if (h.secret) setSecret(h.secret);
    else close();
    return `Hook ${f.name} is there`;
  };
  if (secret) return html`<${Secret} secret=${secret} close=${close} />`;
  return html`
    <${Modal} title="New hook" close=${close}><div class="grid">
      ${text('name', 'Name', '', { autofocus: true })}${text('topic', 'Topic')}
      <${Field} label="Believes"><select value=${f.preset} onChange=${on('preset')}>${presets.map((p) => html`<option value=${p}>${p}</option>`)}</select><//>
      ${text('secret', f.preset === 'basic' ? 'Password' : f.preset === 'bearer' ? 'Token' : 'Secret', 'Empty: one is made.', { type: 'password', autocomplete: 'new-password' })}
      ${text('key', 'Key is in', 'json:/a/b or header:NAME')}${text('id', 'Id is in', 'Empty: where the sender has it.')}
      ${f.preset === 'basic' ? text('username', 'User') : null}
      ${f.preset === 'hmac' ? html`${text('signatureHeader', 'Signature is in', 'X-Signature where it is empty.')}${text('signaturePrefix', 'Prefix of it', 'such as sha256=')}
        <${Field} label="Algorithm"><select value=${f.algorithm} onChange=${on('algorithm')}><option value="">sha256</option><option>sha1</option><option>sha512</option></select><//>
        <${Field} label="Encoding"><select value=${f.encoding} onChange=${on('encoding')}><option value="">hex</option><option>base64</option></select><//>
        ${text('signed', 'What is signed', '{body}, {timestamp} and {id} stand for themselves.')}${text('timestampHeader', 'Timestamp is in')}` : null}</div>
      <footer><button onClick=${close}>Cancel</button><${Action} kind="primary" label="Create" disabled=${!f.name || !f.topic} act=${act} /></footer><//>`;
}

function Hook({ ns, name, who }) {
  const can = useCan(who, ns, name);
  const [asking, ask] = useState(false);
  const [secret, setSecret] = useState(null);
  const path = at(ns, `/hooks/${enc(name)}`);
  const hook = useLoad(path, 10000);
  const h = hook.data;
  const address = h ? `${location.origin}${h.path}` : '';
  return html`
    <div class="head"><h1><a class="crumb" href="#/hooks">Hooks /</a> ${name}</h1>${h ? html`<${Badge}>${h.preset}<//>` : null}<span class="space"></span>
      <${Action} label="Rotate secret" why=${can.configure} act=${async () => { const r = await call(`${path}:rotate`, { method: 'POST', body: {} }); setSecret(r.secret); hook.reload(); }} />
      <${Do} why=${can.configure} kind="danger" onClick=${() => ask(true)}>Delete<//></div>
    <${Failure} error=${hook.error} />
    ${h ? html`<div class="panel pad"><${Facts} of=${[
      ['Senders post to', html`<span class="mono">${address}</span> <${Copy} text=${address} />`], ['Topic', html`<a href=${link(['topics', h.topic])}>${h.topic}</a> · <a href=${link(['tail', h.topic])}>live tail</a>`], ['Created', date(h.created)],
      ['Id is in', html`<span class="mono">${h.id || '–'}</span>`], ['Known for', duration(h.windowMs)], h.key && ['Key is in', html`<span class="mono">${h.key}</span>`], h.type && ['Type is in', html`<span class="mono">${h.type}</span>`],
      h.username && ['User', h.username], h.headers?.length && ['Headers that are kept', h.headers.join(', ')], ['A body has at most', `${num(h.maxBytes)} bytes`],
      h.signatureHeader && ['Signature is in', html`<span class="mono">${h.signatureHeader}${h.signaturePrefix ? `, after ${h.signaturePrefix}` : ''}</span>`], h.algorithm && ['Signature', `${h.algorithm}, ${h.encoding}`],
      h.signed && ['What is signed', html`<span class="mono">${h.signed}</span>`], h.timestampHeader && ['Timestamp is in', html`<span class="mono">${h.timestampHeader}</span>`],
      ['Secrets', h.secrets.map((k) => html`<span class="mono">${k.hint}${k.until ? ` until ${date(k.until)}` : ''} </span>`)]]} /></div>` : null}
    ${asking ? html`<${Confirm} title="Delete hook" name=${name} verb="Delete" text="Its senders are refused from then on; the messages stay in the topic." close=${() => ask(false)} act=${async () => { await call(path, { method: 'DELETE' }); go(['hooks']); return `Hook ${name} is gone`; }} />` : null}
    ${secret ? html`<${Secret} secret=${secret} close=${() => setSecret(null)} />` : null}`;
}
