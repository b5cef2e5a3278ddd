import type { Page } from '@playwright/test';
import { createCard, expect, signIn, test, uniqueSku } from './support.ts';

/** Somebody else's change, which this page hears of from the server alone. */
async function patch(page: Page, card: string, change: object): Promise<void> {
  const login = await page.request.post('/v1/admin/auth/login', { data: { username: process.env.CARDINAL_USERNAME, password: process.env.CARDINAL_PASSWORD } });
  const { access_token: token } = (await login.json()) as { access_token: string };
  const answer = await page.request.patch(`/v1/admin/master-cards/${card}`, { data: change, headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/merge-patch+json' } });
  expect(answer.status()).toBe(200);
}

test('a card that somebody else changes shows it, and keeps what is being typed', async ({ page }) => {
  await signIn(page);
  const card = await createCard(page, 'Seen by two');
  await patch(page, card, { title: 'Renamed elsewhere' });
  await expect(page.getByRole('heading', { level: 1, name: 'Renamed elsewhere' })).toBeVisible();
  await expect(page.getByLabel('Title')).toHaveValue('Renamed elsewhere');
  await page.getByLabel('Title').fill('Half typed');
  await patch(page, card, { status: 'active' });
  await expect(page.getByText(/ changed status /)).toBeVisible();
  await expect(page.getByLabel('Status')).toHaveValue('active');
  await expect(page.getByLabel('Title')).toHaveValue('Half typed');
});

test('the list of cards follows what happens, but not under the pointer', async ({ page }) => {
  await signIn(page);
  const sku = uniqueSku();
  const card = await createCard(page, 'In the list', sku);
  await page.goto(`/admin/cards?q=${sku}`);
  await expect(page.getByRole('link', { name: 'In the list' })).toBeVisible();
  await patch(page, card, { title: 'Renamed in the list' });
  await expect(page.getByRole('link', { name: 'Renamed in the list' })).toBeVisible();
  await page.getByRole('link', { name: 'Renamed in the list' }).hover();
  await patch(page, card, { title: 'Renamed again' });
  await expect(page.getByText('This list is out of date.')).toBeVisible();
  await expect(page.getByRole('link', { name: 'Renamed in the list' })).toBeVisible();
  await page.getByRole('heading', { level: 1 }).hover();
  await expect(page.getByRole('link', { name: 'Renamed again' })).toBeVisible();
});

test('what happens while the connection is still being made shows as well', async ({ page }) => {
  let open = () => {};
  const may = new Promise<void>((resolve) => (open = resolve));
  await page.route('**/v1/admin/events', async (route) => {
    await may;
    await route.fallback();
  });
  await signIn(page);
  const card = await createCard(page, 'Fetched before');
  await patch(page, card, { title: 'Changed before anybody listened' });
  await expect(page.getByRole('heading', { level: 1, name: 'Fetched before' })).toBeVisible();
  open();
  await expect(page.getByRole('heading', { level: 1, name: 'Changed before anybody listened' })).toBeVisible();
});

test('a connection that broke goes on where it was', async ({ page }) => {
  const asked: (string | undefined)[] = [];
  let cut = true;
  await page.route('**/v1/admin/events', async (route) => {
    asked.push(route.request().headers()['last-event-id']);
    if (!cut) return route.fallback();
    cut = false;
    await route.fulfill({ contentType: 'text/event-stream', body: 'retry: 500\nid: 1\n\n' });
  });
  await signIn(page);
  // What came meanwhile is not kept, or never was: the server says so, and the page fetches anew.
  await expect.poll(() => asked).toEqual([undefined, '1']);
  const card = await createCard(page, 'After the break');
  await patch(page, card, { title: 'Heard of after the break' });
  await expect(page.getByRole('heading', { level: 1, name: 'Heard of after the break' })).toBeVisible();
});
