import { rename, writeFile } from 'node:fs/promises';
import type { APIRequestContext, Page } from '@playwright/test';
import { createCard, expect, expectAccessible, expectReflows, intercept, signIn, test } from './support.ts';

/**
 * Against a host of its own, whose plugins folder (`CARDINAL_PLUGINS_DIR`) it may change: with the fixtures `quick`,
 * `echo` (which reads the kind `quick`) and `broken`, whose manifest is no good.
 */
const folder = process.env.CARDINAL_PLUGINS_DIR ?? '';
/** Where packages are put that are taken out of it, on the same file system. */
const spare = process.env.CARDINAL_SPARE_DIR ?? '';
test.skip(!folder, 'set CARDINAL_PLUGINS_DIR to the plugins folder of a host that may be changed');

async function token(request: APIRequestContext): Promise<string> {
  const login = await request.post('/v1/admin/auth/login', { data: { username: process.env.CARDINAL_USERNAME, password: process.env.CARDINAL_PASSWORD } });
  return ((await login.json()) as { access_token: string }).access_token;
}

/** Somebody else at work, elsewhere. */
async function elsewhere(request: APIRequestContext): Promise<(path: string) => Promise<void>> {
  const bearer = await token(request);
  return async (path) => {
    const answer = await request.post(`/v1/admin/${path}`, { headers: { Authorization: `Bearer ${bearer}` } });
    expect(answer.ok(), `${path}: ${await answer.text()}`).toBe(true);
  };
}

/** Fails when the page was loaded anew meanwhile. */
async function withoutReload(page: Page, act: () => Promise<void>): Promise<void> {
  await page.evaluate(() => void (document.body.dataset.sameDocument = 'yes'));
  await act();
  expect(await page.evaluate(() => document.body.dataset.sameDocument)).toBe('yes');
}

/** A plugin's row in the table of all. */
const entry = (page: Page, title: string) => page.getByRole('row').filter({ has: page.getByRole('link', { name: title, exact: true }) });

/** Opens the menu of a plugin's row and takes an action of it. */
async function choose(page: Page, title: string, action: string): Promise<void> {
  await page.getByRole('button', { name: `Actions for ${title}` }).click();
  await page.getByRole('menuitem', { name: action }).click();
}

const tab = (page: Page, name: RegExp) => page.getByRole('tab', { name });

test('a refused plugin says why, what was found and expected, and what to do', async ({ page }) => {
  await signIn(page, '/admin/plugins');
  const broken = entry(page, 'broken');
  await expect(broken).toContainText('Refused');
  await expect(page.getByRole('row').nth(1), 'what needs attention stands first').toContainText('broken');
  // On every page, by the rule of the first one.
  await expect(page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Plugins 1 needs attention' })).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
  await page.getByRole('button', { name: 'Needs attention (1)' }).click();
  await expect(page).toHaveURL(/show=attention/);
  await expect(entry(page, 'Quick')).toBeHidden();
  await broken.getByRole('link', { name: 'broken' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'broken' })).toBeVisible();
  for (const part of ['Reason', 'Found', 'Expected', 'What to do']) await expect(page.getByText(part, { exact: true })).toBeVisible();
  await expect(page.getByText('bad-manifest')).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
  await page.goBack();
  await expect(page).toHaveURL(/show=attention/);
});

