// The console: its frame, where one is in it, who one is, and the keys.
import { html, render, useState, useEffect, useRef } from './vendor/htm-preact.js';
import { call, useLoad, useSettled, at } from './api.js';
import { link, go, Modal, Field, Toasts, toast } from './ui.js';
import { Overview } from './overview.js';
import { Topics } from './topics.js';
import { Messages } from './messages.js';
import { Queues } from './queues.js';
import { Groups } from './groups.js';
import { Exchanges } from './exchanges.js';
import { Subscriptions } from './subscriptions.js';
import { Hooks } from './hooks.js';
import { Connections } from './connections.js';
import { Cluster } from './cluster.js';
import { Publish } from './publish.js';
import { Tail } from './tail.js';

const screens = [
  ['overview', 'Overview', Overview, 'o'],
  ['topics', 'Topics', Topics, 't'],
  ['messages', 'Messages', Messages, 'm'],
  ['queues', 'Queues', Queues, 'q'],
  ['exchanges', 'Exchanges', Exchanges, 'e'],
  ['groups', 'Groups', Groups, 'g'],
  ['subscriptions', 'Subscriptions', Subscriptions, 's'],
  ['hooks', 'Hooks', Hooks, 'h'],
  ['connections', 'Connections', Connections, 'c'],
  ['cluster', 'Cluster', Cluster, 'n'],
  ['publish', 'Publish', Publish, 'p'],
  ['tail', 'Live tail', Tail, 'l'],
];

function useRoute() {
  const read = () => {
    const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
    const parts = path.split('/').filter(Boolean).map((p) => { try { return decodeURIComponent(p); } catch { return p; } });
    return { path: parts.length ? parts : ['overview'], query: new URLSearchParams(query || '') };
  };
  const [route, set] = useState(read);
  useEffect(() => {
    const on = () => { set(read()); window.scrollTo(0, 0); };
    addEventListener('hashchange', on);
    return () => removeEventListener('hashchange', on);
  }, []);
  return route;
}

const kept = (key, first) => { try { return localStorage.getItem(key) || first; } catch { return first; } };
const keep = (key, value) => { try { localStorage.setItem(key, value); } catch { /* private windows */ } };

function useTheme() {
  const wanted = matchMedia('(prefers-color-scheme: light)').matches ? 'light' : 'dark';
  const [theme, set] = useState(() => kept('polylog-theme', wanted));
  document.documentElement.dataset.theme = theme;
  return [theme, () => { const next = theme === 'dark' ? 'light' : 'dark'; keep('polylog-theme', next); set(next); }];
}

function Login({ session, close, reload }) {
  const [token, set] = useState('');
  const [user, setUser] = useState('');
  const [error, setError] = useState(null);
  const send = async (body) => {
    try {
      await call('session', { method: 'POST', body });
      toast('You may change things now');
      reload();
      close();
    } catch (e) {
      setError(e);
    }
  };
  return html`
    <${Modal} title=${session.hasToken || session.hasUsers ? 'Log in' : 'Unlock the console'} close=${close}>
      ${session.hasUsers ? html`
        <form onSubmit=${(e) => { e.preventDefault(); send({ user, password: token }); }}>
          <${Field} label="User"><input value=${user} onInput=${(e) => setUser(e.target.value)} autocomplete="username" autofocus /><//>
          <${Field} label="Password"><input type="password" value=${token} onInput=${(e) => set(e.target.value)} autocomplete="current-password" /><//>
          <footer><button type="button" onClick=${close}>Cancel</button><button class="primary" disabled=${!user || !token}>Log in</button></footer>
        </form>` : session.hasToken ? html`
        <form onSubmit=${(e) => { e.preventDefault(); send({ token }); }}>
          <${Field} label="Token" hint="The first line of the file that console-token-file names."><input type="password" value=${token} onInput=${(e) => set(e.target.value)} autocomplete="current-password" autofocus /><//>
          <footer><button type="button" onClick=${close}>Cancel</button><button class="primary" disabled=${!token}>Log in</button></footer>
        </form>` : session.canUnlock ? html`
        <p>This broker has no users yet, and only this machine reaches it. Once unlocked, this browser may publish, change and delete, for twelve hours.</p>
        <footer><button onClick=${close}>Stay read-only</button><button class="primary" onClick=${() => send({ unlock: true })}>Unlock</button></footer>` : html`
        <p>Nobody can log in: other machines reach this broker, and it has no <code>console-token-file</code>.</p>`}
      ${error ? html`<div class="failure" role="alert">${error.message}</div>` : null}
    <//>`;
}

