import type { Page, Route } from '@playwright/test';
import { createCard, expect, intercept, signIn, test, uniqueSku } from './support.ts';
import { patchCard, signedIn } from './requests.ts';

/** On a slow network: what is at hand is shown, and an answer that comes late takes the place of nothing that was typed. */

test.beforeEach(({ page }) => signIn(page));

/** Keeps answers of `method` back until the returned function is called. */
async function hold(page: Page, url: string, method: string): Promise<() => void> {
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  await intercept(page, url, async (route: Route) => {
    if (route.request().method() === method) await released;
    await route.continue();
  });
  return release;
}

async function makeCard(page: Page, attributes: object): Promise<{ id: string; sku: string }> {
  const sku = uniqueSku();
  const { item } = await signedIn<{ item: { id: string } }>(page, 'POST', '/master-cards', { title: `Late ${sku}`, sku, attributes });
  return { id: item.id, sku };
}

test('a card on its way shows what the list knows of it', async ({ page }) => {
  const { id, sku } = await makeCard(page, {});
  await page.goto(`/admin/cards?q=${sku}`);
  const release = await hold(page, `**/v1/admin/master-cards/${id}`, 'GET');
  await page.getByRole('link', { name: `Late ${sku}` }).click();
  await expect(page.getByRole('heading', { level: 1, name: `Late ${sku}` })).toBeVisible();
  await expect(page.locator('.head').getByText('Draft')).toBeVisible();
  await expect(page.getByRole('tab', { name: 'History' })).toBeVisible();
  await expect(page.getByLabel('Title', { exact: true })).toHaveCount(0);
  release();
  await expect(page.getByLabel('Title', { exact: true })).toHaveValue(`Late ${sku}`);
});

test('what is typed while a card is being saved stays, be it a value yet or not', async ({ page }) => {
  const { id } = await makeCard(page, { width: 82 });
  await page.goto(`/admin/cards/${id}`);
  const width = page.getByLabel('width', { exact: true });
  await width.fill('83');
  const release = await hold(page, `**/v1/admin/master-cards/${id}`, 'PATCH');
  await page.keyboard.press('Control+s');
  await width.fill('8 or 9');
  release();
  await expect(page.getByText('Card saved').first()).toBeVisible();
  await expect(width).toHaveValue('8 or 9');
  await width.fill('9');
  await page.keyboard.press('Control+s');
  await expect.poll(async () => (await signedIn<{ item: { attributes: { width: number } } }>(page, 'GET', `/master-cards/${id}`)).item.attributes.width).toBe(9);
});

test('JSON that is being typed stays when somebody else changes the card', async ({ page }) => {
  const { id } = await makeCard(page, { parts: [{ a: 1 }] });
  await page.goto(`/admin/cards/${id}`);
  await page.getByText('1 item', { exact: true }).click();
  const parts = page.getByLabel('parts', { exact: true });
  await parts.fill('[{"a":2}, {"b": 3}]');
  await patchCard(page, id, { title: 'Another title', attributes: { parts: [{ a: 4 }] } });
  await expect(page.getByRole('heading', { level: 1, name: 'Another title' })).toBeVisible();
  await expect(parts).toHaveValue('[{"a":2}, {"b": 3}]');
});

test('proxy routes that are typed while others are being saved stay', async ({ page }) => {
  await page.goto('/admin/proxy');
  await page.getByRole('button', { name: 'Add route' }).first().click();
  const prefix = `/late-${Date.now().toString(36)}`;
  const [path, upstream] = [page.locator('tbody tr').last().locator('input').first(), page.locator('tbody tr').last().locator('input').last()];
  await path.fill(prefix);
  await upstream.fill('http://127.0.0.1:9');
  const release = await hold(page, '**/v1/admin/proxy-routes', 'PUT');
  await page.getByRole('button', { name: /^Save/ }).click();
  await upstream.fill('http://127.0.0.1:99');
  release();
  await expect(page.getByText('Proxy routes saved').first()).toBeVisible();
  await expect(upstream).toHaveValue('http://127.0.0.1:99');
  await expect(page.getByText('1 change', { exact: true })).toBeVisible();
  await page.getByRole('button', { name: 'Discard' }).click();
  await page.getByRole('button', { name: `Remove route ${prefix}` }).click();
  await page.getByRole('button', { name: /^Save/ }).click();
  await expect(page.getByRole('button', { name: `Remove route ${prefix}` })).toHaveCount(0);
});

test('cards that are found late take the choice from nothing in the palette', async ({ page }) => {
  await createCard(page, 'Import of oak');
  await page.keyboard.press('Control+k');
  const release = await hold(page, '**/v1/admin/master-cards?*', 'GET');
  await page.keyboard.type('import');
  await page.keyboard.press('ArrowDown');
  const chosen = page.locator('[role="option"][aria-selected="true"]');
  const before = await chosen.textContent();
  release();
  await expect(page.getByRole('option', { name: 'Import of oak' }).first()).toBeVisible();
  await expect(chosen).toHaveText(before ?? '');
});