test('a plugin’s page shows what it offers, and with whom it exchanges data', async ({ page }) => {
  await signIn(page, '/admin/plugins');
  await page.getByRole('link', { name: 'Quick' }).click();
  await expect(page.getByRole('heading', { name: 'Routes' })).toBeVisible();
  await expect(page.getByRole('row', { name: /\/enrich\/\{card_id\}/ })).toContainText('plugin:quick:write');
  await tab(page, /^Routes & tools/).click();
  await expect(page).toHaveURL(/tab=routes/);
  await expect(page.getByText('plugin_quick_hello', { exact: true })).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
  await tab(page, /^Overview/).click();
  await page.getByRole('region', { name: 'What it adds' }).getByRole('link', { name: 'Echo' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Echo' })).toBeVisible();
  await tab(page, /^Routes & tools/).click();
  await expect(page.getByText('Needs approval').first()).toBeVisible();
  await page.goto('/admin/plugins/no-such-plugin');
  await expect(page.getByRole('heading', { level: 1, name: 'Plugin not found' })).toBeVisible();
});

test('a plugin is disabled, with a word on who runs dry, and enabled again', async ({ page }) => {
  await signIn(page, '/admin/plugins');
  const quick = entry(page, 'Quick');
  await expect(quick).toContainText('Active');
  await page.getByRole('button', { name: 'Actions for Quick' }).focus();
  await page.keyboard.press('Enter');
  // The menu takes the focus a frame after it is open.
  await expect(page.getByRole('menu').getByRole('menuitem').first()).toBeFocused();
  await page.getByRole('menuitem', { name: 'Disable' }).focus();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByRole('note')).toContainText('Echo reads quick');
  await expectAccessible(page);
  await expectReflows(page);
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
  await expect(page.getByRole('button', { name: 'Actions for Quick' })).toBeFocused();
  await choose(page, 'Quick', 'Disable');
  await dialog.getByRole('button', { name: 'Disable' }).click();
  await expect(page.getByText('Quick disabled')).toBeVisible();
  await expect(quick).toContainText('Disabled');
  await choose(page, 'Quick', 'Enable');
  await expect(quick).toContainText('Active');
});

test('a plugin is loaded again from its folder', async ({ page }) => {
  await signIn(page, '/admin/plugins/quick');
  await page.getByRole('button', { name: 'Reload', exact: true }).click();
  await expect(page.getByText('Quick reloaded')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Disable', exact: true })).toBeEnabled();
});

test('the data of a disabled plugin is dropped once its name was typed', async ({ page, request }) => {
  const call = await elsewhere(request);
  await signIn(page, '/admin/plugins/quick?tab=versions');
  await expect(page.getByRole('heading', { name: 'Package', exact: true })).toBeVisible();
  await expect(page.getByRole('button', { name: 'Drop its data…' })).toHaveCount(0);
  await page.getByRole('button', { name: 'Disable', exact: true }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click();
  await page.getByRole('button', { name: 'Drop its data…' }).click();
  const dialog = page.getByRole('dialog');
  const drop = dialog.getByRole('button', { name: 'Drop data' });
  await dialog.getByLabel('Type quick to confirm').fill('quic');
  await expect(drop).toBeDisabled();
  await expectAccessible(page);
  await expectReflows(page);
  await dialog.getByLabel('Type quick to confirm').fill('quick');
  await drop.click();
  await expect(page.getByText('Data of Quick dropped')).toBeVisible();
  await call('plugin-registry/quick/enable');
  await expect(page.getByRole('button', { name: 'Disable', exact: true })).toBeVisible();
});

test('a plugin’s settings are changed, and refused by name when they do not fit', async ({ page }) => {
  await signIn(page, '/admin/plugins/echo?tab=settings');
  const settings = page.getByRole('region', { name: 'Settings' });
  const greeting = settings.getByRole('textbox', { name: /greeting/i });
  await expect(greeting).toHaveValue('hello');
  await expect(settings.getByText('Plugin’s default').first()).toBeVisible();
  await settings.getByRole('button', { name: 'JSON' }).click();
  const editor = settings.getByLabel('What is set here');
  await editor.fill('{"greeting": ');
  await expect(settings.getByText(/^Not JSON/)).toBeVisible();
  await expect(settings.getByText('1 change', { exact: true })).toBeVisible();
  await settings.getByRole('button', { name: /^Save/ }).click();
  await expect(editor, 'what keeps it from being saved').toBeFocused();
  await editor.fill('{"greeting": 5}');
  await settings.getByRole('button', { name: /^Save/ }).click();
  await expect(settings.getByText('/greeting')).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
  await settings.getByRole('button', { name: 'Form' }).click();
  await greeting.fill('good day');
  await expectAccessible(page);
  // A look at another tab loses nothing.
  await tab(page, /^Logs/).click();
  await tab(page, /^Settings/).click();
  await expect(greeting).toHaveValue('good day');
  await page.keyboard.press('Control+s');
  await expect(page.getByText('Settings of Echo saved')).toBeVisible();
  await expect(settings.getByText('Set here')).toBeVisible();
  await expect(settings.getByRole('button', { name: /^Save/ })).toBeHidden();
});

test('a plugin’s log is followed, paused, searched, and its faults are counted, those of browsers too', async ({ page, request }) => {
  await signIn(page, '/admin/plugins/echo?tab=logs');
  const log = page.getByRole('log');
  await expect(log).toContainText('is ready');
  const bearer = await token(request);
  const fail = () => request.get('/v1/admin/plugins/echo/error', { headers: { Authorization: `Bearer ${bearer}` } });
  await fail();
  await expect(log).toContainText('a call failed');
  await page.getByRole('button', { name: 'Pause' }).click();
  await fail();
  await expect(page.getByText('Paused, 1 new line')).toBeVisible();
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByRole('searchbox').fill('no such words');
  await expect(log).toContainText('No lines match');
  await page.getByRole('searchbox').fill('');
  await expectAccessible(page);
  await expectReflows(page);
  const report = { phase: 'render', message: 'The tab fell over', version: '1.0.0' };
  await request.post('/v1/admin/plugin-registry/echo/client-errors', { headers: { Authorization: `Bearer ${bearer}` }, data: report });
  await tab(page, /^Faults/).click();
  await expect(tab(page, /^Faults/)).toContainText('3', { timeout: 20_000 });
  await expect(page.getByRole('row', { name: /The tab fell over/ })).toContainText('Browser');
  await expect(page.getByRole('row', { name: /invalid digit/ }).first()).toContainText('GET /error');
  await expectAccessible(page);
  await expectReflows(page);
});

test('a route and a tool are tried from the page', async ({ page }) => {
  let show = () => {};
  const shown = new Promise<void>((resolve) => (show = resolve));
  await signIn(page, '/admin/plugins/echo?tab=routes');
  await page.getByRole('button', { name: 'Try it: GET /hello' }).click();
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await expect(page.getByText('200', { exact: true })).toBeVisible();
  await page.getByText('Show the API call').first().click();
  await expect(page.getByText('curl -H').first()).toBeVisible();
  await intercept(page, '**/api', async (route) => {
    await shown;
    await route.continue();
  });
  await page.getByRole('button', { name: 'Try it: plugin_echo_say' }).click();
  await expect(page.getByLabel('Arguments'), 'nothing typed is replaced by the sample').toBeDisabled();
  show();
  await page.getByLabel('Arguments').fill('{"text": 5}');
  await page.getByRole('button', { name: 'Run tool', exact: true }).click();
  await expect(page.getByRole('list').getByText('Failed', { exact: true }), 'the host says what is wrong with the arguments').toBeVisible();
  await page.getByLabel('Arguments').fill('{"text": "said from a page"}');
  await page.getByRole('button', { name: 'Run tool', exact: true }).click();
  await expect(page.getByRole('list').getByText('Done', { exact: true })).toBeVisible();
  await expect(page.locator('pre').filter({ hasText: '"said": "said from a page"' })).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
});

test('what happens to a plugin elsewhere shows without a reload', async ({ page, request }) => {
  const call = await elsewhere(request);
  // The counters, which are asked for every ten seconds, would say it, too: without them only an event does.
  await page.addInitScript(() => {
    const { setInterval } = globalThis;
    globalThis.setInterval = ((handler: () => void, ms: number) => (ms === 10_000 ? 0 : setInterval(handler, ms))) as typeof globalThis.setInterval;
  });
  await signIn(page, '/admin/plugins');
  const quick = entry(page, 'Quick');
  await expect(quick).toContainText('Active');
  await withoutReload(page, async () => {
    await call('plugin-registry/quick/disable');
    await expect(quick).toContainText('Disabled');
    await call('plugin-registry/quick/enable');
    await expect(quick).toContainText('Active');
  });
});

test('the folder is looked at again; a broken package that is mended goes into service', async ({ page }) => {
  await signIn(page, '/admin/plugins');
  await expect(entry(page, 'broken')).toBeVisible();
  await rename(`${folder}/broken`, `${spare}/broken`);
  await page.getByRole('button', { name: 'Rescan folder' }).click();
  await expect(page.getByText(/2 plugins found, 0 need attention/)).toBeVisible();
  await expect(entry(page, 'broken')).toBeHidden();
});

test('who may not manage plugins is offered nothing to do', async ({ page }) => {
  await page.route('**/v1/admin/auth/me', async (route) => {
    const response = await route.fetch();
    const me = (await response.json()) as object;
    await route.fulfill({ response, json: { ...me, scopes: ['plugins:read'] } });
  });
  await signIn(page, '/admin/plugins');
  await expect(entry(page, 'Quick')).toBeVisible();
  await expect(page.getByRole('button', { name: /Actions|Upload|Rescan/ })).toHaveCount(0);
  await page.getByRole('link', { name: 'Quick', exact: true }).click();
  await expect(page.getByRole('heading', { name: 'Routes' })).toBeVisible();
  await expect(page.getByRole('button', { name: /Disable|Enable/ })).toHaveCount(0);
});

test('a source whose plugin was removed stays and is labelled, until the plugin is back', async ({ page, request }) => {
  const call = await elsewhere(request);
  await signIn(page);
  const card = await createCard(page, 'With an orphan');
  await withoutReload(page, async () => {
    await call(`plugins/quick/enrich/${card}`);
    await page.getByRole('tab', { name: /^Sources/ }).click();
    const row = page.getByRole('list', { name: 'Sources' }).getByRole('listitem').filter({ hasText: 'quick:bench' });
    await expect(row).toBeVisible();
    await expect(row.getByText('orphaned')).toBeHidden();
    const away = `${spare}/quick`;
    await rename(`${folder}/quick`, away);
    await call('plugin-registry/rescan');
    await expect(row.getByText('orphaned')).toBeVisible();
    await row.getByRole('button').click();
    await expect(page.getByText('The plugin that wrote this is not installed')).toBeVisible();
    await expectAccessible(page);
    await expectReflows(page);
    await rename(away, `${folder}/quick`);
    await call('plugin-registry/rescan');
    await expect(row.getByText('orphaned')).toBeHidden();
    await page.getByRole('button', { name: 'Remove source quick:bench' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove source' }).click();
    await expect(page.getByText('No sources yet')).toBeVisible();
  });
});

test('a manifest that is spoiled while the plugin serves is told, and the plugin goes on serving', async ({ page, request }) => {
  const call = await elsewhere(request);
  await signIn(page, '/admin/plugins/echo');
  await expect(page.getByRole('heading', { level: 1, name: 'Echo' })).toBeVisible();
  await withoutReload(page, async () => {
    await writeFile(`${folder}/echo/manifest.json`, '{"name": "echo", "version": 1}');
    await call('plugin-registry/rescan');
    await expect(page.getByText(/The earlier version is in service/)).toBeVisible();
    await expect(page.getByText('bad-manifest')).toBeVisible();
  });
  await expectAccessible(page);
});
