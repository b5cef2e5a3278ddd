import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ApiError } from './error.ts';
import { Live, type LiveEvent } from './live.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A server whose connections are driven by the test. */
function server() {
  const opened: { lastId: string | undefined; signal: AbortSignal; send: (text: string) => void; end: () => void }[] = [];
  let refusal: ApiError | null = null;
  const open = async (_path: string, headers: Record<string, string>, signal: AbortSignal) => {
    if (refusal) throw refusal;
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    signal.addEventListener('abort', () => void writer.abort().catch(() => {}));
    const send = (text: string) => void writer.write(new TextEncoder().encode(text));
    opened.push({ lastId: headers['Last-Event-ID'], signal, send, end: () => void writer.close() });
    return new Response(readable);
  };
  return { opened, open, refuse: (error: ApiError | null) => (refusal = error) };
}

function follow(open: ReturnType<typeof server>['open']) {
  const live = new Live(open);
  const heard: (LiveEvent | 'reset')[] = [];
  live.on((event) => heard.push(event));
  live.start();
  return { live, heard };
}

const settle = () => vi.advanceTimersByTimeAsync(0);

it('goes on where a broken stream ended, after a pause', async () => {
  const { opened, open } = server();
  const { live, heard } = follow(open);
  await settle();
  expect(opened[0]?.lastId).toBeUndefined();
  opened[0]?.send('retry: 2000\nid: 5\n\nid: 6\nevent: plugin.changed\ndata: {"topic":"plugin","name":"x"}\n\n');
  await settle();
  expect(heard).toEqual(['reset', { type: 'plugin.changed', topic: 'plugin', name: 'x' }]);
  opened[0]?.end();
  await settle();
  expect(opened).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(2_600);
  expect(opened[1]?.lastId).toBe('6');
  expect(heard, 'nothing was missed').toHaveLength(2);
  live.stop();
});

it('waits longer each time that the server cannot be reached, and as long as it asks for', async () => {
  const { opened, open, refuse } = server();
  let tries = 0;
  const counted: typeof open = (...args) => {
    tries += 1;
    return open(...args);
  };
  refuse(new ApiError(0, 'network', 'away'));
  const { live } = follow(counted);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(tries).toBeLessThan(9);
  refuse(new ApiError(503, 'overloaded', 'full', { retry_after_seconds: 500 }));
  await vi.advanceTimersByTimeAsync(80_000);
  refuse(null);
  await vi.advanceTimersByTimeAsync(400_000);
  expect(opened).toHaveLength(0);
  await vi.advanceTimersByTimeAsync(110_000);
  expect(opened.length).toBeGreaterThan(0);
  live.stop();
});

it('does not ask again with a token that was refused', async () => {
  const { opened, open, refuse } = server();
  const { live } = follow(open);
  await settle();
  refuse(new ApiError(401, 'revoked-token', 'No.'));
  opened[0]?.send('event: closed\ndata: {"reason":"revoked-token"}\n\n');
  await vi.advanceTimersByTimeAsync(600_000);
  refuse(null);
  await vi.advanceTimersByTimeAsync(600_000);
  expect(opened).toHaveLength(1);
  live.start();
  await settle();
  expect(opened).toHaveLength(2);
  live.stop();
});

it('comes back at once when the server asks for it, but not in a circle', async () => {
  const { opened, open } = server();
  const { live } = follow(open);
  await settle();
  opened[0]?.send('event: closed\ndata: {"reason":"rights-changed"}\n\n');
  await settle();
  expect(opened).toHaveLength(2);
  opened[1]?.send('event: closed\ndata: {"reason":"rights-changed"}\n\n');
  await settle();
  expect(opened).toHaveLength(2);
  live.stop();
});

it('tells when events were missed, and takes a silent connection for a dead one', async () => {
  const { opened, open } = server();
  const { live, heard } = follow(open);
  await settle();
  expect(heard, 'what was fetched before may be older').toEqual(['reset']);
  opened[0]?.send('id: 90\nevent: reset\ndata: {}\n\n');
  await settle();
  expect(heard).toEqual(['reset', 'reset']);
  await vi.advanceTimersByTimeAsync(30_000);
  opened[0]?.send(': \n\n');
  await vi.advanceTimersByTimeAsync(30_000);
  expect(opened[0]?.signal.aborted).toBe(false);
  await vi.advanceTimersByTimeAsync(20_000);
  expect(opened[0]?.signal.aborted).toBe(true);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(opened[1]?.lastId).toBe('90');
  live.stop();
});

it('ends when it is stopped, and forgets its place for another user', async () => {
  const { opened, open } = server();
  const { live } = follow(open);
  await settle();
  opened[0]?.send('id: 3\n\n');
  await settle();
  live.forget();
  await settle();
  expect(opened[0]?.signal.aborted).toBe(true);
  live.start();
  await settle();
  expect(opened[1]?.lastId).toBeUndefined();
  live.stop();
});
