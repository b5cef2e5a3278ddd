import { addPlugins, createCard, expect, expectAccessible, expectReflows, signIn, test, type TestPlugin } from './support.ts';

const register = (tab: string, renderer: string) => `export function activate(host) { globalThis.given = host; host.registerCardTabRenderer('${tab}', ${renderer}); }`;

const RUDE: TestPlugin[] = [
  { name: 'e2e-throws', tab: 'throws', code: register('throws', `() => { throw new Error('thrown by the tab'); }`) },
  { name: 'e2e-hangs', tab: 'hangs', code: register('hangs', '() => new Promise(() => {})') },
  { name: 'e2e-silent', tab: 'silent', code: 'export function activate() {}' },
  { name: 'e2e-broken', tab: 'broken', code: 'export function activate( {' },
  { name: 'e2e-no-activate', tab: 'no-activate', code: 'export const version = 1;' },
  { name: 'e2e-tampered', tab: 'tampered', code: 'export function activate() { globalThis.tampered = true; }', integrity: `sha256-${'A'.repeat(43)}=` },
];

test('the tab of the plugin “supplier” is drawn, and a deep link opens it', async ({ page }) => {
  await signIn(page);
  const id = await createCard(page, 'With a supplier tab');
  await page.getByRole('tab', { name: 'Supplier' }).click();
  await expect(page.getByRole('tabpanel').locator('[data-plugin="supplier"]')).toContainText(/supplier/i);
  await expectAccessible(page);
  await expectReflows(page);
  await page.goto(`/admin/cards/${id}?tab=supplier/supplier`);
  await expect(page.getByRole('tab', { name: 'Supplier' })).toHaveAttribute('aria-selected', 'true');
  await expect(page.getByRole('tabpanel').locator('[data-plugin="supplier"]')).toContainText(/supplier/i);
});

test('a plugin’s code is fetched when its tab is first opened, and once', async ({ page }) => {
  let fetched = 0;
  await addPlugins(page, [{ name: 'e2e-lazy', tab: 'lazy', code: register('lazy', `(box) => { box.textContent = 'drawn ' + (globalThis.times = (globalThis.times ?? 0) + 1); }`) }]);
  page.on('request', (request) => { if (request.url().includes('/plugins/e2e-lazy/')) fetched += 1; });
  await signIn(page);
  await createCard(page, 'Lazy');
  await expect(page.getByRole('tab', { name: 'lazy' })).toBeVisible();
  expect(fetched).toBe(0);
  await page.getByRole('tab', { name: 'lazy' }).click();
  await expect(page.getByText('drawn 1')).toBeVisible();
  await page.getByRole('tab', { name: 'Overview' }).click();
  await page.getByRole('tab', { name: 'lazy' }).click();
  await expect(page.getByText('drawn 2')).toBeVisible();
  expect(fetched).toBe(1);
});

test('whatever a plugin does wrong is one message in its tab; the page and other tabs go on', async ({ page }) => {
  test.slow();
  await addPlugins(page, RUDE);
  await signIn(page);
  await createCard(page, 'Rude plugins');
  const expectMessage = async (tab: string, message: RegExp) => {
    await page.getByRole('tab', { name: tab, exact: true }).click();
    await expect(page.getByRole('tabpanel').getByRole('alert')).toContainText(message, { timeout: 15_000 });
  };
  await expectMessage('throws', /failed while drawing its tab/);
  await expect(page.getByText('thrown by the tab')).toBeAttached();
  await expectAccessible(page);
  await expectReflows(page);
  await expectMessage('broken', /does not run in this browser/);
  await expectMessage('no-activate', /does not export a function/);
  await expectMessage('tampered', /isn’t the file that was announced/);
  expect(await page.evaluate(() => (globalThis as { tampered?: boolean }).tampered)).toBeUndefined();
  await expectMessage('silent', /registered no renderer/);
  await expectMessage('hangs', /over 10 seconds/);
  await page.getByRole('tab', { name: 'Supplier' }).click();
  await expect(page.locator('[data-plugin="supplier"]')).toContainText(/supplier/i);
  await page.getByRole('tab', { name: 'Overview' }).click();
  await expect(page.getByLabel('Title')).toHaveValue('Rude plugins');
});

test('a tab that failed to load can be tried again', async ({ page }) => {
  await addPlugins(page, [{ name: 'e2e-flaky', tab: 'flaky', code: register('flaky', `(box) => { box.textContent = 'there now'; }`) }]);
  let failing = true;
  await page.route('**/admin/assets/plugins/e2e-flaky/**', (route) => (failing ? route.fulfill({ status: 404 }) : route.fallback()));
  await signIn(page);
  await createCard(page, 'Flaky');
  await page.getByRole('tab', { name: 'flaky' }).click();
  await expect(page.getByRole('tabpanel').getByRole('alert')).toContainText('could not be fetched');
  failing = false;
  await page.getByRole('button', { name: 'Retry' }).click();
  await expect(page.getByText('there now')).toBeVisible();
});

