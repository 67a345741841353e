// Users: who can log in, what tags they have, and what they may do in which namespace.
import { html, useState } from './vendor/htm-preact.js';
import { call, enc, withArgs, useLoad, usePages, useSettled } from './api.js';
import { Table, Pager, Search, Badge, Failure, Modal, Field, Action, Do, Confirm, Facts, link, go, toast } from './ui.js';
import { date } from './format.js';
import { NewPassword, noPassword, OwnPassword, rightsColumns, whileChanging } from './account.js';

export function Users(props) {
  if (!props.who.hasUsers) return html`<${First} ...${props} />`;
  return props.route.path[1] ? html`<${User} key=${props.route.path[1]} ...${props} name=${props.route.path[1]} />` : html`<${List} ...${props} />`;
}

const userAt = (name) => `/v1/users/${enc(name)}`;
const rightsAt = (name, namespace) => `${userAt(name)}/rights/${enc(namespace)}`;
const locked = (who) => (who.loggedIn ? '' : 'Log in to change anything');

const meanings = {
  administrator: 'makes users, namespaces and settings, and sees what monitoring sees',
  monitoring: 'sees the cluster, connections, figures, and the names of everything; no messages',
  policymaker: 'changes policies where it has rights',
  management: 'uses RabbitMQ’s management API',
  impersonator: 'publishes over AMQP in another user’s name',
};

const Tag = ({ of }) => html`<${Badge} kind=${of === 'administrator' ? 'warn' : ''} title=${meanings[of]}>${of}<//> `;

// TagBoxes chooses tags; those that mean nothing here stay as they are.
const TagBoxes = ({ tags, set }) => html`
  <fieldset class="boxes"><legend>Tags</legend>
    ${[...new Set([...Object.keys(meanings), ...tags])].map((t) => html`<label><input type="checkbox" checked=${tags.includes(t)} onChange=${(e) => set(e.target.checked ? [...tags, t] : tags.filter((x) => x !== t))} />
      <span><b>${t}</b> <span class="dim">${meanings[t] || ''}</span></span></label>`)}
  </fieldset>`;

function List({ who, ns }) {
  const [text, set] = useState('');
  const [making, make] = useState(false);
  const search = useSettled(text);
  const pages = usePages((cursor) => withArgs('/v1/users', { limit: 50, search, cursor }), search, 10000);
  return html`
    <div class="head"><h1>Users</h1><${Search} label="Search users" value=${text} set=${set} /><span class="space"></span><${Do} why=${locked(who)} onClick=${() => make(true)}>New user<//></div>
    <${Table} label="Users" rows=${pages.data?.users} keyOf=${(u) => u.name} error=${pages.error} open=${(u) => go(['users', u.name])} empty="No user has that in its name."
      columns=${[{ title: 'User', cell: (u) => html`<a class="name" href=${link(['users', u.name])}>${u.name}</a>${u.name === who.name ? html` <span class="dim">you</span>` : null}` },
        { title: 'Tags', cell: (u) => u.tags.map((t) => html`<${Tag} of=${t} />`) },
        { title: 'Rights in', grow: true, hide: true, cell: (u) => (u.rights.length ? u.rights.map((r) => r.namespace).join(', ') : html`<span class="dim">no namespace</span>`) },
        { title: 'Password', hide: true, cell: (u) => (u.hasPassword ? '' : html`<${Badge} kind="warn">none<//>`) }, { title: 'Created', hide: true, cell: (u) => date(u.created) }]} />
    <${Pager} pages=${pages} count=${pages.data?.users.length} />
    ${making ? html`<${New} ns=${ns} close=${() => make(false)} />` : null}`;
}

// beginnings are what a new user may do from the start.
const beginnings = { all: { configure: '.*', write: '.*', read: '.*' }, read: { configure: '', write: '', read: '.*' } };

function New({ ns, close }) {
  const [name, setName] = useState('');
  const [password, setPassword] = useState(noPassword);
  const [tags, setTags] = useState([]);
  const [rights, setRights] = useState('');
  const act = async () => {
    await call(withArgs(userAt(name), { new: 'true' }), { method: 'PUT', body: { password: password.text, tags } });
    go(['users', name]);
    if (rights) await call(rightsAt(name, ns), { method: 'PUT', body: beginnings[rights] });
    return `User ${name} is there`;
  };
  return html`
    <${Modal} title="New user" close=${close}><form class="stack" onSubmit=${(e) => e.preventDefault()}>
      <${Field} label="Name"><input value=${name} onInput=${(e) => setName(e.target.value)} autocomplete="off" autocapitalize="none" spellcheck=${false} autofocus /><//>
      <${NewPassword} value=${password} set=${setPassword} />
      <${Field} label=${`Rights in namespace ${ns}`} hint="More, and by names, when the user is there."><select value=${rights} onChange=${(e) => setRights(e.target.value)}><option value="">none yet</option><option value="read">read everything</option><option value="all">everything</option></select><//>
      <${TagBoxes} tags=${tags} set=${setTags} />
      <footer><button type="button" onClick=${close}>Cancel</button><${Action} kind="primary" label="Create" disabled=${!name || !password.good} act=${act} done=${close} /></footer></form><//>`;
}

