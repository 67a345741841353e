// Exchanges and their bindings.
import { html, useState } from './vendor/htm-preact.js';
import { at, enc, useLoad, usePages } from './api.js';
import { Table, Pager, Badge, Failure, Tabs, Search, link, go } from './ui.js';
import { PublishForm } from './publish.js';

export function Exchanges(props) {
  return props.route.path[1] ? html`<${Exchange} key=${props.route.path[1]} ...${props} name=${props.route.path[1]} />` : html`<${List} ...${props} />`;
}

function List({ ns }) {
  const [text, set] = useState('');
  const pages = usePages((cursor) => at(ns, '/exchanges', { limit: 100, cursor }), '', 10000);
  const rows = pages.data?.exchanges?.filter((x) => x.name.toLowerCase().includes(text.toLowerCase()));
  return html`
    <div class="head"><h1>Exchanges</h1><${Search} label="Filter this page" value=${text} set=${set} /></div>
    <${Table} label="Exchanges" rows=${rows} keyOf=${(x) => x.name} error=${pages.error} open=${(x) => x.name && go(['exchanges', x.name])}
      columns=${[{ title: 'Exchange', grow: true, cell: (x) => (x.name ? html`<a class="name" href=${link(['exchanges', x.name])}>${x.name}</a>` : html`<span class="dim">(default)</span>`) }, { title: 'Type', cell: (x) => html`<${Badge}>${x.type}<//>` },
        { title: '', hide: true, cell: (x) => [x.ofTopic && 'of a topic', x.internal && 'internal', x.autoDelete && 'auto-delete'].filter(Boolean).map((w) => html`<${Badge}>${w}<//> `) }]} />
    <${Pager} pages=${pages} />`;
}

function Exchange({ ns, name, route, may }) {
  const x = useLoad(at(ns, `/exchanges/${enc(name)}`));
  const bindings = useLoad(at(ns, `/exchanges/${enc(name)}/bindings`), 5000);
  const tab = route.query.get('tab') || 'bindings';
  return html`
    <div class="head"><h1><a class="crumb" href="#/exchanges">Exchanges /</a> ${name}</h1>${x.data ? html`<${Badge}>${x.data.type}<//>` : null}</div><${Failure} error=${x.error} />
    <div class="under"><${Tabs} at=${tab} to=${(id) => go(['exchanges', name], { tab: id })} tabs=${[['bindings', 'Bindings'], ['publish', 'Publish']]} /></div>
    ${tab === 'publish' ? html`<${PublishForm} ns=${ns} may=${may} kind="exchanges" name=${name} />` : html`
    <${Table} label="Bindings" rows=${bindings.data?.bindings} keyOf=${(b) => JSON.stringify(b)} error=${bindings.error} empty="Nothing is bound to it."
      columns=${[{ title: 'To', cell: (b) => (b.queue ? html`<a class="name" href=${link(['queues', b.queue])}>${b.queue}</a>` : html`<a class="name" href=${link(['exchanges', b.exchange])}>${b.exchange}</a>`) }, { title: 'Kind', cell: (b) => html`<${Badge}>${b.queue ? 'queue' : 'exchange'}<//>` },
        { title: 'Key', cell: (b) => html`<span class="mono">${b.key}</span>` }, { title: 'Arguments', grow: true, cell: (b) => html`<span class="mono">${(b.arguments || []).map((h) => `${h.name}=${h.value}`).join(', ')}</span>` }]} />`}`;
}
