import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { query, request, useCredentials, type Credentials } from './client.ts';
import { ApiError, asApiError, fieldError, retryAfter } from './error.ts';

// The client takes `fetch` while it is loaded, so that it has to be there before.
const fetchMock = vi.hoisted(() => {
  const mock = vi.fn<(url: string, init: RequestInit) => Promise<Response>>();
  vi.stubGlobal('fetch', mock);
  return mock;
});
const problem = (status: number, body: object, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/problem+json', ...headers } });
const json = (body: unknown) => new Response(JSON.stringify(body), { headers: { 'content-type': 'application/json' } });

let credentials: { token: ReturnType<typeof vi.fn<Credentials['token']>>; renew: ReturnType<typeof vi.fn<Credentials['renew']>> };

beforeEach(() => {
  credentials = { token: vi.fn<Credentials['token']>(() => 'mps_one'), renew: vi.fn<Credentials['renew']>(() => Promise.reject(new Error('no'))) };
  useCredentials(credentials);
});
afterEach(() => {
  fetchMock.mockReset();
});

const sentHeaders = (call: number) => new Headers(fetchMock.mock.calls[call]?.[1].headers);

it('a SKU that is taken is an error of its field', async () => {
  fetchMock.mockResolvedValueOnce(problem(409, { code: 'sku-taken', detail: 'Another card has this SKU.' }));
  const error = await request('/x').catch((thrown: unknown) => thrown);
  expect(fieldError(error, '/sku')).toBe('Another card has this SKU.');
});

describe('a request', () => {
  it('carries the token in its header and never a cookie', async () => {
    fetchMock.mockResolvedValueOnce(json({ a: 1 }));
    await expect(request('/x', { method: 'PATCH', body: { b: 2 }, contentType: 'application/merge-patch+json', ifMatch: '"3"' })).resolves.toEqual({ a: 1 });
    expect(fetchMock.mock.calls[0]?.[0]).toBe('/v1/admin/x');
    expect(fetchMock.mock.calls[0]?.[1]).toMatchObject({ method: 'PATCH', body: '{"b":2}', credentials: 'omit', redirect: 'error' });
    expect(['authorization', 'if-match', 'content-type'].map((name) => sentHeaders(0).get(name))).toEqual(['Bearer mps_one', '"3"', 'application/merge-patch+json']);
  });

  it('resolves to JSON, to text, or to null when there is nothing', async () => {
    fetchMock.mockResolvedValueOnce(new Response('plain', { headers: { 'content-type': 'text/plain' } }));
    await expect(request('/x')).resolves.toBe('plain');
    fetchMock.mockResolvedValueOnce(new Response(null, { status: 204 }));
    await expect(request('/x')).resolves.toBeNull();
    fetchMock.mockResolvedValueOnce(new Response('[1]', { headers: { 'content-type': 'application/vnd.x+json; charset=utf-8' } }));
    await expect(request('/x')).resolves.toEqual([1]);
  });

  it('rejects with the problem that the server described', async () => {
    const errors = [{ pointer: '/sku', detail: 'Too long.' }];
    fetchMock.mockResolvedValueOnce(problem(422, { code: 'validation-failed', detail: 'One field is wrong.', request_id: 'r-1', errors }));
    const thrown = await request('/x').catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(ApiError);
    expect(thrown).toMatchObject({ status: 422, code: 'validation-failed', detail: 'One field is wrong.', request_id: 'r-1', errors, message: 'One field is wrong.' });
    expect(fieldError(thrown, '/sku')).toBe('Too long.');
    expect(fieldError(thrown, '/title')).toBeUndefined();
  });

  it('understands failures that are no problem document, and no answer at all', async () => {
    fetchMock.mockResolvedValueOnce(new Response('<h1>Bad gateway</h1>', { status: 502, headers: { 'x-request-id': 'r-2' } }));
    await expect(request('/x')).rejects.toMatchObject({ status: 502, code: 'http-502', request_id: 'r-2' });
    fetchMock.mockRejectedValueOnce(new TypeError('Failed to fetch'));
    await expect(request('/x')).rejects.toMatchObject({ status: 0, code: 'network' });
  });

  it('that was cancelled stays a cancellation', async () => {
    const abort = new AbortController();
    abort.abort();
    fetchMock.mockRejectedValueOnce(new DOMException('cancelled', 'AbortError'));
    await expect(request('/x', { signal: abort.signal })).rejects.toMatchObject({ name: 'AbortError' });
  });
});

it('the token passes nothing that was replaced after the client was loaded', async () => {
  const answer = json(1);
  const seen: unknown[] = [];
  const later = vi.fn<(url: string, init: RequestInit) => Promise<Response>>();
  vi.stubGlobal('fetch', later);
  const methods = [[Headers.prototype, 'set'], [Headers.prototype, 'append'], [JSON, 'stringify'], [Object, 'assign'], [Object, 'entries']] as const;
  const spies = methods.map(([owner, name]) => vi.spyOn(owner as unknown as Record<string, () => void>, name));
  const shared = Object.prototype;
  const members = ['headers', 'Authorization', 'authorization', 'integrity', 'then'];
  for (const name of members) {
    Object.defineProperty(shared, name, { configurable: true, get(this: unknown) { seen.push(this); return undefined; }, set(this: unknown) { seen.push(this); } });
  }
  try {
    const init: { headers?: unknown } = {};
    void init.headers; // this is how one would see it
    expect(seen.splice(0)).toEqual([init]);
    fetchMock.mockImplementationOnce((_url, sent) => Promise.resolve((void sent.integrity, answer)));
    await request('/x', { method: 'PUT', body: { a: 1 } });
    const called = spies.filter((spy) => spy.mock.calls.length > 0);
    const sent = fetchMock.mock.calls[0]?.[1];
    const held = seen.filter((object) => object === sent || object === sent?.headers);
    expect([sent?.headers, called, held]).toMatchObject([{ Authorization: 'Bearer mps_one' }, [], []]);
    expect(later).not.toHaveBeenCalled();
  } finally {
    for (const name of members) Reflect.deleteProperty(shared, name);
    vi.stubGlobal('fetch', fetchMock);
    for (const spy of spies) spy.mockRestore();
  }
});

describe('a refused token', () => {
  it('asks for a new sign-in, then sends the request again with the new token', async () => {
    fetchMock.mockResolvedValueOnce(problem(401, { code: 'expired-token' })).mockResolvedValueOnce(json({ done: true }));
    credentials.renew.mockImplementationOnce(async () => void credentials.token.mockReturnValue('mps_two'));
    await expect(request('/x', { method: 'POST', body: {} })).resolves.toEqual({ done: true });
    expect(credentials.renew).toHaveBeenCalledWith('mps_one');
    expect(sentHeaders(1).get('authorization')).toBe('Bearer mps_two');
  });

  it('is an error when nobody signs in, and at sign-in itself', async () => {
    fetchMock.mockResolvedValueOnce(problem(401, { code: 'expired-token', detail: 'Over.' }));
    await expect(request('/x')).rejects.toMatchObject({ status: 401, code: 'expired-token' });
    fetchMock.mockResolvedValueOnce(problem(401, { code: 'invalid-credentials', detail: 'Wrong.' }));
    await expect(request('/auth/login', { anonymous: true })).rejects.toMatchObject({ code: 'invalid-credentials' });
    expect(credentials.renew).toHaveBeenCalledTimes(1);
    expect(sentHeaders(1).has('authorization')).toBe(false);
  });

  it('does not stand for a server whose database is down', async () => {
    fetchMock.mockResolvedValueOnce(problem(503, { code: 'database-unavailable' }, { 'retry-after': '7' }));
    await expect(request('/x')).rejects.toMatchObject({ status: 503, retry_after_seconds: 7 });
    expect(credentials.renew).not.toHaveBeenCalled();
  });
});

it('Retry-After is seconds or a date', () => {
  const now = Date.parse('2025-01-01T00:00:00Z');
  expect([retryAfter('30', now), retryAfter('Wed, 01 Jan 2025 00:01:00 GMT', now), retryAfter('soon', now), retryAfter(null, now)]).toEqual([30, 60, null, null]);
});

it('whatever is thrown can be shown', () => {
  expect(asApiError('text')).toMatchObject({ status: 0, detail: 'text' });
  expect(asApiError(new Error('boom')).detail).toBe('boom');
});

it('a query names what is set', () => {
  expect(query({ q: 'a b&c', status: '', cursor: null, limit: 50 })).toBe('?q=a+b%26c&limit=50');
  expect(query({})).toBe('');
});
