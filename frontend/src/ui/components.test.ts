import { flushSync, mount, unmount, type Component } from 'svelte';
import { afterEach, expect, it } from 'vitest';
import { ApiError } from '../api/error.ts';
import ErrorState from './ErrorState.svelte';
import FormError from './FormError.svelte';
import { toasts } from './toasts.svelte.ts';
import Toasts from './Toasts.svelte';

let mounted: object | null = null;
function show<P extends Record<string, unknown>>(component: Component<P>, props: P): string {
  mounted = mount(component, { target: document.body, props });
  flushSync();
  return document.body.textContent?.replace(/\s+/g, ' ').trim() ?? '';
}
afterEach(async () => {
  if (mounted) await unmount(mounted);
  mounted = null;
});

it('an error shows what happened, its request id, and a way to try again', () => {
  let tried = 0;
  const error = new ApiError(503, 'database-unavailable', 'The database cannot be reached.', { request_id: 'r-9', retry_after_seconds: 5 });
  const text = show(ErrorState, { title: 'The cards could not be read', error, retry: () => (tried += 1) });
  expect(text).toContain('The cards could not be read The database cannot be reached. Try again in 5 seconds.');
  expect(text).toContain('r-9');
  document.querySelector('button')?.click();
  expect(tried).toBe(1);
});

it('a missing right is named, and not offered to be tried again', () => {
  const error = new ApiError(403, 'insufficient-scope', 'No.', { required_scope: 'keys:read' });
  const text = show(ErrorState, { title: 'x', error, retry: () => {} });
  expect(text).toContain('Ask an administrator for keys:read.');
  expect(document.querySelector('button')).toBeNull();
});

it('a form shows at its end what no field of it shows', () => {
  const errors = [{ pointer: '/sku', detail: 'Too long.' }, { pointer: '/attributes/x', detail: 'Odd.' }];
  const text = show(FormError, { error: new ApiError(422, 'validation-failed', 'Two fields are wrong.', { errors }), shown: ['/sku'] });
  expect(text).toContain('/attributes/x: Odd.');
  expect(text).not.toContain('Too long.');
});

it('a form names a request only when the fault is the server’s', () => {
  expect(show(FormError, { error: new ApiError(401, 'invalid-credentials', 'Wrong password.', { request_id: 'r-9' }) })).not.toContain('r-9');
});

it('a form names the request of a fault of the server’s', () => {
  expect(show(FormError, { error: new ApiError(500, 'internal-error', 'Something went wrong.', { request_id: 'r-9' }) })).toContain('r-9');
});

it('toasts appear in a live region and can be dismissed', () => {
  show(Toasts, {});
  const region = document.querySelector('[role="status"]');
  toasts.show('Card saved.');
  flushSync();
  expect(region?.textContent).toContain('Card saved.');
  region?.querySelector('button')?.click();
  flushSync();
  expect(region?.textContent?.trim()).toBe('');
});
