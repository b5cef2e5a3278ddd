import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { crc32, deflateSync } from 'node:zlib';
import type { Page } from '@playwright/test';
import { signedIn } from './requests.ts';
import { expect, signIn, test } from './support.ts';

/**
 * The three bundled plugins at work on 10,000 cards, against a shop that this file plays. The host is a fresh one whose
 * plugins `supplier` and `gallery` may read pages of this machine, `supplier` without pauses. What took how long is printed.
 */
test.skip(!process.env.CARDINAL_MANY_CARDS, 'set CARDINAL_MANY_CARDS=1 for a fresh host whose plugins read this machine’s pages without pauses');
test.describe.configure({ mode: 'serial' });

const CARDS = 10_000;
const PAGES = 100;
const PICTURES = 24;
const skuOf = (n: number) => `TEN-${String(n).padStart(5, '0')}`;

let shop: Server;
let address = '';

/** A photo's worth of bytes and pixels. */
function picture(seed: number, width = 600, height = 400): Buffer {
  const rows = Buffer.alloc((width * 3 + 1) * height);
  for (let y = 0; y < height; y += 1) for (let x = 0; x < width * 3; x += 1) rows[y * (width * 3 + 1) + 1 + x] = ((x * y) >> (3 + (seed % 4))) + seed * 37;
  const chunk = (type: string, data: Buffer) => {
    const [length, sum, body] = [Buffer.alloc(4), Buffer.alloc(4), Buffer.concat([Buffer.from(type), data])];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2, 0, 0, 0], 8);
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', head), chunk('IDAT', deflateSync(rows, { level: 1 })), chunk('IEND', Buffer.alloc(0))]);
}

function productPage(n: number): string {
  const product = { '@type': 'Product', name: `Page of lamp ${n}`, sku: skuOf(n), brand: 'Lumo', image: [`/${n % PICTURES}.png`], offers: { '@type': 'Offer', price: '49.90', priceCurrency: 'EUR' } };
  return `<script type="application/ld+json">${JSON.stringify(product)}</script>`;
}

test.beforeAll(async () => {
  const row = (n: number) => {
    const pictures = Array.from({ length: n === 0 ? PICTURES : 2 }, (_, nth) => `${address}/${(n + nth) % PICTURES}.png`);
    return `${skuOf(n)},Lamp ${n} of the feed,Lumo,${10 + (n % 90)}.90 EUR,"${pictures.join(',')}"`;
  };
  shop = createServer(({ url = '' }, response) => {
    if (url === '/feed.csv') response.setHeader('content-type', 'text/csv').end(['sku,title,brand,price,image_link', ...Array.from({ length: CARDS }, (_, n) => row(n))].join('\n'));
    else if (url === '/map.xml') response.setHeader('content-type', 'text/xml').end(`<urlset>${Array.from({ length: PAGES }, (_, n) => `<url><loc>${address}/p/${n}</loc></url>`).join('')}</urlset>`);
    else if (url.endsWith('.png')) response.setHeader('content-type', 'image/png').end(picture(Number(url.match(/\d+/)?.[0] ?? 0)));
    else if (url.startsWith('/p/')) response.setHeader('content-type', 'text/html; charset=utf-8').end(productPage(Number(url.slice(3))));
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => shop.listen(0, '127.0.0.1', resolve));
  address = `http://127.0.0.1:${(shop.address() as AddressInfo).port}`;
});
test.afterAll(() => shop.close());

/** Does it, and says how long it took. */
async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  const began = performance.now();
  const result = await work();
  process.stdout.write(`    ${what}: ${((performance.now() - began) / 1000).toFixed(2)} s\n`);
  return result;
}

const rows = (page: Page) => page.getByRole('table').locator('tbody').getByRole('row');

test.beforeEach(({ page }) => signIn(page));

test('the list of 10,000 cards comes at once, scrolls and turns its pages', async ({ page }) => {
  const cards = Array.from({ length: CARDS }, (_, n) => JSON.stringify({ title: `Lamp ${n}`, sku: skuOf(n), status: ['active', 'draft'][n % 2], attributes: n % 4 ? { brand: 'Lumo', description: 'A lamp for the desk. '.repeat(8) } : {} }));
  await timed('import of 10,000 cards', () => signedIn(page, 'POST', '/master-cards/import', cards.join('\n'), 'application/x-ndjson'));
  await timed('the page opened anew, until the first list', async () => {
    await page.goto('/admin/cards?sort=sku');
    await expect(rows(page).first()).toContainText(skuOf(0));
  });
  await expect(rows(page)).toHaveCount(50);
  const last = rows(page).last();
  await last.scrollIntoViewIfNeeded();
  await expect(last).toContainText(skuOf(49));
  const moved = await page.evaluate(async () => {
    const frames: number[] = [];
    for (let at = 0; at < 20; at += 1) {
      const began = performance.now();
      scrollTo(0, at % 2 ? document.body.scrollHeight : 0);
      await new Promise((drawn) => requestAnimationFrame(drawn));
      frames.push(performance.now() - began);
    }
    return frames.toSorted((a, b) => a - b)[10] ?? 0;
  });
  process.stdout.write(`    a frame while the list scrolls from end to end, median: ${moved.toFixed(0)} ms\n`);
  await timed('next page', async () => {
    await page.getByRole('button', { name: 'Next' }).or(page.getByRole('link', { name: 'Next' })).first().click();
    await expect(rows(page).first()).toContainText(skuOf(50));
  });
});

