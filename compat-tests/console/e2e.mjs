// Walks through every screen of the console, without users, with clients of all protocols at work.
import { start, post, bigNumber } from './traffic.mjs';
import { HTTP, OUT, base, open, page, words, check, refused, fits, end } from './walk.mjs';

const traffic = await start(process.env);
const { go, see, shot, table, row, button, dialog, contains } = words(page);

await check('the root leads to the console', async () => {
  await page.goto(`${base}/`);
  if (!page.url().startsWith(`${base}/console/`)) throw new Error(page.url());
  await see('Messages a second');
});

await check('overview: figures, charts, health', async () => {
  await see('healthy');
  await contains(page.locator('.tile', { hasText: 'Connections' }), /Kafka [1-9]\d* · AMQP 1 · MQTT 1/);
  await contains(page.locator('.tile', { hasText: 'Topics' }), /6[0-9]/);
  await contains(page.locator('.tile', { hasText: 'Messages in' }), /[1-9][\d.]*\/s/);
  const drawn = await page.locator('.chart canvas').count();
  if (drawn !== 6) throw new Error(`${drawn} charts are drawn`);
  await page.waitForFunction(() => [...document.querySelectorAll('.chart canvas')].every((c) => c.width > 300));
  await row('Nodes', 'leader').waitFor();
});

await check('topics: pages and search', async () => {
  await go('#/topics');
  await row('Topics', 'orders').waitFor();
  const first = await table('Topics').locator('tbody tr').count();
  if (first !== 50) throw new Error(`${first} rows on the first page`);
  await button('Next →').click();
  await see('page 2');
  await row('Topics', 'topic-59').waitFor();
  await button('← Back').click();
  await see('page 1');
  await page.keyboard.press('/');
  await page.keyboard.type('TOPIC-4');
  await page.waitForFunction(() => document.querySelectorAll('table tbody tr').length === 10);
  await shot('topics');
});

await check('a topic: messages, partitions, readers, settings', async () => {
  await go('#/topics/orders');
  await row('Messages', 'customer-').waitFor();
  await shot('topic');
  await page.getByRole('tab', { name: 'Partitions' }).click();
  await contains(table('Partitions').locator('tbody tr'), /2/);
  await page.getByRole('tab', { name: 'Readers' }).click();
  await contains(row('Readers', 'billing'), 'Kafka group');
  await contains(row('Readers', 'invoices'), 'subscription');
  await page.getByRole('tab', { name: 'Settings' }).click();
  await contains(row('Settings', 'retention.ms'), '86400000');
  await shot('topic-settings');
});

await check('messages: by key, id, time, offset; JSON with all digits; bytes; null', async () => {
  await go('#/messages/orders?by=key&value=big');
  await contains(row('Messages', 'big'), bigNumber);
  await row('Messages', 'big').click();
  await contains(dialog().locator('.j-n'), bigNumber);
  await contains(dialog(), 'region');
  await contains(dialog().locator('.story'), 'invoices');
  await contains(dialog().locator('.story'), 'billing');
  await shot('message');
  await dialog().getByRole('tab', { name: 'Hex' }).click();
  await contains(dialog(), '7b 22 69 64');
  await page.keyboard.press('Escape');
  await page.getByLabel('Which messages').selectOption('id');
  await page.getByRole('searchbox').fill('order-big');
  await contains(row('Messages', 'big'), bigNumber);
  await page.getByLabel('Which messages').selectOption('key');
  await page.getByRole('searchbox').fill('bytes');
  await row('Messages', 'bytes').click();
  await contains(dialog(), '00 01 02 ff fe');
  await page.keyboard.press('Escape');
  await page.getByRole('searchbox').fill('gone');
  await contains(row('Messages', 'gone'), 'null');
  await page.getByLabel('Which messages').selectOption('time');
  await page.getByRole('searchbox').fill(String(Date.now() - 3600_000));
  await row('Messages', 'customer-').waitFor();
  await page.getByLabel('Which messages').selectOption('offset');
  await page.getByLabel('Partition').selectOption('1');
  await page.getByRole('searchbox').fill('3');
  await page.waitForFunction(() => document.querySelector('table tbody tr td:nth-child(3)')?.innerText === '3');
});

