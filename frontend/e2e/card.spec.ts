import { patchCard, signedIn } from './requests.ts';
import { createCard, expect, expectAccessible, expectReflows, intercept, signIn, test, uniqueSku } from './support.ts';

test.beforeEach(({ page }) => signIn(page));

const ATTRIBUTES = { brand: 'Nordhem', in_stock: true, materials: ['oak'], seat_height: 41, size: { depth: 82, width: 78 }, cost: { amount: '12.00', currency: 'EUR' }, deep: { a: [{ b: 1 }] } };

test('attributes are edited by the type of their values, and as JSON', async ({ page }) => {
  const id = await createCard(page, 'Every type');
  await patchCard(page, id, { attributes: ATTRIBUTES });
  await expect(page.getByLabel('brand', { exact: true })).toHaveValue('Nordhem');
  await page.getByLabel('brand', { exact: true }).fill('Halden');
  await page.getByRole('switch', { name: 'in_stock' }).uncheck();
  await page.getByLabel('Add to materials').fill('bouclé');
  await page.keyboard.press('Enter');
  await page.getByLabel('depth').fill('9o');
  await expect(page.getByText('depth: Enter a number'), 'a typo is no text').toBeVisible();
  await page.keyboard.press('Control+s');
  await expect(page.getByLabel('depth')).toBeFocused();
  await page.getByLabel('depth').fill('90');
  await page.getByLabel('cost', { exact: true }).fill('');
  await expect(page.getByText('amount: Enter a number')).toBeVisible();
  await page.getByLabel('cost', { exact: true }).fill('12,00');
  await expect(page.getByText('amount: Enter a number')).toBeHidden();
  await page.getByLabel('Currency of cost').fill('usd');
  await page.getByLabel('seat_height', { exact: true }).fill('many');
  await expectAccessible(page);
  await expectReflows(page);
  // What cannot be saved takes the focus instead.
  await page.keyboard.press('Control+s');
  await expect(page.getByLabel('seat_height', { exact: true })).toBeFocused();
  const views = page.getByRole('group', { name: 'Edit attributes as' });
  await views.getByRole('button', { name: 'JSON' }).click();
  await expect(page.getByText('Fix the marked field first')).toBeVisible();
  await page.getByLabel('seat_height', { exact: true }).fill('42,5');
  await page.getByRole('button', { name: 'Actions for deep' }).click();
  await page.getByRole('menuitem', { name: 'Remove' }).click();
  await page.getByRole('button', { name: 'Actions for brand' }).click();
  await page.getByRole('menuitem', { name: 'Rename' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('maker');
  await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
  await page.getByRole('button', { name: 'Add attribute' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('weight');
  await page.getByRole('dialog').getByLabel('Type').selectOption('number');
  await page.getByRole('dialog').getByRole('button', { name: 'Add' }).click();
  await expect(page.getByLabel('weight', { exact: true }), 'what was added is what is typed into next').toBeFocused();
  await page.getByLabel('weight', { exact: true }).fill('14.2');
  await expect(page.getByText('9 changes')).toBeVisible();
  await page.keyboard.press('Control+s');
  await expect(page.getByText('Card saved')).toBeVisible();
  const { item } = await signedIn<{ item: { attributes: object } }>(page, 'GET', `/master-cards/${id}`);
  expect(item.attributes).toMatchObject({ maker: 'Halden', in_stock: false, materials: ['oak', 'bouclé'], seat_height: 42.5, size: { depth: 90, width: 78 }, cost: { amount: '12.00', currency: 'USD' }, weight: 14.2 });
  expect(Object.keys(item.attributes)).not.toEqual(expect.arrayContaining(['brand']));

  await views.getByRole('button', { name: 'JSON' }).click();
  const json = page.getByLabel('Attributes as JSON');
  await json.fill('{"maker": ');
  await expect(page.getByText(/^Not JSON/)).toBeVisible();
  await views.getByRole('button', { name: 'Form' }).click();
  await expect(json, 'what was typed is not thrown away').toHaveValue('{"maker": ');
  await json.fill('{"maker": "Mirel"}');
  await views.getByRole('button', { name: 'Form' }).click();
  await expect(page.getByLabel('maker', { exact: true })).toHaveValue('Mirel');
  await page.getByRole('button', { name: 'Discard' }).click();
  await expect(page.getByLabel('maker', { exact: true })).toHaveValue('Halden');
});

test('a list of pictures is shown as pictures: one is added, one taken out, one made the first', async ({ page }) => {
  const picture = (name: string) => `https://cdn.example/${name}.png`;
  await page.route('**/v1/admin/pictures?*', (route) => route.fulfill({ contentType: 'image/png', body: Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64') }));
  const id = await createCard(page, 'With pictures');
  await patchCard(page, id, { attributes: { images: [picture('a'), picture('b')] } });
  const field = page.locator('#card-form');
  await expect(field.getByRole('img', { name: picture('a') })).toBeVisible();
  await expect(field.getByText(picture('a')), 'the address is no text').toHaveCount(0);
  await page.getByLabel('Add to images').fill(picture('c'));
  await page.keyboard.press('Enter');
  await field.getByRole('button', { name: `Remove ${picture('a')}` }).click();
  await field.getByRole('button', { name: `Move ${picture('c')} to the front` }).click();
  await expect(field.getByRole('img', { name: picture('c') })).toBeVisible();
  await expect(field.getByText('was 2 items')).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
  await page.keyboard.press('Control+s');
  await expect(page.getByText('Card saved')).toBeVisible();
  const { item } = await signedIn<{ item: { attributes: object } }>(page, 'GET', `/master-cards/${id}`);
  expect(item.attributes).toMatchObject({ images: [picture('c'), picture('b')] });
  await page.goto(`/admin/cards/${id}?tab=history`);
  await expect(page.getByRole('cell').getByRole('img', { name: picture('c') })).toBeVisible();
});

test('what the server refuses stands at its field, takes the focus and is announced', async ({ page }) => {
  const id = await createCard(page, 'Refused');
  await patchCard(page, id, { attributes: { brand: 'Nordhem', 'size/outer': 'large' } });
  const brand = page.getByLabel('brand', { exact: true });
  const size = page.getByLabel('size/outer', { exact: true });
  await expect(size).toHaveValue('large');
  await intercept(page, `**/v1/admin/master-cards/${id}`, (route) => {
    if (route.request().method() !== 'PATCH') return route.fallback();
    const errors = [{ pointer: '/attributes/size~1outer', detail: 'Too large for a parcel.' }];
    return route.fulfill({ status: 422, contentType: 'application/problem+json', json: { status: 422, code: 'validation-failed', detail: 'Some fields are not valid', errors } });
  });
  await brand.fill('Halden');
  await page.keyboard.press('Control+s');
  await expect(size).toBeFocused();
  await expect(size).toHaveAttribute('aria-invalid', 'true');
  await expect(size).toHaveAccessibleDescription('Too large for a parcel.');
  await expect(page.getByRole('alert').filter({ hasText: 'Too large for a parcel.' })).toBeVisible();
  await expect(brand).not.toHaveAttribute('aria-invalid');
  await expectAccessible(page);
  await page.unroute(`**/v1/admin/master-cards/${id}`);

  // The host itself refuses what is nested too deep, and names no attribute: in the form that is said in the bar.
  await page.getByRole('group', { name: 'Edit attributes as' }).getByRole('button', { name: 'JSON' }).click();
  const json = page.getByLabel('Attributes as JSON');
  await json.fill(`{"deep": ${'['.repeat(80)}${']'.repeat(80)}}`);
  await page.keyboard.press('Control+s');
  await expect(json).toBeFocused();
  await expect(json).toHaveAttribute('aria-invalid', 'true');
  await expect(json).toHaveAccessibleDescription(/\w/);
  await page.getByRole('group', { name: 'Edit attributes as' }).getByRole('button', { name: 'Form' }).click();
  await expect(page.getByRole('region', { name: 'Unsaved changes' })).toContainText('/attributes');
});

test('somebody else’s change fills what was not touched; only what both changed is asked about', async ({ page }) => {
  const id = await createCard(page, 'Edited by two');
  await patchCard(page, id, { attributes: { brand: 'Nordhem', colour: 'red' } });
  await expect(page.getByLabel('brand', { exact: true })).toHaveValue('Nordhem');
  await page.getByLabel('brand', { exact: true }).fill('Mine');
  await patchCard(page, id, { status: 'active', attributes: { colour: 'blue' } });
  await expect(page.getByText(/ changed status, colour /)).toBeVisible();
  await expect(page.getByLabel('colour', { exact: true })).toHaveValue('blue');
  await expect(page.getByLabel('Status')).toHaveValue('active');
  await expect(page.getByLabel('brand', { exact: true })).toHaveValue('Mine');
  await patchCard(page, id, { attributes: { brand: 'Theirs' } });
  const conflict = page.getByRole('region', { name: 'You both changed this' });
  await expect(conflict.getByRole('row')).toHaveCount(2);
  await expect(conflict.getByRole('row', { name: /brand/ })).toContainText('Theirs');
  await expectAccessible(page);
  await expectReflows(page);
  await page.keyboard.press('Control+s');
  await expect(conflict).toBeVisible();
  await conflict.getByRole('button', { name: 'Keep my brand' }).click();
  await page.keyboard.press('Control+s');
  await expect(page.getByText('Card saved')).toBeVisible();
  await expect(page.getByLabel('brand', { exact: true })).toHaveValue('Mine');
});

test('a change of sources alone does not stand in the way of a save', async ({ page }) => {
  const id = await createCard(page, 'Enriched meanwhile');
  await page.getByLabel('Title').fill('Saved on top');
  // The page does not hear of it, and its version is old: the host refuses it once.
  let refused = 0;
  await intercept(page, '**/v1/admin/master-cards/*', async (route) => {
    if (route.request().method() !== 'PATCH' || refused > 0) return route.fallback();
    refused += 1;
    await route.fulfill({ status: 412, contentType: 'application/problem+json', json: { status: 412, code: 'version-mismatch', detail: 'The card is at another version.' } });
  });
  await page.keyboard.press('Control+s');
  await expect(page.getByText('Card saved')).toBeVisible();
  expect(refused).toBe(1);
  const { item } = await signedIn<{ item: { title: string } }>(page, 'GET', `/master-cards/${id}`);
  expect(item.title).toBe('Saved on top');
});

test('history names who changed what; a value and a version come back', async ({ page }) => {
  const id = await createCard(page, 'First title');
  await patchCard(page, id, { title: 'Second title', attributes: { brand: 'Nordhem' } });
  await patchCard(page, id, { status: 'active' });
  await page.goto(`/admin/cards/${id}?tab=history`);
  await page.getByRole('region', { name: 'Versions' }).getByRole('button', { name: /v2/ }).click();
  await expect(page.getByRole('row', { name: /title/ })).toContainText('Second');
  await expectAccessible(page);
  await expectReflows(page);
  await page.getByRole('button', { name: 'Restore title as it was before' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'First title' })).toBeVisible();
  await page.getByRole('button', { name: 'Undo' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Second title' })).toBeVisible();
  await page.getByRole('region', { name: 'Versions' }).getByRole('button', { name: /v1$/ }).click();
  await page.getByRole('button', { name: 'Restore version 1' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'First title' })).toBeVisible();
  await expect(page.getByRole('heading', { level: 2, name: /^Version 6/ }), 'the version that it made is shown').toBeVisible();
  // The current tab is in sight where the row of tabs is wider than the screen.
  await page.setViewportSize({ width: 320, height: 720 });
  await page.reload();
  await expect(page.getByRole('tab', { name: 'History' })).toBeInViewport({ ratio: 1 });
});

test('what is said in passing covers no button of the save bar', async ({ page }) => {
  await createCard(page, 'Told in passing');
  const toast = page.getByText('Card “Told in passing” created');
  await expect(toast).toBeVisible();
  await page.getByLabel('Title').fill('Told and changed');
  const [said, save] = [await toast.boundingBox(), await page.getByRole('button', { name: /^Save/ }).boundingBox()];
  expect((said?.y ?? 0) + (said?.height ?? 0)).toBeLessThanOrEqual(save?.y ?? 0);
});

test('a card is duplicated, archived, deleted, and comes back', async ({ page }) => {
  const sku = uniqueSku();
  const id = await createCard(page, 'To be copied', sku);
  await patchCard(page, id, { attributes: { brand: 'Nordhem' } });
  // What is duplicated is what the page shows.
  await expect(page.getByLabel('brand', { exact: true })).toHaveValue('Nordhem');
  await page.getByRole('button', { name: 'Duplicate' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Create card' }).click();
  await expect(page).not.toHaveURL(new RegExp(id));
  await expect(page.getByLabel('brand', { exact: true })).toHaveValue('Nordhem');
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Archive' }).click();
  await expect(page.getByLabel('Status')).toHaveValue('archived');
  await page.getByRole('button', { name: 'Undo' }).first().click();
  await expect(page.getByLabel('Status')).toHaveValue('draft');
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Cards' })).toBeVisible();
  await page.getByRole('status').getByRole('button', { name: 'Undo' }).last().click();
  await expect(page.getByRole('heading', { level: 1, name: 'To be copied' })).toBeVisible();
});

test('unsaved changes are not left without asking', async ({ page }) => {
  await createCard(page, 'Half edited');
  await page.getByLabel('Title').fill('Half edited, more');
  await page.getByRole('tab', { name: 'JSON' }).click();
  await page.getByRole('tab', { name: 'Overview' }).click();
  await expect(page.getByLabel('Title')).toHaveValue('Half edited, more');
  const question = page.getByRole('dialog', { name: 'This card has unsaved changes.' });
  const cancel = question.getByRole('button', { name: 'Cancel' });
  const plugins = page.getByRole('link', { name: 'Plugins' });
  await plugins.click();
  // Enter and Escape lose nothing, and the focus goes back to where it was.
  await expect(cancel).toBeFocused();
  await expectAccessible(page);
  await page.keyboard.press('Enter');
  await expect(plugins).toBeFocused();
  await page.goBack();
  await page.keyboard.press('Escape');
  await expect(question).toBeHidden();
  await expect(page.getByLabel('Title')).toHaveValue('Half edited, more');
  // All is drawn anew in another language.
  await page.getByRole('button', { name: /^Account menu/ }).click();
  await page.getByRole('button', { name: 'Русский' }).click();
  await cancel.click();
  await expect(page.getByLabel('Title')).toHaveValue('Half edited, more');
  await page.keyboard.press('Escape');
  const remove = async () => {
    await page.getByRole('button', { name: 'More actions' }).click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
  };
  await remove();
  await expect(question).toContainText('Delete it anyway?');
  await cancel.click();
  await expect(page.getByLabel('Title')).toHaveValue('Half edited, more');
  await remove();
  // Once each time: the page is not asked about again.
  await question.getByRole('button', { name: 'Delete' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Cards' })).toBeVisible();
});

test('every tab of a card is accessible and fits a narrow screen', async ({ page }) => {
  test.slow();
  const id = await createCard(page, 'A title that is long enough to need a second line on a narrow screen, and then some');
  await patchCard(page, id, { attributes: { ...ATTRIBUTES, images: ['https://pictures.invalid/1.jpg'], care: 'Vacuum with a soft brush. Blot spills at once with a dry cloth; do not rub.' } });
  for (const tab of ['', '?tab=sources', '?tab=pictures', '?tab=history', '?tab=raw']) {
    await page.goto(`/admin/cards/${id}${tab}`);
    await expect(page.getByRole('tabpanel')).toBeVisible();
    await expectAccessible(page);
    await expectReflows(page);
  }
});
