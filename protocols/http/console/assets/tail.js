// Live tail: what a topic gets, as it comes.
import { html, useState, useEffect, useRef } from './vendor/htm-preact.js';
import { call, at, enc, useLoad, useLatest } from './api.js';
import { Detail } from './messages.js';
import { Failure, go } from './ui.js';
import { time, num } from './format.js';

const maxRows = 500;
const every = 700; // ms between looks
const maxPartitions = 32;

// TailView follows a topic from its end on.
export function TailView({ ns, name }) {
  const [rows, set] = useState([]);
  const [seen, setSeen] = useState(0);
  const [paused, pause] = useState(false);
  const [filter, setFilter] = useState('');
  const [error, setError] = useState(null);
  const [open, setOpen] = useState(null);
  const isPaused = useLatest(paused);
  const box = useRef();
  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    let timer = 0;
    let ends = null; // offset that comes next, by partition
    const look = async () => {
      try {
        const t = await call(at(ns, `/topics/${enc(name)}`), { signal });
        const ranges = t.ranges.slice(0, maxPartitions);
        const before = ends;
        ends ||= {};
        if (!before) for (const r of ranges) ends[r.partition] = r.end;
        else if (!isPaused.current && !document.hidden) {
          const fresh = (await Promise.all(ranges.map(async (r) => {
            const from = Math.max(ends[r.partition] ?? r.start, r.start, r.end - maxRows);
            if (from >= r.end) return [];
            const got = await call(at(ns, `/topics/${enc(name)}/messages`, { partition: r.partition, offset: from, limit: maxRows, maxValueBytes: 400 }), { signal });
            ends[r.partition] = got.messages.length ? Math.max(got.messages[got.messages.length - 1].offset + 1, from) : r.end;
            return got.messages;
          }))).flat().sort((a, b) => (a.timestamp < b.timestamp ? -1 : 1));
          if (fresh.length) {
            setSeen((n) => n + fresh.length);
            set((old) => [...old, ...fresh].slice(-maxRows));
          }
        }
        setError(null);
      } catch (e) {
        if (signal.aborted) return;
        setError(e);
      }
      if (!signal.aborted) timer = setTimeout(look, every);
    };
    look();
    return () => { stop.abort(); clearTimeout(timer); };
  }, [ns, name]);
  useEffect(() => { if (!paused && box.current) box.current.scrollTop = box.current.scrollHeight; }, [rows]);
  const wanted = filter.toLowerCase();
  const shown = wanted ? rows.filter((m) => `${m.key ?? ''} ${m.value ?? ''}`.toLowerCase().includes(wanted)) : rows;
  return html`
    <div class="tools"><button onClick=${() => pause(!paused)}>${paused ? '▶ Go on' : '❚❚ Pause'}</button><button onClick=${() => set([])}>Clear</button>
      <label class="search"><span class="sr">Only with</span><input type="search" data-search placeholder="Only with…" value=${filter} onInput=${(e) => setFilter(e.target.value)} spellcheck="false" /><kbd>/</kbd></label>
      <span class="dim">${num(seen)} came, the last ${num(shown.length)} are shown</span></div>
    <${Failure} error=${error} />
    <div class="tail" ref=${box} role="log" aria-label="Messages">
      ${shown.length === 0 ? html`<div class="t">${wanted ? 'Nothing has that in it.' : 'Waiting for messages…'}</div>` : null}
      ${shown.map((m) => html`<div key=${m.id} onClick=${() => setOpen(m.id)}><span class="t">${time(m.timestamp, false)}</span> <span class="p">${m.id}</span> ${m.key !== undefined ? html`<span class="k">${m.key}</span> ` : null}${m.value ?? (m.valueBase64 ? `base64:${m.valueBase64}` : 'null')}</div>`)}
    </div>
    ${open ? html`<${Detail} title=${`${name} · ${open}`} ns=${ns} path=${at(ns, `/topics/${enc(name)}/messages/${enc(open)}`, { maxValueBytes: 1 << 20 })} pick=${(d) => d} close=${() => setOpen(null)} />` : null}`;
}

// Tail asks which topic first.
export function Tail({ route, ns }) {
  const [name, set] = useState(route.path[1] || '');
  const topics = useLoad(at(ns, '/topics', { limit: 200, search: name === route.path[1] ? '' : name }));
  return html`
    <div class="head"><h1>Live tail</h1>
      <input list="tail-topics" aria-label="Topic" placeholder="Topic…" value=${name} onInput=${(e) => set(e.target.value)} onChange=${(e) => e.target.value && go(['tail', e.target.value])} spellcheck="false" />
      <datalist id="tail-topics">${(topics.data?.topics || []).map((t) => html`<option value=${t.name} />`)}</datalist><button onClick=${() => name && go(['tail', name])}>Follow</button></div>
    ${route.path[1] ? html`<${TailView} key=${route.path[1]} ns=${ns} name=${route.path[1]} />` : html`<div class="panel hint">Name a topic, and what it gets is shown as it comes.</div>`}`;
}
