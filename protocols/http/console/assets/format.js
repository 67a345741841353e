// How numbers, sizes, times and bytes are shown.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

export function num(n) {
  if (n === null || n === undefined) return '–';
  return typeof n === 'string' ? n : whole.format(n);
}

// count is so many of something: 1 message, 2 messages.
export const count = (n, what) => `${num(n)} ${what}${n === 1 ? '' : 's'}`;

// short is a number in four characters or so.
export function short(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return '–';
  const abs = Math.abs(n);
  if (abs >= 1e9) return `${trim(n / 1e9)}G`;
  if (abs >= 1e6) return `${trim(n / 1e6)}M`;
  if (abs >= 1e4) return `${trim(n / 1e3)}k`;
  if (abs >= 100 || Number.isInteger(n)) return whole.format(n);
  return trim(n);
}

function trim(n) {
  const abs = Math.abs(n);
  return n.toFixed(abs >= 100 ? 0 : abs >= 10 ? 1 : 2).replace(/\.?0+$/, '') || '0';
}

export function bytes(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return '–';
  if (n < 0) return '?';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return `${i === 0 ? whole.format(n) : trim(n)} ${units[i]}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return '–';
  const s = Math.floor(ms / 1000);
  if (s < 0) return 'now';
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

const two = (n) => String(n).padStart(2, '0');

export function time(t, withDate = true) {
  if (!t) return '–';
  const d = new Date(t);
  if (Number.isNaN(d.getTime())) return String(t);
  const clock = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}.${String(d.getMilliseconds()).padStart(3, '0')}`;
  return withDate ? `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock}` : clock;
}

export const date = (t) => (t ? time(t).slice(0, 16) : '–');

export const ago = (t, now = Date.now()) => (t ? `${duration(Math.max(0, now - new Date(t).getTime()))} ago` : '–');

// bytesOf are the bytes of a message's part as answers have it: text, or base64.
export function bytesOf(text, base64) {
  if (base64) {
    const raw = atob(base64);
    const b = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) b[i] = raw.charCodeAt(i);
    return b;
  }
  return new TextEncoder().encode(text ?? '');
}

// hex is a dump of up to limit bytes: offset, 16 bytes, what of them can be read.
export function hex(b, limit = 64 << 10) {
  const lines = [];
  for (let i = 0; i < Math.min(b.length, limit); i += 16) {
    const row = b.subarray(i, Math.min(i + 16, limit));
    let left = '';
    let right = '';
    for (let k = 0; k < 16; k++) {
      left += k < row.length ? row[k].toString(16).padStart(2, '0') + ' ' : '   ';
      if (k === 7) left += ' ';
      if (k < row.length) right += row[k] >= 32 && row[k] < 127 ? String.fromCharCode(row[k]) : '·';
    }
    lines.push(`${i.toString(16).padStart(8, '0')}  ${left} ${right}`);
  }
  if (b.length > limit) lines.push(`… ${b.length - limit} bytes more`);
  return lines.join('\n');
}

// tokens takes JSON text apart, and lays it out in lines, without ever making numbers of digits: what
// is shown is what was sent. null: it is no JSON.
export function tokens(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const out = [];
  let depth = 0;
  const line = () => out.push(['', '\n' + '  '.repeat(depth)]);
  const pattern = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
  const all = text.match(pattern) || [];
  for (let i = 0; i < all.length; i++) {
    const t = all[i];
    switch (t[0]) {
      case '{':
      case '[':
        if (all[i + 1] === (t === '{' ? '}' : ']')) {
          out.push(['p', t + all[++i]]);
          break;
        }
        out.push(['p', t]);
        depth++;
        line();
        break;
      case '}':
      case ']':
        depth--;
        line();
        out.push(['p', t]);
        break;
      case ',':
        out.push(['p', ',']);
        line();
        break;
      case ':':
        out.push(['p', ': ']);
        break;
      case '"':
        out.push([all[i + 1] === ':' ? 'k' : 's', t]);
        break;
      default:
        out.push([/^[-\d]/.test(t) ? 'n' : 'b', t]);
    }
  }
  return out;
}