await check('queues: counts, messages, deaths', async () => {
  await go('#/queues');
  const parcels = row('Queues', 'parcels');
  await parcels.waitFor();
  const cells = await parcels.locator('td').allInnerTexts();
  if (cells[2] !== '5' || cells[4] !== '1' || Number(cells[1]) < 30) throw new Error(`parcels: ${cells}`);
  await shot('queues');
  await parcels.click();
  await contains(row('Messages', 'parcel 6'), 'parcel.us');
  await go('#/queues/returns.dead');
  await contains(row('Messages', 'broken cup'), 'rejected');
  await row('Messages', 'broken cup').click();
  await contains(dialog().locator('.story'), 'Died in queue returns');
  await shot('dead-letter');
  await page.keyboard.press('Escape');
});

await check('exchanges and bindings', async () => {
  await go('#/exchanges');
  await contains(row('Exchanges', 'shipping'), 'topic');
  await row('Exchanges', 'shipping').click();
  await contains(row('Bindings', 'parcels'), 'parcel.#');
  await shot('exchange');
  await go('#/exchanges');
  await page.getByRole('searchbox').fill('SHIP');
  await row('Exchanges', 'amq.').waitFor({ state: 'detached' });
  await row('Exchanges', 'shipping').waitFor();
});

await check('groups: lag and members', async () => {
  await go('#/groups');
  await contains(row('Groups', 'billing'), 'Stable');
  await row('Groups', 'billing').click();
  await contains(row('Members', 'shop'), 'orders [0, 1, 2]');
  await contains(row('Positions', 'orders'), 'shop');
  await shot('group');
});

await check('connections of all protocols', async () => {
  await go('#/connections');
  await contains(row('Connections', 'KAFKA'), 'shop');
  await contains(row('Connections', 'AMQP'), 'warehouse');
  await contains(row('Connections', 'MQTT'), 'thermostat-7');
  await row('Connections', 'HTTP').waitFor();
  await shot('connections');
  await page.getByLabel('Protocol').selectOption('mqtt');
  await page.waitForFunction(() => document.querySelectorAll('table tbody tr').length === 1);
  await row('Connections', 'thermostat-7').click();
  await contains(dialog(), 'Subscriptions');
  await page.keyboard.press('Escape');
});

await check('cluster', async () => {
  await go('#/cluster');
  await contains(row('Nodes', 'leader'), 'ready');
  await contains(row('Listeners', 'kafka'), process.env.KAFKA);
  await shot('cluster');
});

await check('hooks', async () => {
  await go('#/hooks');
  await contains(row('Hooks', 'github'), 'events');
  await shot('hooks');
  await row('Hooks', 'github').click();
  await see(`${base}/hooks/github`);
  await see('json:/repository/full_name');
  await shot('hook');
});

await check('subscriptions: search', async () => {
  await go('#/subscriptions');
  await row('Subscriptions', 'audit').waitFor();
  await page.getByLabel('Kind').selectOption({ label: 'webhooks' });
  await row('Subscriptions', 'audit').waitFor({ state: 'detached' });
  await page.getByRole('searchbox').fill('/BAD'); // in an endpoint
  await row('Subscriptions', 'invoices').waitFor({ state: 'detached' });
  await contains(row('Subscriptions', 'ledger'), 'orders');
});

await check('read-only until it is unlocked', async () => {
  await go('#/publish');
  if (await button('Publish').isEnabled()) throw new Error('one may publish');
  await button('Publish').click({ force: true }); // it says why not
  await see('is read-only: unlock it');
  await refused(async () => {
    const status = await page.evaluate(() => fetch('/v1/topics/forbidden', { method: 'PUT', body: '{}' }).then((r) => r.status));
    if (status !== 403) throw new Error(`a page may write: ${status}`);
  });
  await page.locator('[data-login]').click();
  await shot('unlock');
  await button('Unlock', dialog()).click();
  await button('This browser may change things').waitFor();
});

