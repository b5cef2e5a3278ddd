import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { patchCard, signedIn } from './requests.ts';
import { createCard, expect, expectAccessible, expectReflows, signIn, test } from './support.ts';

/** 1 × 1 pixel. */
const PIXEL = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
const PRODUCT = {
  '@context': 'https://schema.org',
  '@type': 'Product',
  name: 'Desk lamp & shade "Lumo"',
  sku: 'LUMO-1',
  image: ['/lamp.png'],
  offers: { '@type': 'Offer', price: '49.90', priceCurrency: 'EUR', availability: 'https://schema.org/InStock' },
};

const ANOTHER = '127.0.0.2';

let shop: Server;
let address = '';

test.beforeAll(async () => {
  const page = (product: object) => `<!doctype html><title>Lamp</title><script type="application/ld+json">${JSON.stringify(product).replaceAll('<', '\\u003c')}</script>`;
  // By another of this machine's addresses it is another shop, with a brand of its own.
  shop = createServer(({ url, headers }, response) => {
    if (url === '/lamp.png') return response.setHeader('content-type', 'image/png').end(PIXEL);
    const brand = headers.host?.startsWith(ANOTHER) ? 'Mirel' : 'Lumo';
    return response.setHeader('content-type', 'text/html; charset=utf-8').end(page({ ...PRODUCT, brand }));
  });
  await new Promise<void>((resolve) => shop.listen(0, '0.0.0.0', resolve));
  address = `http://127.0.0.1:${(shop.address() as AddressInfo).port}/lamp`;
});
test.afterAll(() => shop.close());

test('a card is enriched from a page in the plugin’s tab, and shows it under its sources', async ({ page }) => {
  test.skip(!process.env.CARDINAL_PRIVATE_PAGES, 'set CARDINAL_PRIVATE_PAGES=1 when the host allows its plugin `supplier` private addresses');
  await signIn(page);
  await createCard(page, 'To be enriched');
  await page.getByRole('tab', { name: 'Supplier' }).click();
  const tab = page.locator('[data-plugin="supplier"]');
  await tab.getByRole('textbox').fill(address);
  await tab.getByRole('button', { name: 'Preview' }).click();
  await expect(tab.getByText('Desk lamp & shade "Lumo"')).toBeVisible();
  await expect(page.getByRole('tab', { name: /^Sources/ })).toBeVisible();
  await tab.getByRole('button', { name: 'Enrich' }).click();
  await expect(page.getByText('The card now holds what this page says.')).toBeVisible();
  await expect(tab.getByText('€49.90')).toBeVisible();
  // The browser may not ask the shop: the picture came through the host.
  await expect(tab.getByRole('img').first()).toHaveAttribute('src', /^blob:/);
  await expectAccessible(page);
  await expectReflows(page);
  await page.getByRole('tab', { name: /^Sources/ }).click();
  await expect(page.getByRole('heading', { level: 2, name: /^supplier:127\.0\.0\.1/ })).toBeVisible();
  await expect(page.getByText(`written by ${process.env.CARDINAL_USERNAME}`)).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
  // A value of the source becomes the card's own by one click, and by a save.
  await page.getByRole('button', { name: /^Use brand of supplier/ }).click();
  await page.getByRole('button', { name: /^Save/ }).click();
  await expect(page.getByText('Card saved')).toBeVisible();
  await page.getByRole('tab', { name: 'Overview' }).click();
  await expect(page.getByLabel('brand', { exact: true })).toHaveValue('Lumo');
  // However much there is beside the form, its fields stay as tall as they are.
  expect((await page.getByRole('textbox', { name: 'Title' }).boundingBox())?.height).toBeLessThan(50);
  await page.getByRole('tab', { name: 'History' }).click();
  await page.getByRole('button', { name: /Source supplier:/ }).first().click();
  await expect(page.getByText(/^Wrote the source supplier:127\.0\.0\.1/)).toBeVisible();
  await page.getByRole('tab', { name: /^Pictures/ }).click();
  await expect(page.getByRole('img', { name: /^Picture 1 of supplier:/ })).toHaveAttribute('src', /^blob:/);
  await expectAccessible(page);
  await expectReflows(page);
  // The tab speaks the language of the page.
  await page.getByRole('button', { name: /^Account menu/ }).click();
  await page.getByRole('button', { name: 'Русский' }).click();
  await page.reload();
  await page.getByRole('tab', { name: 'Supplier' }).click();
  await expect(tab.getByText('В наличии')).toBeVisible();
  await expect(tab.getByRole('button', { name: 'Обогатить' })).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
});

test('two sources stand side by side, what differs first, and a value of either becomes the card’s', async ({ page }) => {
  test.skip(!process.env.CARDINAL_PRIVATE_PAGES, 'set CARDINAL_PRIVATE_PAGES=1 when the host allows its plugin `supplier` private addresses');
  await signIn(page);
  const id = await createCard(page, 'In two shops');
  await patchCard(page, id, { attributes: { price: { amount: '1.00', currency: 'CHF' } } });
  for (const url of [address, address.replace('127.0.0.1', ANOTHER)]) await signedIn(page, 'POST', '/plugins/supplier/process', { card_id: id, url });
  await page.goto(`/admin/cards/${id}?tab=sources`);
  await page.getByRole('checkbox', { name: 'Compare supplier:127.0.0.1' }).check();
  await page.getByRole('checkbox', { name: `Compare supplier:${ANOTHER}` }).check();
  await expect(page.getByRole('heading', { name: 'Side by side' })).toBeVisible();
  const rows = page.getByRole('table').locator('tbody').getByRole('row');
  await expect(rows.first()).not.toHaveClass(/same/);
  await expect(page.getByRole('row', { name: /^brand/ })).toContainText(/Lumo.*Mirel/);
  await expect(page.getByRole('row', { name: /^sku/ })).toHaveClass(/same/);
  await expectAccessible(page);
  await expectReflows(page);
  for (const name of ['brand', 'price']) await page.getByRole('button', { name: `Use ${name} of supplier:${ANOTHER}` }).click();
  await expect(page.getByRole('button', { name: `Use brand of supplier:${ANOTHER}` }), 'the card has that value now').toHaveCount(0);
  await page.keyboard.press('Control+s');
  await expect(page.getByText('Card saved')).toBeVisible();
  const { item } = await signedIn<{ item: { attributes: { brand?: string; price?: unknown } } }>(page, 'GET', `/master-cards/${id}`);
  expect(item.attributes.brand).toBe('Mirel');
  expect(item.attributes.price, 'an amount of money stays one').toEqual({ amount: '49.90', currency: 'EUR' });
});