function User({ name, who, reload }) {
  const [asking, ask] = useState(null);
  const [one, grant] = useState(null); // rights that are changed; {} for new ones
  const user = useLoad(userAt(name), 5000);
  const u = user.data;
  const why = locked(who);
  const own = name === who.name;
  const changed = () => { user.reload(); if (own) who.reload(); };
  return html`
    <div class="head"><h1><a class="crumb" href="#/users">Users /</a> ${name}</h1>${u?.tags.map((t) => html`<${Tag} of=${t} />`)}<span class="space"></span>
      <${Do} why=${why} onClick=${() => ask('password')}>Change password<//><${Do} why=${why} disabled=${!u} onClick=${() => ask('tags')}>Change tags<//><${Do} why=${why} kind="danger" onClick=${() => ask('delete')}>Delete<//></div>
    <${Failure} error=${user.error} />
    ${u && !u.hasPassword ? html`<div class="notice">It has no password: it can log in by a certificate only.</div>` : null}
    ${u ? html`<div class="panel pad"><${Facts} of=${[['Created', date(u.created)], ['Password', u.hasPassword ? 'set; only what verifies it is kept' : 'none'], ['Connections', html`<a href=${link(['connections'], { search: name })}>show</a>`], own && ['You', 'this is you']]} /></div>` : null}
    <div class="head under-head"><h3>Rights</h3><span class="space"></span><${Do} why=${why} disabled=${!u} onClick=${() => grant({})}>Give rights in a namespace<//></div>
    <${Table} stacked label="Rights" rows=${u?.rights} keyOf=${(r) => r.namespace} open=${why ? undefined : grant} empty="None, in no namespace: it can log in, and sees and does nothing there."
      columns=${[...rightsColumns, { title: '', grow: true, cell: () => '' }, { title: '', cell: (r) => (why ? '' : html`<button class="small" aria-label=${`Change rights in ${r.namespace}`} onClick=${() => grant(r)}>Change</button>`) }]} />
    <p class="dim">Expressions on names of topics, queues, exchanges, groups, subscriptions and hooks. Changes hold at once, on every node.</p>
    ${asking === 'password' ? (own ? html`<${OwnPassword} who=${who} close=${() => ask(null)} reload=${changed} />` : html`<${Password} name=${name} close=${() => ask(null)} reload=${changed} />`) : null}
    ${asking === 'tags' ? html`<${Tags} user=${u} own=${own} close=${() => ask(null)} reload=${changed} />` : null}
    ${asking === 'delete' ? html`<${Delete} name=${name} own=${own} reload=${reload} close=${() => ask(null)} />` : null}
    ${one ? html`<${Grant} user=${u} rights=${one} close=${() => grant(null)} reload=${changed} />` : null}`;
}