await check('publish', async () => {
  await page.getByLabel('Its name').fill('orders');
  await page.getByLabel('Value as').selectOption('json');
  await page.getByRole('textbox', { name: 'Value', exact: true }).fill(`{"from": "the console", "n": ${bigNumber}}`);
  await page.getByLabel('Key', { exact: true }).fill('console');
  await page.getByLabel('Headers').fill('who=me\nwhy=test');
  await page.getByText('More: type').click();
  await page.getByLabel('Tag', { exact: true }).fill('console');
  await shot('publish');
  await button('Publish').click();
  await see('Stored as');
  await page.locator('p a').first().click();
  await contains(dialog().locator('.j-n'), bigNumber);
  await contains(dialog(), 'who');
  await page.keyboard.press('Escape');
});

await check('live tail', async () => {
  await go('#/tail/orders');
  await contains(page.getByRole('log').locator('div'), 'customer-');
  await post(HTTP, '/v1/topics/orders/messages', { messages: [{ key: 'tail', value: 'seen by the tail' }] });
  await contains(page.getByRole('log').locator('div'), 'seen by the tail');
  await shot('tail');
  await button('❚❚ Pause').click();
  await post(HTTP, '/v1/topics/orders/messages', { messages: [{ key: 'tail', value: 'while it was held' }] });
  await button('▶ Go on').click();
  await contains(page.getByRole('log').locator('div'), 'while it was held');
});

await check('webhooks: deliveries, test-fire, redrive', async () => {
  await go('#/subscriptions');
  await contains(row('Subscriptions', 'invoices'), 'active');
  await shot('subscriptions');
  await row('Subscriptions', 'invoices').click();
  await contains(row('Deliveries', 'delivered'), '204');
  await shot('webhook');
  await button('Test-fire').click();
  const before = traffic.got.length;
  await button('Send', dialog()).click();
  await contains(dialog(), 'delivered');
  if (traffic.got.length === before) throw new Error('the endpoint got nothing');
  await shot('test-fire');
  await button('Close', dialog()).last().click();
  await go('#/subscriptions/ledger');
  await contains(row('Deliveries', 'dead'), '422');
  await row('Deliveries', 'dead').click();
  await contains(dialog(), 'the total is missing');
  await page.keyboard.press('Escape');
  await button('Redrive').click();
  await dialog().locator('select').selectOption('queue');
  await dialog().getByLabel('Its name').fill('returns');
  await button('Redrive', dialog()).click();
  await see('messages are moved');
  await contains(dialog(), '1 moved');
  await button('Close', dialog()).last().click();
  await go('#/queues/returns.dead'); // what stays says why
  await button('Redrive').click();
  await dialog().getByLabel('Of the tag').fill('nobody');
  await button('Redrive', dialog()).click();
  await contains(dialog(), '0 moved, 2 left where they are');
  await contains(dialog(), '2: the filter does not want it');
  await button('Close', dialog()).last().click();
});

await check('create, change, purge and delete', async () => {
  await go('#/topics');
  await button('New topic').click();
  await page.getByLabel('Name', { exact: true }).fill('made.here');
  await page.getByLabel('Partitions').fill('2');
  await button('Create').click();
  await page.waitForURL(/topics\/made\.here/);
  await page.getByRole('tab', { name: 'Settings' }).click();
  await row('Settings', 'retention.ms').click();
  await page.getByLabel('Value').fill('1000000');
  await button('Set').click();
  await contains(row('Settings', 'retention.ms'), '1000000');
  await button('Delete').click();
  await dialog().getByRole('textbox').fill('made.here');
  await button('Delete', dialog()).click();
  await see('is gone');
  await go('#/queues/returns');
  await button('Purge').click();
  await dialog().getByRole('textbox').fill('returns');
  await button('Purge', dialog()).click();
  await see('messages are gone');
});

