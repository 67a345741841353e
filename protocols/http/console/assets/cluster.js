// The cluster: members, who leads, how they are.
import { html } from './vendor/htm-preact.js';
import { useLoad } from './api.js';
import { Table, Badge, Failure, Facts } from './ui.js';
import { num, bytes, time } from './format.js';

export function Cluster() {
  const health = useLoad('/v1/admin/health', 3000);
  const h = health.data;
  const member = Object.fromEntries((h?.members || []).map((m) => [m.id, m]));
  const role = (n) => (n.error ? html`<${Badge} kind="bad">silent<//>` : n.id === h.leader ? html`<${Badge} kind="good">leader<//>` : member[n.id]?.voter ? html`<${Badge}>voter<//>` : html`<${Badge} kind="warn">learner<//>`);
  return html`
    <div class="head"><h1>Cluster</h1>${h ? html`<${Badge} kind=${h.healthy ? 'good' : 'bad'}>${h.healthy ? 'healthy' : 'not healthy'}<//>` : null}</div>
    <${Failure} error=${health.error} />
    ${(h?.problems || []).map((p) => html`<div class="failure">${p}</div>`)}
    <div class="panel pad"><${Facts} of=${h ? [['Cluster', html`<span class="mono">${h.cluster}</span>`], ['Leader', h.leader || 'nobody'], ['Term', num(h.term)], ['Feature level', h.featureLevel], ['Members', `${h.members.length}, ${h.members.filter((m) => m.voter).length} with a vote`], ['Asked of node', h.node]] : [['Cluster', '…']]} /></div>
    <h3>Nodes</h3>
    <${Table} stacked label="Nodes" rows=${h?.nodes} keyOf=${(n) => n.id} columns=${[
      { title: 'Node', cell: (n) => html`<span class="name">${n.id}</span>` }, { title: 'Role', cell: role },
      { title: 'State', grow: true, cell: (n) => (n.error ? html`<span class="dim">${n.error}</span>` : n.status?.stopping ? 'stopping' : n.status?.notReady?.length ? n.status.notReady.join(', ') : 'ready') },
      { title: 'Applied', num: true, cell: (n) => num(n.status?.applied) }, { title: 'Behind', num: true, cell: (n) => (n.status ? num(n.behind) : '–') }, { title: 'Log', num: true, hide: true, cell: (n) => bytes(n.status?.logBytes) },
      { title: 'Disk free', num: true, cell: (n) => bytes(n.status?.diskFreeBytes) }, { title: 'Clock', hide: true, cell: (n) => time(n.status?.clock, false) }, { title: 'Version', hide: true, cell: (n) => n.status?.version }]} />
    <h3>Listeners</h3>
    <${Table} stacked label="Listeners" rows=${h?.members} keyOf=${(m) => m.id} columns=${[{ title: 'Node', cell: (m) => html`<span class="name">${m.id}</span>` }, { title: 'Other nodes', cell: (m) => html`<span class="mono">${m.addr || '–'}</span>` },
      { title: 'Clients', grow: true, cell: (m) => html`<span class="mono">${Object.entries(m.endpoints || {}).map(([k, v]) => `${k} ${v}`).join('   ')}</span>` }]} />`;
}
