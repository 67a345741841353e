// Live tail: what a topic gets, as it comes.
import { html, useState, useEffect, useRef } from './vendor/htm-preact.js';
import { at, enc, parse, events, useLoad } from './api.js';
import { Detail } from './messages.js';
import { Failure, go } from './ui.js';
import { time, num } from './format.js';

const maxRows = 500;
const every = 500; // ms between two drawings
const maxText = 400; // characters of a value

// short is the beginning of a value.
const short = (m) => (m.value ?? (m.valueBase64 !== undefined ? `base64:${m.valueBase64}` : 'null')).slice(0, maxText);

// TailView follows a topic from its end on.
export function TailView({ ns, name }) {
  const [rows, set] = useState([]);
  const [seen, setSeen] = useState(0);
  const [paused, pause] = useState(false);
  const [filter, setFilter] = useState('');
  const [error, setError] = useState(null);
  const [open, setOpen] = useState(null);
  const where = useRef({ id: null });
  const box = useRef();
  useEffect(() => {
    if (paused) return undefined;
    const stop = new AbortController();
    let came = []; // since the last drawing: of a busy topic only the last ones are read
    let n = 0;
    const draw = () => {
      if (n === 0) return;
      const [fresh, more] = [came.slice(-maxRows).map(parse), n];
      [came, n] = [[], 0];
      setSeen((old) => old + more);
      set((old) => [...old, ...fresh].slice(-maxRows));
    };
    const timer = setInterval(draw, every);
    events(at(ns, `/topics/${enc(name)}/stream`), {
      signal: stop.signal,
      where: where.current,
      failed: setError,
      data: (text) => {
        n += 1;
        came.push(text);
        if (came.length > 2 * maxRows) came = came.slice(-maxRows);
      },
    });
    return () => { stop.abort(); clearInterval(timer); draw(); };
  }, [ns, name, paused]);
  useEffect(() => { if (!paused && box.current) box.current.scrollTop = box.current.scrollHeight; }, [rows]);
  const wanted = filter.toLowerCase();
  const shown = wanted ? rows.filter((m) => `${m.key ?? ''} ${m.value ?? ''}`.toLowerCase().includes(wanted)) : rows;
  return html`
    <div class="tools"><button onClick=${() => pause(!paused)}>${paused ? '▶ Go on' : '❚❚ Pause'}</button><button onClick=${() => set([])}>Clear</button>
      <label class="search"><span class="sr">Only with</span><input type="search" data-search placeholder="Only with…" value=${filter} onInput=${(e) => setFilter(e.target.value)} spellcheck=${false} /><kbd>/</kbd></label>
      <span class="dim">${num(seen)} came, the last ${num(shown.length)} are shown</span></div>
    <${Failure} error=${error} />
    <div class="tail" ref=${box} role="log" aria-label="Messages">
      ${shown.length === 0 ? html`<div class="t">${wanted ? 'Nothing has that in it.' : 'Waiting for messages…'}</div>` : null}
      ${shown.map((m) => html`<div key=${m.id} onClick=${() => setOpen(m.id)}><span class="t">${time(m.timestamp, false)}</span> <span class="p">${m.id}</span> ${m.key !== undefined ? html`<span class="k">${m.key}</span> ` : null}${short(m)}</div>`)}
    </div>
    ${open ? html`<${Detail} title=${`${name} · ${open}`} ns=${ns} path=${at(ns, `/topics/${enc(name)}/messages/${enc(open)}`, { maxValueBytes: 1 << 20 })} pick=${(d) => d} close=${() => setOpen(null)} />` : null}`;
}

// Tail asks which topic first.
export function Tail({ route, ns }) {
  const [name, set] = useState(route.path[1] || '');
  const topics = useLoad(at(ns, '/topics', { limit: 200, search: name === route.path[1] ? '' : name }));
  return html`
    <div class="head"><h1>Live tail</h1>
      <input list="tail-topics" aria-label="Topic" placeholder="Topic…" value=${name} onInput=${(e) => set(e.target.value)} onChange=${(e) => e.target.value && go(['tail', e.target.value])} spellcheck=${false} />
      <datalist id="tail-topics">${(topics.data?.topics || []).map((t) => html`<option value=${t.name} />`)}</datalist><button onClick=${() => name && go(['tail', name])}>Follow</button></div>
    ${route.path[1] ? html`<${TailView} key=${route.path[1]} ns=${ns} name=${route.path[1]} />` : html`<div class="panel hint">Name a topic, and what it gets is shown as it comes.</div>`}`;
}
