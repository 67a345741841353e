// What the console asks of the broker: calls, paging and polling.
import { useState, useEffect, useRef, useCallback } from './vendor/htm-preact.js';

// Problem is a refusal, as RFC 9457 has it.
export class Problem extends Error {
  constructor(status, p) {
    super(p.detail || p.title || `HTTP ${status}`);
    this.status = status;
    this.code = p.code || '';
  }
}

// Whole numbers that JavaScript cannot hold stay text, digit by digit.
const keepDigits = (_, v, context) =>
  typeof v === 'number' && !Number.isSafeInteger(v) && context && /^-?\d+$/.test(context.source) ? context.source : v;

export const parse = (text) => JSON.parse(text, keepDigits);

// loggedOut says what to do when the broker does not know any more who one is; what it gives stops that.
let out = null;
export function loggedOut(fn) {
  out = fn;
  return () => { out = null; };
}

// call sends a request; path is below this origin.
export async function call(path, { method = 'GET', body, headers, signal } = {}) {
  const init = { method, signal, headers: { Accept: 'application/json', ...headers }, credentials: 'same-origin' };
  if (body !== undefined) {
    const json = typeof body !== 'string' && !(body instanceof Uint8Array);
    init.body = json ? JSON.stringify(body) : body;
    init.headers['Content-Type'] ??= json ? 'application/json' : 'application/octet-stream';
  }
  let res;
  try {
    res = await fetch(path, init);
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw new Problem(0, { code: 'unreachable', detail: 'the broker does not answer' });
  }
  const text = await res.text();
  let v = null;
  try { v = text ? parse(text) : null; } catch { /* below */ }
  if (res.status === 401 && path.startsWith('/v1/')) out?.();
  if (!res.ok) throw new Problem(res.status, v || { detail: `HTTP ${res.status}` });
  return v;
}

// at is a path below /v1 in a namespace, with arguments; those that are empty are left out.
export function at(ns, path, args = {}) {
  const base = ns && ns !== 'default' ? `/v1/namespaces/${enc(ns)}` : '/v1';
  return withArgs(base + path, args);
}

export function withArgs(path, args) {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(args)) {
    if (v !== undefined && v !== null && v !== '') q.set(k, v);
  }
  const text = q.toString();
  return text ? `${path}?${text}` : path;
}

// events follows a stream of server-sent events, until signal ends it: data gets the text of each. It goes on behind where.id, the
// last one that came, when a connection breaks; failed is told why, and null when it is well again. A refusal that asking again does not
// change ends it.
export async function events(path, { signal, where, data, failed }) {
  while (!signal.aborted) {
    try {
      const res = await fetch(withArgs(path, { lastEventId: where.id }), { signal, headers: { Accept: 'text/event-stream' }, credentials: 'same-origin' });
      if (!res.ok) throw new Problem(res.status, await res.json().catch(() => ({ detail: `HTTP ${res.status}` })));
      failed(null);
      await eachEvent(res.body.getReader(), ({ id, event, text }) => {
        if (event === 'error') throw new Problem(503, parse(text));
        where.id = id || where.id;
        data(text);
      });
    } catch (e) {
      if (signal.aborted) return;
      failed(e instanceof Problem ? e : new Problem(0, { code: 'unreachable', detail: 'the broker does not answer' }));
      if (e instanceof Problem && e.status < 500) return;
    }
    await new Promise((done) => { setTimeout(done, 1000); });
  }
}

// eachEvent reads events until the stream ends. An event ends with an empty line.
async function eachEvent(reader, fn) {
  const decoder = new TextDecoder();
  let rest = '';
  let one = {};
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + decoder.decode(value, { stream: true })).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (line === '') {
        if (one.text !== undefined) fn(one);
        one = {};
      } else if (line.startsWith('id: ')) one.id = line.slice(4);
      else if (line.startsWith('event: ')) one.event = line.slice(7);
      else if (line.startsWith('data: ')) one.text = line.slice(6);
    }
  }
}

export const enc = encodeURIComponent;

// useLoad loads a path, again when it changes or when reload is called, and every so many ms. What was
// there stays while something newer is on its way.
export function useLoad(path, every = 0) {
  const [state, set] = useState({ path: null, data: null, error: null, loading: true });
  const [turn, setTurn] = useState(0);
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  useEffect(() => {
    if (!path) return undefined;
    const stop = new AbortController();
    let timer = 0;
    const load = async () => {
      if (document.hidden && every) {
        timer = setTimeout(load, every);
        return;
      }
      try {
        const data = await call(path, { signal: stop.signal });
        if (!stop.signal.aborted) set({ path, data, error: null, loading: false });
      } catch (error) {
        if (stop.signal.aborted) return;
        set((old) => ({ path, data: old.path === path ? old.data : null, error, loading: false }));
      }
      if (every && !stop.signal.aborted) timer = setTimeout(load, every);
    };
    set((old) => (old.path === path ? { ...old, loading: true } : { path, data: null, error: null, loading: true }));
    load();
    return () => { stop.abort(); clearTimeout(timer); };
  }, [path, every, turn]);
  return { ...state, data: state.path === path ? state.data : null, reload };
}

// usePages walks through a list that has cursors: make gives the path of a page.
export function usePages(make, key, every = 0) {
  const [where, setWhere] = useState({ key, cursors: [''] });
  const cursors = where.key === key ? where.cursors : [''];
  const cursor = cursors[cursors.length - 1];
  const page = useLoad(make(cursor), every);
  return {
    ...page,
    number: cursors.length,
    next: page.data?.next ? () => setWhere({ key, cursors: [...cursors, page.data.next] }) : null,
    back: cursors.length > 1 ? () => setWhere({ key, cursors: cursors.slice(0, -1) }) : null,
  };
}

// useSettled is a value that has not changed for a while: what somebody has finished typing.
export function useSettled(value, ms = 250) {
  const [settled, set] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => set(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

// useLatest is a reference to what a value is now, for callbacks that outlive it.
export function useLatest(value) {
  const ref = useRef(value);
  ref.current = value;
  return ref;
}
