// Logging in and out, and what one is told about oneself.
import { html, useState, useEffect, useRef } from './vendor/htm-preact.js';
import { call, enc } from './api.js';
import { Modal, Field, Action, Facts, Badge, Table, toast } from './ui.js';
import { time } from './format.js';

const session = (body) => call('session', { method: 'POST', body });

// changing is above zero while this page changes what its own session hangs on.
let changing = 0;
export const isChanging = () => changing > 0;

// whileChanging runs something that ends this page's session, and logs in again as a user.
export async function whileChanging(act, user, password) {
  changing += 1;
  try {
    await act();
    await session({ user, password });
  } finally {
    changing -= 1;
  }
}

// LoginPage is all that is shown of a broker with users until one has logged in.
export function LoginPage({ reload, ended, theme, turnTheme }) {
  return html`
    <div class="gate">
      <main class="panel card">
        <h1><img src="icon.svg" alt="" />Polylog</h1>
        ${ended ? html`<div class="notice" role="status">Your session has ended: the time is up, the password was changed, or the user is gone.</div>` : null}
        <${LoginForm} done=${reload} />
      </main>
      <p class="dim">This broker has users. What you see and do here is what yours may.</p>
      <button class="plain" onClick=${turnTheme} aria-label="Dark or light">${theme === 'dark' ? '☀ light' : '☾ dark'}</button>
    </div>`;
}

// LoginForm takes a user's name and password. leave, where there is one, goes back without.
function LoginForm({ done, leave }) {
  const [user, setUser] = useState('');
  const [password, setPassword] = useState('');
  const [state, set] = useState({ busy: false, error: null });
  const first = useRef();
  useEffect(() => first.current.focus(), []);
  const send = async (e) => {
    e.preventDefault();
    set({ busy: true, error: null });
    try {
      await session({ user, password });
      toast(`You are ${user}`);
      done();
    } catch (error) {
      setPassword('');
      set({ busy: false, error });
    }
  };
  return html`
    <form class="stack" onSubmit=${send}>
      <${Field} label="User"><input ref=${first} name="user" value=${user} onInput=${(e) => setUser(e.target.value)} autocomplete="username" autocapitalize="none" spellcheck=${false} required /><//>
      <${Field} label="Password"><input name="password" type="password" value=${password} onInput=${(e) => setPassword(e.target.value)} autocomplete="current-password" required /><//>
      ${state.error ? html`<div class="failure" role="alert">${state.error.message}</div>` : null}
      <footer>${leave ? html`<button type="button" onClick=${leave}>Cancel</button>` : null}<button class="primary" disabled=${state.busy || !user || !password}>Log in</button></footer>
    </form>`;
}

// Login lets one change something: as a user, by the token, or by unlocking.
export function Login({ session: s, close, reload }) {
  const [token, set] = useState('');
  const done = () => { reload(); close(); };
  const open = async (body) => { await session(body); return 'You may change things now'; };
  if (s.hasUsers) return html`<${Modal} title="Log in" close=${close}><${LoginForm} done=${done} leave=${close} /><//>`;
  if (s.hasToken) {
    return html`
      <${Modal} title="Log in" close=${close}><form onSubmit=${(e) => e.preventDefault()}>
        <${Field} label="Token" hint="The first line of the file that console-token-file names."><input type="password" value=${token} onInput=${(e) => set(e.target.value)} autocomplete="current-password" autofocus /><//>
        <footer><button type="button" onClick=${close}>Cancel</button><${Action} kind="primary" label="Log in" disabled=${!token} act=${() => open({ token })} done=${done} /></footer></form><//>`;
  }
  if (s.canUnlock) {
    return html`
      <${Modal} title="Unlock the console" close=${close}>
        <p>This broker has no users yet, and only this machine reaches it. Once unlocked, this browser may publish, change and delete, for twelve hours.</p>
        <footer><button onClick=${close}>Stay read-only</button><${Action} kind="primary" label="Unlock" act=${() => open({ unlock: true })} done=${done} /></footer><//>`;
  }
  return html`<${Modal} title="Log in" close=${close}><p>Nobody can log in: other machines reach this broker, and it has neither users nor a <code>console-token-file</code>. On its own machine <code>polylog user add admin --tag administrator</code> makes the first user.</p>
    <footer><button onClick=${close}>Close</button></footer><//>`;
}

export const expression = (text) => (text === '' ? html`<span class="dim">nothing</span>` : text === '.*' ? html`<${Badge} kind="good" title=".*">everything<//>` : html`<span class="mono">${text}</span>`);

