import { readFileSync } from 'node:fs';
import { signedIn } from './requests.ts';
import { expect, expectAccessible, expectReflows, signIn, test, uniqueSku } from './support.ts';

test.beforeEach(({ page }) => signIn(page));

test('what is ticked changes its status, which is taken back, and is exported alone', async ({ page }) => {
  const prefix = uniqueSku();
  const rows = ['draft', 'active', 'active'].map((status, n) => JSON.stringify({ title: `Ticked ${n}`, sku: `${prefix}-${n}`, status })).join('\n');
  await signedIn(page, 'POST', '/master-cards/import', rows, 'application/x-ndjson');
  // The browser's own dialog for a file cannot be answered; without it the file is a download.
  await page.addInitScript(() => Reflect.deleteProperty(globalThis, 'showSaveFilePicker'));
  await page.goto(`/admin/cards?q=${prefix}&sort=sku`);
  const row = (n: number) => page.getByRole('row', { name: `Ticked ${n}` });
  const bar = page.getByRole('toolbar');
  for (const n of [0, 1]) await row(n).getByRole('checkbox').check();
  await expectAccessible(page);
  await expectReflows(page);

  await bar.getByRole('button', { name: 'Export' }).click();
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name: 'As CSV' }).click()]);
  const lines = readFileSync(await file.path(), 'utf8').trim().split('\n');
  expect(lines.slice(1).map((line) => line.match(/Ticked \d/)?.[0])).toEqual(['Ticked 0', 'Ticked 1']);

  await bar.getByRole('button', { name: 'Archive' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click();
  // It stays while it is pointed at, however long the rows take.
  await page.getByRole('button', { name: 'Undo' }).hover();
  for (const n of [0, 1]) await expect(row(n)).toContainText('Archived');
  await page.getByRole('button', { name: 'Undo' }).click();
  await expect(row(0)).toContainText('Draft');
  await expect(row(1)).toContainText('Active');

  await page.keyboard.press('Escape');
  await row(2).getByRole('checkbox').check();
  await bar.getByRole('button', { name: 'Make draft' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Make draft' }).click();
  await expect(row(2)).toContainText('Draft');
});

test('an attribute of what is ticked is set after a dry run, and removed again', async ({ page }) => {
  const prefix = uniqueSku();
  const rows = ['Acme', 'Nordhem'].map((brand, n) => JSON.stringify({ title: `Branded ${n}`, sku: `${prefix}-${n}`, attributes: { brand } })).join('\n');
  await signedIn(page, 'POST', '/master-cards/import', rows, 'application/x-ndjson');
  await page.goto(`/admin/cards?q=${prefix}&sort=sku&columns=sku,attributes.brand`);
  const row = (n: number) => page.getByRole('row', { name: `Branded ${n}` });
  const edit = async () => {
    for (const n of [0, 1]) await row(n).getByRole('checkbox').check();
    await page.getByRole('toolbar').getByRole('button', { name: 'Edit attribute…' }).click();
  };
  const dialog = page.getByRole('dialog', { name: 'Edit an attribute of 2 cards' });
  await edit();
  await expect(dialog.getByLabel('Attribute name')).toBeFocused();
  await dialog.getByLabel('Attribute name').fill('brand');
  await dialog.getByLabel('Value').fill('Acme');
  const fromLabel = (name: string) => dialog.getByLabel(name).evaluate((field: HTMLInputElement) => field.getBoundingClientRect().top - (field.labels?.[0]?.getBoundingClientRect().bottom ?? 0));
  expect(await fromLabel('Value'), 'as far below its label as the field above').toBe(await fromLabel('Attribute name'));
  await expectAccessible(page);
  await expectReflows(page);
  await dialog.getByRole('button', { name: 'Dry run' }).click();
  await expect(dialog.getByRole('status')).toHaveText('Dry run: 1 changed, 1 unchanged');
  await dialog.getByRole('button', { name: 'Change 1 card' }).click();
  await page.getByRole('button', { name: 'Undo' }).hover();
  for (const n of [0, 1]) await expect(row(n)).toContainText('Acme');
  await page.getByRole('button', { name: 'Undo' }).click();
  await expect(page.getByText('1 card restored', { exact: true })).toBeVisible();
  await expect(row(1)).toContainText('Nordhem');
  await page.getByRole('link', { name: 'Show changed cards' }).first().click();
  await expect(row(1)).toBeVisible();
  await expect(row(0), 'the job left it as it was').toBeHidden();
  await page.goBack();

  await edit();
  await dialog.getByLabel('Attribute name').fill('brand');
  await dialog.getByLabel('Type').selectOption('Remove the attribute');
  await expect(dialog.getByLabel('Value')).toBeHidden();
  await dialog.getByRole('button', { name: 'Dry run' }).click();
  await dialog.getByRole('button', { name: 'Change 2 cards' }).click();
  for (const n of [0, 1]) await expect(row(n)).not.toContainText('Acme');
});
