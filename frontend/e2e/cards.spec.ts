import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { createCard, expect, expectAccessible, expectReflows, intercept, signIn, test, uniqueSku } from './support.ts';
import { signedIn } from './requests.ts';

test.beforeEach(({ page }) => signIn(page));

test('a card is created, found, and opened; the URL holds the state of the list', async ({ page }) => {
  const sku = uniqueSku();
  const title = `Lamp ${sku}`;
  await createCard(page, title, sku);
  await page.getByRole('navigation', { name: 'Breadcrumb' }).getByRole('link', { name: 'Cards' }).click();
  await page.getByRole('searchbox').fill(sku);
  await expect(page.getByRole('row')).toHaveCount(2);
  await expect(page).toHaveURL(new RegExp(`q=${sku}`));
  await page.getByRole('button', { name: 'Filter', exact: true }).click();
  await expectAccessible(page);
  await page.getByLabel('Status').selectOption('active');
  await page.keyboard.press('Escape');
  await expect(page.getByText('No cards match')).toBeVisible();
  await expect(page).toHaveURL(/status=active/);
  await page.getByRole('button', { name: 'Remove filter Status' }).click();
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

test('no value is so long that the list is wider than the window', async ({ page }) => {
  const sku = uniqueSku();
  const long = (text: string) => `${sku}-${text.repeat(20)}`.slice(0, 100);
  const rows = ['W', 'm'].map((letter) => JSON.stringify({ title: `Wide ${letter}`.repeat(30), sku: long(letter), attributes: { brand: long('Я'), price: { amount: '123456789012345.99', currency: 'EUR' } } }));
  await signedIn(page, 'POST', '/master-cards/import', rows.join('\n'), 'application/x-ndjson');
  await page.goto(`/admin/cards?q=${sku}`);
  await expect(page.getByRole('row')).toHaveCount(3);
  for (const width of [320, 800, 1024, 1440]) await expectReflows(page, width);
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  expect(await page.evaluate(() => scrollX)).toBe(0);
});

test('a list with many columns keeps its header above the first row', async ({ page }) => {
  const columns = ['title', ...Array.from({ length: 12 }, (_, n) => `attributes.size_${n}`)].join(',');
  const prefix = uniqueSku();
  const rows = Array.from({ length: 15 }, (_, n) => JSON.stringify({ title: `Many columns ${n}`, sku: `${prefix}-${n}` })).join('\n');
  await signedIn(page, 'POST', '/master-cards/import', rows, 'application/x-ndjson');
  await page.goto(`/admin/cards?q=${prefix}&columns=${columns}`);
  const header = page.getByRole('columnheader', { name: 'Title' });
  await expect(header).toBeVisible();
  const [above, row] = [await header.boundingBox(), await page.getByRole('row').nth(1).boundingBox()];
  expect(above!.y + above!.height).toBeLessThanOrEqual(row!.y + 1);
  await page.setViewportSize({ width: 1000, height: 320 });
  await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
  await expect.poll(() => page.evaluate(() => scrollY)).toBeGreaterThan(100);
  await expect.poll(async () => Math.round((await header.boundingBox())!.y), 'it stays below the bar').toBe(52);
  await page.setViewportSize({ width: 360, height: 640 });
  await expect(page.getByRole('link', { name: 'Many columns 14' })).toBeVisible();
});

test('Back returns to the place in the list and marks the row one came from', async ({ page }) => {
  const prefix = uniqueSku();
  const rows = Array.from({ length: 45 }, (_, n) => JSON.stringify({ title: `Row ${n}`, sku: `${prefix}-${n}` })).join('\n');
  await signedIn(page, 'POST', '/master-cards/import', rows, 'application/x-ndjson');
  await page.goto(`/admin/cards?q=${prefix}`);
  await expect(page.getByRole('row')).toHaveCount(46);
  const link = page.getByRole('link', { name: /^Row / }).nth(30);
  const title = await link.innerText();
  await link.scrollIntoViewIfNeeded();
  const scrolled = await page.evaluate(() => scrollY);
  expect(scrolled).toBeGreaterThan(100);
  await link.click();
  await expect(page.getByRole('heading', { level: 1, name: title })).toBeVisible();
  await page.goBack();
  await expect(page.locator('tr.from')).toContainText(title);
  await expect.poll(() => page.evaluate((before) => Math.abs(scrollY - before), scrolled)).toBeLessThanOrEqual(4);
  // The keys go on from there, over to the next card and back.
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { level: 1, name: title })).toBeHidden();
  await page.getByRole('button', { name: 'Previous card' }).click();
  await expect(page.getByRole('heading', { level: 1, name: title })).toBeVisible();
});

