import { expect, expectAccessible, expectReflows, signIn, test } from './support.ts';

/**
 * Against a host of its own that takes uploads. In `CARDINAL_UPLOADS_DIR` lie `quick.so`, its signature by a key that the
 * host trusts (`quick.so.minisig`) and one by a stranger (`stranger.minisig`).
 */
const uploads = process.env.CARDINAL_UPLOADS_DIR ?? '';
test.skip(!uploads, 'set CARDINAL_UPLOADS_DIR to a signed library for a host that takes uploads');

test('a plugin is uploaded, each check says its own, and a stranger’s signature gets no further', async ({ page }) => {
  test.slow();
  await signIn(page, '/admin/plugins');
  await page.getByRole('button', { name: 'Upload', exact: true }).click();
  const dialog = page.getByRole('dialog');
  const check = (name: string) => dialog.getByRole('listitem').filter({ hasText: name });
  const passed = (name: string) => expect(check(name).getByLabel('Passed')).toBeVisible();
  const failed = (name: string) => expect(check(name).getByLabel('Failed')).toBeVisible();
  const files = dialog.locator('input[type="file"]');
  const send = dialog.getByRole('button', { name: 'Upload plugin' });

  await files.nth(0).setInputFiles({ name: 'notes.so', mimeType: 'application/octet-stream', buffer: Buffer.from('text') });
  await failed('The package is a Linux library');
  await expect(send).toBeDisabled();
  await files.nth(0).setInputFiles(`${uploads}/quick.so`);
  await passed('The package is a Linux library');
  await files.nth(1).setInputFiles(`${uploads}/stranger.minisig`);
  await passed('The signature is a minisign file');
  await send.click();
  await failed('A trusted key signed this package');
  await passed('This host accepts uploads');
  await expect(check('The plugin loads and serves').getByLabel('Passed')).toHaveCount(0);
  await expectAccessible(page);
  await expectReflows(page);

  await files.nth(1).setInputFiles(`${uploads}/quick.so.minisig`);
  await send.click();
  await expect(dialog.getByLabel('Passed')).toHaveCount(6);
  await expectAccessible(page);
  await expectReflows(page);
  await dialog.getByRole('link', { name: 'Open plugin' }).click();
  await expect(page).toHaveURL(/\/admin\/plugins\/quick$/);

  // What does not serve can be removed again.
  await expect(page.getByRole('button', { name: 'Remove package' })).toHaveCount(0);
  await page.getByRole('button', { name: 'Disable' }).click();
  await dialog.getByRole('button', { name: 'Disable' }).click();
  await page.getByRole('button', { name: 'Remove package' }).click();
  await expect(dialog.getByText('Its file leaves the plugins folder of this host.')).toBeVisible();
  await expectAccessible(page);
  await dialog.getByRole('button', { name: 'Remove package' }).click();
  await expect(page.getByText('Package of Quick removed')).toBeVisible();
  await page.goto('/admin/plugins');
  await expect(page.getByRole('link', { name: 'Quick', exact: true })).toHaveCount(0);
});