test('errors after the tab was drawn are shown below it and reported as the plugin’s', async ({ page, watched }) => {
  watched.allow(/late (throw|rejection)/);
  const code = register('late', `(box) => {
    box.innerHTML = '<button>Go wrong</button>';
    box.querySelector('button').addEventListener('click', () => { setTimeout(() => { throw new Error('late throw'); }); void Promise.reject(new Error('late rejection')); });
  }`);
  await addPlugins(page, [{ name: 'e2e-late', tab: 'late', code }]);
  const reports: { phase?: string }[] = [];
  await page.route('**/plugin-registry/e2e-late/client-errors', (route) => {
    reports.push(route.request().postDataJSON() as object);
    return route.fulfill({ status: 404, contentType: 'application/problem+json', json: { status: 404, code: 'not-found', detail: 'x' } });
  });
  await signIn(page);
  await createCard(page, 'Late errors');
  await page.getByRole('tab', { name: 'late', exact: true }).click();
  await page.getByRole('button', { name: 'Go wrong' }).click();
  await expect(page.getByText('Something in this tab failed (2 times)')).toBeVisible();
  await expectAccessible(page);
  expect(reports.map((report) => report.phase)).toEqual(['late', 'late']);
});

test('HTML that a plugin forgot to escape is inert, and its styles stay in its tab', async ({ page, watched }) => {
  watched.allow(/javascript:/); // the browser says that a click on such a link was refused
  const html = '<h3 class="x">Kept</h3><img src="data:,x" onerror="globalThis.ran = 1"><a href="javascript:globalThis.ran=2">link</a><script>globalThis.ran = 3</script><p style="position:fixed">p</p><iframe srcdoc="x"></iframe>';
  const code = `export function activate(host) { host.css('h1, h3 { color: rgb(1, 2, 3); } :host { position: fixed; inset: 0; z-index: 9999; background: red; }'); host.registerCardTabRenderer('html', (box) => { box.innerHTML = ${JSON.stringify(html)}; }); }`;
  await addPlugins(page, [{ name: 'e2e-html', tab: 'html', code }]);
  await signIn(page);
  await createCard(page, 'Unescaped');
  await page.getByRole('tab', { name: 'html' }).click();
  await expect(page.getByRole('heading', { level: 3, name: 'Kept' })).toHaveCSS('color', 'rgb(1, 2, 3)');
  await expect(page.getByRole('heading', { level: 1 })).not.toHaveCSS('color', 'rgb(1, 2, 3)');
  // Even where its styles say so, it cannot lie over the page.
  await page.getByRole('tab', { name: 'JSON' }).click();
  await page.getByRole('tab', { name: 'html' }).click();
  await expect(page.locator('[data-plugin="e2e-html"] iframe, [data-plugin="e2e-html"] script, [data-plugin="e2e-html"] [style]')).toHaveCount(0);
  await page.getByText('link', { exact: true }).dispatchEvent('click');
  expect(await page.evaluate(() => (globalThis as { ran?: number }).ran)).toBeUndefined();
});

test('the host gives a plugin its eight members, frozen, and no way out of the admin API', async ({ page }) => {
  const code = register('probe', `async (box, detail) => {
    const host = globalThis.given;
    const refused = async (path) => { try { await host.apiRequest(path); return 'sent'; } catch (error) { return error.code; } };
    const missing = await host.apiRequest('/master-cards/00000000-0000-7000-8000-000000000000').catch((error) => error);
    box.textContent = JSON.stringify({
      frozen: Object.isFrozen(host),
      members: ['apiRequest','esc','formatMoney','formatDate','showToast','getState','getCardDetail','registerCardTabRenderer'].filter((m) => typeof host[m] === 'function').length,
      state: Object.keys(host.getState()),
      token: JSON.stringify(host.getState()).includes('mps_'),
      same: host.getCardDetail().item.id === detail.item.id,
      refused: [await refused('/../../api'), await refused('/%2e%2e/x'), await refused('master-cards'), await refused('/..%2f..%2fx')],
      missing: [missing instanceof Error, missing.status, missing.code, typeof missing.detail, typeof missing.request_id],
      me: (await host.apiRequest('/auth/me')).user.username === host.getState().user.username,
    });
    host.showToast('A word from the plugin');
  }`);
  await addPlugins(page, [{ name: 'e2e-probe', tab: 'probe', code }]);
  const outside: string[] = [];
  page.on('request', (request) => { if (!/^\/(v1\/admin\/|admin\/|metrics$)/.test(new URL(request.url()).pathname)) outside.push(request.url()); });
  await signIn(page);
  await createCard(page, 'Probed');
  await page.getByRole('tab', { name: 'probe' }).click();
  await expect(page.getByText('A word from the plugin')).toBeVisible();
  const seen = JSON.parse(await page.locator('[data-plugin="e2e-probe"] .plugin-tab').innerText()) as unknown;
  expect(seen).toEqual({
    frozen: true,
    members: 8,
    state: ['user', 'locale', 'theme', 'scopes', 'route'],
    token: false,
    same: true,
    refused: ['invalid-path', 'invalid-path', 'invalid-path', 'invalid-path'],
    missing: [true, 404, 'not-found', 'string', 'string'],
    me: true,
  });
  expect(outside).toEqual([]);
});

