import { expect, expectAccessible, expectReflows, intercept, signIn, test } from './support.ts';

test('a key is created, its secret shown once, and revoked', async ({ page, request }) => {
  const name = `Browser test ${Date.now().toString(36)}`;
  await signIn(page, '/admin/mcp/keys');
  await expect(page.getByText(/\/api$/)).toBeVisible();
  await page.getByRole('button', { name: 'Create key', exact: true }).click();
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Choose scopes').check();
  await expectAccessible(page);
  await expectReflows(page);
  await page.getByLabel('Integration').check();
  await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();

  const secret = page.getByTestId('secret');
  await expect(secret).toHaveText(/^mpk_[0-9A-Za-z]{46}$/);
  const key = await secret.innerText();
  await expect(page.getByRole('region', { name: 'MCP client configuration' })).toContainText(key);
  await expectAccessible(page);
  await expectReflows(page);
  await page.keyboard.press('Escape');
  await expect(secret).toBeVisible();
  await expect(page.getByRole('button', { name: 'Done' })).toBeDisabled();
  await page.getByLabel('I have stored the key').check();
  await page.getByRole('button', { name: 'Done' }).click();
  await expect(secret).toBeHidden();
  expect(await page.content()).not.toContain(key);
  await page.reload();
  await expect(page.getByRole('row', { name: new RegExp(name) })).toContainText('Active');
  expect(await page.content()).not.toContain(key);

  const asKey = () => request.get('/v1/admin/master-cards?limit=1', { headers: { Authorization: `Bearer ${key}` } });
  expect((await asKey()).status()).toBe(200);
  await page.getByRole('button', { name: `Revoke ${name}` }).click();
  await expectAccessible(page);
  await page.getByRole('button', { name: 'Revoke key', exact: true }).click();
  await expect(page.getByRole('row', { name: new RegExp(name) })).toContainText('Revoked');
  expect((await asKey()).status()).toBe(401);
});

test('a key is rotated', async ({ page }) => {
  const name = `Rotated ${Date.now().toString(36)}`;
  await signIn(page, '/admin/mcp/keys');
  const store = async () => {
    const secret = await page.getByTestId('secret').innerText();
    await page.getByLabel('I have stored the key').check();
    await page.getByRole('button', { name: 'Done' }).click();
    await expect(page.getByTestId('secret')).toBeHidden();
    return secret;
  };
  await page.getByRole('button', { name: 'Create key', exact: true }).click();
  await page.getByLabel('Name').fill(name);
  await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
  const first = await store();
  await page.getByRole('button', { name: `Rotate ${name}` }).first().click();
  await page.getByLabel('The old key works for').selectOption({ label: 'no longer: it ends now' });
  await expectAccessible(page);
  await page.getByRole('button', { name: 'Rotate key', exact: true }).click();
  expect(await store()).not.toBe(first);
  await expect(page.getByRole('row', { name: new RegExp(name) })).toHaveCount(2);
});

test('what was made with a key goes with it, or is kept', async ({ page, request }) => {
  await signIn(page, '/admin/mcp/keys');
  const bearer = (token: string) => ({ headers: { Authorization: `Bearer ${token}` } });
  const credentials = { username: process.env.CARDINAL_USERNAME, password: process.env.CARDINAL_PASSWORD };
  const login = (await (await request.post('/v1/admin/auth/login', { data: credentials })).json()) as { access_token: string };
  const make = async (name: string, by: string) => {
    const made = await request.post('/v1/admin/api-keys', { ...bearer(by), data: { name, scopes: ['keys:write', 'cards:read'] } });
    return ((await made.json()) as { key: string }).key;
  };
  const status = async (key: string) => (await request.get('/v1/admin/auth/me', bearer(key))).status();
  for (const kept of [false, true]) {
    const name = `Maker ${kept ? 'kept' : 'gone'} ${Date.now().toString(36)}`;
    const maker = await make(name, login.access_token);
    const child = await make(`${name} child`, maker);
    const grandchild = await make(`${name} grandchild`, child);
    await page.reload();
    await expect(page.getByRole('row', { name: `${name} grandchild` })).toContainText(`made with ${name} child`);
    await page.getByRole('button', { name: `Revoke ${name}`, exact: true }).click();
    const dialog = page.getByRole('dialog');
    await expect(dialog).toContainText('2 keys of its lineage');
    await expect(dialog.getByLabel('Revoke them too')).toBeChecked();
    await expectAccessible(page);
    await expectReflows(page);
    if (kept) await dialog.getByLabel('Keep them').check();
    await dialog.getByRole('button', { name: 'Revoke key' }).click();
    await expect(dialog).toBeHidden();
    expect([await status(maker), await status(child), await status(grandchild)]).toEqual(kept ? [401, 200, 200] : [401, 401, 401]);
    await expect(page.getByRole('row', { name: `${name} grandchild` })).toContainText(kept ? 'Active' : 'its maker was revoked');
  }
});

