// The parts that screens are made of.
import { html, useState, useEffect, useRef } from './vendor/htm-preact.js';
import { num } from './format.js';
import { tokens, hex, bytesOf } from './format.js';

// link is the address of a screen of ours.
export const link = (path, args = {}) => {
  const q = new URLSearchParams(Object.entries(args).filter(([, v]) => v !== undefined && v !== null && v !== '')).toString();
  return `#/${path.map(encodeURIComponent).join('/')}${q ? `?${q}` : ''}`;
};

export const go = (path, args) => { location.hash = link(path, args); };

export const Badge = ({ kind = '', children, title }) => html`<span class=${`badge ${kind}`} title=${title}>${children}</span>`;

// states have the colours of what they mean.
const good = new Set(['active', 'Stable', 'delivered', 'ready', 'leader', 'closed']);
const bad = new Set(['disabled', 'dead', 'Dead', 'Unknown']);
export const State = ({ of }) => html`<${Badge} kind=${good.has(of) ? 'good' : bad.has(of) ? 'bad' : of === 'Empty' ? '' : 'warn'}>${of}<//>`;

export const Failure = ({ error }) => (error ? html`<div class="failure" role="alert">${error.message}</div>` : null);

// Table shows rows; columns are {title, cell(row), num, grow, hide}. It is as high while it loads as it
// was before, so that nothing jumps.
export function Table({ columns, rows, keyOf, open, empty = 'There is nothing here.', loading, error, label }) {
  return html`
    <div class="table-box" aria-busy=${loading ? 'true' : 'false'}>
      <table aria-label=${label}>
        <thead><tr>${columns.map((c) => html`<th class=${classOf(c)} scope="col">${c.title}</th>`)}</tr></thead>
        <tbody>
          ${(rows || []).map((r) => html`
            <tr key=${keyOf(r)} class=${open ? 'opens' : ''} tabindex=${open ? 0 : undefined}
              onClick=${open ? (e) => { if (!e.target.closest('a,button,input')) open(r); } : undefined}
              onKeyDown=${open ? (e) => { if (e.key === 'Enter' && e.target === e.currentTarget) open(r); } : undefined}>
              ${columns.map((c) => html`<td class=${classOf(c)} data-title=${c.title}>${c.cell(r)}</td>`)}
            </tr>`)}
        </tbody>
      </table>
      ${error ? html`<${Failure} error=${error} />` : null}
      ${!rows && !error ? html`<div class="hint">Loading…</div>` : null}
      ${rows && rows.length === 0 ? html`<div class="hint">${empty}</div>` : null}
    </div>`;
}

const classOf = (c) => [c.num && 'num', c.grow && 'grow', c.hide && 'wide-only', c.mono && 'mono'].filter(Boolean).join(' ');

// Pager walks through pages.
export const Pager = ({ pages, count }) => html`
  <nav class="pager" aria-label="Pages">
    <button onClick=${pages.back} disabled=${!pages.back}>← Back</button>
    <span>page ${pages.number}${count === undefined ? '' : ` · ${num(count)} rows`}</span>
    <button onClick=${pages.next} disabled=${!pages.next}>Next →</button>
  </nav>`;

// Search is the box that the key / leads to.
export const Search = ({ value, set, label = 'Search' }) => html`
  <label class="search"><span class="sr">${label}</span>
    <input type="search" data-search placeholder=${`${label}…`} value=${value} onInput=${(e) => set(e.target.value)} spellcheck="false" autocomplete="off" />
    <kbd>/</kbd></label>`;

export const Field = ({ label, hint, children, wide }) => html`
  <label class=${`field ${wide ? 'wide' : ''}`}><span>${label}</span>${children}${hint ? html`<small>${hint}</small>` : null}</label>`;

export function Tabs({ tabs, at, to }) {
  return html`<div class="tabs" role="tablist">${tabs.map(([id, name]) => html`
    <button role="tab" aria-selected=${id === at ? 'true' : 'false'} onClick=${() => to(id)}>${name}</button>`)}</div>`;
}

