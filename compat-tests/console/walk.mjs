// What walks through the console have in common: the browser, what it complains of, and short words for what is on a page.
import { execFileSync } from 'node:child_process';
import { chromium } from 'playwright-core';

export const { HTTP, OUT } = process.env;
export const base = `http://${HTTP}`;
const wrong = []; // what the browser complained of, and during which check
let during = '';
const complain = (text) => wrong.push(`${during}: ${text}`);
let failed = 0;
let refusals = 0; // above zero while refusals are asked for: they are errors to the browser, too

const path = execFileSync('sh', ['-c', 'command -v chromium']).toString().trim();
const browser = await chromium.launch({ executablePath: path, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] });

// open is a page of a browser of its own.
export async function open(width, height, theme) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion: 'reduce' });
  const page = await context.newPage();
  page.setDefaultTimeout(60000); // machines may be busy
  page.on('console', (m) => { if (['error', 'warning'].includes(m.type()) && !(refusals > 0 && /status of 4\d\d/.test(m.text()))) complain(m.text()); });
  page.on('response', (r) => { if (r.status() >= 400 && refusals === 0) complain(`${r.status()} ${r.url()}`); });
  page.on('pageerror', (e) => complain(`${e}`));
  page.on('request', (r) => { if (!r.url().startsWith(base)) complain(`asks another host: ${r.url()}`); });
  await page.addInitScript(() => addEventListener('securitypolicyviolation', (e) => console.error(`CSP: ${e.violatedDirective} ${e.blockedURI}`)));
  return page;
}

// refused runs what the broker refuses.
export async function refused(fn) {
  refusals++;
  try {
    await fn();
  } finally {
    refusals--;
  }
}

export const page = await open(1280, 860, 'dark');

export async function check(name, fn, on = page) {
  during = name;
  try {
    await fn();
    console.log(`ok   ${name}`);
  } catch (e) {
    failed++;
    console.log(`FAIL ${name}\n     ${String(e.message).split('\n').slice(0, 12).join('\n     ')}`);
    if (wrong.length) console.log(`     the browser says: ${[...new Set(wrong)].join('\n     ')}`);
    await on.screenshot({ path: `${OUT}/failed-${failed}.png` }).catch(() => {});
    if (failed === 4) process.exit(1);
  }
}

// words are for one page.
export const words = (page) => {
  const table = (name) => page.getByRole('table', { name });
  return {
    go: (hash) => page.goto(`${base}/console/${hash}`),
    see: (text, scope = page) => scope.getByText(text, { exact: false }).first().waitFor(),
    shot: (name) => page.screenshot({ path: `${OUT}/${name}.png` }),
    table,
    row: (name, text) => table(name).locator('tbody tr', { hasText: text }).first(),
    button: (name, scope = page) => scope.getByRole('button', { name, exact: true }),
    dialog: () => page.getByRole('dialog'),
    contains: (locator, text) => locator.filter({ hasText: text }).first().waitFor(),
  };
};

// fits fails when a page is wider than its window, or has something to be used that has no name.
export async function fits(page, what) {
  const { over, nameless } = await page.evaluate(() => ({
    over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    nameless: [...document.querySelectorAll('button,a,input,select,textarea,summary')].filter((e) => e.checkVisibility() && !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim())).map((e) => e.outerHTML.slice(0, 120)),
  }));
  if (over > 0) throw new Error(`${what} is ${over} px too wide`);
  if (nameless.length) throw new Error(`${what}: nobody says what these are: ${nameless.join(' ')}`);
}

// end says how it went.
export async function end() {
  await check('no errors of scripts or of the policy', async () => {
    if (wrong.length) throw new Error([...new Set(wrong)].join('\n'));
  });
  await browser.close();
  console.log(failed ? `${failed} failed` : 'all is well');
  process.exit(failed ? 1 : 0);
}
