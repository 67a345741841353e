// Overview: how the cluster and a node are, now and over the last minutes.
import { html, useState, useEffect } from './vendor/htm-preact.js';
import { call, useLoad, withArgs } from './api.js';
import { Failure, link } from './ui.js';
import { Chart, rates, ratio, last } from './charts.js';
import { short, bytes, num, duration } from './format.js';

const names = [
  'polylog_messages_produced_total', 'polylog_bytes_produced_total', 'polylog_messages_consumed_total', 'polylog_bytes_consumed_total',
  'polylog_queue_deliveries_total', 'polylog_queue_settled_total', 'polylog_mqtt_messages_received_total', 'polylog_mqtt_messages_sent_total',
  'polylog_kafka_connections', 'polylog_amqp_connections', 'polylog_mqtt_connections', 'polylog_http_requests_total', 'polylog_publish_seconds_sum',
  'polylog_publish_seconds_count', 'polylog_log_bytes', 'polylog_log_bytes_written_total', 'polylog_disk_free_bytes', 'polylog_groups',
  'polylog_raft_applied_index', 'polylog_queue_dead_letters_total', 'polylog_webhook_attempts_total', 'polylog_publish_errors_total',
  'process_cpu_seconds_total', 'process_resident_memory_bytes', 'go_goroutines', 'polylog_overlay_bytes', 'polylog_commands_waiting', 'process_start_time_seconds',
];
const maxSamples = 450;

// useMetrics follows a node's figures: all that it has first, then what is new.
function useMetrics(node) {
  const [state, set] = useState({ node: null, times: [], series: {}, error: null });
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    let have = { node, times: [], series: {}, error: null };
    const load = async () => {
      try {
        if (!document.hidden || have.times.length === 0) {
          const since = have.times[have.times.length - 1] || 0;
          const m = await call(withArgs('/v1/admin/metrics', { node, names: names.join(','), since: since || '' }), { signal: stop.signal });
          have = append(have, m);
          set(have);
        }
      } catch (error) {
        if (stop.signal.aborted) return;
        have = { ...have, error };
        set(have);
      }
      if (!stop.signal.aborted) timer = setTimeout(load, 2000);
    };
    load();
    return () => { stop.abort(); clearTimeout(timer); };
  }, [node]);
  return state.node === node ? state : { node, times: [], series: {}, error: null };
}

function append(have, m) {
  const times = [...have.times, ...m.times].slice(-maxSamples);
  const series = {};
  for (const name of new Set([...Object.keys(have.series), ...Object.keys(m.series)])) {
    const old = have.series[name] || have.times.map(() => null);
    series[name] = [...old, ...(m.series[name] || m.times.map(() => null))].slice(-maxSamples);
  }
  return { ...have, times, series, error: null };
}

const Tile = ({ name, value, note }) => html`<div class="tile"><span>${name}</span><b>${value}</b><small title=${note}>${note || ' '}</small></div>`;