test('rows are chosen by keys, and all that match become a job with their count', async ({ page }) => {
  test.slow();
  const prefix = uniqueSku();
  const rows = Array.from({ length: 60 }, (_, n) => JSON.stringify({ title: `Many ${n}`, sku: `${prefix}-${n}` })).join('\n');
  await signedIn(page, 'POST', '/master-cards/import', rows, 'application/x-ndjson');
  await page.goto(`/admin/cards?q=${prefix}&sort=sku`);
  await expect(page.getByRole('row')).toHaveCount(51);
  for (const key of ['j', 'x', 'j', 'j', 'Shift+X']) await page.keyboard.press(key);
  await expect(page.getByText('3 selected')).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
  await signedIn(page, 'POST', '/master-cards', { title: 'Many come late', sku: uniqueSku() });
  await expect(page.getByText('This list is out of date.')).toBeVisible();
  await expectReflows(page);
  await page.getByRole('checkbox', { name: /^Select the 50 cards/ }).check();
  await page.getByRole('button', { name: /^Select all/ }).click();
  await expect(page.getByText('60 selected')).toBeVisible();
  await page.getByRole('button', { name: 'Archive' }).click();
  await expect(page.getByRole('heading', { name: 'Archive 60 cards?' })).toBeVisible();
  await expectAccessible(page);
  await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click();
  const drawer = page.getByRole('complementary', { name: 'Jobs' });
  await expect(drawer.getByText('Archive 60 cards').first()).toBeVisible();
  await expect(drawer.getByText('60 changed').first()).toBeVisible();
  await expectAccessible(page);
  await page.keyboard.press('Escape');
  await expect(drawer).toBeHidden();
  await page.goto(`/admin/cards?q=${prefix}&status=archived`);
  await expect(page.getByRole('row')).toHaveCount(51);
});

test('the key a leads from a row to what can be done with the selection', async ({ page }) => {
  const sku = uniqueSku();
  await createCard(page, 'Chosen by key', sku);
  await page.goto(`/admin/cards?q=${sku}`);
  await expect(page.getByRole('row')).toHaveCount(2);
  for (const key of ['j', 'x', 'a']) await page.keyboard.press(key);
  await expect(page.getByRole('toolbar', { name: '1 selected' }).getByRole('button').first()).toBeFocused();
});

test('columns and filters are kept as a view', async ({ page }) => {
  const name = `View ${uniqueSku()}`;
  await page.goto('/admin/cards?status=draft');
  await page.getByRole('button', { name: 'Columns' }).click();
  await expectAccessible(page);
  await page.getByLabel('Attribute name').fill('size.depth');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Save view' }).click();
  await page.getByLabel('Name').fill(name);
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  const tab = page.getByRole('navigation', { name: 'Saved views' }).getByRole('link', { name });
  await expect(tab).toHaveAttribute('aria-current', 'page');
  await page.goto('/admin/cards');
  await tab.click();
  await expect(page).toHaveURL(/status=draft/);
  await expect(page).toHaveURL(/size\.depth/);
  await page.getByRole('button', { name: `View ${name}` }).click();
  await page.getByRole('menuitem', { name: 'Remove view' }).click();
  await expect(tab).toBeHidden();
});

test('what the server refuses is shown at its field', async ({ page }) => {
  const sku = uniqueSku();
  await createCard(page, 'First of its SKU', sku);
  await page.goto('/admin/cards');
  await page.getByRole('button', { name: 'Create card' }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByLabel('Title')).toBeFocused();
  await dialog.getByLabel('Title').fill('Second of its SKU');
  await dialog.getByLabel('SKU').fill(sku);
  await expectAccessible(page);
  await expectReflows(page);
  await dialog.getByRole('button', { name: 'Create card' }).click();
  await expect(dialog.getByLabel('SKU')).toHaveAttribute('aria-invalid', 'true');
  // What was typed is not thrown away without a question.
  await page.keyboard.press('Escape');
  await page.getByRole('dialog', { name: 'Close and discard' }).getByRole('button', { name: 'Cancel' }).click();
  await expect(dialog.getByLabel('SKU')).toHaveValue(sku);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Discard' }).click();
  await expect(dialog).toBeHidden();
  await expect(page.getByRole('button', { name: 'Create card' })).toBeFocused();
});

