import { type Page } from '@playwright/test';
import { addPlugins, createCard, expect, expectAccessible, expectReflows, intercept, signIn, test, type TestPlugin } from './support.ts';

/** The server is there for nobody, the files of the page included. */
async function takeServerAway(page: Page) {
  let looked = 0;
  await intercept(page, '**/*', (route) => {
    if (new URL(route.request().url()).pathname === '/admin/') looked += 1;
    return route.abort('connectionrefused');
  });
  return { looked: () => looked, back: () => page.unroute('**/*') };
}

/** No page is fetched before somebody asks for it. */
async function withoutPrefetch(page: Page): Promise<void> {
  await page.addInitScript(() => {
    (globalThis as { requestIdleCallback: unknown }).requestIdleCallback = () => 0;
  });
}

const offlineBar = (page: Page) => page.getByText('No connection to the server.');

test('a page that cannot be fetched is waited for, and the one that is open stays with what was typed', async ({ page }) => {
  await withoutPrefetch(page);
  await signIn(page, '/admin/cards');
  const search = page.getByRole('searchbox').first();
  await search.fill('half a wo');
  await expect(page).toHaveURL(/q=half/);
  await expect(page.locator('[aria-busy="true"]')).toHaveCount(0);
  const away = await takeServerAway(page);
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Plugins' }).click();
  await expect(offlineBar(page)).toBeVisible();
  await expect(page).toHaveURL(/\/admin\/cards/);
  await expect(search).toHaveValue('half a wo');
  await expectAccessible(page);
  await expectReflows(page);
  await away.back();
  await expect(page.getByRole('heading', { level: 1, name: 'Plugins' })).toBeVisible({ timeout: 30_000 });
  await expect(offlineBar(page)).toBeHidden();
});

test('without a server the list stays, and goes on by itself when it is back', async ({ page }) => {
  await signIn(page);
  await createCard(page, 'Stays in the list');
  await page.goto('/admin/cards');
  await expect(page.getByText('Stays in the list').first()).toBeVisible();
  const away = await takeServerAway(page);
  await page.getByRole('searchbox').first().fill('no such card at all');
  await expect(offlineBar(page)).toBeVisible();
  // 7 seconds and more: all attempts would have ended in an error.
  await expect.poll(away.looked, { timeout: 30_000 }).toBeGreaterThan(2);
  await expect(page.getByText('Stays in the list').first()).toBeVisible();
  await expect(page.getByRole('alert')).toHaveCount(0);
  await away.back();
  await expect(page.getByText('Stays in the list')).toHaveCount(0, { timeout: 30_000 });
  await expect(offlineBar(page)).toBeHidden();
});

test('typed text survives a server that is away; saving works when it is back', async ({ page }) => {
  await signIn(page);
  await createCard(page, 'Typed offline');
  const away = await takeServerAway(page);
  await page.getByLabel('Title').fill('Typed offline, saved later');
  await page.context().setOffline(true);
  await expect(offlineBar(page)).toBeVisible();
  await page.context().setOffline(false);
  await away.back();
  await expect(offlineBar(page)).toBeHidden({ timeout: 30_000 });
  await expect(page.getByLabel('Title')).toHaveValue('Typed offline, saved later');
  await page.getByRole('button', { name: /^Save/ }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Typed offline, saved later' })).toBeVisible();
});

test('what is said above a page covers none of what sticks there', async ({ page }) => {
  await signIn(page);
  await createCard(page, 'Scrolled while away');
  await page.setViewportSize({ width: 1280, height: 360 });
  const away = await takeServerAway(page);
  await page.getByLabel('Title').fill('Typed below the strip');
  await page.keyboard.press('Control+s');
  await expect(offlineBar(page)).toBeVisible();
  await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
  await expect.poll(() => page.evaluate(() => scrollY)).toBeGreaterThan(40);
  const strip = await offlineBar(page).boundingBox();
  const crumbs = await page.getByRole('navigation', { name: 'Breadcrumb' }).boundingBox();
  expect(crumbs!.y).toBeGreaterThanOrEqual(strip!.y + strip!.height);
  await away.back();
  await expect(offlineBar(page)).toBeHidden({ timeout: 30_000 });
});

test('after the server has got another build, the page says so and stays', async ({ page }) => {
  await withoutPrefetch(page);
  await signIn(page, '/admin/cards');
  const search = page.getByRole('searchbox').first();
  await search.fill('kept');
  await intercept(page, '**/admin/', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: (await response.text()).replace(/assets\/index-[^."]+\.js/, 'assets/index-of-tomorrow.js') });
  });
  await page.route('**/admin/assets/*.js', (route) => route.fulfill({ status: 404 }));
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Plugins' }).click();
  await expect(page.getByText('A new version of the Admin UI is available.')).toBeVisible();
  await expect(search).toHaveValue('kept');
  await expectAccessible(page);
  await page.unroute('**/admin/');
  await page.unroute('**/admin/assets/*.js');
  await page.getByRole('button', { name: 'Reload' }).click();
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Plugins' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Plugins' })).toBeVisible();
});

test('all other pages are fetched while nothing else is to do', async ({ page }) => {
  await signIn(page, '/admin/cards');
  const fetched = () => page.evaluate(() => performance.getEntriesByType('resource').map(({ name }) => name).filter((name) => /\/operators-.*\.js$/.test(name)).length);
  await expect.poll(fetched).toBe(1);
});

test('the sign-in fetches itself and nothing else, at most 40 KB', async ({ page }) => {
  await page.goto('/admin/', { waitUntil: 'networkidle' });
  await expect(page.getByRole('heading', { name: 'Sign in to Cardinal' })).toBeVisible();
  const bytes = await page.evaluate(() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
    .reduce((sum, entry) => sum + (entry as PerformanceResourceTiming).encodedBodySize, 0));
  expect(bytes).toBeGreaterThan(10_000);
  expect(bytes).toBeLessThanOrEqual(40 * 1024);
});

const note = (version: string): TestPlugin => ({
  name: 'e2e-note', tab: 'note', version,
  code: `export function activate(host) { host.registerCardTabRenderer('note', (box) => { box.innerHTML = '<label>Note <input></label><p>drawn by ${version}</p>'; }); }`,
});

test('a new version of a plugin waits for what was typed in its tab, and comes by itself where nothing was', async ({ page }) => {
  const served = await addPlugins(page, [note('1.0.0')]);
  await signIn(page);
  await createCard(page, 'Swapped');
  await page.getByRole('tab', { name: 'note' }).click();
  await expect(page.getByText('drawn by 1.0.0')).toBeVisible();
  await served.replace(note('1.1.0'));
  await expect(page.getByText('drawn by 1.1.0')).toBeVisible();

  await page.getByRole('textbox', { name: 'Note' }).fill('half a note');
  await served.replace(note('1.2.0'));
  await expect(page.getByText('Version 1.2.0 is available.')).toBeVisible();
  await expect(page.getByRole('textbox', { name: 'Note' })).toHaveValue('half a note');
  await expect(page.getByText('drawn by 1.1.0')).toBeVisible();
  await expectAccessible(page);
  await page.getByRole('button', { name: 'Reload tab' }).click();
  await expect(page.getByText('drawn by 1.2.0')).toBeVisible();
  await expect(page.getByText('Version 1.2.0 is available.')).toBeHidden();
});