function Password({ name, close, reload }) {
  const [password, set] = useState(noPassword);
  const act = async () => {
    await call(withArgs(userAt(name), { new: 'false' }), { method: 'PUT', body: { password: password.text } });
    reload();
    return `The password of ${name} is another one`;
  };
  return html`
    <${Modal} title=${`Password of ${name}`} close=${close}><form class="stack" onSubmit=${(e) => e.preventDefault()}>
      <p class="dim">Its sessions and streams end, and its connections with the old one have to log in again.</p>
      <${NewPassword} value=${password} set=${set} />
      <footer><button type="button" onClick=${close}>Cancel</button><${Action} kind="primary" label="Change" disabled=${!password.good} act=${act} done=${close} /></footer></form><//>`;
}

function Tags({ user, own, close, reload }) {
  const [tags, set] = useState(user.tags);
  const act = async () => {
    await call(withArgs(userAt(user.name), { new: 'false' }), { method: 'PUT', body: { tags } });
    reload();
    return `${user.name}: ${tags.join(', ') || 'no tags'}`;
  };
  const gives = own && user.tags.includes('administrator') && !tags.includes('administrator');
  return html`
    <${Modal} title=${`Tags of ${user.name}`} close=${close}>
      <${TagBoxes} tags=${tags} set=${set} />
      ${gives ? html`<div class="notice">You give up being an administrator: this screen will be gone, and you cannot take it back yourself.</div>` : null}
      <footer><button onClick=${close}>Cancel</button><${Action} kind="primary" label="Set" act=${act} done=${close} /></footer><//>`;
}

function Delete({ name, own, reload, close }) {
  const all = useLoad(withArgs('/v1/users', { limit: 2 }));
  const last = all.data?.users.length === 1;
  const act = async () => {
    await call(withArgs(userAt(name), { last: last ? 'true' : '' }), { method: 'DELETE' });
    go(['users']);
    if (own) reload();
    return `User ${name} is gone`;
  };
  const text = last ? html`This is the last user. Without any <b>the broker asks nobody who they are</b>: whoever reaches it may do everything. This page has to be unlocked again.`
    : own ? 'You are logged in as this user: you will be out, and so will its clients. Nothing that it made goes.' : 'It is out at once, on every node, and so are its clients. Nothing that it made goes.';
  return html`<${Confirm} title="Delete user" name=${name} verb="Delete" text=${text} close=${close} act=${act} />`;
}

const loose = (f) => Object.values(f).some((v) => v && v !== '.*' && !v.startsWith('^'));