// Modal is a dialog over the page; Escape leaves it.
export function Modal({ title, close, children, wide }) {
  const ref = useRef();
  useEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`
    <dialog ref=${ref} class=${wide ? 'wide' : ''} onCancel=${(e) => { e.preventDefault(); close(); }} onClick=${(e) => { if (e.target === ref.current) close(); }}>
      <div class="dialog">
        <header><h2>${title}</h2><button class="plain" onClick=${close} aria-label="Close">✕</button></header>
        ${children}
      </div>
    </dialog>`;
}

// Action is a button that does something; it says what came of it.
export function Action({ label, act, kind = '', may, done, disabled }) {
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      const text = await act();
      if (text) toast(text);
      done?.();
    } catch (e) {
      toast(e.message, true);
    }
    setBusy(false);
  };
  return html`<button class=${kind} disabled=${busy || disabled || !may} title=${may ? '' : 'Log in to change anything'} onClick=${run}>${busy ? '…' : label}</button>`;
}

// Confirm asks for the name of what is about to go.
export function Confirm({ title, name, text, verb, act, close }) {
  const [typed, set] = useState('');
  return html`
    <${Modal} title=${title} close=${close}>
      <p>${text}</p>
      <${Field} label=${html`Type <b>${name}</b> to go on`}><input value=${typed} onInput=${(e) => set(e.target.value)} autocomplete="off" spellcheck="false" autofocus /><//>
      <footer><button onClick=${close}>Cancel</button>
        <${Action} label=${verb} kind="danger" may=${true} disabled=${typed !== name} act=${act} done=${close} /></footer>
    <//>`;
}

// toast says something for a moment.
let show = null;
export function toast(text, failed = false) { show?.({ text, failed, at: Date.now() }); }

export function Toasts() {
  const [one, set] = useState(null);
  show = set;
  useEffect(() => {
    if (!one) return undefined;
    const timer = setTimeout(() => set(null), one.failed ? 8000 : 4000);
    return () => clearTimeout(timer);
  }, [one]);
  return html`<div class="toasts" role="status" aria-live="polite">${one ? html`<div class=${one.failed ? 'toast bad' : 'toast'}>${one.text}</div>` : null}</div>`;
}

// Copy puts text on the clipboard.
export const Copy = ({ text, label = 'Copy' }) => html`<button class="plain small" onClick=${async (e) => {
  e.stopPropagation();
  try {
    await navigator.clipboard.writeText(text);
    toast('Copied');
  } catch {
    toast('The browser does not allow that', true);
  }
}}>${label}</button>`;

// Secret shows one that was made just now.
export const Secret = ({ secret, close }) => html`<${Modal} title="The secret" close=${close}><p>This is the only time that it is shown. Signatures are made and checked with it.</p><pre class="code wrap">${secret}</pre><footer><${Copy} text=${secret} /><button class="primary" onClick=${close}>Done</button></footer><//>`;

// Payload shows a value as JSON, text or bytes.
export function Payload({ text, base64, size }) {
  const json = text !== undefined && text !== null && text.length < 2 << 20 ? tokens(text) : null;
  const [chosen, choose] = useState(null);
  const view = chosen || (base64 ? 'hex' : json ? 'json' : 'text');
  if (text === undefined && base64 === undefined) return html`<p class="hint">The value is null.</p>`;
  const b = bytesOf(text, base64);
  const views = [['json', 'JSON', json], ['text', 'Text', true], ['hex', 'Hex', true]].filter((v) => v[2]);
  return html`
    <div class="payload">
      <div class="row"><${Tabs} tabs=${views} at=${view} to=${choose} /><span class="dim">${num(size || b.length)} bytes${size ? `, ${num(b.length)} shown` : ''}</span>
        <${Copy} text=${text ?? base64} label=${base64 ? 'Copy base64' : 'Copy'} /></div>
      ${view === 'json' ? html`<pre class="code">${json.map(([kind, t]) => (kind ? html`<span class=${`j-${kind}`}>${t}</span>` : t))}</pre>` : null}
      ${view === 'text' ? html`<pre class="code wrap">${text ?? new TextDecoder().decode(b)}</pre>` : null}
      ${view === 'hex' ? html`<pre class="code">${hex(b) || 'empty'}</pre>` : null}
    </div>`;
}

export const Facts = ({ of }) => html`<dl class="facts">${of.filter(Boolean).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
