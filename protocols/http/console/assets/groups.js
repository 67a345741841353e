// Groups of Kafka's clients: lag and members.
import { html, useState } from './vendor/htm-preact.js';
import { at, enc, useLoad, usePages, useSettled } from './api.js';
import { Table, Pager, Search, State, Badge, Failure, link, go } from './ui.js';
import { num, ago, date } from './format.js';

export function Groups(props) {
  return props.route.path[1] ? html`<${Group} key=${props.route.path[1]} ...${props} name=${props.route.path[1]} />` : html`<${List} ...${props} />`;
}

function List() {
  const [text, set] = useState('');
  const search = useSettled(text);
  const pages = usePages((cursor) => at('', '/admin/groups', { limit: 50, search, cursor }), search, 5000);
  return html`
    <div class="head"><h1>Kafka groups</h1><${Search} label="Search groups" value=${text} set=${set} /><span class="dim">Subscriptions over HTTP are in <a href="#/subscriptions">Subscriptions</a>.</span></div>
    <${Table} label="Groups" rows=${pages.data?.groups} keyOf=${(g) => g.name} error=${pages.error} open=${(g) => go(['groups', g.name])} empty=${search ? 'No group has that in its name.' : 'No group has committed anything yet.'}
      columns=${[{ title: 'Group', grow: true, cell: (g) => html`<a class="name" href=${link(['groups', g.name])}>${g.name}</a>` }, { title: 'State', cell: (g) => html`<${State} of=${g.state} />` },
        { title: 'Type', hide: true, cell: (g) => (g.type ? html`<${Badge}>${g.type}<//>` : '') }, { title: 'Last commit', cell: (g) => (g.lastCommit ? html`<span title=${date(g.lastCommit)}>${ago(g.lastCommit)}</span>` : '–') }]} />
    <${Pager} pages=${pages} count=${pages.data?.groups.length} />`;
}

const partitions = (m) => m.assigned.reduce((n, a) => n + a.partitions.length, 0);

function Group({ name }) {
  const group = useLoad(`/v1/admin/groups/${enc(name)}?limit=2000`, 3000);
  const g = group.data;
  const most = Math.max(1, ...(g?.positions || []).map((p) => p.lag));
  const who = Object.fromEntries((g?.members || []).map((m) => [m.id, m.clientId || m.id]));
  return html`
    <div class="head"><h1><a class="crumb" href="#/groups">Groups /</a> ${name}</h1>${g ? html`<${State} of=${g.state} />` : null}${g?.protocol ? html`<${Badge}>${g.protocol}<//>` : null}</div>
    <${Failure} error=${group.error} />
    <div class="tiles"><div class="tile"><span>Lag</span><b>${g ? num(g.lag) : '–'}</b><small>messages, of all partitions</small></div><div class="tile"><span>Members</span><b>${g ? num(g.members.length) : '–'}</b><small>${g?.type || ' '}</small></div>
      <div class="tile"><span>Partitions</span><b>${g ? num(g.positions.length) : '–'}</b><small>${g?.cut ? 'the first of more' : ' '}</small></div><div class="tile"><span>Last commit</span><b>${g?.lastCommit ? ago(g.lastCommit) : '–'}</b><small>${g?.lastCommit ? date(g.lastCommit) : ' '}</small></div></div>
    <h3>Positions</h3>
    <${Table} label="Positions" rows=${g?.positions} keyOf=${(p) => `${p.topic}/${p.partition}`} empty="It has committed nothing." columns=${[
      { title: 'Topic', cell: (p) => html`<a class="name" href=${link(['topics', p.topic])}>${p.topic}</a>` }, { title: 'Part.', num: true, cell: (p) => p.partition }, { title: 'Committed', num: true, cell: (p) => (p.committed === null ? html`<span class="dim">nothing</span>` : num(p.committed)) },
      { title: 'End', num: true, hide: true, cell: (p) => num(p.end) }, { title: 'Lag', num: true, cell: (p) => num(p.lag) }, { title: '', hide: true, cell: (p) => html`<span class="bar"><i class=${p.lag > 1000 ? 'warn' : ''} style=${{ width: `${(100 * p.lag) / most}%` }}></i></span>` },
      { title: 'Read by', grow: true, hide: true, cell: (p) => (p.member ? who[p.member] || p.member : html`<span class="dim">nobody</span>`) }]} />
    <h3>Members</h3>
    <${Table} label="Members" rows=${g?.members} keyOf=${(m) => m.id} empty="Nobody is in the group now." columns=${[
      { title: 'Client', cell: (m) => html`<span class="name">${m.clientId || '–'}</span>` }, { title: 'From', hide: true, cell: (m) => m.host }, { title: 'Partitions', num: true, cell: partitions },
      { title: 'Reads', grow: true, cell: (m) => m.assigned.map((a) => `${a.topic} [${a.partitions.join(', ')}]`).join(' ') }, { title: 'Member', hide: true, cell: (m) => html`<span class="mono dim" title=${m.id}>${m.id.slice(0, 24)}</span>` }]} />`;
}
