import { rename, writeFile } from 'node:fs/promises';
import type { APIRequestContext, Page } from '@playwright/test';
import { createCard, expect, expectAccessible, expectReflows, signIn, test } from './support.ts';

/**
 * Against a host of its own, whose plugins folder (`CARDINAL_PLUGINS_DIR`) it may change: with the fixtures `quick`,
 * `echo` (which reads the kind `quick`) and `broken`, whose manifest is no good.
 */
const folder = process.env.CARDINAL_PLUGINS_DIR ?? '';
/** Where packages are put that are taken out of it, on the same file system. */
const spare = process.env.CARDINAL_SPARE_DIR ?? '';
test.skip(!folder, 'set CARDINAL_PLUGINS_DIR to the plugins folder of a host that may be changed');

/** Somebody else at work, elsewhere. */
async function elsewhere(request: APIRequestContext): Promise<(path: string) => Promise<void>> {
  const login = await request.post('/v1/admin/auth/login', { data: { username: process.env.CARDINAL_USERNAME, password: process.env.CARDINAL_PASSWORD } });
  const { access_token: token } = (await login.json()) as { access_token: string };
  return async (path) => {
    const answer = await request.post(`/v1/admin/${path}`, { headers: { Authorization: `Bearer ${token}` } });
    expect(answer.ok(), `${path}: ${await answer.text()}`).toBe(true);
  };
}

/** Fails when the page was loaded anew meanwhile. */
async function withoutReload(page: Page, act: () => Promise<void>): Promise<void> {
  await page.evaluate(() => void (document.body.dataset.sameDocument = 'yes'));
  await act();
  expect(await page.evaluate(() => document.body.dataset.sameDocument)).toBe('yes');
}

const entry = (page: Page, title: string) => page.getByRole('listitem').filter({ has: page.getByRole('heading', { name: title, exact: true }) });

