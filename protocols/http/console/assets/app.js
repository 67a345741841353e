// The console: its frame, where one is in it, who one is, and the keys.
import { html, render, useState, useEffect, useRef } from './vendor/htm-preact.js';
import { call, useLoad, useSettled, at, loggedOut } from './api.js';
import { link, go, Modal, Failure, Toasts } from './ui.js';
import { useWho, canIn } from './who.js';
import { Account, Login, LoginPage, OwnPassword, isChanging } from './account.js';
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
import { Users } from './users.js';

// screens are {id, name, Screen, key}, in groups; needs is what one has to be to be offered it.
const screens = [
  { id: 'overview', name: 'Overview', Screen: Overview, key: 'o', needs: 'monitors' },
  { id: 'topics', name: 'Topics', Screen: Topics, key: 't', group: 'Messages' },
  { id: 'messages', name: 'Messages', Screen: Messages, key: 'm', group: 'Messages' },
  { id: 'tail', name: 'Live tail', Screen: Tail, key: 'l', group: 'Messages' },
  { id: 'publish', name: 'Publish', Screen: Publish, key: 'p', group: 'Messages' },
  { id: 'queues', name: 'Queues', Screen: Queues, key: 'q', group: 'Delivery' },
  { id: 'exchanges', name: 'Exchanges', Screen: Exchanges, key: 'e', group: 'Delivery' },
  { id: 'groups', name: 'Groups', Screen: Groups, key: 'g', group: 'Delivery', needs: 'monitors' },
  { id: 'subscriptions', name: 'Subscriptions', Screen: Subscriptions, key: 's', group: 'Delivery' },
  { id: 'hooks', name: 'Hooks', Screen: Hooks, key: 'h', group: 'Delivery' },
  { id: 'connections', name: 'Connections', Screen: Connections, key: 'c', group: 'Broker', needs: 'monitors' },
  { id: 'cluster', name: 'Cluster', Screen: Cluster, key: 'n', group: 'Broker', needs: 'monitors' },
  { id: 'users', name: 'Users', Screen: Users, key: 'u', group: 'Broker', needs: 'administrator' },
];

const offered = (who) => screens.filter((s) => !s.needs || who[s.needs]);

