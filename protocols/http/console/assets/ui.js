// The parts that screens are made of.
import { html, createContext, useContext, useState, useEffect, useRef } from './vendor/htm-preact.js';
import { num, count as counted, time, tokens, hex, bytesOf } from './format.js';

// link is the address of a screen of ours.
export const link = (path, args = {}) => {
  const q = new URLSearchParams(Object.entries(args).filter(([, v]) => v !== undefined && v !== null && v !== '')).toString();
  return `#/${path.map(encodeURIComponent).join('/')}${q ? `?${q}` : ''}`;
};

export const go = (path, args) => { location.hash = link(path, args); };

export const Badge = ({ kind = '', children, title }) => html`<span class=${`badge ${kind}`} title=${title}>${children}</span>`;

// Moment is a time; on a phone without its date.
export const Moment = ({ of }) => html`<span class="mono" title=${time(of)}><span class="wide-only">${time(of).slice(0, 11)}</span>${time(of).slice(11)}</span>`;

// states have the colours of what they mean.
const good = new Set(['active', 'Stable', 'delivered', 'ready', 'leader', 'closed']);
const bad = new Set(['disabled', 'refused', 'dead', 'Dead', 'Unknown']);
export const State = ({ of }) => html`<${Badge} kind=${good.has(of) ? 'good' : bad.has(of) ? 'bad' : of === 'Empty' ? '' : 'warn'}>${of}<//>`;

export const Failure = ({ error }) => (error ? html`<div class="failure" role="alert">${error.message}</div>` : null);

// Table shows rows; columns are {title, cell(row), num, grow, hide}. On a phone columns that hide are left out, and rows that are stacked
// have a line or so for each column.
export function Table({ columns, rows, keyOf, open, empty = 'There is nothing here.', error, label, stacked }) {
  return html`
    <div class=${stacked ? 'table-box stacked' : 'table-box'} aria-busy=${rows || error ? 'false' : 'true'}>
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
    <span>page ${pages.number}${count === undefined ? '' : ` · ${counted(count, 'row')}`}</span>
    <button onClick=${pages.next} disabled=${!pages.next}>Next →</button>
  </nav>`;

// Search is the box that the key / leads to.
export const Search = ({ value, set, label = 'Search' }) => html`
  <label class="search"><span class="sr">${label}</span>
    <input type="search" data-search placeholder=${`${label}…`} value=${value} onInput=${(e) => set(e.target.value)} spellcheck=${false} autocomplete="off" />
    <kbd>/</kbd></label>`;

// Field is something to be filled in; its name is the label alone, without the hint.
export const Field = ({ label, hint, children, wide }) => html`
  <div class=${`field ${wide ? 'wide' : ''}`}><label><span>${label}</span>${children}</label>${hint ? html`<small>${hint}</small>` : null}</div>`;

export function Tabs({ tabs, at, to }) {
  return html`<div class="tabs" role="tablist">${tabs.map(([id, name]) => html`
    <button role="tab" aria-selected=${id === at ? 'true' : 'false'} onClick=${() => to(id)}>${name}</button>`)}</div>`;
}

// Says is where, inside a dialog, it is said what went wrong.
const Says = createContext(null);

// Modal is a dialog over the page; Escape leaves it.
export function Modal({ title, close, children, wide }) {
  const ref = useRef();
  const [error, say] = useState(null);
  useEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    return () => before?.focus?.();
  }, []);
  useEffect(() => { if (error) ref.current.querySelector('.failure:last-child')?.scrollIntoView({ block: 'nearest' }); }, [error]);
  return html`
    <dialog ref=${ref} aria-label=${title} class=${wide ? 'wide' : ''} onCancel=${(e) => { e.preventDefault(); close(); }} onClick=${(e) => { if (e.target === ref.current) close(); }}>
      <div class="dialog">
        <header><h2>${title}</h2><button class="plain" onClick=${close} aria-label="Close">✕</button></header>
        <${Says.Provider} value=${say}>${children}<//>
        <${Failure} error=${error} />
      </div>
    </dialog>`;
}

// Do is a button for what one may do; of what one may not, it says why when it is pressed or pointed at.
export const Do = ({ why, kind = '', disabled, onClick, children }) => html`
  <button type="button" class=${kind} disabled=${disabled} aria-disabled=${why ? 'true' : undefined} title=${why || undefined} onClick=${why ? () => toast(why, true) : onClick}>${children}</button>`;

// Action does something, if one may; it says what came of it, a failure in its dialog where it is in one.
export function Action({ label, act, kind = '', why = '', done, disabled }) {
  const [busy, setBusy] = useState(false);
  const say = useContext(Says);
  const run = async () => {
    setBusy(true);
    say?.(null);
    try {
      const text = await act();
      if (text) toast(text);
      done?.();
    } catch (e) {
      if (say) say(e);
      else toast(e.message, true);
    }
    setBusy(false);
  };
  return html`<${Do} why=${why} kind=${kind} disabled=${busy || disabled} onClick=${run}>${busy ? '…' : label}<//>`;
}

// Confirm asks for the name of what is about to go.
export function Confirm({ title, name, text, verb, act, close }) {
  const [typed, set] = useState('');
  return html`
    <${Modal} title=${title} close=${close}>
      <p>${text}</p>
      <${Field} label=${html`Type <b>${name}</b> to go on`}><input value=${typed} onInput=${(e) => set(e.target.value)} autocomplete="off" spellcheck=${false} autofocus /><//>
      <footer><button onClick=${close}>Cancel</button>
        <${Action} label=${verb} kind="danger" disabled=${typed !== name} act=${act} done=${close} /></footer>
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
  const ref = useRef();
  useEffect(() => { // above dialogs, too
    if (!one) return;
    ref.current.hidePopover?.();
    ref.current.showPopover?.();
  }, [one]);
  return html`<div ref=${ref} class="toasts" popover="manual" role="status" aria-live="polite">${one ? html`<div class=${one.failed ? 'toast bad' : 'toast'}>${one.text}</div>` : null}</div>`;
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
