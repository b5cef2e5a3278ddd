import { rename } from 'node:fs/promises';
import type { Page } from '@playwright/test';
import { expect, expectAccessible, expectReflows, signIn, test } from './support.ts';

/**
 * Against a host of its own, whose plugins folder (`CARDINAL_PLUGINS_DIR`) it may change: `versioned` 1.1.0, which served
 * as 1.0.0 before, and `echo`, signed. In `CARDINAL_PACKAGES_DIR`, on the same file system, lie `versioned`, whose schema
 * loses a column, and `echo` by another signer.
 */
const folder = process.env.CARDINAL_PLUGINS_DIR ?? '';
const packages = process.env.CARDINAL_PACKAGES_DIR ?? '';
test.skip(!packages, 'set CARDINAL_PACKAGES_DIR to packages that may be put into the plugins folder');

/** Puts the package that lies ready in the place of the one that serves. */
async function replace(page: Page, plugin: string): Promise<void> {
  await rename(`${folder}/${plugin}`, `${packages}/${plugin}-before`);
  await rename(`${packages}/${plugin}`, `${folder}/${plugin}`);
  await page.goto('/admin/plugins');
  await page.getByRole('button', { name: 'Rescan folder' }).click();
  await page.getByRole('link', { name: new RegExp(`^${plugin}$`, 'i') }).click();
}

const version = (page: Page, expected: string) => expect(page.getByText(expected, { exact: true }).first()).toBeVisible();

test('a plugin is rolled back to the version of one’s choice, and forward again by the choice of the newer one, or by a reload', async ({ page }) => {
  await signIn(page, '/admin/plugins/versioned');
  await version(page, '1.1.0');
  await page.getByRole('button', { name: /^Roll back/ }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByLabel('Go back to')).toHaveText(/^1\.0\.0 /);
  await expectAccessible(page);
  await expectReflows(page);
  await dialog.getByRole('button', { name: 'Roll back' }).click();
  await expect(page.getByText(/ rolled back$/)).toBeVisible();
  await version(page, '1.0.0');
  await expect(page.getByText('Rolled back to 1.0.0.')).toBeVisible();
  await page.goto('/admin/');
  await expect(page.getByRole('region', { name: 'Needs attention' }).getByRole('listitem').filter({ hasText: /versioned/i })).toHaveCount(0);
  await page.goto('/admin/plugins/versioned?tab=versions');
  await page.getByRole('button', { name: 'Use this version: 1.1.0' }).click();
  await dialog.getByRole('button', { name: 'Use this version' }).click();
  await expect(page.getByText('Versioned 1.1.0: In service')).toBeVisible();
  await page.goto('/admin/plugins/versioned');
  await version(page, '1.1.0');
  await page.getByRole('button', { name: /^Roll back/ }).click();
  await dialog.getByRole('button', { name: 'Roll back' }).click();
  await version(page, '1.0.0');
  await page.getByRole('button', { name: /^Reload/ }).click();
  await version(page, '1.1.0');
});

test('what a new version would lose is named, and lost on an operator’s word alone', async ({ page }) => {
  await signIn(page, '/admin/plugins');
  await replace(page, 'versioned');
  await version(page, '1.1.0');
  await expect(page.getByText('Would be lost')).toBeVisible();
  await expect(page.getByText('column notes.more is dropped')).toBeVisible();
  await page.getByRole('button', { name: /^Reload/ }).click();
  await expect(page.getByText(/Nothing was changed\./)).toBeVisible();
  await page.getByRole('button', { name: /^Accept data loss/ }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('column notes.more is dropped');
  await expectAccessible(page);
  await expectReflows(page);
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await version(page, '1.1.0');
  await page.getByRole('button', { name: /^Accept data loss/ }).click();
  await dialog.getByRole('button', { name: 'Accept data loss' }).click();
  await version(page, '1.2.0');
  await expect(page.getByText('Would be lost')).toBeHidden();
  await expect(page.getByRole('button', { name: /^Roll back/ }), 'there is no way back past the loss').toHaveCount(0);
});

test('another signer gets a plugin’s name on an operator’s word alone', async ({ page }) => {
  await signIn(page, '/admin/plugins');
  await replace(page, 'echo');
  await expect(page.getByText('signer-changed')).toBeVisible();
  await page.getByRole('button', { name: /^Accept the signer/ }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('Signed now by:');
  await expectAccessible(page);
  await expectReflows(page);
  await dialog.getByRole('button', { name: 'Accept the signer' }).click();
  await expect(page.getByText('Active', { exact: true })).toBeVisible();
  await expect(page.getByText('signer-changed')).toBeHidden();
});
