import { beforeEach, expect, it, vi } from 'vitest';
// Compiled before the first test begins, whose time is bounded.
import './router.svelte.ts';

/** A router that starts at `url`. */
async function at(url: string) {
  history.replaceState(null, '', url);
  vi.resetModules();
  return (await import('./router.svelte.ts')).router;
}
const here = () => location.pathname + location.search;

beforeEach(() => vi.stubGlobal('scrollTo', () => {}));

it('reads path and query below /admin', async () => {
  const router = await at('/admin/cards?q=lamp&sort=title');
  expect(router.place.path).toBe('/cards');
  expect(router.place.search.get('q')).toBe('lamp');
});

it('writes state into the URL and leaves the rest of it alone', async () => {
  const router = await at('/admin/cards?q=lamp&cursor=abc');
  router.set({ status: 'draft', cursor: '' });
  expect(here()).toBe('/admin/cards?q=lamp&status=draft');
  expect(router.place.search.get('status')).toBe('draft');
  router.go('/plugins');
  expect(here()).toBe('/admin/plugins');
});

it('does not fill the history with what has not changed', async () => {
  const router = await at('/admin/cards?q=lamp');
  const before = history.length;
  router.set({ q: 'lamp' });
  router.set({ q: 'lamps' }, { replace: true });
  expect(history.length).toBe(before);
  expect(here()).toBe('/admin/cards?q=lamps');
});

it('goes on to a page that is still to come while the open one writes its own query', async () => {
  const router = await at('/admin/cards');
  let come = () => {};
  const code = new Promise<void>((resolve) => (come = resolve));
  router.prepareWith((path) => (path === '/plugins' ? code : null));
  router.go('/plugins');
  router.set({ q: 'lamp' }, { replace: true });
  expect([here(), router.coming]).toEqual(['/admin/cards?q=lamp', '/plugins']);
  come();
  await vi.waitFor(() => expect(here()).toBe('/admin/plugins'));
  expect([router.place.path, router.coming]).toEqual(['/plugins', null]);
});

it('goes where it was last told to go', async () => {
  const router = await at('/admin/cards');
  const come: Record<string, () => void> = {};
  router.prepareWith((path) => new Promise<void>((resolve) => (come[path] = resolve)));
  router.go('/plugins');
  router.go('/users');
  come['/users']?.();
  await vi.waitFor(() => expect(here()).toBe('/admin/users'));
  come['/plugins']?.();
  await new Promise((resolve) => setTimeout(resolve));
  expect(here()).toBe('/admin/users');
});

it('asks before a page with unsaved changes is left, not for a change of its query', async () => {
  const router = await at('/admin/cards/1');
  const { asking } = await import('./ui/ask.svelte.ts');
  const guard = vi.fn(() => 'Leave?');
  const stop = router.guard(guard);
  router.set({ tab: 'raw' });
  expect(guard).not.toHaveBeenCalled();
  router.go('/cards');
  expect(asking.question?.text).toBe('Leave?');
  asking.answer(false);
  await Promise.resolve();
  expect(here()).toBe('/admin/cards/1?tab=raw');
  router.go('/cards');
  asking.answer(true);
  await vi.waitFor(() => expect(here()).toBe('/admin/cards'));
  stop();
  router.go('/plugins');
  expect(here()).toBe('/admin/plugins');
});

it('follows plain clicks on its own links and leaves every other click to the browser', async () => {
  await at('/admin/cards');
  document.body.innerHTML = '<a id="own" href="/admin/plugins?x=1"><b>in</b></a><a id="file" href="/admin/assets/x.js">f</a><a id="out" href="/api">o</a><a id="tab" target="_blank" href="/admin/cards">t</a>';
  const click = (id: string, init: MouseEventInit = {}) => {
    const event = new MouseEvent('click', { bubbles: true, cancelable: true, composed: true, ...init });
    // Whatever the router leaves alone must not make the test's window navigate.
    window.addEventListener('click', (late) => { taken = late.defaultPrevented; late.preventDefault(); }, { once: true });
    let taken = false;
    document.querySelector(id)?.dispatchEvent(event);
    return taken;
  };
  expect(click('#file')).toBe(false);
  expect(click('#out')).toBe(false);
  expect(click('#tab')).toBe(false);
  expect(click('#own', { ctrlKey: true })).toBe(false);
  expect(click('#own b')).toBe(true);
  expect(here()).toBe('/admin/plugins?x=1');
});