test('the pages of keys and plugins are accessible and fit a narrow screen', async ({ page }) => {
  await signIn(page, '/admin/mcp/keys');
  await expect(page.getByText('MCP endpoint')).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Plugins' }).click();
  await expect(page.getByRole('row', { name: /Supplier/ })).toContainText('Active');
  await expectAccessible(page);
  await expectReflows(page);
});

test('a page that the user’s scopes do not allow is not offered, and names the scope when asked for', async ({ page }) => {
  await page.route('**/v1/admin/auth/me', async (route) => {
    const response = await route.fetch();
    const me = (await response.json()) as object;
    await route.fulfill({ response, json: { ...me, scopes: ['cards:read'] } });
  });
  // The server lists the plugins that a user may read, and this one may read none.
  await page.route('**/v1/admin/plugins', (route) => route.fulfill({ json: { items: [] } }));
  await signIn(page, '/admin/plugins');
  await expect(page.getByRole('navigation', { name: 'Main' }).getByRole('link')).toHaveText(['Home', 'Cards']);
  await expect(page.getByText('plugins:read')).toBeVisible();
  await expectAccessible(page);
  await page.getByRole('link', { name: 'Cards', exact: true }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Cards' })).toBeVisible();
  await expect(page.getByRole('button', { name: 'Create card' })).toBeHidden();
});

test('who may not read the list of kinds filters by what plugins write all the same', async ({ page }) => {
  await page.route('**/v1/admin/auth/me', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...((await response.json()) as object), scopes: ['cards:read'] } });
  });
  await signIn(page, '/admin/cards?q=no-card-is-called-this');
  await page.getByRole('button', { name: 'Filter', exact: true }).click();
  await page.getByLabel('Lacks kind').selectOption('supplier');
  await expect(page).toHaveURL(/missing_kind=supplier/);
});

test('a plugin that needs attention is marked in the navigation, and comes first in the list', async ({ page }) => {
  await page.route('**/v1/admin/plugin-registry', async (route) => {
    const response = await route.fetch();
    const { items } = (await response.json()) as { items: { name: string; counters: object | null }[] };
    const breaker = { mode: 'on', state: 'open', opened: 1, faults: 9, retry_after_seconds: null };
    await route.fulfill({ response, json: { items: items.map((item) => (item.name === 'supplier' ? { ...item, counters: { ...item.counters, breaker } } : item)) } });
  });
  await page.setViewportSize({ width: 1024, height: 768 });
  await signIn(page, '/admin/plugins');
  const first = page.getByRole('row').nth(1);
  await expect(first).toContainText('Supplier');
  await expect(first).toContainText('calls are paused');
  // On the rail of icons the mark lies beside the icon, not on it.
  const link = page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: /^Plugins/ });
  await expect(link).toContainText('1 needs attention');
  const [icon, mark] = await Promise.all([link.locator('svg').first().boundingBox(), link.locator('b').boundingBox()]);
  expect(mark!.x).toBeGreaterThanOrEqual(icon!.x + icon!.width - 2);
  await expectAccessible(page);
});

test('an error shows its request id and can be tried again', async ({ page }) => {
  await signIn(page, '/admin/cards');
  let failing = true;
  await intercept(page, '**/v1/admin/plugin-registry', (route) => failing
    ? route.fulfill({ status: 500, contentType: 'application/problem+json', json: { status: 500, code: 'internal-error', detail: 'Something went wrong here.', request_id: 'request-42' } })
    : route.fallback());
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Plugins' }).click();
  await expect(page.getByText('request-42')).toBeVisible();
  await expectAccessible(page);
  failing = false;
  await page.getByRole('button', { name: 'Retry' }).click();
  await expect(page.getByRole('row', { name: /Supplier/ })).toBeVisible();
});