test('a refused plugin says why, what was found and expected, and what to do', async ({ page }) => {
  await signIn(page, '/admin/plugins');
  const broken = entry(page, 'broken');
  await expect(broken.getByText('refused', { exact: true })).toBeVisible();
  for (const part of ['Reason', 'Found', 'Expected', 'What to do']) await expect(broken.getByText(part, { exact: true })).toBeVisible();
  await expect(broken).toContainText('bad-manifest');
  await expectAccessible(page);
  await expectReflows(page);
  await page.getByRole('button', { name: 'Needs attention (1)' }).click();
  await expect(page).toHaveURL(/show=attention/);
  await expect(entry(page, 'Quick')).toBeHidden();
  await broken.getByRole('link').click();
  await expect(page.getByRole('heading', { level: 1, name: 'broken' })).toBeVisible();
  await expect(page.getByText('What to do')).toBeVisible();
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
  await expect(page.getByText('plugin_quick_hello', { exact: true })).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
  await page.getByText('read by').getByRole('link', { name: 'Echo' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Echo' })).toBeVisible();
  await expect(page.getByText('asks a person first')).toBeVisible();
  await page.goto('/admin/plugins/no-such-plugin');
  await expect(page.getByRole('heading', { level: 1, name: 'No such plugin' })).toBeVisible();
});

test('a plugin is disabled, with a word on who runs dry, and enabled again', async ({ page }) => {
  await signIn(page, '/admin/plugins');
  const quick = entry(page, 'Quick');
  await expect(quick.getByText('active', { exact: true })).toBeVisible();
  await page.getByRole('button', { name: 'Disable Quick' }).focus();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByRole('note')).toContainText('Echo reads quick');
  await expectAccessible(page);
  await expectReflows(page);
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
  await expect(page.getByRole('button', { name: 'Disable Quick' })).toBeFocused();
  await page.keyboard.press('Enter');
  await dialog.getByRole('button', { name: 'Disable plugin' }).click();
  await expect(quick.getByText('disabled', { exact: true })).toBeVisible();
  await expect(page.getByText('Quick was disabled.')).toBeVisible();
  await page.getByRole('button', { name: 'Enable Quick' }).click();
  await expect(quick.getByText('active', { exact: true })).toBeVisible();
});

test('a plugin is loaded again from its folder', async ({ page }) => {
  await signIn(page, '/admin/plugins/quick');
  await page.getByRole('button', { name: 'Reload Quick' }).click();
  await expect(page.getByText('Quick was loaded again.')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Disable Quick' })).toBeEnabled();
});

test('the data of a disabled plugin is dropped once its name was typed', async ({ page, request }) => {
  const act = await elsewhere(request);
  await signIn(page, '/admin/plugins/quick');
  await expect(page.getByRole('heading', { name: 'Routes' })).toBeVisible();
  await expect(page.getByRole('button', { name: 'Drop its data…' })).toHaveCount(0);
  await page.getByRole('button', { name: 'Disable Quick' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Disable plugin' }).click();
  await page.getByRole('button', { name: 'Drop its data…' }).click();
  const dialog = page.getByRole('dialog');
  const drop = dialog.getByRole('button', { name: 'Drop data' });
  await dialog.getByLabel('Type quick to confirm').fill('quic');
  await expect(drop).toBeDisabled();
  await expectAccessible(page);
  await expectReflows(page);
  await dialog.getByLabel('Type quick to confirm').fill('quick');
  await drop.click();
  await expect(page.getByText('The data of Quick was dropped.')).toBeVisible();
  await act('plugin-registry/quick/enable');
  await expect(page.getByText('In service.', { exact: true })).toBeVisible();
});

test('a plugin’s settings are changed, and refused by name when they do not fit', async ({ page }) => {
  await signIn(page, '/admin/plugins/echo');
  const settings = page.getByRole('region', { name: 'Settings' });
  await expect(settings.getByText('"hello"')).toBeVisible();
  await expect(settings.getByText('the plugin’s default')).toBeVisible();
  await settings.getByRole('button', { name: 'Change settings' }).click();
  const editor = settings.getByLabel('What is set here');
  await editor.fill('{"greeting": ');
  await expect(settings.getByText(/^Not JSON/)).toBeVisible();
  await expect(settings.getByRole('button', { name: 'Save settings' })).toBeDisabled();
  await editor.fill('{"greeting": 5}');
  await settings.getByRole('button', { name: 'Save settings' }).click();
  await expect(settings.getByText('/greeting')).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
  await editor.fill('{"greeting": "good day"}');
  await settings.getByRole('button', { name: 'Save settings' }).click();
  await expect(settings.getByText('"good day"')).toBeVisible();
  await expect(settings.getByText('(set here)')).toBeVisible();
  await expect(editor).toBeHidden();
});

test('what happens to a plugin elsewhere shows without a reload', async ({ page, request }) => {
  const act = await elsewhere(request);
  await signIn(page, '/admin/plugins');
  const quick = entry(page, 'Quick');
  await expect(quick.getByText('active', { exact: true })).toBeVisible();
  // The counters are asked for every ten seconds; an event is there sooner.
  const soon = { timeout: 5_000 };
  await withoutReload(page, async () => {
    await act('plugin-registry/quick/disable');
    await expect(quick.getByText('disabled', { exact: true })).toBeVisible(soon);
    await act('plugin-registry/quick/enable');
    await expect(quick.getByText('active', { exact: true })).toBeVisible(soon);
  });
});

test('the folder is looked at again; a broken package that is mended goes into service', async ({ page }) => {
  await signIn(page, '/admin/plugins');
  await expect(entry(page, 'broken')).toBeVisible();
  await rename(`${folder}/broken`, `${spare}/broken`);
  await page.getByRole('button', { name: 'Rescan folder' }).click();
  await expect(entry(page, 'broken')).toBeHidden();
  await expect(page.getByText(/2 plugins found, none needs attention/)).toBeVisible();
});

test('who may not manage plugins is offered nothing to do', async ({ page }) => {
  await page.route('**/v1/admin/auth/me', async (route) => {
    const response = await route.fetch();
    const me = (await response.json()) as object;
    await route.fulfill({ response, json: { ...me, scopes: ['plugins:read'] } });
  });
  await signIn(page, '/admin/plugins');
  await expect(entry(page, 'Quick')).toBeVisible();
  await expect(page.getByRole('button', { name: /Disable|Enable|Rescan/ })).toHaveCount(0);
  await page.getByRole('link', { name: 'Quick' }).click();
  await expect(page.getByRole('heading', { name: 'Routes' })).toBeVisible();
  await expect(page.getByRole('button', { name: /Disable|Enable/ })).toHaveCount(0);
});

test('a source whose plugin was removed stays and is labelled, until the plugin is back', async ({ page, request }) => {
  const act = await elsewhere(request);
  await signIn(page);
  const card = await createCard(page, 'With an orphan');
  await withoutReload(page, async () => {
    await act(`plugins/quick/enrich/${card}`);
    await page.getByRole('tab', { name: 'Sources (1)' }).click();
    const row = page.getByRole('row', { name: /quick:bench/ }).first();
    await expect(row).toBeVisible();
    await expect(row.getByText('orphaned')).toBeHidden();
    const away = `${spare}/quick`;
    await rename(`${folder}/quick`, away);
    await act('plugin-registry/rescan');
    await expect(row.getByText('orphaned')).toBeVisible();
    await row.getByRole('button').click();
    await expect(page.getByText('is not installed any more')).toBeVisible();
    await expectAccessible(page);
    await expectReflows(page);
    await rename(away, `${folder}/quick`);
    await act('plugin-registry/rescan');
    await expect(row.getByText('orphaned')).toBeHidden();
    await page.getByRole('button', { name: 'Remove source quick:bench' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove source' }).click();
    await expect(page.getByText('No sources yet')).toBeVisible();
  });
});

test('a manifest that is spoiled while the plugin serves is told, and the plugin goes on serving', async ({ page, request }) => {
  const act = await elsewhere(request);
  await signIn(page, '/admin/plugins/echo');
  await expect(page.getByText('In service.', { exact: true })).toBeVisible();
  await withoutReload(page, async () => {
    await writeFile(`${folder}/echo/manifest.json`, '{"name": "echo", "version": 1}');
    await act('plugin-registry/rescan');
    await expect(page.getByText(/In service as it was loaded before/)).toBeVisible();
    await expect(page.getByText('bad-manifest')).toBeVisible();
  });
  await expectAccessible(page);
});
