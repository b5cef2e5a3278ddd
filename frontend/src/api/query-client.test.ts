import { afterEach, expect, it, vi } from 'vitest';
import { refresh } from './query-client.ts';
import { QueryClient } from './query.svelte.ts';

const clients: QueryClient[] = [];
afterEach(() => clients.splice(0).forEach((client) => client.clear()));

/** A page that shows what a server has, whose answers are given by the test. */
function page() {
  const client = new QueryClient();
  clients.push(client);
  const asked: { answer: (value: string) => void; fail: () => void; signal: AbortSignal }[] = [];
  const queryFn = (signal: AbortSignal) =>
    new Promise<string>((answer, refuse) => void asked.push({ answer, fail: () => refuse(new Error('away')), signal }));
  const query = client.query<string>(['plugins']);
  query.watch(() => ({ queryKey: ['plugins'], queryFn }));
  return { asked, client, shown: () => query.data, changed: () => refresh({ queryKey: ['plugins'] }, client) };
}

it('asks again behind a first answer that is under way', async () => {
  const { asked, shown, changed } = page();
  const [first, second] = [changed(), changed()];
  expect(asked).toHaveLength(1);
  asked[0]?.answer('before');
  await vi.waitFor(() => expect(asked).toHaveLength(2));
  expect(asked[0]?.signal.aborted).toBe(false);
  asked[1]?.answer('after');
  await Promise.all([first, second]);
  expect(shown()).toBe('after');
  expect(asked, 'one more serves everybody who asked meanwhile').toHaveLength(2);
});

it('asks again behind one that fails', async () => {
  const { asked, shown, changed } = page();
  const done = changed();
  asked[0]?.fail();
  await vi.waitFor(() => expect(asked).toHaveLength(2));
  asked[1]?.answer('after');
  await done;
  expect(shown()).toBe('after');
});

it('what was saved is not taken back by a request from before it', async () => {
  const { asked, client, shown, changed } = page();
  asked[0]?.answer('before');
  await vi.waitFor(() => expect(shown()).toBe('before'));
  void changed();
  expect(asked).toHaveLength(2);
  client.setQueryData(['plugins'], 'saved');
  expect([asked[1]?.signal.aborted, asked.length], 'asked anew: the server may know of more').toEqual([true, 3]);
  asked[1]?.answer('before');
  await new Promise((resolve) => setTimeout(resolve));
  expect(shown()).toBe('saved');
  asked[2]?.answer('and more');
  await vi.waitFor(() => expect(shown()).toBe('and more'));
});

it('asks once when nothing is under way', async () => {
  const { asked, shown, changed } = page();
  asked[0]?.answer('before');
  await vi.waitFor(() => expect(shown()).toBe('before'));
  const done = changed();
  asked[1]?.answer('after');
  await done;
  expect(shown()).toBe('after');
  expect(asked).toHaveLength(2);
});

it('what could not be fetched is asked for again when the server is back, however fresh its last answer', async () => {
  const client = new QueryClient({ staleTime: Infinity });
  clients.push(client);
  const queryFn = vi.fn(() => Promise.resolve('there'));
  const query = client.query<string>(['plugins']);
  query.watch(() => ({ queryKey: ['plugins'], queryFn }));
  await vi.waitFor(() => expect(query.data).toBe('there'));
  queryFn.mockRejectedValueOnce(new Error('away'));
  await query.fetch();
  expect(query.error?.message).toBe('away');
  client.setOnline(false);
  client.setOnline(true);
  await vi.waitFor(() => expect([query.error, queryFn.mock.calls.length]).toEqual([null, 3]));
});
