import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { asSignedIn, createCard, expect, expectAccessible, expectReflows, signIn, test, uniqueSku } from './support.ts';

/** 1 × 1 pixel. */
const PIXEL = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');

/** The SKU that the shop's feed has, and a card is made for. */
const SKU = uniqueSku();

let shop: Server;
let address = '';

test.beforeAll(async () => {
  const product = { '@type': 'Product', name: 'Lamp <img src=x onerror=alert(1)>', image: ['/1.png', '/2.png', '/text.png'] };
  const html = `<script type="application/ld+json">${JSON.stringify(product).replaceAll('<', '\\u003c')}</script>`;
  shop = createServer(({ url }, response) => {
    if (url === '/text.png') response.end('no picture');
    else if (url === '/feed.csv') response.setHeader('content-type', 'text/csv').end(`sku,title\n${SKU},Lamp\nno-such-sku,Other\n`);
    else if (url === '/no-feed') response.end('nothing');
    // Half a second lies between two pages: minutes of them.
    else if (url === '/long.xml') response.setHeader('content-type', 'text/xml').end(`<urlset>${Array.from({ length: 500 }, (_, n) => `<url><loc>/${n}</loc></url>`).join('')}</urlset>`);
    else if (url?.endsWith('.png')) response.setHeader('content-type', 'image/png').end(PIXEL);
    else response.setHeader('content-type', 'text/html; charset=utf-8').end(html);
  });
  await new Promise<void>((resolve) => shop.listen(0, '127.0.0.1', resolve));
  address = `http://127.0.0.1:${(shop.address() as AddressInfo).port}`;
});
test.afterAll(() => shop.close());

test('the gallery shows what a supplier has, and keeps which picture is chosen', async ({ page }) => {
  test.skip(!process.env.CARDINAL_PRIVATE_PAGES, 'set CARDINAL_PRIVATE_PAGES=1 when the host allows `supplier` and `gallery` private addresses');
  await signIn(page);
  const card = await createCard(page, 'With pictures');
  await page.getByRole('tab', { name: 'Gallery' }).click();
  const tab = page.locator('[data-plugin="gallery"]');
  await expect(tab.getByText('No source of this product has pictures yet.')).toBeVisible();
  await asSignedIn(page, 'POST', `/plugins/supplier/enrich/${card}`, { url: `${address}/lamp` });
  // The tab follows the card by itself.
  await expect(tab.getByText('3 pictures')).toBeVisible();
  await expect(tab.getByRole('img', { name: 'Picture 1 of 3' })).toHaveAttribute('src', /^data:image\/jpeg/);
  await tab.getByRole('button', { name: 'Show larger: Picture 3 of 3' }).click();
  await expect(tab.getByText('The file is no JPEG, PNG or WebP picture.')).toBeVisible();
  await tab.getByRole('button', { name: 'Show larger: Picture 2 of 3' }).click();
  await tab.getByRole('button', { name: 'Make main picture' }).click();
  await expect(tab.getByRole('button', { name: 'Forget the choice' })).toBeFocused();
  await expect(tab.getByRole('button', { name: 'Show larger: Picture 2 of 3, Main picture' })).toHaveAttribute('aria-pressed', 'true');
  await expectAccessible(page);
  await expectReflows(page);
});

test('the completeness tab says what a card lacks and which cards lack most', async ({ page }) => {
  await signIn(page);
  const sku = uniqueSku();
  await createCard(page, 'Lacks everything', sku);
  await page.getByRole('tab', { name: 'Completeness' }).click();
  const tab = page.locator('[data-plugin="completeness"]');
  await expect(tab.getByText('5 missing', { exact: true })).toBeVisible();
  await expect(tab.getByText('Attribute “brand”')).toBeVisible();
  await tab.getByText('The whole catalogue').click();
  await expect(tab.getByRole('table').getByRole('link').first()).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
  // In the list of cards, too, without anything written into them.
  await page.goto(`/admin/cards?q=${sku}&columns=title,attributes.column:completeness`);
  await expect(page.getByRole('columnheader', { name: 'Complete' })).toBeVisible();
  await expect(page.getByRole('row', { name: 'Lacks everything' }).getByRole('cell', { name: '0%' })).toBeVisible();
});

test('feeds are gone through, cancelled and looked at on the page of the supplier plugin', async ({ page }) => {
  test.skip(!process.env.CARDINAL_PRIVATE_PAGES, 'set CARDINAL_PRIVATE_PAGES=1 when the host allows `supplier` and `gallery` private addresses');
  await signIn(page);
  const card = await createCard(page, 'In a feed', SKU);
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Supplier feeds' }).click();
  const feeds = page.locator('[data-plugin="supplier"]');
  const run = (path: string) => feeds.getByRole('listitem').filter({ hasText: `${address}${path}` }).first();
  const start = async (path: string) => {
    await feeds.getByLabel('Address of a feed or sitemap').fill(path && `${address}${path}`);
    await feeds.getByRole('button', { name: 'Start', exact: true }).click();
  };
  await start('');
  await expect(feeds.getByRole('alert')).toHaveText('Enter the address of a feed first.');
  await start('/feed.csv');
  await expect(run('/feed.csv').getByRole('status')).toHaveText('Done');
  await expect(run('/feed.csv').getByText('2 of 2 entries')).toBeVisible();
  const { item } = (await asSignedIn(page, 'GET', `/master-cards/${card}`)) as { item: { attributes: { sources: object } } };
  expect(Object.keys(item.attributes.sources)).toEqual(['supplier:127.0.0.1:feed']);

  await start('/no-feed');
  await expect(run('/no-feed').getByRole('status')).toHaveText('Failed');
  await expect(run('/no-feed').getByText('no feed')).toBeVisible();

  await start('/long.xml');
  await expect(run('/long.xml').getByRole('progressbar')).toHaveAttribute('max', '500');
  await expectAccessible(page);
  await expectReflows(page);
  await run('/long.xml').getByRole('button', { name: `Cancel ${address}/long.xml` }).click();
  await expect(run('/long.xml').getByRole('status')).toHaveText('Cancelled');
});

test('a setting that is no number is a change, and saving leads to it', async ({ page }) => {
  await signIn(page, '/admin/plugins/supplier?tab=settings');
  const settings = page.getByRole('region', { name: 'Settings' });
  const wrong = settings.locator('input.number').first();
  await wrong.fill('soon');
  await expect(settings.getByText('1 change', { exact: true })).toBeVisible();
  await settings.getByRole('checkbox').first().focus();
  await page.keyboard.press('Control+s');
  await expect(wrong).toBeFocused();
  await settings.getByRole('button', { name: 'Discard' }).click();
  await expect(settings.getByRole('button', { name: /^Save/ })).toBeHidden();
});