await check('exchanges: create, bind, unbind, delete; more partitions', async () => {
  await go('#/exchanges');
  await button('New exchange').click();
  await page.getByLabel('Name', { exact: true }).fill('made.exchange');
  await page.getByLabel('Type').selectOption('headers');
  await shot('new-exchange');
  await button('Create').click();
  await page.waitForURL(/exchanges\/made\.exchange/);
  await button('Bind').click();
  await dialog().getByLabel('Its name').fill('no.such.queue');
  await refused(async () => {
    await button('Bind', dialog()).click();
    await contains(dialog().getByRole('alert'), 'no.such.queue'); // what is wrong is said in the dialog
  });
  await shot('bind-refused');
  await dialog().getByLabel('Its name').fill('parcels');
  await dialog().getByLabel('Arguments', { exact: true }).fill('x-match=any\nregion=eu');
  await button('Bind', dialog()).click();
  await contains(row('Bindings', 'parcels'), 'region=eu');
  await button('Unbind').click();
  await button('Unbind', dialog()).click();
  await see('Nothing is bound to it');
  await button('Delete').click();
  await dialog().getByRole('textbox').fill('made.exchange');
  await button('Delete', dialog()).click();
  await see('is gone');
  await go('#/topics/orders?tab=partitions');
  await button('Add partitions').click();
  await dialog().getByLabel('Partitions').fill('4');
  await button('Add', dialog()).click();
  await see('4 partitions');
});

await check('webhooks: pause, go on; hooks: create, rotate, delete', async () => {
  await go('#/subscriptions/invoices');
  await button('Pause').click();
  await see('paused');
  await button('Go on').click();
  await button('Pause').waitFor();
  await go('#/hooks');
  await button('New hook').click();
  await page.getByLabel('Name', { exact: true }).fill('shop');
  await page.getByLabel('Topic', { exact: true }).fill('events');
  await page.getByLabel('Believes').selectOption('hmac');
  await page.getByLabel('Signature is in').fill('X-Shop-Signature');
  await button('Create', dialog()).click();
  await see('the only time that it is shown');
  await button('Done', dialog()).click();
  await row('Hooks', 'shop').click();
  await see('X-Shop-Signature');
  await button('Rotate secret').click();
  await button('Done', dialog()).click();
  await button('Delete').click();
  await dialog().getByRole('textbox').fill('shop');
  await button('Delete', dialog()).click();
  await see('is gone');
});

await check('keys: palette, going, help', async () => {
  await go('#/overview');
  await see('Messages a second');
  await page.keyboard.press('Control+k');
  await dialog().getByLabel('Go to').fill('parcel');
  await contains(dialog(), 'queue');
  await page.keyboard.press('Enter');
  await page.waitForURL(/queues\/parcels/);
  await page.locator('h1').click();
  await page.keyboard.press('g');
  await page.keyboard.press('c');
  await page.waitForURL(/connections/);
  await page.keyboard.press('?');
  await contains(dialog(), 'search in this screen');
  await page.keyboard.press('Escape');
  await button('This browser may change things').click();
  await button('Log out', dialog()).click();
  await page.locator('[data-login]').waitFor();
});

// What it looks like, once there is something in the charts.
const screens = ['overview', 'topics/orders', 'queues', 'groups/billing', 'subscriptions/invoices', 'connections', 'cluster', 'publish'];
for (const [name, width, height, theme] of [['dark', 1280, 860, 'dark'], ['light', 1280, 860, 'light'], ['phone', 390, 844, 'dark']]) {
  await check(`looks: ${name}`, async () => {
    const other = await open(width, height, theme);
    for (const s of screens) {
      await other.goto(`${base}/console/#/${s}`);
      await other.locator('.page h1').waitFor();
      if (s === 'overview') await other.waitForFunction(() => document.querySelectorAll('.chart canvas').length === 6);
      else if (s !== 'publish') await other.locator('table tbody tr').first().waitFor();
      await other.evaluate(() => document.fonts.ready);
      await other.screenshot({ path: `${OUT}/${name}-${s.replace('/', '-')}.png` });
      await fits(other, s);
    }
    await other.context().close();
  });
}

await traffic.end();
await end();