function useRoute() {
  const read = () => {
    const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
    const parts = path.split('/').filter(Boolean).map((p) => { try { return decodeURIComponent(p); } catch { return p; } });
    return { path: parts, query: new URLSearchParams(query || '') };
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

// Palette finds screens, topics and queues by what is typed.
function Palette({ ns, who, close }) {
  const [text, set] = useState('');
  const [chosen, choose] = useState(0);
  const ref = useRef();
  const search = useSettled(text.trim(), 150);
  const topics = useLoad(search ? at(ns, '/topics', { search, limit: 8 }) : null);
  const queues = useLoad(search ? at(ns, '/queues', { search, limit: 8 }) : null);
  useEffect(() => { ref.current.showModal(); }, []);
  const found = [
    ...offered(who).filter((s) => s.name.toLowerCase().includes(text.trim().toLowerCase())).map((s) => [s.name, 'screen', [s.id]]),
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
      <input aria-label="Go to" placeholder="Go to a screen, topic or queue…" value=${text} onInput=${(e) => { set(e.target.value); choose(0); }} onKeyDown=${key} spellcheck=${false} autofocus />
      <ul role="listbox">${found.map(([name, kind, path], i) => html`<li role="option" aria-selected=${i === n ? 'true' : 'false'} onClick=${() => open(path)}><span>${name}</span><span class="dim">${kind}</span></li>`)}
        ${found.length === 0 ? html`<li class="dim">Nothing has that in its name.</li>` : null}</ul>
    </dialog>`;
}

const keys = [['/', 'search in this screen'], ['Ctrl K', 'go to anything'], ['g', 'then a letter: go to a screen'], ['d', 'dark or light'], ['?', 'these keys']];

function Help({ who, close }) {
  return html`<${Modal} title="Keys" close=${close}><table><tbody>
    ${keys.map(([k, what]) => html`<tr><td><kbd>${k}</kbd></td><td class="grow">${what}</td></tr>`)}
    ${offered(who).map((s) => html`<tr><td><kbd>g</kbd> <kbd>${s.key}</kbd></td><td class="grow">${s.name}</td></tr>`)}
  </tbody></table><//>`;
}

// App finds out who one is, and shows the console, or the way in.
function App() {
  const [theme, turnTheme] = useTheme();
  const session = useLoad('session', 60000);
  const who = useWho(session);
  const was = useRef(false); // logged in, and not out by hand
  useEffect(() => loggedOut(() => { if (!isChanging()) session.reload(); }), []);
  useEffect(() => { if (who?.loggedIn) was.current = true; }, [who?.loggedIn]);
  const logOut = async () => {
    was.current = false;
    await call('session', { method: 'DELETE' });
    session.reload();
    return 'You are logged out';
  };
  let inside = null;
  if (!who) inside = session.error ? html`<div class="gate"><${Failure} error=${session.error} /></div>` : null;
  else if (who.error) inside = html`<div class="gate"><${Failure} error=${who.error} /></div>`;
  else if (who.hasUsers && !who.name) inside = html`<${LoginPage} reload=${session.reload} ended=${was.current} theme=${theme} turnTheme=${turnTheme} />`;
  else inside = html`<${Console} key=${who.name} who=${who} session=${session} logOut=${logOut} theme=${theme} turnTheme=${turnTheme} />`;
  return html`${inside}<${Toasts} />`;
}

// Console is the frame around the screens.
function Console({ who, session, logOut, theme, turnTheme }) {
  const route = useRoute();
  const [chosen, setNs] = useState(() => kept('polylog-namespace', 'default'));
  const [over, setOver] = useState(null); // login, account, password, palette, help
  const [menu, setMenu] = useState(false);
  const overview = useLoad(who.monitors ? '/v1/admin/overview' : null, 5000);
  const namespaces = useLoad('/v1/namespaces', 30000);
  const all = (namespaces.data?.namespaces || []).map((n) => n.name);
  const ns = namespaces.data && !all.includes(chosen) ? (all.includes('default') ? 'default' : all[0] || 'default') : chosen;
  const mine = offered(who);

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
        const s = mine.find((x) => x.key === e.key);
        if (s) { e.preventDefault(); go([s.id]); }
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
  }, [theme, mine.length]);

  const screen = screens.find((s) => s.id === (route.path[0] || mine[0].id)) || mine[0];
  const o = overview.data;
  useEffect(() => {
    document.title = `${route.path.slice(1).join(' / ') || screen.name} · Polylog${o ? ` ${o.node}` : ''}`;
  }, [route, o?.node]);
  const pickNs = (name) => { keep('polylog-namespace', name); setNs(name); };
  // A group that one may see is reached from its topic, though the list of all is not.
  const shown = mine.includes(screen) || screen.id === 'groups' && route.path[1];

  return html`
    <div class="shell">
      <nav class=${menu ? 'side open' : 'side'} aria-label="Screens" onClick=${() => setMenu(false)}>
        <a class="brand" href="#/"><img src="icon.svg" alt="" />Polylog
          <button class="menu" aria-label="Menu" aria-expanded=${menu ? 'true' : 'false'} onClick=${(e) => { e.preventDefault(); e.stopPropagation(); setMenu(!menu); }}>☰</button></a>
        <div class="items">${mine.map((s, i) => html`${s.group !== mine[i - 1]?.group && s.group ? html`<h2>${s.group}</h2>` : null}
          <a class="item" href=${link([s.id])} aria-current=${screen.id === s.id ? 'page' : undefined}><span>${s.name}</span><kbd>${s.key}</kbd></a>`)}</div>
        <div class="foot">${o ? html`node <b>${o.node}</b><br />${o.version || 'unversioned'}` : ' '}</div>
      </nav>
      <div class="main">
        <header class="top">
          <${Health} overview=${overview} namespaces=${namespaces} who=${who} />
          <span class="space"></span>
          <button class="hide-small" onClick=${() => setOver('palette')}>Go to <kbd>Ctrl K</kbd></button>
          <select aria-label="Namespace" title="Namespace" value=${ns} onChange=${(e) => pickNs(e.target.value)}>${(all.length ? all : [ns]).map((n) => html`<option value=${n}>${n}</option>`)}</select>
          <button onClick=${turnTheme} aria-label="Dark or light" title="Dark or light (d)">${theme === 'dark' ? '☀' : '☾'}</button>
          <${Me} who=${who} session=${session.data} open=${setOver} />
        </header>
        <main class="page" id="page">
          ${who.name && !Object.keys(who.rights).length ? html`<div class="notice">User <b>${who.name}</b> has rights in no namespace: nothing in one can be seen or done. ${who.administrator ? html`<a href=${link(['users', who.name])}>Give yourself some</a>.` : 'An administrator can give it some.'}</div>` : null}
          ${shown ? html`<${screen.Screen} key=${`${screen.id}/${ns}`} route=${route} ns=${ns} who=${who} can=${canIn(who, ns)} theme=${theme} overview=${o} reload=${session.reload} />`
            : html`<div class="head"><h1>${screen.name}</h1></div><div class="panel hint">This is for users with the tag <b>administrator</b>${screen.needs === 'monitors' ? html` or <b>monitoring</b>` : ''}. User ${who.name} does not have it.</div>`}
        </main>
      </div>
      ${over === 'login' ? html`<${Login} session=${session.data} close=${() => setOver(null)} reload=${session.reload} />` : null}
      ${over === 'account' ? html`<${Account} who=${who} close=${() => setOver(null)} change=${() => setOver('password')} logOut=${logOut} />` : null}
      ${over === 'password' ? html`<${OwnPassword} who=${who} close=${() => setOver(null)} reload=${who.reload} />` : null}
      ${over === 'palette' ? html`<${Palette} ns=${ns} who=${who} close=${() => setOver(null)} />` : null}
      ${over === 'help' ? html`<${Help} who=${who} close=${() => setOver(null)} />` : null}
    </div>`;
}

// Health says in a word how it stands with the broker: for who may not see the cluster, that it answers.
function Health({ overview, namespaces, who }) {
  const o = overview.data;
  const error = overview.error || namespaces.error;
  if (error) return html`<span class="dot bad"></span><span class="dim">${error.message}</span>`;
  if (!who.monitors) return html`<span class=${`dot ${namespaces.data ? 'good' : ''}`}></span><span class="dim">${namespaces.data ? 'answers' : ' '}</span>`;
  return html`<span class=${`dot ${o?.ready ? 'good' : 'warn'}`}></span><span class="dim">${o ? (o.ready ? (o.leader === o.node ? 'leads' : `follows ${o.leader || 'nobody'}`) : (o.reasons || []).join(', ')) : ' '}</span>`;
}

// Me says who one is, always, and leads to what one can do about it.
function Me({ who, session, open }) {
  if (who.loggedIn) {
    const name = who.name || 'unlocked';
    return html`<button class="me" onClick=${() => open('account')} aria-label=${who.name ? `You are ${name}` : 'This browser may change things'} title=${who.name ? `You are ${name}` : 'This browser may change things'}>
      <i aria-hidden="true">${who.name ? name.slice(0, 1).toUpperCase() : '✓'}</i><span>${name}</span></button>`;
  }
  return html`${who.anonymous ? html`<button class="me" onClick=${() => open('account')} title="Without logging in you are this user"><i aria-hidden="true">?</i><span>${who.name}</span></button>` : html`<span class="badge hide-small">read-only</span>`}
    <button data-login onClick=${() => open('login')}>${session.canUnlock ? 'Unlock' : 'Log in'}</button>`;
}

render(html`<${App} />`, document.getElementById('app'));
