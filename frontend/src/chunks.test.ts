import { expect, it, vi } from 'vitest';
import { Connection, entryOf, type Served } from './api/connection.svelte.ts';
import { loadChunk, Outdated } from './chunks.ts';

// The page's own connection hears of the same events.
vi.hoisted(() => {
  globalThis.fetch = () => Promise.reject(new Error('no server'));
});

function server(...answers: Served[]) {
  let back = 0;
  return { probe: vi.fn(() => Promise.resolve(answers.shift() ?? 'same')), back: () => ((back += 1), Promise.resolve()), waits: () => back };
}

it('code is asked for once the server is there', async () => {
  const away = server('away', 'away', 'same');
  const load = vi.fn(() => Promise.resolve('code'));
  expect(await loadChunk(load, away)).toBe('code');
  expect([load.mock.calls.length, away.waits()]).toEqual([1, 2]);
});

it('nothing is asked of a server with another build', async () => {
  const load = vi.fn(() => Promise.resolve('code'));
  await expect(loadChunk(load, server('newer'))).rejects.toBeInstanceOf(Outdated);
  expect(load).not.toHaveBeenCalled();
});

it('a failure is the server’s when it went away meanwhile, and the code’s when it did not', async () => {
  const fails = () => Promise.reject(new Error('not fetched'));
  await expect(loadChunk(fails, server('same', 'newer'))).rejects.toBeInstanceOf(Outdated);
  await expect(loadChunk(fails, server('same', 'same'))).rejects.toThrow('not fetched');
  const once = vi.fn(() => Promise.resolve('code')).mockRejectedValueOnce(new Error('not fetched'));
  expect(await loadChunk(once, server('same', 'away', 'same'))).toBe('code');
});

it('the connection asks with growing pauses until somebody answers, and notices another build', async () => {
  vi.useFakeTimers();
  const answers: Served[] = ['away', 'away', 'same', 'newer'];
  const look = vi.fn(() => Promise.resolve(answers.shift() ?? 'same'));
  const connection = new Connection(look).watch();
  expect([connection.offline, connection.outdated]).toEqual([false, false]);
  dispatchEvent(new Event('offline'));
  expect(connection.offline).toBe(true);
  // A request that fails now does not put the next look off.
  dispatchEvent(new Event('offline'));
  let back = false;
  void connection.back().then(() => (back = true));
  await vi.advanceTimersByTimeAsync(1_000);
  await vi.advanceTimersByTimeAsync(2_000);
  expect([look.mock.calls.length, back]).toEqual([2, false]);
  await vi.advanceTimersByTimeAsync(4_000);
  expect([connection.offline, back, connection.outdated]).toEqual([false, true, true]);
  vi.useRealTimers();
});

it('a build is known by the script that its page begins with', () => {
  expect(entryOf('<link href="/x.css"><script type="module" crossorigin src="/admin/assets/index-a.js"></script>')).toBe('/admin/assets/index-a.js');
  expect(entryOf('<html></html>')).toBe(null);
});