export function Overview({ overview, theme }) {
  const [node, setNode] = useState('');
  const m = useMetrics(node || overview?.node || '');
  const health = useLoad('/v1/admin/health', 10000);
  const s = m.series;
  const rate = (name) => rates(m.times, s[name]);
  const now = (name) => last(s[name]);
  const inRate = rate('polylog_messages_produced_total');
  const sum = (...all) => m.times.map((_, i) => all.reduce((t, a) => (a[i] === null || a[i] === undefined ? t : (t ?? 0) + a[i]), null));
  const out = sum(rate('polylog_messages_consumed_total'), rate('polylog_mqtt_messages_sent_total'));
  const conns = ['kafka', 'amqp', 'mqtt'].map((p) => now(`polylog_${p}_connections`) ?? 0);
  const latency = ratio(s.polylog_publish_seconds_sum, s.polylog_publish_seconds_count, 1000);
  const cpu = rate('process_cpu_seconds_total').map((v) => (v === null ? null : v * 100));
  const perSecond = (v) => (v === null || v === undefined ? '–' : short(v));
  const ms = (v) => (v === null || v === undefined ? '–' : `${short(v)} ms`);
  const start = now('process_start_time_seconds');
  const members = overview?.members || [];
  const h = health.data;
  const zero = (name) => s[name] || m.times.map(() => 0);
  return html`
    <div class="head"><h1>Overview</h1>
      ${h ? html`<span class=${`badge ${h.healthy ? 'good' : 'bad'}`}>${h.healthy ? 'healthy' : `${h.problems.length} ${h.problems.length === 1 ? 'problem' : 'problems'}`}</span>` : null}
      <span class="space"></span>
      ${members.length > 1 ? html`<label class="row"><span class="dim">Figures of</span><select aria-label="Node" value=${m.node} onChange=${(e) => setNode(e.target.value)}>${members.map((x) => html`<option value=${x.id}>${x.id}${x.id === overview.leader ? ' (leader)' : ''}</option>`)}</select></label>` : null}
    </div>
    ${(h?.problems || []).map((p) => html`<div class="failure">${p}</div>`)}
    <${Failure} error=${m.error} />
    <div class="tiles">
      <${Tile} name="Messages in" value=${html`${perSecond(last(inRate))}<span>/s</span>`} note=${`${num(now('polylog_messages_produced_total'))} since the start`} />
      <${Tile} name="Messages out" value=${html`${perSecond(last(out))}<span>/s</span>`} note=${`${num(now('polylog_messages_consumed_total'))} since the start`} />
      <${Tile} name="Publish, mean" value=${ms(last(latency))} note=${`${num(now('polylog_publish_errors_total') ?? 0)} refused`} />
      <${Tile} name="Connections" value=${num(conns.reduce((a, b) => a + b, 0))} note=${`Kafka ${conns[0]} · AMQP ${conns[1]} · MQTT ${conns[2]}`} />
      <${Tile} name="Topics" value=${num(overview?.topics)} note=${`${num(overview?.partitions)} partitions`} />
      <${Tile} name="Kafka groups" value=${num(now('polylog_groups'))} note=${`${num(now('polylog_queue_dead_letters_total') ?? 0)} dead letters`} />
      <${Tile} name="Log" value=${bytes(now('polylog_log_bytes'))} note=${`entry ${num(now('polylog_raft_applied_index'))}`} />
      <${Tile} name="Disk free" value=${bytes(now('polylog_disk_free_bytes'))} note=${start ? `up ${duration(Date.now() - start * 1000)}` : ''} />
    </div>
    <div class="charts">
      <${Chart} theme=${theme} title="Messages a second" times=${m.times} format=${perSecond} lines=${[{ name: 'in', values: inRate }, { name: 'out', values: out }, { name: 'settled', values: rate('polylog_queue_settled_total') }]} />
      <${Chart} theme=${theme} title="Bytes a second" times=${m.times} format=${bytes} lines=${[{ name: 'in', values: rate('polylog_bytes_produced_total') }, { name: 'out', values: rate('polylog_bytes_consumed_total') }, { name: 'log', values: rate('polylog_log_bytes_written_total') }]} />
      <${Chart} theme=${theme} title="Connections" times=${m.times} format=${short} lines=${['Kafka', 'AMQP', 'MQTT'].map((p) => ({ name: p, values: zero(`polylog_${p.toLowerCase()}_connections`) }))} />
      <${Chart} theme=${theme} title="Publish to confirmation, mean" times=${m.times} format=${ms} lines=${[{ name: 'time', values: latency }]} />
      <${Chart} theme=${theme} title="CPU" times=${m.times} format=${(v) => (v === null ? '–' : `${short(v)} %`)} lines=${[{ name: 'of one core', values: cpu }]} />
      <${Chart} theme=${theme} title="Memory" times=${m.times} format=${bytes} lines=${[{ name: 'process', values: s.process_resident_memory_bytes || [] }, { name: 'overlay of the indexes', values: s.polylog_overlay_bytes || [] }]} />
    </div>
    <h3>Nodes</h3>
    <div class="table-box"><table aria-label="Nodes"><thead><tr><th>Node</th><th>Role</th><th class="num">Behind</th><th class="num">Log</th><th class="num">Disk free</th><th class="wide-only">Version</th></tr></thead>
      <tbody>${(h?.nodes || []).map((n) => html`<tr key=${n.id}><td><a class="name" href=${link(['cluster'])}>${n.id}</a></td>
        <td>${n.id === h.leader ? html`<span class="badge good">leader</span>` : n.error ? html`<span class="badge bad">silent</span>` : html`<span class="badge">follower</span>`}</td>
        <td class="num">${n.status ? num(n.behind || 0) : '–'}</td><td class="num">${bytes(n.status?.logBytes)}</td><td class="num">${bytes(n.status?.diskFreeBytes)}</td><td class="wide-only">${n.status?.version || n.error}</td></tr>`)}</tbody></table>
      ${health.error ? html`<${Failure} error=${health.error} />` : null}</div>`;
}