test('a file is checked, imported, and its refused rows are named', async ({ page }) => {
  const sku = uniqueSku();
  await page.goto('/admin/import');
  await expectAccessible(page);
  await expectReflows(page);
  const csv = `title,sku,status,attributes.brand,version\nFrom a file,${sku},draft,Nordhem,7\n"Wrong,\nin two lines",${sku}-2,nowhere,x,7\n`;
  await page.getByLabel('Choose a file').setInputFiles({ name: 'autumn.csv', mimeType: 'text/csv', buffer: Buffer.from(csv) });
  await expect(page.getByRole('row', { name: /3 .*status/ })).toContainText('A status is draft, active or archived.');
  await expect(page.getByRole('row', { name: /3 .*status/ }), 'what the file says there').toContainText('nowhere');
  await expect(page.getByText('Columns that are not imported: version')).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
  await page.getByRole('button', { name: 'Import 1 row' }).click();
  await expect(page.getByText('autumn.csv has been imported')).toBeVisible();
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download errors' }).click()]);
  expect(file.suggestedFilename()).toBe('autumn.csv-errors.ndjson');
  const [rows] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download refused rows' }).click()]);
  expect([rows.suggestedFilename(), readFileSync(await rows.path(), 'utf8')]).toEqual(['autumn-refused.csv', `title,sku,status,attributes.brand,version\n"Wrong,\nin two lines",${sku}-2,nowhere,x,7\n`]);
  await page.keyboard.press('g');
  await page.keyboard.press('j');
  await expect(page.getByRole('complementary', { name: 'Jobs' }).getByText('Import · autumn.csv').first()).toBeVisible();
  await page.goto(`/admin/cards?q=${sku}`);
  await expect(page.getByRole('row', { name: /From a file/ })).toContainText('Nordhem');
  await expect(page.getByRole('heading', { level: 1 }), 'the number of cards on one page is known').toHaveText('Cards 1');
});

test('columns that cards do not have become attributes, or are left out', async ({ page }) => {
  const sku = uniqueSku();
  await page.goto('/admin/import');
  const csv = `Name;sku;colour;"our; notes"\n"Lamp; tall";${sku};red;"buy\nmore"\n`;
  await page.getByLabel('Choose a file').setInputFiles({ name: 'colours.csv', mimeType: 'text/csv', buffer: Buffer.from(csv) });
  await expect(page.getByRole('heading', { name: '3 columns have no place in a card' })).toBeVisible();
  await expect(page.getByLabel('Name')).toHaveValue('title');
  await expect(page.getByLabel('colour')).toHaveValue('attribute');
  await page.getByLabel('our; notes').selectOption('Not imported');
  await expectAccessible(page);
  await expectReflows(page);
  await page.getByRole('button', { name: 'Check again' }).click();
  await expect(page.getByText('Columns that are not imported: our; notes')).toBeVisible();
  await page.getByRole('button', { name: 'Import 1 row' }).click();
  await expect(page.getByText('colours.csv has been imported')).toBeVisible();
  const { items } = await signedIn<{ items: { title: string; attributes: object }[] }>(page, 'GET', `/master-cards?q=${sku}&fields=title,attributes`);
  expect(items.map(({ title, attributes }) => ({ title, attributes }))).toEqual([{ title: 'Lamp; tall', attributes: { colour: 'red', sources: {} } }]);
});

test('a dropped file is imported, and a cancel ends this import and no other', async ({ page }) => {
  await page.goto('/admin/import');
  const files = await page.evaluateHandle((sku) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([`title,sku\nDropped,${sku}\n`], 'dropped.csv', { type: 'text/csv' }));
    return transfer;
  }, uniqueSku());
  await page.getByRole('heading', { name: /^Drop a CSV/ }).dispatchEvent('drop', { dataTransfer: files });
  await expect(page.getByRole('button', { name: 'Import 1 row' })).toBeVisible();
  // The import goes on until it is cancelled; somebody else's is the newest.
  let [sent, cancelled, over] = ['', '', () => {}];
  const job = { id: 'own', action: 'import', state: 'running', args: {}, done: 0, failed: 0, total: 1, counts: {}, finished_at: null };
  await intercept(page, '**/v1/admin/master-cards/import?*dry_run=false*', async (route) => {
    sent = route.request().headers()['x-request-id'] ?? '';
    await new Promise<void>((resolve) => (over = resolve));
    await route.fulfill({ status: 202, json: { item: { ...job, state: 'cancelled', finished_at: '2026-01-01T00:00:00Z' } } });
  });
  await intercept(page, '**/v1/admin/jobs?*', (route) => {
    const asked = new URL(route.request().url()).searchParams.get('request_id');
    return route.fulfill({ json: { items: asked && asked === sent ? [job] : [{ ...job, id: 'theirs' }] } });
  });
  await intercept(page, '**/v1/admin/jobs/*/cancel', async (route) => {
    cancelled = new URL(route.request().url()).pathname;
    await route.fulfill({ status: 202, json: {} });
    over();
  });
  await page.getByRole('button', { name: 'Import 1 row' }).click();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await expect(page.getByText('Cancelled. Rows written before that stay.')).toBeVisible();
  expect(cancelled).toBe('/v1/admin/jobs/own/cancel');
});

