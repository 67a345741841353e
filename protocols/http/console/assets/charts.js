// Charts of figures over time.
import { html, useEffect, useRef } from './vendor/htm-preact.js';
import uPlot from './vendor/uplot.js';
import { bytes } from './format.js';

// rates are what counters gained in a second; null where nobody knows, as after a restart.
export function rates(times, values) {
  if (!values) return times.map(() => null);
  return values.map((v, i) => {
    if (i === 0 || v === null || values[i - 1] === null || v < values[i - 1]) return null;
    return ((v - values[i - 1]) * 1000) / (times[i] - times[i - 1]);
  });
}

// ratio is one of two counters' gains by the other's.
export function ratio(above, below, scale = 1) {
  return (above || []).map((v, i) => {
    if (i === 0 || v === null || !below || below[i - 1] === null || above[i - 1] === null) return null;
    const n = below[i] - below[i - 1];
    return n > 0 ? ((v - above[i - 1]) / n) * scale : null;
  });
}

export const last = (values) => {
  for (let i = (values?.length || 0) - 1; i >= 0; i--) if (values[i] !== null && values[i] !== undefined) return values[i];
  return null;
};

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const halves = Array.from({ length: 50 }, (_, i) => 2 ** i); // between the lines of an axis of bytes
const font = '11px system-ui, sans-serif';

// Chart draws lines; each is {name, values}. times are in ms.
export function Chart({ title, times, lines, format, theme }) {
  const box = useRef();
  const plot = useRef(null);
  useEffect(() => {
    const axis = { stroke: colour('--dim'), grid: { stroke: colour('--line'), width: 0.6 }, ticks: { show: false }, font };
    plot.current = new uPlot({
      width: box.current.clientWidth || 300,
      height: 168,
      cursor: { points: { size: 6 }, y: false },
      legend: { show: false },
      padding: [8, 8, 0, 0],
      scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.12 : 1] } },
      axes: [
        { ...axis, grid: { show: false }, size: 26, space: 80, values: (u, ticks) => ticks.map((t) => new Date(t * 1000).toTimeString().slice(0, u.scales.x.max - u.scales.x.min < 400 ? 8 : 5)) },
        { ...axis, size: 58, space: 34, ...(format === bytes ? { incrs: halves } : {}), values: (_, ticks) => ticks.map(format) },
      ],
      series: [{}, ...lines.map((_, i) => {
        const c = colour(`--c${i + 1}`);
        return { stroke: c, width: 1.6, fill: i === 0 ? `${c}1c` : undefined, points: { show: false }, spanGaps: true };
      })],
    }, [[], ...lines.map(() => [])], box.current);
    const watch = new ResizeObserver(() => plot.current?.setSize({ width: box.current.clientWidth, height: 168 }));
    watch.observe(box.current);
    return () => {
      watch.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [theme, lines.length]);
  useEffect(() => {
    plot.current?.setData([times.map((t) => t / 1000), ...lines.map((l) => l.values)]);
  });
  return html`
    <section class="chart" aria-label=${title}>
      <header><h2>${title}</h2><div class="legend">${lines.map((l, i) => html`<span><i class=${`k${i + 1}`}></i>${l.name}<b>${format(last(l.values))}</b></span>`)}</div></header>
      <div class="plot" ref=${box}></div>
    </section>`;
}