// Palette finds screens, topics and queues by what is typed.
function Palette({ ns, close }) {
  const [text, set] = useState('');
  const [chosen, choose] = useState(0);
  const ref = useRef();
  const search = useSettled(text.trim(), 150);
  const topics = useLoad(search ? at(ns, '/topics', { search, limit: 8 }) : null);
  const queues = useLoad(search ? at(ns, '/queues', { search, limit: 8 }) : null);
  useEffect(() => { ref.current.showModal(); }, []);
  const found = [
    ...screens.filter(([, name]) => name.toLowerCase().includes(text.trim().toLowerCase())).map(([id, name]) => [name, 'screen', [id]]),
    ...(topics.data?.topics || []).map((t) => [t.name, 'topic', ['topics', t.name]]),
    ...(queues.data?.queues || []).map((q) => [q.name, 'queue', ['queues', q.name]]),
  ];
  const n = Math.min(chosen, found.length - 1);
  const open = (path) => { close(); go(path); };
  const key = (e) => {
    if (e.key === 'ArrowDown') choose(Math.min(n + 1, found.length - 1));
    else if (e.key === 'ArrowUp') choose(Math.max(n - 1, 0));
    else if (e.key === 'Enter' && found[n]) open(found[n][2]);
    else return;
    e.preventDefault();
  };
  return html`
    <dialog class="palette" ref=${ref} onCancel=${(e) => { e.preventDefault(); close(); }} onClick=${(e) => { if (e.target === ref.current) close(); }}>
      <input aria-label="Go to" placeholder="Go to a screen, topic or queue…" value=${text} onInput=${(e) => { set(e.target.value); choose(0); }} onKeyDown=${key} spellcheck="false" autofocus />
      <ul role="listbox">${found.map(([name, kind, path], i) => html`<li role="option" aria-selected=${i === n ? 'true' : 'false'} onClick=${() => open(path)}><span>${name}</span><span class="dim">${kind}</span></li>`)}
        ${found.length === 0 ? html`<li class="dim">Nothing has that in its name.</li>` : null}</ul>
    </dialog>`;
}

const keys = [['/', 'search in this screen'], ['Ctrl K', 'go to anything'], ['g', 'then a letter: go to a screen'], ['d', 'dark or light'], ['?', 'these keys']];

function Help({ close }) {
  return html`<${Modal} title="Keys" close=${close}><table><tbody>
    ${keys.map(([k, what]) => html`<tr><td><kbd>${k}</kbd></td><td class="grow">${what}</td></tr>`)}
    ${screens.map(([, name, , k]) => html`<tr><td><kbd>g</kbd> <kbd>${k}</kbd></td><td class="grow">${name}</td></tr>`)}
  </tbody></table><//>`;
}

