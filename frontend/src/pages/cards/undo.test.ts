import { beforeEach, expect, it, vi } from 'vitest';
import type { HistoryLine } from '../../api/cards.ts';
import { takeBack } from './undo.ts';

// The client takes `fetch` while it is loaded, so that it has to be there before.
const fetchMock = vi.hoisted(() => {
  const mock = vi.fn<(url: string, init: RequestInit) => Promise<Response>>();
  vi.stubGlobal('fetch', mock);
  return mock;
});
const JOB = 'job-1';
let histories: Record<string, Pick<HistoryLine, 'action' | 'version' | 'change'>[]>;
let refused: Record<string, number>;
let restored: unknown[];

beforeEach(() => {
  [histories, refused, restored] = [{}, {}, []];
  fetchMock.mockImplementation(async (url, { method, body, headers }) => {
    const id = /master-cards\/([^/]+)/.exec(url)?.[1] ?? '';
    if (method === 'GET') return new Response(JSON.stringify({ items: histories[id], next_cursor: null }), { headers: { 'content-type': 'application/json' } });
    if (refused[id]) return new Response(JSON.stringify({ code: 'refused', detail: 'No.' }), { status: refused[id] });
    restored.push([id, JSON.parse(String(body)), new Headers(headers).get('if-match')]);
    return new Response('{"item":{}}', { headers: { 'content-type': 'application/json' } });
  });
});

const changed = (version: number, job = JOB) => ({ action: 'update', version, change: { attributes: { brand: 'Acme' }, job } });

it('makes cards what they were before the job, and those that it deleted come back', async () => {
  histories = { set: [changed(4), changed(3, 'older')], gone: [{ action: 'delete', version: 2, change: { job: JOB } }] };
  expect(await takeBack(JOB, ['set', 'gone'])).toBe(2);
  expect(restored).toEqual([['set', { version: 3 }, '"4"'], ['gone', {}, '"2"']]);
});

it('leaves what the job did not change, or somebody has changed since', async () => {
  histories = { same: [changed(3, 'older')], edited: [{ action: 'update', version: 5, change: { title: 'New' } }, changed(4)], raced: [changed(2)] };
  refused = { raced: 412 };
  expect(await takeBack(JOB, ['same', 'edited', 'raced'])).toBe(0);
  expect(restored).toEqual([]);
});

it('keeps what a plugin wrote to its source meanwhile', async () => {
  histories = { enriched: [{ action: 'enrich', version: 5, change: { source_key: 'shop:a' } }, changed(4)] };
  expect(await takeBack(JOB, ['enriched'])).toBe(1);
  expect(restored).toEqual([['enriched', { version: 3 }, '"5"']]);
});

it('stops where the server refuses more than one card', async () => {
  histories = { a: [changed(2)], b: [changed(2)] };
  refused = { a: 403 };
  await expect(takeBack(JOB, ['a', 'b'])).rejects.toMatchObject({ status: 403 });
  expect(restored).toEqual([]);
});
