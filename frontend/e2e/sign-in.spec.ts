import { expect, expectAccessible, expectReflows, fillSignIn, intercept, signIn, test, uniqueSku } from './support.ts';

test('the sign-in page is accessible and narrow screens can use it', async ({ page }) => {
  await page.goto('/admin/');
  await expect(page.getByRole('heading', { name: 'Sign in to Cardinal' })).toBeVisible();
  await expect(page.getByLabel('User name'), 'typing can begin at once').toBeFocused();
  await expectAccessible(page);
  await expectReflows(page);
});

test('a wrong password is said in plain words, the right one opens the page that was asked for', async ({ page }) => {
  await page.goto('/admin/plugins');
  await fillSignIn(page, 'not the password');
  await expect(page.getByText(/wrong|password is|not right|incorrect/i)).toBeVisible();
  await expect(page.getByRole('navigation', { name: 'Main' })).toBeHidden();
  await fillSignIn(page);
  await expect(page.getByRole('heading', { level: 1, name: 'Plugins' })).toBeVisible();
});

test('a throttled sign-in says how long to wait', async ({ page }) => {
  await page.route('**/v1/admin/auth/login', (route) =>
    route.fulfill({ status: 429, contentType: 'application/problem+json', headers: { 'Retry-After': '90' }, json: { status: 429, code: 'rate-limited', detail: 'Too many attempts.' } }));
  await page.goto('/admin/');
  await fillSignIn(page);
  await expect(page.getByText('Try again in 1 minute 30 seconds.')).toBeVisible();
  await expect(page.getByRole('button', { name: /^Sign in \(in / })).toBeDisabled();
});

test('an ended session asks for the password over the page and keeps what was typed', async ({ page }) => {
  await signIn(page, '/admin/cards');
  await page.getByRole('button', { name: 'Create card' }).first().click();
  await page.getByRole('dialog').getByLabel('Title').fill('Half a thought');
  let refused = 0;
  await intercept(page, '**/v1/admin/master-cards', async (route) => {
    if (route.request().method() !== 'POST' || refused > 0) return route.fallback();
    refused += 1;
    return route.fulfill({ status: 401, contentType: 'application/problem+json', json: { status: 401, code: 'expired-token', detail: 'The session has ended.' } });
  });
  await page.getByRole('dialog').getByLabel('SKU').fill(uniqueSku());
  await page.getByRole('dialog').getByRole('button', { name: 'Create card' }).click();
  await expect(page.getByRole('heading', { name: 'Sign in again' })).toBeVisible();
  await expect(page.getByLabel('Password')).toBeFocused();
  await expectAccessible(page);
  await page.getByLabel('Password').fill(process.env.CARDINAL_PASSWORD ?? '');
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Half a thought' })).toBeVisible();
});

test('signing out forgets the session, a reload does not', async ({ page }) => {
  await signIn(page, '/admin/cards');
  await page.reload();
  await expect(page.getByRole('heading', { level: 1, name: 'Cards' })).toBeVisible();
  await page.getByRole('button', { name: /^Account menu/ }).click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await expect(page.getByRole('heading', { name: 'Sign in to Cardinal' })).toBeVisible();
  expect(await page.evaluate(() => sessionStorage.length + localStorage.length)).toBe(0);
  await page.reload();
  await expect(page.getByRole('heading', { name: 'Sign in to Cardinal' })).toBeVisible();
});
