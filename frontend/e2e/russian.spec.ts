import { createCard, expect, expectReflows, signIn, test } from './support.ts';
import { signedIn } from './requests.ts';

test.beforeEach(({ page }) => signIn(page));

const SOURCE = { kind: 'supplier', plugin: 'supplier', plugin_version: '1.0.0', updated_at: '2026-03-02T09:30:00Z', updated_by: { kind: 'user', id: 'u', name: 'ann' }, data: { brand: 'Nordhem', colour: 'brass', description: 'A lamp for a desk' } };

test('no page is wider than its window in Russian, whose words are longer', async ({ page }) => {
  test.slow();
  const id = await createCard(page, 'В двух языках');
  await signedIn(page, 'POST', '/api-keys', { name: 'Для снимка', scopes: ['cards:read', 'cards:write', 'plugins:read', 'jobs:read', 'mcp:use'] });
  // The longest state of a key is that it expires soon.
  await signedIn(page, 'POST', '/api-keys', { name: 'Скоро истекает', scopes: ['cards:read', 'plugin:*:read'], expires_in_days: 3 });
  await signedIn(page, 'POST', '/users', { username: `redakteur-mit-langem-namen-${id.slice(-4)}`, password: 'correct-horse-battery', role: 'editor' });
  await page.route(`**/v1/admin/master-cards/${id}`, async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    body.item.attributes.sources = { 'supplier:shop.example': SOURCE };
    await route.fulfill({ response, json: body });
  });
  await page.evaluate(() => localStorage.setItem('cardinal.language', 'ru'));
  for (const path of ['', 'cards', `cards/${id}`, `cards/${id}?tab=sources`, `cards/${id}?tab=history`, 'import', 'plugins', 'plugins/supplier', 'plugins/supplier?tab=settings', 'mcp/keys', 'users', 'account', 'system', 'kinds', 'proxy', 'audit', 'approvals']) {
    await page.goto(`/admin/${path}`);
    await expect(page.locator('html')).toHaveAttribute('lang', 'ru');
    await expect(page.locator('.loading, [aria-busy="true"]')).toHaveCount(0);
    for (const width of [320, 768, 776, 900, 1024, 1280]) await test.step(`${path} at ${width}`, () => expectReflows(page, width));
  }
});
