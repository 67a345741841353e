// Walks through the console of a broker with users: from the first one, by what each may do, to the last one's end.
import { base, open, page, words, check, refused, fits, end, OUT } from './walk.mjs';

const { go, see, shot, table, row, button, dialog, contains } = words(page);
const password = 'a password for tests';

// as calls the broker as a user, past the browser; nobody while there are none.
const as = (user, pw) => async (method, path, body) => {
  const headers = { 'Content-Type': 'application/json', ...(user ? { Authorization: `Basic ${btoa(`${user}:${pw}`)}` } : {}) };
  const res = await fetch(`${base}${path}`, { method, headers, body: body && JSON.stringify(body) });
  if (!res.ok) throw new Error(`${method} ${path}: ${res.status} ${await res.text()}`);
};
const anybody = as();
const admin = as('admin', password);

for (const topic of ['app.orders', 'secrets']) {
  await anybody('PUT', `/v1/topics/${topic}`, { partitions: 1 });
  await anybody('POST', `/v1/topics/${topic}/messages`, { messages: [{ key: 'k', value: `in ${topic}` }] });
}
await anybody('PUT', '/v1/queues/app.jobs', {});
await anybody('PUT', '/v1/namespaces/lab', {});

// A page that polls is refused something while its session ends or its user goes: such checks are in refused().

// logIn fills the form.
async function logIn(on, user, pw) {
  await on.getByLabel('User').fill(user);
  await on.getByLabel('Password').fill(pw);
  await on.getByRole('button', { name: 'Log in' }).click();
}

await check('the first user: what it means is said, then it is made and logged in', () => refused(async () => {
  await go('#/users');
  await see('whoever reaches it may do everything');
  await page.getByLabel('New password').fill(password);
  await page.getByLabel('The same again').fill('another');
  await see('These differ');
  await page.getByLabel('The same again').fill(password);
  if (await button('Make it, and log in as it').isEnabled()) throw new Error('it may be made by whoever looks');
  await page.locator('[data-login]').click();
  await button('Unlock', dialog()).click();
  await button('This browser may change things').waitFor();
  await shot('first-user');
  await fits(page, 'the first user');
  await button('Make it, and log in as it').click();
  await page.waitForURL(/users\/admin/);
  await button('You are admin').waitFor();
  await contains(row('Rights', 'default'), 'everything');
}));

const other = await open(1280, 860, 'light');
const theirs = words(other);

await check('others have to log in; a wrong password is said to be wrong', () => refused(async () => {
  await theirs.go('#/topics');
  await other.getByLabel('User').waitFor();
  await fits(other, 'the login page');
  await theirs.shot('login-light');
  await refused(async () => {
    await logIn(other, 'admin', 'wrong');
    await theirs.contains(other.getByRole('alert'), 'the user or the password is wrong');
  });
  await theirs.shot('login-wrong');
  await logIn(other, 'admin', password);
  await theirs.row('Topics', 'app.orders').waitFor(); // where one wanted to go
  await theirs.button('You are admin').click();
  await theirs.contains(theirs.dialog(), 'administrator');
  await theirs.button('Log out', theirs.dialog()).click();
  await other.getByLabel('User').waitFor();
}), other);

await check('users: pages and search', async () => {
  for (let i = 0; i < 60; i++) await admin('PUT', `/v1/users/user-${String(i).padStart(2, '0')}`, { tags: i % 5 ? [] : ['monitoring'] });
  await go('#/users');
  await row('Users', 'admin').waitFor();
  await see('page 1');
  await button('Next →').click();
  await row('Users', 'user-59').waitFor();
  await button('← Back').click();
  await page.keyboard.press('/');
  await page.keyboard.type('USER-4');
  await page.waitForFunction(() => document.querySelectorAll('table tbody tr').length === 10);
  await page.getByRole('searchbox').fill('');
  await row('Users', 'admin').waitFor();
  await shot('users');
});

await check('a user: create, rights, tags', async () => {
  await button('New user').click();
  await dialog().getByLabel('Name', { exact: true }).fill('admin');
  await dialog().getByLabel('New password').fill('dev password');
  await dialog().getByLabel('The same again').fill('dev password');
  await refused(async () => {
    await button('Create', dialog()).click();
    await contains(dialog().getByRole('alert'), 'exists');
  });
  await dialog().getByLabel('Name', { exact: true }).fill('dev');
  await shot('new-user');
  await button('Create', dialog()).click();
  await page.waitForURL(/users\/dev/);
  await see('None, in no namespace');
  await button('Give rights in a namespace').click();
  await dialog().getByLabel('Namespace').selectOption('default');
  await dialog().getByLabel('Configure').fill('[');
  await refused(async () => {
    await button('Set', dialog()).click();
    await contains(dialog().getByRole('alert'), 'expression');
  });
  await shot('rights-wrong');
  await dialog().getByLabel('Configure').fill('');
  await dialog().getByLabel('Write').fill('^app\\.');
  await dialog().getByLabel('Read').fill('app');
  await see('matches anywhere', dialog());
  await dialog().getByLabel('Read').fill('^app\\.');
  await button('Set', dialog()).click();
  await contains(row('Rights', 'default'), '^app\\.');
  await shot('user');
  await button('Change tags').click();
  await dialog().getByLabel('policymaker').check();
  await shot('tags');
  await button('Set', dialog()).click();
  await contains(page.locator('.head .badge'), 'policymaker');
});