/** Puts its own in the place of all that a request could pass, and keeps whatever holds a token. */
const SPY = `
const caught = (globalThis.caught = []);
const natives = { apply: Reflect.apply, define: Object.defineProperty, keys: Reflect.ownKeys, slice: String.prototype.slice };
const begin = (text, length) => natives.apply(natives.slice, text, [0, length]);
const holds = (value, depth = 0) => {
  if (typeof value === 'string') return value.length > 40 && (begin(value, 4) === 'mps_' || begin(value, 11) === 'Bearer mps_');
  if (value === null || typeof value !== 'object' || depth > 3 || value instanceof Node || value === globalThis) return false;
  for (const key of natives.keys(value)) {
    const own = Object.getOwnPropertyDescriptor(value, key);
    if (own && 'value' in own && holds(own.value, depth + 1)) return true;
  }
  return false;
};
const look = (where, ...values) => { for (const value of values) if (holds(value)) caught[caught.length] = where; };
const replace = (owner, name, where) => {
  const native = owner[name];
  if (typeof native !== 'function') return;
  const spy = function (...values) {
    look(where, this, ...values);
    return new.target ? Reflect.construct(native, values, new.target === spy ? native : new.target) : natives.apply(native, this, values);
  };
  spy.prototype = native.prototype;
  natives.define(owner, name, { value: spy, writable: true, configurable: true });
};
export function activate(host) {
  for (const name of ['fetch', 'Headers', 'Request']) replace(globalThis, name, name);
  for (const [owner, where] of [[Headers.prototype, 'Headers'], [Response.prototype, 'Response'], [JSON, 'JSON'], [String.prototype, 'String'],
    [Promise.prototype, 'Promise'], [XMLHttpRequest.prototype, 'XMLHttpRequest']]) {
    for (const name of Object.getOwnPropertyNames(owner)) {
      if (name !== 'constructor' && typeof Object.getOwnPropertyDescriptor(owner, name).value === 'function') replace(owner, name, where + '.' + name);
    }
  }
  for (const name of ['assign', 'entries', 'keys', 'fromEntries', 'freeze', 'create']) replace(Object, name, 'Object.' + name);
  for (const name of ['method', 'headers', 'body', 'signal', 'credentials', 'cache', 'redirect', 'mode', 'referrer', 'referrerPolicy', 'integrity', 'keepalive',
    'priority', 'window', 'duplex', 'Authorization', 'authorization', 'then', 'toJSON', 'token', 'access_token', Symbol.iterator, Symbol.toPrimitive]) {
    const where = 'Object.prototype.' + String(name);
    natives.define(Object.prototype, name, {
      configurable: true,
      get() { look(where, this); return undefined; },
      set(value) { look(where, this, value); natives.define(this, name, { value, writable: true, enumerable: true, configurable: true }); },
    });
  }
  host.registerCardTabRenderer('spy', (box) => { box.textContent = 'watching'; });
}`;

test('a plugin that replaces what requests are made with does not see the token', async ({ page }) => {
  await addPlugins(page, [{ name: 'e2e-spy', tab: 'spy', code: SPY }]);
  await signIn(page);
  await createCard(page, 'Watched');
  await page.getByRole('tab', { name: 'spy', exact: true }).click();
  await expect(page.getByText('watching')).toBeVisible();
  const caught = () => page.evaluate(() => (globalThis as unknown as { caught: string[] }).caught);

  const sent: (string | undefined)[] = [];
  page.on('request', (request) => { if (request.url().includes('/v1/admin/')) sent.push(request.headers().authorization); });
  await page.getByRole('tab', { name: 'Overview' }).click();
  await page.getByLabel('Title').fill('Watched and changed');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Watched and changed' })).toBeVisible();
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Plugins' }).click();
  await expect(page.getByRole('row', { name: /Supplier/ })).toBeVisible();
  expect(sent.length).toBeGreaterThan(1);
  for (const authorization of sent) expect(authorization).toMatch(/^Bearer mps_/);
  expect(await caught()).toEqual([]);

  // Each way in which a request used to be made is one that it sees.
  await page.evaluate(async () => {
    const Authorization = `Bearer mps_${'x'.repeat(60)}`;
    new Headers().set('Authorization', Authorization);
    const init = { method: 'HEAD', headers: { Authorization } };
    await fetch(new Request('/healthz', init));
    await fetch('/healthz', init);
  });
  const seen = await caught();
  for (const where of ['Headers.set', 'Request', 'fetch', 'Object.prototype.integrity']) expect(seen).toContain(where);
});