test('what the filter shows is exported, and nothing else', async ({ page }) => {
  const prefix = uniqueSku();
  const rows = ['draft', 'active', 'draft'].map((status, n) => JSON.stringify({ title: `Exported ${n}`, sku: `${prefix}-${n}`, status })).join('\n');
  await signedIn(page, 'POST', '/master-cards/import', rows, 'application/x-ndjson');
  // The browser's own dialog for a file cannot be answered; without it the file is a download.
  await page.addInitScript(() => Reflect.deleteProperty(globalThis, 'showSaveFilePicker'));
  await page.goto(`/admin/cards?q=${prefix}&status=draft`);
  await expect(page.getByRole('row')).toHaveCount(3);
  const save = async (format: string) => {
    await page.getByRole('button', { name: 'Export', exact: true }).click();
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name: format }).click()]);
    return readFileSync(await file.path(), 'utf8').trim().split('\n');
  };
  const csv = await save('As CSV');
  expect(csv[0]).toMatch(/\bsku\b/);
  expect(csv.slice(1).map((line) => line.match(/Exported \d/)?.[0]).toSorted()).toEqual(['Exported 0', 'Exported 2']);
  await expect(page.getByText('Cards exported')).toBeVisible();
  const ndjson = (await save('As NDJSON')).map((line) => JSON.parse(line) as { sku: string });
  expect(ndjson.map(({ sku }) => sku).toSorted()).toEqual([`${prefix}-0`, `${prefix}-2`]);
});

