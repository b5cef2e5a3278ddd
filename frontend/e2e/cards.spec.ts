import { createCard, expect, expectAccessible, expectReflows, signIn, test, uniqueSku } from './support.ts';

test.beforeEach(({ page }) => signIn(page));

test('a card is created, found, and opened; the URL holds the state of the list', async ({ page }) => {
  const sku = uniqueSku();
  const title = `Lamp ${sku}`;
  await createCard(page, title, sku);
  await page.getByRole('link', { name: '← Cards' }).click();
  await page.getByRole('searchbox').fill(sku);
  await expect(page.getByRole('row')).toHaveCount(2);
  await expect(page).toHaveURL(new RegExp(`q=${sku}`));
  await page.getByLabel('Status').selectOption('active');
  await expect(page.getByText('No card matches')).toBeVisible();
  await expect(page).toHaveURL(/status=active/);
  await page.goBack();
  await page.getByRole('link', { name: title }).click();
  await expect(page.getByRole('heading', { level: 1, name: title })).toBeVisible();
  await page.goBack();
  await expect(page.getByRole('searchbox')).toHaveValue(sku);
});

test('sorting is in the URL and told to assistive technology', async ({ page }) => {
  await createCard(page, 'To sort by');
  await page.goto('/admin/cards');
  await page.getByRole('button', { name: 'Title' }).click();
  await expect(page).toHaveURL(/sort=title/);
  await expect(page.getByRole('columnheader', { name: 'Title' })).toHaveAttribute('aria-sort', 'ascending');
  await page.getByRole('button', { name: 'Title' }).click();
  await expect(page).toHaveURL(/sort=-title/);
});

test('what the server refuses is shown at its field', async ({ page }) => {
  const sku = uniqueSku();
  await createCard(page, 'First of its SKU', sku);
  await page.goto('/admin/cards');
  await page.getByRole('button', { name: 'Create card' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Title').fill('Second of its SKU');
  await dialog.getByLabel('SKU').fill(sku);
  await expectAccessible(page);
  await expectReflows(page);
  await dialog.getByRole('button', { name: 'Create card' }).click();
  await expect(dialog.getByLabel('SKU')).toHaveAttribute('aria-invalid', 'true');
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
  await expect(page.getByRole('button', { name: 'Create card' })).toBeFocused();
});

test('a card is edited; somebody else’s change in between is shown, not overwritten', async ({ page }) => {
  const id = await createCard(page, 'Edited by two');
  await page.getByLabel('Attributes').fill('{"colour": "red"}');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByText('Card saved.')).toBeVisible();

  await page.getByLabel('Title').fill('Edited by both');
  await page.evaluate(async (card) => {
    const token = sessionStorage.getItem('cardinal.token');
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/merge-patch+json' };
    await fetch(`/v1/admin/master-cards/${card}`, { method: 'PATCH', headers, body: '{"status":"active"}' });
  }, id);
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByText('Somebody changed this card while you were editing it')).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
  await page.getByRole('button', { name: /Save my changes over version/ }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Edited by both' })).toBeVisible();
  await expect(page.getByLabel('Status')).toHaveValue('active');
});

test('unsaved changes are not left without asking', async ({ page }) => {
  await createCard(page, 'Half edited');
  await page.getByLabel('Title').fill('Half edited, more');
  await page.getByRole('tab', { name: 'Raw JSON' }).click();
  await page.getByRole('tab', { name: 'Overview' }).click();
  await expect(page.getByLabel('Title')).toHaveValue('Half edited, more');
  page.once('dialog', (dialog) => dialog.dismiss());
  await page.getByRole('link', { name: 'Plugins' }).click();
  await expect(page.getByLabel('Title')).toHaveValue('Half edited, more');
  page.once('dialog', (dialog) => dialog.accept());
  await page.getByRole('link', { name: 'Plugins' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Plugins' })).toBeVisible();
});

test('the list and every tab of a card are accessible and fit a narrow screen', async ({ page }) => {
  const id = await createCard(page, 'A title that is long enough to need a second line on a narrow screen, and then some');
  for (const tab of ['', '?tab=sources', '?tab=raw']) {
    await page.goto(`/admin/cards/${id}${tab}`);
    await expect(page.getByRole('tabpanel')).toBeVisible();
    await expectAccessible(page);
    await expectReflows(page);
  }
  await page.goto('/admin/cards');
  await expect(page.getByRole('table')).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
});

test('the keyboard alone is enough', async ({ page }) => {
  await createCard(page, 'By keyboard');
  await page.goto('/admin/cards');
  await expect(page.getByRole('table')).toBeVisible();
  await page.keyboard.press('Tab');
  await expect(page.getByRole('link', { name: 'Skip to content' })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('main')).toBeFocused();
  await page.keyboard.press('/');
  await expect(page.getByRole('searchbox')).toBeFocused();
  await page.keyboard.type('By keyboard');
  await expect(page).toHaveURL(/q=By\+keyboard/);
  await page.getByRole('link', { name: 'By keyboard' }).first().focus();
  await page.keyboard.press('Enter');
  await page.getByRole('tab', { name: 'Overview' }).focus();
  await page.keyboard.press('ArrowRight');
  await expect(page.getByRole('tab', { name: /Sources/ })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.getByText('No sources yet')).toBeVisible();
});

test('a card or page that is not there says so', async ({ page }) => {
  await page.goto('/admin/cards/00000000-0000-7000-8000-000000000000');
  await expect(page.getByRole('heading', { name: 'No such card' })).toBeVisible();
  await expectAccessible(page);
  await page.goto('/admin/nowhere');
  await expect(page.getByRole('heading', { name: 'Page not found' })).toBeVisible();
  await expectAccessible(page);
});