function App() {
  const route = useRoute();
  const [theme, turnTheme] = useTheme();
  const [ns, setNs] = useState(() => kept('polylog-namespace', 'default'));
  const [over, setOver] = useState(null); // login, palette, help
  const [menu, setMenu] = useState(false);
  const session = useLoad('session', 60000);
  const overview = useLoad('/v1/admin/overview', 5000);
  const namespaces = useLoad('/v1/namespaces');
  const may = !!session.data?.loggedIn;

  useEffect(() => {
    let prefix = 0;
    const on = (e) => {
      if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === 'k') {
        e.preventDefault();
        setOver('palette');
        return;
      }
      if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.('input,textarea,select,dialog')) return;
      if (Date.now() - prefix < 1500) {
        prefix = 0;
        const s = screens.find(([, , , k]) => k === e.key);
        if (s) { e.preventDefault(); go([s[0]]); }
        return;
      }
      if (e.key === 'g') prefix = Date.now();
      else if (e.key === '?') setOver('help');
      else if (e.key === 'd') turnTheme();
      else if (e.key === '/') {
        const box = document.querySelector('[data-search]');
        if (box) { e.preventDefault(); box.focus(); box.select(); }
      }
    };
    addEventListener('keydown', on);
    return () => removeEventListener('keydown', on);
  }, [theme]);

  const [, , Screen] = screens.find(([id]) => id === route.path[0]) || screens[0];
  const o = overview.data;
  useEffect(() => {
    document.title = `${route.path.slice(1).join(' / ') || (screens.find(([id]) => id === route.path[0]) || screens[0])[1]} · Polylog${o ? ` ${o.node}` : ''}`;
  }, [route, o?.node]);
  const pickNs = (name) => { keep('polylog-namespace', name); setNs(name); };
  const logout = async () => { await call('session', { method: 'DELETE' }); session.reload(); };
  const names = [...new Set(['default', ns, ...(namespaces.data?.namespaces || []).map((n) => n.name)])];

  return html`
    <div class="shell">
      <nav class=${menu ? 'side open' : 'side'} aria-label="Screens" onClick=${() => setMenu(false)}>
        <a class="brand" href="#/overview"><img src="icon.svg" alt="" />Polylog
          <button class="menu" aria-label="Menu" onClick=${(e) => { e.preventDefault(); e.stopPropagation(); setMenu(!menu); }}>☰</button></a>
        <div class="items">${screens.map(([id, name, , k]) => html`<a class="item" href=${link([id])} aria-current=${route.path[0] === id ? 'page' : undefined}><span>${name}</span><kbd>${k}</kbd></a>`)}</div>
        <div class="foot">${o ? html`node <b>${o.node}</b><br />${o.version || 'unversioned'}` : ' '}</div>
      </nav>
      <div class="main">
        <header class="top">
          <span class=${`dot ${overview.error ? 'bad' : o?.ready ? 'good' : 'warn'}`}></span>
          <span class="dim">${overview.error ? overview.error.message : o ? (o.ready ? (o.leader === o.node ? 'leads' : `follows ${o.leader || 'nobody'}`) : (o.reasons || []).join(', ')) : ' '}</span>
          <span class="space"></span>
          <button class="hide-small" onClick=${() => setOver('palette')}>Go to <kbd>Ctrl K</kbd></button>
          <select aria-label="Namespace" value=${ns} onChange=${(e) => pickNs(e.target.value)}>${names.map((n) => html`<option value=${n}>${n}</option>`)}</select>
          <button onClick=${turnTheme} aria-label="Dark or light" title="Dark or light (d)">${theme === 'dark' ? '☀' : '☾'}</button>
          ${may ? html`<button onClick=${logout} title="Give the right to change things up">Log out</button>` : html`<button onClick=${() => setOver('login')} disabled=${!session.data} data-login>Read-only</button>`}
        </header>
        <main class="page" id="page"><${Screen} key=${`${route.path[0]}/${ns}`} route=${route} ns=${ns} may=${may} theme=${theme} overview=${o} /></main>
      </div>
      ${over === 'login' ? html`<${Login} session=${session.data} close=${() => setOver(null)} reload=${session.reload} />` : null}
      ${over === 'palette' ? html`<${Palette} ns=${ns} close=${() => setOver(null)} />` : null}
      ${over === 'help' ? html`<${Help} close=${() => setOver(null)} />` : null}
      <${Toasts} />
    </div>`;
}

render(html`<${App} />`, document.getElementById('app'));