test('a job that runs is cancelled from the drawer, on any page', async ({ page, baseURL }) => {
  const token = await page.evaluate(() => sessionStorage.getItem('cardinal.token'));
  // An import goes on as long as its file comes.
  const upload = httpRequest(new URL('/v1/admin/master-cards/import?dry_run=false', baseURL), { method: 'POST', headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/x-ndjson' } });
  const answered = once(upload, 'response') as Promise<[IncomingMessage]>;
  upload.on('error', () => {}); // the rest of the file is not wanted
  upload.write(`${JSON.stringify({ title: 'In a long file', sku: uniqueSku() })}\n`);
  await page.goto('/admin/kinds');
  await expect(page.getByRole('heading', { level: 1, name: /^Kinds/ })).toBeVisible(); // before, nobody hears the keys
  await page.keyboard.press('g');
  await page.keyboard.press('j');
  const drawer = page.getByRole('complementary', { name: 'Jobs' });
  const running = drawer.getByRole('listitem').filter({ has: page.getByRole('progressbar') });
  await expect(running).toHaveCount(1);
  await expectAccessible(page);
  await running.getByRole('button', { name: 'Cancel' }).click();
  const [answer] = await answered;
  expect(((await json(answer)) as { item: { state: string } }).item.state).toBe('cancelled');
  upload.destroy();
  await expect(running).toHaveCount(0);
  await expect(drawer.getByRole('listitem').filter({ hasText: 'Cancelled' }).first()).toBeVisible();
});

test('the list is accessible and fits a narrow screen', async ({ page }) => {
  await createCard(page, 'A title that is long enough to need a second line on a narrow screen, and then some');
  await page.goto('/admin/cards');
  await expect(page.getByRole('table')).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
});

test('the keyboard alone is enough', async ({ page }) => {
  const sku = uniqueSku();
  const id = await createCard(page, 'By keyboard', sku);
  await page.goto('/admin/cards');
  await expect(page.getByRole('table')).toBeVisible();
  await page.keyboard.press('Tab');
  await expect(page.getByRole('link', { name: 'Skip to content' })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('main')).toBeFocused();
  await page.keyboard.press('/');
  await expect(page.getByRole('searchbox')).toBeFocused();
  await page.keyboard.type(sku);
  await expect(page).toHaveURL(new RegExp(`q=${sku}`));
  await page.getByRole('link', { name: 'By keyboard' }).first().focus();
  await page.keyboard.press('Enter');
  await page.getByRole('tab', { name: 'Overview' }).focus();
  await page.keyboard.press('ArrowRight');
  await expect(page.getByRole('tab', { name: /Sources/ })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.getByText('No sources yet')).toBeVisible();
  // From anywhere to a card by its SKU, and to what the keys do.
  await page.goto('/admin/plugins');
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
  await page.keyboard.press('Control+k');
  await page.keyboard.type(sku);
  await expect(page.getByRole('option', { name: /By keyboard/ })).toBeVisible();
  await expectAccessible(page);
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(new RegExp(id));
  await page.keyboard.press('?');
  await expect(page.getByRole('heading', { name: 'Keyboard shortcuts' })).toBeVisible();
  await expectAccessible(page);
});

test('what one does is within reach of every page, by its name', async ({ page }) => {
  await page.goto('/admin/system');
  const choose = async (typed: string, name: string) => {
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'SKU, title, page or action' }).fill(typed);
    await expect(page.getByRole('option', { name })).toHaveAttribute('aria-selected', 'true');
    await page.keyboard.press('Enter');
  };
  await expect(page.getByRole('heading', { level: 1, name: 'System' })).toBeVisible();
  for (const [typed, name, title] of [['create card', 'Create card', 'Create card'], ['create api', 'Create API key', 'Create API key'], ['create user', 'Create user', 'Create a user']] as const) {
    await choose(typed, name);
    await expect(page.getByRole('dialog', { name: title })).toBeVisible();
    await expect(page).not.toHaveURL(/new=/);
    await page.keyboard.press('Escape');
    await expect(page.getByRole('dialog')).toBeHidden();
  }
  await choose('connect', 'Connect an MCP client');
  await expect(page).toHaveURL(/tab=connect/);
  await choose('theme', 'Switch to the dark theme');
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
});

test('what the server refuses leads to the page that explains it', async ({ page, context }) => {
  const sku = uniqueSku();
  await createCard(page, 'First of its SKU', sku);
  await page.route('**/v1/admin/master-cards', (route) => route.request().method() === 'POST'
    ? route.fulfill({ status: 503, contentType: 'application/problem+json', json: { status: 503, code: 'overloaded', detail: 'Too much at once.', request_id: 'r1' } }) : route.fallback());
  await page.goto('/admin/cards?new=1');
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Title').fill('Refused');
  await dialog.getByLabel('SKU').fill(uniqueSku());
  await dialog.getByText('Show the API call').click();
  await expect(dialog.getByRole('region', { name: 'Show the API call' })).toContainText('"title":"Refused"');
  await dialog.getByRole('button', { name: 'Create card' }).click();
  const [problem] = await Promise.all([context.waitForEvent('page'), dialog.getByRole('link', { name: 'What to do' }).click()]);
  await expect(problem).toHaveURL(/\/problems\/overloaded$/);
  await expect(problem.getByRole('heading').first()).toBeVisible();
});

test('theme, density and language are a choice that lasts', async ({ page }) => {
  await page.getByRole('button', { name: /^Account menu/ }).click();
  await page.getByRole('button', { name: 'Dark' }).click();
  await page.getByRole('button', { name: 'Compact' }).click();
  await page.getByRole('button', { name: 'Русский' }).click();
  await expect(page.getByRole('navigation', { name: 'Главное меню' }).getByRole('link', { name: 'Карточки' })).toBeVisible();
  await page.reload();
  await expect(page.getByRole('heading', { level: 1, name: 'Главная' })).toBeVisible();
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
  await expect(page.locator('html')).toHaveAttribute('data-density', 'compact');
  await expect(page.locator('html')).toHaveAttribute('lang', 'ru');
});

test('a card or page that is not there says so', async ({ page }) => {
  await page.goto('/admin/cards/00000000-0000-7000-8000-000000000000');
  await expect(page.getByRole('heading', { name: 'Card not found' })).toBeVisible();
  await expectAccessible(page);
  await page.goto('/admin/nowhere');
  await expect(page.getByRole('heading', { name: 'Page not found' })).toBeVisible();
  await expectAccessible(page);
});
