import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createCard, expect, expectAccessible, expectReflows, signIn, test } from './support.ts';

/** 1 × 1 pixel. */
const PIXEL = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
const PRODUCT = {
  '@context': 'https://schema.org',
  '@type': 'Product',
  name: 'Desk lamp & shade "Lumo"',
  brand: { '@type': 'Brand', name: 'Lumo' },
  sku: 'LUMO-1',
  image: ['/lamp.png'],
  offers: { '@type': 'Offer', price: '49.90', priceCurrency: 'EUR', availability: 'https://schema.org/InStock' },
};

let shop: Server;
let address = '';

test.beforeAll(async () => {
  const html = `<!doctype html><title>Lamp</title><script type="application/ld+json">${JSON.stringify(PRODUCT).replaceAll('<', '\\u003c')}</script>`;
  shop = createServer(({ url }, response) => {
    if (url === '/lamp.png') response.setHeader('content-type', 'image/png').end(PIXEL);
    else response.setHeader('content-type', 'text/html; charset=utf-8').end(html);
  });
  await new Promise<void>((resolve) => shop.listen(0, '127.0.0.1', resolve));
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