test('supplier enriches them all from a feed, and some from their pages, and shows how far it is', async ({ page }) => {
  test.slow();
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Supplier feeds' }).click();
  const feeds = page.locator('[data-plugin="supplier"]');
  const go = async (path: string, entries: string) => {
    await feeds.getByLabel('Address of a feed or sitemap').fill(`${address}${path}`);
    await feeds.getByRole('button', { name: 'Start', exact: true }).click();
    const run = feeds.getByRole('listitem').filter({ hasText: `${address}${path}` }).first();
    await expect(run.getByRole('progressbar'), 'it is seen under way').toBeVisible();
    await expect(run.getByRole('status')).toHaveText('Done', { timeout: 90_000 });
    await expect(run.getByText(entries)).toBeVisible();
  };
  await timed(`a feed of ${CARDS} entries, each into its card`, () => go('/feed.csv', '10,000 of 10,000 entries'));
  await timed(`a sitemap of ${PAGES} product pages, read one by one`, () => go('/map.xml', `${PAGES} of ${PAGES} entries`));
  const { total } = await signedIn<{ total: number }>(page, 'GET', '/master-cards?limit=1&fields=id&kind=supplier&count=exact');
  expect(total).toBe(CARDS);
});

test('the list filters by a plugin’s kind', async ({ page }) => {
  await timed('the list of those with a kind', async () => {
    await page.goto('/admin/cards?sort=sku&kind=supplier');
    await expect(rows(page).first()).toContainText(skuOf(0));
  });
  await page.goto('/admin/cards?sort=sku&missing_kind=supplier');
  await expect(page.getByText('No cards match these filters')).toBeVisible();
});

test('the gallery hangs a wall of pictures, and keeps which one is chosen', async ({ page }) => {
  await page.goto(`/admin/cards?q=${skuOf(0)}`);
  await timed('a card opened from the list', async () => {
    await page.getByRole('link', { name: 'Lamp 0', exact: true }).click();
    await expect(page.getByRole('tab', { name: 'Gallery' })).toBeVisible();
  });
  const tab = page.locator('[data-plugin="gallery"]');
  const wall = tab.locator('.wall img');
  await timed('the tab Gallery, until it says what there is', async () => {
    await page.getByRole('tab', { name: 'Gallery' }).click();
    await expect(tab.getByText(`${PICTURES} pictures`)).toBeVisible();
  });
  await timed(`its wall of ${PICTURES} pictures, read from the shop for the first time`, () => expect(wall).toHaveCount(PICTURES));
  await page.reload();
  await timed(`the wall, from the plugin's own cache`, () => expect(wall).toHaveCount(PICTURES));
  await tab.getByRole('button', { name: `Show larger: Picture 7 of ${PICTURES}` }).click();
  await timed('a picture made the main one', async () => {
    await tab.getByRole('button', { name: 'Make main picture' }).click();
    await expect(tab.getByRole('button', { name: `Show larger: Picture 7 of ${PICTURES}, Main picture` })).toHaveAttribute('aria-pressed', 'true');
  });
  await page.goto('/admin/cards?kind=main-picture');
  await expect(rows(page)).toHaveCount(1);
  await expect(rows(page)).toContainText(skuOf(0));
});

test('completeness scores them all: in the list, in its tab, the worst first', async ({ page }) => {
  const summary = () => signedIn<{ cards: number; walk: { is_running: boolean } }>(page, 'GET', '/plugins/completeness/summary');
  await timed('until all cards have a score by their events', () => expect.poll(async () => (await summary()).cards, { timeout: 90_000 }).toBe(CARDS));
  await timed('the list with the column Complete', async () => {
    await page.goto('/admin/cards?sort=sku&columns=title,attributes.column:completeness');
    await expect(rows(page).first().getByRole('cell', { name: /^\d+%$/ })).toBeVisible();
  });
  await expect(rows(page).getByRole('cell', { name: /^\d+%$/ }), 'a score in every row').toHaveCount(50);
  await page.getByRole('link', { name: 'Lamp 0', exact: true }).click();
  const tab = page.locator('[data-plugin="completeness"]');
  await timed('the tab Completeness', async () => {
    await page.getByRole('tab', { name: 'Completeness' }).click();
    await expect(tab.getByText('of 100')).toBeVisible();
  });
  const worst = tab.getByRole('table').locator('tbody').getByRole('row');
  await timed('the whole catalogue and its worst cards', async () => {
    await tab.getByText('The whole catalogue').click();
    await expect(worst).toHaveCount(10);
  });
  await expect(tab.getByText('10,000', { exact: true }).first()).toBeVisible();
  await tab.getByRole('button', { name: 'Show more' }).click();
  await expect(worst).toHaveCount(20);
  const scores = (await worst.getByRole('cell').last().allTextContents()).map(Number);
  expect(scores).toEqual(scores.toSorted((a, b) => a - b));
});
