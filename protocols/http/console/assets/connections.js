// Connections of clients of all protocols, on all nodes.
import { html, useState } from './vendor/htm-preact.js';
import { withArgs, usePages, useSettled } from './api.js';
import { Table, Pager, Search, Badge, Modal, Facts } from './ui.js';
import { bytes, ago, time } from './format.js';

export function Connections({ overview, route }) {
  const [text, set] = useState(route.query.get('search') || '');
  const [protocol, setProtocol] = useState('');
  const [node, setNode] = useState('');
  const [one, open] = useState(null);
  const search = useSettled(text);
  const pages = usePages((cursor) => withArgs('/v1/admin/connections', { limit: 50, search, protocol, node, cursor }), `${search}|${protocol}|${node}`, 5000);
  const members = overview?.members || [];
  return html`
    <div class="head"><h1>Connections</h1><${Search} label="Client, address, user" value=${text} set=${set} />
      <select aria-label="Protocol" value=${protocol} onChange=${(e) => setProtocol(e.target.value)}><option value="">all protocols</option>${['kafka', 'amqp', 'mqtt', 'http'].map((p) => html`<option value=${p}>${p.toUpperCase()}</option>`)}</select>
      ${members.length > 1 ? html`<select aria-label="Node" value=${node} onChange=${(e) => setNode(e.target.value)}><option value="">all nodes</option>${members.map((m) => html`<option value=${m.id}>${m.id}</option>`)}</select>` : null}</div>
    ${Object.entries(pages.data?.silent || {}).map(([n, why]) => html`<div class="notice">Node ${n} does not answer, so its connections are not here: ${why}</div>`)}
    <${Table} label="Connections" rows=${pages.data?.connections} keyOf=${(c) => `${c.node}/${c.id}`} error=${pages.error} open=${open} empty="Nobody is connected."
      columns=${[{ title: 'Protocol', cell: (c) => html`<${Badge} kind=${c.protocol}>${c.protocol.toUpperCase()}<//>` }, { title: 'Client', grow: true, cell: (c) => html`<span class="name">${c.clientId || c.software || c.remote}</span>${c.clientId && c.software ? html` <span class="dim">${c.software}</span>` : null}` },
        { title: 'From', hide: true, cell: (c) => html`<span class="mono">${c.remote}</span>` }, { title: 'User', hide: true, cell: (c) => c.user || html`<span class="dim">–</span>` }, { title: 'Node', hide: true, cell: (c) => c.node },
        { title: 'TLS', hide: true, cell: (c) => (c.tls ? html`<${Badge} kind="good">TLS<//>` : '') }, { title: 'Received', num: true, hide: true, cell: (c) => bytes(c.receivedBytes) }, { title: 'Since', num: true, cell: (c) => html`<span title=${time(c.since)}>${ago(c.since)}</span>` }]} />
    <${Pager} pages=${pages} count=${pages.data?.connections.length} />
    ${one ? html`<${Modal} title=${one.clientId || one.remote} close=${() => open(null)}><${Facts} of=${[['Protocol', `${one.protocol.toUpperCase()} ${one.version || ''}`], ['Node', one.node], ['From', one.remote], ['To', one.local], ['Since', time(one.since)], ['User', one.user || '–'], ['Namespace', one.namespace || '–'], ['Software', one.software || '–'], ['TLS', one.tls ? 'yes' : 'no'], one.receivedBytes !== undefined && ['Received', bytes(one.receivedBytes)], ...Object.entries(one.details || {}).map(([k, v]) => [k[0].toUpperCase() + k.slice(1), v])]} /><//>` : null}`;
}
