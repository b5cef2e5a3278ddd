import { createCard, expect, expectAccessible, expectReflows, signIn, test } from './support.ts';
import { patchCard, signedIn } from './requests.ts';

test.beforeEach(({ page }) => signIn(page));

const picture = (colour: string) => `data:image/svg+xml;utf8,<svg xmlns="http://www.w3.org/2000/svg" width="300" height="200"><rect width="300" height="200" fill="${colour}"/></svg>`;

test('the help names every key that leads to a page', async ({ page }) => {
  await page.keyboard.press('?');
  const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  for (const [name, key] of [['Home', 'h'], ['Import', 'i'], ['Approvals', 'w'], ['System', 's']]) await expect(help.locator('div').filter({ has: page.getByText(name ?? '', { exact: true }) }).last()).toContainText(`g${key}`);
  await expectAccessible(page);
});

test('the drawer of jobs gives the focus back to what opened it', async ({ page }) => {
  const opener = page.getByRole('main').getByRole('button', { name: 'All jobs' });
  await opener.click();
  const drawer = page.getByRole('complementary', { name: 'Jobs' });
  await expect(drawer.getByRole('heading', { name: 'Jobs' })).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(drawer).toBeHidden();
  await expect(opener).toBeFocused();
});

test('a picture opens large, says its size, and leads to the next; a broken one says why', async ({ page }) => {
  const id = await createCard(page, 'Pictured');
  await patchCard(page, id, { attributes: { pictures: [picture('teal'), picture('red'), 'https://broken.invalid/a.jpg'] } });
  await page.goto(`/admin/cards/${id}?tab=pictures`);
  await expect(page.getByText(/^No picture: /)).toBeVisible();
  await expectAccessible(page);
  await page.getByRole('button', { name: 'Show picture 1' }).click();
  const viewer = page.getByRole('dialog');
  await expect(viewer.getByText('300 × 200 px')).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
  await page.keyboard.press('ArrowRight');
  await expect(viewer.getByRole('heading')).toHaveText('Picture 2 of the card');
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('ArrowLeft');
  await expect(viewer.getByRole('link', { name: 'https://broken.invalid/a.jpg' })).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(viewer).toBeHidden();
});

test('the focus goes on to the next attribute when one is removed', async ({ page }) => {
  const id = await createCard(page, 'With attributes');
  await patchCard(page, id, { attributes: { brand: 'Lumo', width: 12 } });
  const remove = async (name: string) => {
    await page.getByRole('button', { name: `Actions for ${name}` }).click();
    await page.getByRole('menuitem', { name: 'Remove' }).click();
  };
  await remove('brand');
  await expect(page.getByRole('button', { name: 'Actions for width' })).toBeFocused();
  await remove('width');
  await expect(page.getByRole('button', { name: 'Add attribute' })).toBeFocused();
});

test('uploads that the operator has switched off are not offered, and a plugin lists its jobs', async ({ page }) => {
  const { settings } = await signedIn<{ settings: Record<string, string> }>(page, 'GET', '/system');
  test.skip(settings.PLUGIN_UPLOAD !== 'off', 'for a host that takes no uploads');
  await page.goto('/admin/plugins');
  await expect(page.getByText(/^Uploads are off on this host/)).toBeVisible();
  await expect(page.getByRole('button', { name: 'Upload' })).toHaveCount(0);
  await page.goto('/admin/plugins/supplier');
  await expect(page.getByText('Enrich cards from a feed or sitemap')).toBeVisible();
});