await check('the last administrator stays one', async () => {
  await go('#/users/admin');
  await button('Change tags').click();
  await dialog().getByLabel('administrator').uncheck();
  await see('You give up being an administrator', dialog());
  await refused(async () => {
    await button('Set', dialog()).click();
    await dialog().getByRole('alert').waitFor();
  });
  await shot('last-administrator');
  await page.keyboard.press('Escape');
});

await check('whoever may little is offered that, and is told why not the rest', async () => {
  await theirs.go('#/');
  await logIn(other, 'dev', 'dev password');
  await theirs.row('Topics', 'app.orders').waitFor();
  await theirs.row('Topics', 'secrets').waitFor({ state: 'detached' });
  const screens = await other.locator('.side a.item').allInnerTexts();
  if (screens.some((s) => /Users|Cluster|Connections|Overview/.test(s))) throw new Error(`dev is offered ${screens}`);
  if (await theirs.button('New topic').isEnabled()) throw new Error('dev may make topics');
  await theirs.button('New topic').focus();
  await other.keyboard.press('Enter');
  await theirs.see('may make, change or delete nothing in namespace default');
  await theirs.row('Topics', 'app.orders').click();
  await theirs.row('Messages', 'in app.orders').waitFor();
  if (await theirs.button('Delete').isEnabled()) throw new Error('dev may delete a topic');
  await theirs.shot('dev-topic');
  await other.getByRole('tab', { name: 'Publish' }).click();
  await other.getByRole('textbox', { name: 'Value', exact: true }).fill('from dev');
  await theirs.button('Publish').click();
  await theirs.see('Stored as');
  await theirs.go('#/publish');
  await other.getByLabel('Its name').fill('secrets');
  await theirs.see('User dev may not publish to secrets');
  await theirs.go('#/users');
  await theirs.see('This is for users with the tag administrator');
  await theirs.shot('dev-users');
}, other);

await check('own password: not without the old one, and one stays logged in', () => refused(async () => {
  await theirs.button('You are dev').click();
  await theirs.shot('account');
  await theirs.button('Change password', theirs.dialog()).click();
  await theirs.dialog().getByLabel('Old password').fill('wrong');
  await theirs.button('Make one up', theirs.dialog()).click();
  await theirs.shot('own-password');
  await refused(async () => {
    await theirs.button('Change', theirs.dialog()).click();
    await theirs.dialog().getByRole('alert').waitFor();
  });
  await theirs.dialog().getByLabel('Old password').fill('dev password');
  await theirs.button('Change', theirs.dialog()).click();
  await theirs.dialog().waitFor({ state: 'detached' });
  await theirs.go('#/topics');
  await theirs.row('Topics', 'app.orders').waitFor();
  await refused(async () => {
    const r = await fetch(`${base}/v1/whoami`, { headers: { Authorization: `Basic ${btoa('dev:dev password')}` } });
    if (r.status !== 401) throw new Error(`the old password: ${r.status}`);
  });
}), other);

await check('a session ends with the password', async () => {
  await refused(async () => {
    await go('#/users/dev');
    await button('Change password').click();
    await dialog().getByLabel('New password').fill('third password');
    await dialog().getByLabel('The same again').fill('third password');
    await button('Change', dialog()).click();
    await dialog().waitFor({ state: 'detached' });
    await other.getByText('Your session has ended').waitFor(); // when it asks for something next
  });
  await theirs.shot('session-ended');
}, other);

// What it looks like.
for (const [name, width, height, theme] of [['dark', 1280, 860, 'dark'], ['light', 1280, 860, 'light'], ['phone', 390, 844, 'light']]) {
  await check(`looks: ${name}`, async () => {
    const fresh = await open(width, height, theme);
    const w = words(fresh);
    await w.go('#/users');
    await fresh.getByLabel('User').waitFor();
    await fits(fresh, 'login');
    await w.shot(`${name}-login`);
    await logIn(fresh, 'admin', password);
    await w.row('Users', 'admin').waitFor();
    await fits(fresh, 'users');
    await w.shot(`${name}-users`);
    await w.button('New user').click();
    await w.shot(`${name}-new-user`);
    await fresh.keyboard.press('Escape');
    await w.go('#/users/dev');
    await w.row('Rights', 'default').waitFor();
    await fits(fresh, 'user');
    await w.shot(`${name}-user`);
    await w.button('Change rights in default').click();
    await w.shot(`${name}-rights`);
    await fresh.keyboard.press('Escape');
    await w.button('You are admin').click();
    await w.shot(`${name}-account`);
    await fresh.context().close();
  });
}

await check('users go, the last one after it is said what that means', () => refused(async () => {
  await go('#/users/dev');
  await button('Delete').click();
  await dialog().getByRole('textbox').fill('dev');
  await button('Delete', dialog()).click();
  await see('User dev is gone');
  for (let i = 0; i < 60; i++) await admin('DELETE', `/v1/users/user-${String(i).padStart(2, '0')}`);
  await go('#/users/admin');
  await button('Delete').click();
  await see('the broker asks nobody who they are', dialog());
  await dialog().getByRole('textbox').fill('admin');
  await shot('last-user');
  await refused(async () => {
    await button('Delete', dialog()).click();
    await see('whoever reaches it may do everything');
  });
  await page.locator('[data-login]').waitFor();
}));

await end();
