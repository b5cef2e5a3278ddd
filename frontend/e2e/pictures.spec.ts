import type { Page } from '@playwright/test';
import { signedIn } from './requests.ts';
import { endAnimations, expect, signIn, test } from './support.ts';

/**
 * Screens as they were, in both themes, against a host of its own with nothing but what this file puts there. A picture
 * is half the size of its screen: letters drawn a little differently are no difference, a moved or lost part is one.
 * After a change that is meant: `CARDINAL_PICTURES=1 npm run e2e -- pictures --update-snapshots=all`, and look at the result.
 */
test.skip(!process.env.CARDINAL_PICTURES, 'set CARDINAL_PICTURES=1 for a fresh host with the plugins of this repository');
test.use({ viewport: { width: 1280, height: 800 }, deviceScaleFactor: 0.5, timezoneId: 'UTC' });
test.describe.configure({ mode: 'serial' });

const THEMES = ['light', 'dark'] as const;
/** What may differ: so many of a picture's 256,000 points, and of a point's colour (0 to 1). Screens are mostly empty: a lost column is 1 % of them. */
const TOLERANCE = { maxDiffPixels: 200, threshold: 0.1, scale: 'device' } as const;
/** Of what the host says, whatever is another in each run or on each machine. */
const WHEN = '2026-03-02T09:30:00Z';
const NOW = new Date('2026-03-02T12:00:00Z');
const VARIES = [
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, WHEN],
  [/"(uptime_seconds|cpu_seconds|resident_bytes|threads|open_fds|unattributed_fds|idle|size|calls|in_flight|abandoned)":\s?[\d.]+/g, '"$1":7'],
  [/"max_fds":\s?\d+/g, '"max_fds":20000'],
  // On a busy machine what the host opens is now and then taken for a plugin's.
  [/"descriptors":\s?\d+/g, '"descriptors":0'],
  [/\/[^" ]+: \d+ MiB free/g, '/var: 40000 MiB free'],
  [/\d+ files may be open/g, '20000 files may be open'],
  [/"host_id":\s?"[^"]+"/g, '"host_id":"0197a0de-0000-7000-8000-000000000001"'],
] as const;
const SPANS = Array.from({ length: 24 }, (_, n) => ({ from: '2026-03-02T11:00:00Z', to: new Date(Date.parse('2026-03-02T11:00:00Z') + (n + 1) * 150_000).toISOString(), requests: 300 + ((n * 37) % 90), failed: n === 9 ? 4 : 0 }));
const TRAFFIC = { host_id: '', from: '2026-03-02T11:00:00Z', to: '2026-03-02T12:00:00Z', requests: 8_200, failed: 4, p99_ms: 48, spans: SPANS };

/** Those of this repository. */
const PLUGINS = 3;

const CARDS = [
  { title: 'Desk lamp “Lumo”, brass', sku: 'LUMO-01', status: 'active', attributes: { brand: 'Lumo', price: { amount: '49.90', currency: 'EUR' }, colour: 'brass', in_stock: true, tags: ['lamp', 'desk'] } },
  { title: 'Armchair “Halden” with a long name that needs the second line of its row', sku: 'HALD-7', status: 'draft', attributes: { brand: 'Nordhem', width: 82 } },
  { title: 'Wool blanket', sku: 'WOOL-3', status: 'archived', attributes: { brand: 'Mirel' } },
  { title: 'Coffee table, oak', sku: 'OAK-12', status: 'active', attributes: {} },
];

const made: { card: string } = { card: '' };

/** The pages, by the names of their pictures. */
const SCREENS: readonly [name: string, path: () => string, ready: string][] = [
  ['home', () => '/admin/', 'Needs attention'],
  ['cards', () => '/admin/cards?sort=sku', 'Wool blanket'],
  ['card', () => `/admin/cards/${made.card}`, 'brass'],
  ['history', () => `/admin/cards/${made.card}?tab=history`, 'Version 1'],
  ['import', () => '/admin/import', 'Drop a CSV'],
  ['plugins', () => '/admin/plugins', 'Supplier'],
  ['plugin', () => '/admin/plugins/supplier', 'Supplier'],
  ['keys', () => '/admin/mcp/keys', 'API keys'],
  ['users', () => '/admin/users', 'Users'],
  ['account', () => '/admin/account', 'Password'],
  ['system', () => '/admin/system', 'Settings in force'],
  ['approvals', () => '/admin/approvals', 'Nothing waits'],
];

async function still(page: Page): Promise<void> {
  await page.clock.setFixedTime(NOW);
  await page.route('**/v1/admin/**', async (route) => {
    const path = new URL(route.request().url()).pathname;
    if (path.endsWith('/events')) return route.continue();
    if (path.endsWith('/traffic')) return route.fulfill({ json: TRAFFIC });
    const response = await route.fetch();
    if (!response.headers()['content-type']?.includes('json')) return route.fulfill({ response });
    const body = VARIES.reduce((text, [pattern, value]) => text.replace(pattern, value), await response.text());
    return route.fulfill({ response, body });
  });
  await page.route('**/metrics', (route) => route.fulfill({ contentType: 'text/plain', body: '' }));
}

/** The page's security policy allows no `<style>`. */
function addStyles(page: Page, rules: string): Promise<void> {
  return page.evaluate((text) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(text);
    document.adoptedStyleSheets = [sheet];
  }, rules);
}

test.beforeEach(async ({ page }) => {
  await signIn(page);
  if (made.card) return;
  const active = async () => (await signedIn<{ items: unknown[] }>(page, 'GET', '/plugins')).items.length;
  await expect.poll(active, 'all plugins are in service').toBe(PLUGINS);
  for (const card of CARDS) {
    const { item } = await signedIn<{ item: { id: string } }>(page, 'POST', '/master-cards', card);
    made.card ||= item.id;
  }
  const count = async (status: string) => (await signedIn<{ total_estimate: number }>(page, 'GET', `/master-cards?limit=1&fields=id&status=${status}`)).total_estimate;
  const all = async () => (await Promise.all(['draft', 'active', 'archived'].map(count))).reduce((sum, n) => sum + n);
  await expect.poll(all, 'Home counts them').toBe(CARDS.length);
});

for (const theme of THEMES) {
  test(`twelve screens look as they did, ${theme}`, async ({ page }) => {
    test.slow();
    await still(page);
    await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' });
    for (const [name, path, ready] of SCREENS) {
      await page.goto(path());
      await expect(page.getByText(ready).first()).toBeVisible();
      await expect(page.locator('.loading, [aria-busy="true"]')).toHaveCount(0);
      await page.evaluate(endAnimations);
      await expect.soft(page, name).toHaveScreenshot(`${name}-${theme}.png`, TOLERANCE);
    }
  });
}

test('a broken layout is another picture', async ({ page }, { config }) => {
  test.skip(/all|changed/.test(config.updateSnapshots), 'nothing is compared while pictures are made');
  await still(page);
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
  await page.goto('/admin/cards?sort=sku');
  await expect(page.getByText('Wool blanket')).toBeVisible();
  const compare = () => expect(page).toHaveScreenshot('cards-light.png', { ...TOLERANCE, timeout: 4_000 });
  await compare();
  for (const broken of ['.shell { display: block !important }', 'thead { display: none !important }', 'main { padding-block-start: 24px !important }']) {
    await addStyles(page, broken);
    expect(await compare().then(() => 'the same', () => 'another'), broken).toBe('another');
  }
});
