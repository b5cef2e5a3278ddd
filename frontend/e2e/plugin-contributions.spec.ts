import { addPlugins, asSignedIn, createCard, expect, expectAccessible, expectReflows, intercept, signIn, test, uniqueSku } from './support.ts';

const CODE = `export function activate(host) {
  host.registerCardTabRenderer('adds', () => {});
  host.registerPageRenderer('adds-report', (box) => {
    box.innerHTML = '<h2>Report</h2><p>at ' + host.esc(host.getState().route) + '</p><a href="/admin/pages/adds-report/more">More</a>';
  });
  host.registerPageRenderer('adds-broken', () => { throw new Error('thrown by the page'); });
  host.registerCardActionRenderer('adds-compare', (box, { card_ids }) => { box.textContent = 'comparing ' + card_ids.length; });
}`;

const ADDS = {
  name: 'e2e-adds',
  tab: 'adds',
  code: CODE,
  adds: {
    pages: [{ id: 'adds-report', label: 'Adds report' }, { id: 'adds-broken', label: 'Adds broken' }],
    list_columns: [{ id: 'adds-score', label: 'Adds score', kind: 'adds', value: '/score', format: 'percent' }],
    card_actions: [
      { id: 'adds-compare', label: 'Compare them', on: ['card', 'selection'], route: null, confirm: null },
      { id: 'adds-send', label: 'Send it', on: ['card'], route: { method: 'POST', path: '/send' }, confirm: 'Send this card away?' },
    ],
  },
};

test('a plugin’s page is in the navigation and the palette, drawn apart from the others, and failures stay in it', async ({ page }) => {
  await addPlugins(page, [ADDS]);
  await signIn(page);
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Adds report' }).click();
  await expect(page).toHaveURL(/\/admin\/pages\/adds-report$/);
  await expect(page.getByText('at /pages/adds-report')).toBeVisible();
  await expect(page.getByRole('link', { name: 'Adds report' })).toHaveAttribute('aria-current', 'page');
  await expectAccessible(page);
  await expectReflows(page);
  // A link of the plugin's own does not load the page anew.
  await page.evaluate(() => { (globalThis as { mark?: boolean }).mark = true; });
  await page.getByRole('link', { name: 'More' }).click();
  await expect(page.getByText('at /pages/adds-report/more')).toBeVisible();
  expect(await page.evaluate(() => (globalThis as { mark?: boolean }).mark)).toBe(true);
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox').fill('Adds broken');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('main').getByRole('alert')).toContainText('failed while drawing');
  await page.getByRole('link', { name: 'Cards', exact: true }).click();
  await expect(page.getByRole('heading', { name: 'Cards' })).toBeVisible();
  await page.goto('/admin/pages/nothing');
  await expect(page.getByText('No active plugin has this page')).toBeVisible();
  await page.goto('/admin/pages/adds-report?safe=1');
  await expect(page.getByText(/Safe mode/)).toBeVisible();
  await page.getByRole('button', { name: 'Open in its own frame' }).click();
  await expect(page.frameLocator('iframe.plugin-frame').getByText('at /pages/adds-report')).toBeVisible();
});

test('a plugin’s column is chosen in the list and shows the value of its source', async ({ page }) => {
  await addPlugins(page, [ADDS]);
  await signIn(page);
  const sku = uniqueSku();
  await createCard(page, 'Scored', sku);
  await intercept(page, '**/v1/admin/master-cards?*fields=id%2Cattributes*', async (route) => {
    const response = await route.fetch();
    const body = (await response.json()) as { items: { attributes: Record<string, unknown> }[] };
    for (const card of body.items) card.attributes.sources = { 'e2e-adds:x': { kind: 'adds', data: { score: 87, hostile: '<img src=x onerror=alert(1)>' } } };
    await route.fulfill({ response, json: body });
  });
  await page.getByRole('link', { name: 'Cards', exact: true }).first().click();
  await page.getByRole('searchbox').fill(sku);
  await expect(page).toHaveURL(/q=/);
  await expect(page.getByRole('row')).toHaveCount(2);
  await page.getByRole('button', { name: 'Columns' }).click();
  await page.getByRole('checkbox', { name: 'Adds score' }).check();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('columnheader', { name: 'Adds score' })).toBeVisible();
  await expect(page.getByRole('cell', { name: '87%' })).toBeVisible();
  await expect(page).toHaveURL(/columns=.*adds-score/);
  await expectAccessible(page);
});

test('a plugin’s actions draw a dialog or call a route, for a card and for selected cards', async ({ page }) => {
  await addPlugins(page, [ADDS]);
  await signIn(page);
  const sku = uniqueSku();
  const id = await createCard(page, 'Acted on', sku);
  const sent: unknown[] = [];
  let status = 200;
  await intercept(page, '**/v1/admin/plugins/e2e-adds/send', async (route) => {
    sent.push([route.request().method(), route.request().postDataJSON()]);
    await route.fulfill(status === 200 ? { json: { message: 'On its way' } } : { status, json: { code: 'unprocessable', detail: 'Nobody takes it.', title: 'x', status } });
  });
  const act = async (name: string) => {
    await page.getByRole('button', { name: 'Plugin actions' }).click();
    await page.getByRole('menuitem', { name }).click();
  };
  await act('Compare them');
  await expect(page.getByRole('dialog').getByText('comparing 1')).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
  await page.keyboard.press('Escape');
  // On a phone they take no line of their own.
  const wide = page.viewportSize() ?? { width: 1280, height: 720 };
  await page.setViewportSize({ width: 390, height: 844 });
  const tops = await Promise.all(['Plugin actions', 'More actions'].map(async (name) => (await page.getByRole('button', { name, exact: true }).boundingBox())?.y));
  expect(tops[0]).toBe(tops[1]);
  await page.setViewportSize(wide);
  await act('Send it');
  await expect(page.getByRole('dialog')).toContainText('Send this card away?');
  expect(sent).toEqual([]);
  status = 422;
  await page.getByRole('dialog').getByRole('button', { name: 'Send it' }).click();
  await expect(page.getByRole('dialog')).toContainText('Nobody takes it.');
  status = 200;
  await page.getByRole('dialog').getByRole('button', { name: 'Send it' }).click();
  await expect(page.getByText('e2e-adds: On its way')).toBeVisible();
  await expect(page.getByRole('dialog')).toHaveCount(0);
  expect(sent).toEqual([['POST', { card_ids: [id] }], ['POST', { card_ids: [id] }]]);

  await page.getByRole('link', { name: 'Cards', exact: true }).first().click();
  await page.getByRole('searchbox').fill(sku);
  await expect(page).toHaveURL(/q=/);
  await expect(page.getByRole('row')).toHaveCount(2);
  await page.getByRole('checkbox', { name: `Select ${sku}` }).check();
  await page.getByRole('button', { name: 'Plugin actions' }).click();
  await expect(page.getByRole('menuitem', { name: 'Send it' })).toHaveCount(0);
  await page.getByRole('menuitem', { name: 'Compare them' }).click();
  await expect(page.getByRole('dialog').getByText('comparing 1')).toBeVisible();
  expect(await asSignedIn<{ item: { version: number } }>(page, 'GET', `/master-cards/${id}`)).toMatchObject({ item: { version: 1 } });
});