// rightsColumns are those of a table of rights.
export const rightsColumns = [
  { title: 'Namespace', cell: (r) => html`<span class="name">${r.namespace}</span>` },
  { title: 'Configure', cell: (r) => expression(r.configure) }, { title: 'Write', cell: (r) => expression(r.write) }, { title: 'Read', cell: (r) => expression(r.read) },
];

// Account says who one is, and what that is good for.
export function Account({ who, close, change, logOut }) {
  if (!who.hasUsers) {
    return html`
      <${Modal} title="This browser" close=${close}><p>The broker has no users: it asks nobody who they are. This browser may change things until ${time(who.until)}.</p>
        <footer><button onClick=${close}>Close</button><${Action} label="Log out" act=${logOut} done=${close} /></footer><//>`;
  }
  const rights = Object.values(who.rights);
  return html`
    <${Modal} title=${`You are ${who.name}`} close=${close} wide>
      <${Facts} of=${[['Tags', who.tags.length ? who.tags.map((t) => html`<${Badge} kind=${t === 'administrator' ? 'warn' : ''}>${t}<//> `) : 'none'], ['Logged in until', who.anonymous ? 'you are not: this is what everybody is' : time(who.until)]]} />
      <h3>What you may do</h3>
      <${Table} stacked label="Your rights" rows=${rights} keyOf=${(r) => r.namespace} columns=${[...rightsColumns, { title: '', grow: true, cell: () => '' }]} empty="You have rights in no namespace. An administrator can give you some." />
      <p class="dim">Regular expressions on names of topics, queues, exchanges, groups and subscriptions. ${who.administrator ? 'As an administrator you may change everybody’s, your own too.' : ''}</p>
      <footer>${who.anonymous ? null : html`<button onClick=${change}>Change password</button><${Action} label="Log out" act=${logOut} done=${close} />`}<button class="primary" onClick=${close}>Close</button></footer><//>`;
}

// OwnPassword changes one's own: whoever finds this browser open does not know the old one.
export function OwnPassword({ who, close, reload }) {
  const [old, setOld] = useState('');
  const [fresh, setFresh] = useState(noPassword);
  const act = async () => {
    await session({ user: who.name, password: old });
    await whileChanging(() => call(`/v1/users/${enc(who.name)}?new=false`, { method: 'PUT', body: { password: fresh.text } }), who.name, fresh.text);
    reload();
    return 'Your password is another one. Whoever else was logged in with the old one is not any more';
  };
  return html`
    <${Modal} title="Change your password" close=${close}><form class="stack" onSubmit=${(e) => e.preventDefault()}>
      <input class="sr" tabindex="-1" aria-hidden="true" autocomplete="username" value=${who.name} readonly />
      <${Field} label="Old password"><input type="password" value=${old} onInput=${(e) => setOld(e.target.value)} autocomplete="current-password" autofocus /><//>
      <${NewPassword} value=${fresh} set=${setFresh} />
      <footer><button type="button" onClick=${close}>Cancel</button><${Action} kind="primary" label="Change" disabled=${!old || !fresh.good} act=${act} done=${close} /></footer></form><//>`;
}

export const noPassword = { text: '', again: '', shown: false, good: false };

// NewPassword asks for one, twice, or makes one. value is {text, again, shown, good}.
export function NewPassword({ value, set }) {
  const change = (c) => {
    const v = { ...value, ...c };
    const size = new TextEncoder().encode(v.text).length;
    set({ ...v, good: size > 0 && size <= 1024 && (v.shown || v.text === v.again) });
  };
  const make = () => {
    const letters = 'abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789';
    const text = Array.from(crypto.getRandomValues(new Uint32Array(20)), (n) => letters[n % letters.length]).join('');
    change({ text, again: text, shown: true });
  };
  const hint = value.text && value.text.length < 8 ? 'Short ones are guessed.' : value.shown ? 'Keep it now: nobody can see it later.' : '';
  return html`
    <${Field} label="New password" hint=${hint}><input class=${value.shown ? 'mono' : ''} type=${value.shown ? 'text' : 'password'} value=${value.text} onInput=${(e) => change({ text: e.target.value })} autocomplete="new-password" spellcheck=${false} /><//>
    ${value.shown ? null : html`<${Field} label="The same again" hint=${value.again && value.again !== value.text ? 'These differ.' : ''}><input type="password" value=${value.again} onInput=${(e) => change({ again: e.target.value })} autocomplete="new-password" /><//>`}
    <p class="row"><button type="button" onClick=${make}>Make one up</button>
      <label class="row"><input type="checkbox" checked=${value.shown} onChange=${(e) => change({ shown: e.target.checked })} />Show it</label></p>`;
}
