import { expect, expectReflows, signIn, test, uniqueSku } from './support.ts';
import { signedIn } from './requests.ts';

/** What pages say at a glance is so, and has its place in every window. */

test.beforeEach(({ page }) => signIn(page));

/** 40 by 30 points. */
const PICTURE = 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAACgAAAAeCAIAAADRv8uKAAAAK0lEQVR42u3NMQ0AAAgDsElDGtKQhgw4mvRvputExGKxWCwWi8VisVj8N14KPwhqX3hiDQAAAABJRU5ErkJggg==';

test('a number that the server estimates does not look as if it had been counted', async ({ page }) => {
  await page.route('**/v1/admin/master-cards?*', async (route) => {
    const response = await route.fetch();
    const body = (await response.json()) as object;
    await route.fulfill({ response, json: { ...body, total_estimate: 1_234, next_cursor: 'more' } });
  });
  await page.goto('/admin/cards');
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('Cards about 1,230');
  await page.goto('/admin/');
  const cards = page.getByRole('region', { name: 'Cards', exact: true });
  await expect(cards.getByRole('link', { name: 'about 3,700' })).toBeVisible();
  await expect(cards.getByRole('link', { name: 'Draft about 1,230' })).toBeVisible();
});

test('the list says who changed a card, and when', async ({ page }) => {
  const sku = uniqueSku();
  await signedIn(page, 'POST', '/master-cards', { title: 'By somebody', sku });
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(`/admin/cards?q=${sku}`);
  await expect(page.locator('td.updated')).toHaveText(`${process.env.CARDINAL_USERNAME} now`);
});

test('a picture of four to three fills its square', async ({ page }) => {
  const sku = uniqueSku();
  await signedIn(page, 'POST', '/master-cards', { title: 'With a picture', sku, attributes: { image: PICTURE } });
  await page.goto(`/admin/cards?q=${sku}`);
  await expect(page.locator('td.pic img')).toHaveCSS('object-fit', 'cover');
  await page.getByRole('link', { name: 'With a picture' }).click();
  await expect(page.locator('.large img')).toHaveCSS('object-fit', 'contain');
});

test('the current tab stays in sight when the window changes, and all are reached', async ({ page }) => {
  const { item } = await signedIn<{ item: { id: string } }>(page, 'POST', '/master-cards', { title: 'With tabs', sku: uniqueSku() });
  await page.setViewportSize({ width: 1440, height: 800 });
  await page.goto(`/admin/cards/${item.id}?tab=raw`);
  const seen = (name: string) => page.getByRole('tab', { name }).evaluate((tab) => {
    const { left, right } = tab.getBoundingClientRect();
    return left >= 0 && right <= innerWidth;
  });
  await page.getByRole('tab', { name: 'JSON' }).waitFor();
  for (const width of [320, 390, 1440, 320]) {
    await page.setViewportSize({ width, height: 700 });
    await expect.poll(() => seen('JSON'), `at ${width}`).toBe(true);
  }
  await page.getByRole('tab', { name: 'JSON' }).focus();
  await page.keyboard.press('ArrowRight');
  await expect(page.getByRole('tab', { name: 'Overview' })).toBeFocused();
  await expect.poll(() => seen('Overview')).toBe(true);
  // By the pointer, too: the row scrolls.
  await page.getByRole('tablist').hover();
  await page.mouse.wheel(400, 0);
  await expect.poll(() => seen('JSON')).toBe(true);
});

test('no item of a list is so long that the card is wider than the window', async ({ page }) => {
  const { item } = await signedIn<{ item: { id: string } }>(page, 'POST', '/master-cards', {
    title: 'W'.repeat(480), sku: `${uniqueSku()}-${'W'.repeat(80)}`, attributes: { long: 'Q'.repeat(5_000), list: ['y'.repeat(120), 'b'], members: { deep: 'z'.repeat(200) } },
  });
  for (const tab of ['', '?tab=history', '?tab=raw']) {
    await page.goto(`/admin/cards/${item.id}${tab}`);
    await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
    for (const width of [320, 390, 768]) await expectReflows(page, width);
  }
});