// Grant says what a user may do in a namespace.
function Grant({ user, rights, close, reload }) {
  const namespaces = useLoad('/v1/namespaces');
  const old = rights.namespace;
  const free = (namespaces.data?.namespaces || []).map((n) => n.name).filter((n) => !user.rights.some((r) => r.namespace === n));
  const [chosen, choose] = useState('');
  const [f, set] = useState({ configure: rights.configure ?? '', write: rights.write ?? '', read: rights.read ?? '' });
  const namespace = old || chosen || free[0] || '';
  const on = (key) => (e) => set({ ...f, [key]: e.target.value });
  const save = async () => {
    await call(rightsAt(user.name, namespace), { method: 'PUT', body: f });
    reload();
    return `These rights of ${user.name} in ${namespace} hold now`;
  };
  const revoke = async () => {
    await call(rightsAt(user.name, namespace), { method: 'DELETE' });
    reload();
    return `${user.name} has no rights in ${namespace} any more`;
  };
  const text = (key, label, hint) => html`<${Field} label=${label} hint=${hint}><input class="mono" value=${f[key]} onInput=${on(key)} placeholder="nothing" spellcheck=${false} autocomplete="off" autocapitalize="none" /><//>`;
  const preset = (label, v) => html`<button type="button" onClick=${() => set(v)}>${label}</button>`;
  return html`
    <${Modal} title=${`Rights of ${user.name}${old ? ` in ${old}` : ''}`} close=${close}><form class="stack" onSubmit=${(e) => e.preventDefault()}>
      ${old ? null : html`<${Field} label="Namespace" hint=${namespaces.data && !free.length ? 'It has rights in all there are: change those.' : ''}><select value=${namespace} onChange=${(e) => choose(e.target.value)}>${free.map((n) => html`<option value=${n}>${n}</option>`)}</select><//>`}
      <p class="row"><span class="dim">Fill in:</span>${preset('Everything', beginnings.all)}${preset('Only read', beginnings.read)}${preset('Names that begin with app.', { configure: '^app\\.', write: '^app\\.', read: '^app\\.' })}</p>
      ${text('configure', 'Configure', 'make, change and delete')}${text('write', 'Write', 'publish to')}${text('read', 'Read', 'consume, look into, be in a group')}
      <p class="dim">Regular expressions (RE2) on names. Empty is nothing, <span class="mono">.*</span> everything, <span class="mono">^orders$</span> one name.</p>
      ${loose(f) ? html`<div class="notice">Without <span class="mono">^</span> in front an expression matches anywhere: <span class="mono">orders</span> means <span class="mono">old-orders</span>, too.</div>` : null}
      <footer>${old ? html`<${Action} kind="danger" label="Take all away" act=${revoke} done=${close} />` : null}<span class="space"></span><button type="button" onClick=${close}>Cancel</button><${Action} kind="primary" label="Set" disabled=${!namespace} act=${save} done=${close} /></footer></form><//>`;
}

// First makes the first user, and says before what that means.
function First({ who, reload }) {
  const [name, setName] = useState('admin');
  const [password, set] = useState(noPassword);
  const act = async () => {
    await whileChanging(() => call(withArgs(userAt(name), { new: 'true' }), { method: 'PUT', body: { password: password.text, tags: ['administrator'] } }), name, password.text);
    reload();
    go(['users', name]);
    try {
      await call(rightsAt(name, 'default'), { method: 'PUT', body: beginnings.all });
    } catch (e) {
      toast(`${name} is there, without rights yet: ${e.message}`, true);
      return '';
    }
    return `You are ${name}, an administrator`;
  };
  return html`
    <div class="head"><h1>Users</h1><${Badge} kind="warn">there are none<//></div>
    <div class="panel pad narrow">
      <p>While the broker has no users it asks nobody who they are: <b>whoever reaches it may do everything</b>. The first user ends that. It is an administrator, which can make the others.</p>
      <h3>What happens then</h3>
      <ul class="plain">
        <li>Every client has to log in, over each protocol. What is connected now without a user is cut off at once.</li>
        <li>Unlocking this page, and its token, do not count any more. This browser is logged in as the new user; all others see the login form.</li>
        <li>The last administrator can neither be deleted nor lose its password by mistake. Keep it: nobody can look it up.</li>
        <li>It gets all rights in the namespace <b>default</b>.</li>
      </ul>
      <p class="dim">The broker takes its first user from its own machine only: there, this page and <span class="mono">polylog user add</span> do it. Containers have <span class="mono">first-user-password-file</span>.</p>
      <h3>The first user</h3>
      <form class="stack form" onSubmit=${(e) => e.preventDefault()}>
        <${Field} label="Name"><input value=${name} onInput=${(e) => setName(e.target.value)} autocomplete="username" autocapitalize="none" spellcheck=${false} /><//>
        <${NewPassword} value=${password} set=${set} />
        <p class="row"><${Action} kind="primary" label="Make it, and log in as it" why=${who.loggedIn ? '' : 'The console is read-only: unlock it, or log in, first'} disabled=${!name || !password.good} act=${act} />
          ${who.loggedIn ? null : html`<span class="dim">The console is read-only: unlock it first, at the top.</span>`}</p>
      </form>
    </div>`;
}
