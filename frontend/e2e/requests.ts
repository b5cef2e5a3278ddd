import type { Page } from '@playwright/test';
import { expect } from './support.ts';

/** A request of the one who is signed in on this page, beside what the page does; `path` is relative to `/v1/admin`. */
export async function signedIn<T = unknown>(page: Page, method: string, path: string, body?: unknown, contentType = 'application/json'): Promise<T> {
  const token = await page.evaluate(() => sessionStorage.getItem('cardinal.token'));
  const data = typeof body === 'string' ? Buffer.from(body) : body;
  const response = await page.request.fetch(`/v1/admin${path}`, { method, headers: { Authorization: `Bearer ${token}`, 'Content-Type': contentType }, ...(data === undefined ? {} : { data }) });
  expect(response.ok(), `${method} ${path}: ${response.status()}`).toBe(true);
  return (response.status() === 204 ? null : await response.json()) as T;
}

/** Somebody else's change of a card. */
export function patchCard(page: Page, card: string, patch: object): Promise<unknown> {
  return signedIn(page, 'PATCH', `/master-cards/${card}`, patch, 'application/merge-patch+json');
}
