import { createCard, expect, signIn, test, uniqueSku } from './support.ts';
import { signedIn } from './requests.ts';

test.beforeEach(({ page }) => signIn(page));

/** Whether the middle of what has the focus, and its lower edge, are seen: nothing that sticks to the window lies over them. */
const focusIsSeen = () => {
  const { left, top, bottom, width } = document.activeElement!.getBoundingClientRect();
  return [(top + bottom) / 2, bottom - 2].every((y) => document.activeElement!.contains(document.elementFromPoint(left + width / 2, y)));
};

test('no bar covers the row that the keys are at', async ({ page }) => {
  const prefix = uniqueSku();
  const rows = Array.from({ length: 45 }, (_, n) => JSON.stringify({ title: `Row ${n}`, sku: `${prefix}-${n}` })).join('\n');
  await signedIn(page, 'POST', '/master-cards/import', rows, 'application/x-ndjson');
  await page.goto(`/admin/cards?q=${prefix}&sort=sku`);
  await expect(page.getByRole('row')).toHaveCount(46);
  for (let n = 0; n < 20; n += 1) await page.keyboard.press('j');
  await expect.poll(() => page.evaluate(focusIsSeen), 'above the pager').toBe(true);
  await page.keyboard.press('x');
  await expect(page.getByText('1 selected')).toBeVisible();
  for (let n = 0; n < 5; n += 1) await page.keyboard.press('j');
  await expect.poll(() => page.evaluate(focusIsSeen), 'above the bar of the selection').toBe(true);
  for (let n = 0; n < 20; n += 1) await page.keyboard.press('k');
  await expect.poll(() => page.evaluate(focusIsSeen), 'below the head of the table').toBe(true);
});

test('no bar covers the field of a new attribute', async ({ page }) => {
  await createCard(page, 'With one more attribute');
  await page.setViewportSize({ width: 1280, height: 560 });
  for (const name of ['width', 'height', 'depth', 'weight']) {
    await page.getByRole('button', { name: 'Add attribute' }).click();
    await page.getByLabel('Name', { exact: true }).fill(name);
    await page.keyboard.press('Enter');
    await expect.poll(() => page.evaluate(focusIsSeen), name).toBe(true);
  }
});
