// The form that publishes.
import { html, useState } from './vendor/htm-preact.js';
import { call, at, enc, useSettled } from './api.js';
import { useCan } from './who.js';
import { Field, Action, link } from './ui.js';
import { num } from './format.js';

const kinds = { topics: 'topic', queues: 'queue', exchanges: 'exchange' };

// PublishForm publishes to something that is chosen, or that one names.
export function PublishForm({ ns, who, kind: fixed, name: given }) {
  const [f, set] = useState({ kind: fixed || 'topics', name: given || '', form: 'text', value: '', key: '', partition: '', routingKey: '', headers: '', tag: '', contentType: '', delayMs: '', ttlMs: '', messageId: '', copies: '1' });
  const [results, setResults] = useState(null);
  const on = (key) => (e) => set({ ...f, [key]: e.target.value });
  const kind = fixed || f.kind;
  const name = given || f.name;
  const can = useCan(who, ns, useSettled(name));
  const act = async () => {
    const m = {};
    if (f.form === 'base64') m.valueBase64 = f.value.replace(/\s/g, '');
    else if (f.form !== 'null') m.value = f.value;
    else m.value = null;
    if (f.key !== '') m.key = f.key;
    if (f.partition !== '') m.partition = Number(f.partition);
    for (const k of ['routingKey', 'tag', 'contentType', 'messageId']) if (f[k] !== '') m[k] = f[k];
    if (f.form === 'json') m.contentType ||= 'application/json';
    for (const k of ['delayMs', 'ttlMs']) if (f[k] !== '') m[k] = Number(f[k]);
    const headers = f.headers.split('\n').map((l) => l.trim()).filter(Boolean).map((l) => { const i = l.indexOf('='); if (i < 1) throw new Error(`Headers: “${l}” is not name=value`); return { name: l.slice(0, i), value: l.slice(i + 1) }; });
    if (headers.length) m.headers = headers;
    if (f.form === 'json') { try { JSON.parse(f.value); } catch (e) { throw new Error(`That is no JSON: ${e.message}`); } }
    const n = Math.min(Math.max(Number(f.copies) || 1, 1), 1000);
    const r = await call(at(ns, `/${kind}/${enc(name)}/messages`), { method: 'POST', body: { messages: Array(n).fill(m) } });
    setResults(r.results);
    const bad = r.results.filter((x) => x.status !== 200);
    if (bad.length) throw new Error(bad[0].detail || `${bad.length} were refused`);
    return `${num(n)} ${n === 1 ? 'message is' : 'messages are'} in the log`;
  };
  const ok = (results || []).filter((r) => r.status === 200);
  return html`
    <div class="panel pad"><form onSubmit=${(e) => e.preventDefault()}><div class="grid">
      ${fixed ? null : html`<${Field} label="To"><select value=${f.kind} onChange=${on('kind')}>${Object.entries(kinds).map(([k, n]) => html`<option value=${k}>${n}</option>`)}</select><//><${Field} label="Its name"><input value=${f.name} onInput=${on('name')} spellcheck=${false} autocomplete="off" /><//>`}
      <${Field} label="Value as"><select value=${f.form} onChange=${on('form')}><option value="text">text</option><option value="json">JSON</option><option value="base64">base64</option><option value="null">null (a tombstone)</option></select><//>
      <${Field} label="Value" wide><textarea aria-label="Value" value=${f.value} onInput=${on('value')} disabled=${f.form === 'null'} spellcheck=${false}></textarea><//>
      <${Field} label="Key"><input value=${f.key} onInput=${on('key')} spellcheck=${false} /><//>
      ${kind === 'topics' ? html`<${Field} label="Partition" hint="Empty: by the key."><input inputmode="numeric" value=${f.partition} onInput=${on('partition')} /><//>` : null}
      ${kind === 'exchanges' ? html`<${Field} label="Routing key" hint="Empty: the key."><input value=${f.routingKey} onInput=${on('routingKey')} spellcheck=${false} /><//>` : null}
      <${Field} label="Headers" hint="One name=value a line." wide><textarea class="low" value=${f.headers} onInput=${on('headers')} spellcheck=${false}></textarea><//></div>
      <details><summary>More: type, tag, id, delay, time to live, copies</summary><div class="grid">
      <${Field} label="Content type"><input value=${f.contentType} onInput=${on('contentType')} spellcheck=${false} placeholder=${f.form === 'json' ? 'application/json' : ''} /><//>
      <${Field} label="Tag"><input value=${f.tag} onInput=${on('tag')} /><//><${Field} label="Message id"><input value=${f.messageId} onInput=${on('messageId')} spellcheck=${false} /><//>
      <${Field} label="Delay, ms"><input inputmode="numeric" value=${f.delayMs} onInput=${on('delayMs')} /><//><${Field} label="Time to live, ms"><input inputmode="numeric" value=${f.ttlMs} onInput=${on('ttlMs')} /><//>
      <${Field} label="Copies" hint="Up to 1,000."><input inputmode="numeric" value=${f.copies} onInput=${on('copies')} /><//></div></details>
      <p class="row"><${Action} kind="primary" label="Publish" why=${can.write} disabled=${!name} act=${act} />${can.write ? html`<span class="dim">${can.write}.</span>` : null}
        ${ok.length ? html`<span>Stored as ${ok.slice(0, 5).map((r) => (kind === 'topics' ? html`<a href=${link(['messages', name], { id: r.id })}>${r.id}</a> ` : `${r.id || ''} `))}${ok.length > 5 ? `and ${num(ok.length - 5)} more` : ''}${kind === 'exchanges' ? `, in ${num(ok[0].queues)} queues` : ''}</span>` : null}</p></form></div>`;
}

export const Publish = ({ ns, who }) => html`<div class="head"><h1>Publish</h1><span class="dim">A topic that does not exist is made, where the broker allows that.</span></div><${PublishForm} ns=${ns} who=${who} />`;
