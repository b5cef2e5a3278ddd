import { expect, it, vi } from 'vitest';
import { columnValues } from '../../api/column-values.ts';
import { activePlugin } from '../../api/fixtures.ts';
import type { View } from '../../api/views.ts';
import { cellAt, cellIn, cellOf, kindsOf, picturesOf, valueAt } from './cell.ts';
import { choosable, columnLabel, isNumeric, pluginColumns, routedColumns } from './columns.ts';
import { columnsParam, DEFAULT_COLUMNS, differsFrom, readList, viewHref, viewOf } from './list-query.ts';

const request = vi.hoisted(() => vi.fn());
vi.mock('../../api/client.ts', async (original) => ({ ...(await original<object>()), request }));

const view: View = { id: 'v1', version: 1, name: 'Drafts', filter: { status: 'draft', q: 'chair' }, sort: 'title', columns: ['title', 'attributes.brand'] };

it('a view opens as the list that it was saved from', () => {
  const state = readList(new URLSearchParams(viewHref(view).split('?')[1]));
  expect(state).toEqual({ filter: { q: 'chair', status: 'draft' }, sort: 'title', cursor: '', columns: ['title', 'attributes.brand'], view: 'v1' });
  expect(differsFrom(state, view)).toBe(false);
  expect(viewOf(state, 'Drafts')).toEqual({ name: 'Drafts', filter: view.filter, sort: 'title', columns: view.columns });
  expect(differsFrom({ ...state, sort: '-title' }, view)).toBe(true);
  expect(differsFrom({ ...state, filter: { status: 'draft' } }, view)).toBe(true);
  expect(viewHref(null)).toBe('/cards');
});

it('columns always have the title, and the usual ones are not in the address', () => {
  expect(readList(new URLSearchParams('columns=sku,attributes.size.h')).columns).toEqual(['title', 'sku', 'attributes.size.h']);
  expect(readList(new URLSearchParams()).columns).toEqual(DEFAULT_COLUMNS);
  expect(columnsParam(DEFAULT_COLUMNS)).toBe('');
});

const attributes = {
  price: '1199.00', currency: 'EUR', 'a.b': 'dotted', size: { h: 74, 'x.y': 1 }, tags: ['a', 'b'], image: 'https://pictures.example/own.jpg',
  sources: { 'supplier:x': { kind: 'supplier', data: { brand: 'Nordhem', images: ['https://pictures.example/1.jpg', 'javascript:alert(1)', { url: 'https://pictures.example/2.jpg' }] } } },
};

it('a cell shows the card’s own value, or else a source’s', () => {
  expect(cellAt(attributes, 'price').text.replaceAll(' ', ' ')).toContain('1,199.00');
  expect(cellAt(attributes, 'price').number).toBe(true);
  expect(cellAt(attributes, 'brand')).toEqual({ text: 'Nordhem', source: 'supplier:x' });
  expect(cellAt(attributes, 'tags').text).toBe('a, b');
  expect(cellAt(attributes, 'nothing')).toEqual({ text: '' });
});

it('a plugin’s column shows the value of its newest source, formatted', () => {
  const data = { score: 87, rows: [{ 'a/b': '2026-01-02' }], deep: { x: [1, 2] }, price: { amount: '5', currency: 'EUR' } };
  const scored = { sources: { 'c:old': { kind: 'c', data: { score: 1 }, updated_at: '2025-01-01T00:00:00Z' }, 'c:new': { kind: 'c', data, updated_at: '2026-01-01T00:00:00Z' } } };
  const column = { id: 'score', label: 'Complete', kind: 'c', value: '/score', format: 'percent' } as const;
  const at = (value: string, format: 'text' | 'number' | 'percent' | 'date') => cellOf(scored, { ...column, value, format });
  expect(at('/score', 'percent')).toEqual({ text: '87%', source: 'c:new', number: true });
  expect(at('/rows/0/a~1b', 'date').text).toBe('Jan 2, 2026');
  expect(at('/deep/x', 'text').text).toBe('1, 2');
  expect(at('/deep', 'number').text).toBe('{"x":[1,2]}');
  expect(at('/price', 'text').text).toContain('5.00');
  for (const nothing of ['/none', '/score/x', '/rows/length', '/__proto__', '/rows/-1']) expect(at(nothing, 'text'), nothing).toEqual({ text: '' });
  expect(cellOf(scored, { ...column, kind: 'other' })).toEqual({ text: '' });
});

it('values of a plugin’s route are asked for in batches, and only in columns that are shown', async () => {
  const column = { id: 'score', label: 'Complete', route: '/scores', format: 'percent' } as const;
  const plugin = activePlugin('completeness', { api_prefix: 'full', list_columns: [column] });
  expect(routedColumns(['title'], [plugin]).size).toBe(0);
  const [[id, routed] = []] = routedColumns(['attributes.column:score'], [plugin]);
  if (!id || !routed) throw new Error('the column is not found');
  const asked: string[] = [];
  request.mockImplementation((path: string) => {
    asked.push(path);
    return Promise.resolve({ values: { c1: 87, c60: 0, c2: null, foreign: 1 } });
  });
  const values = await columnValues(routed, Array.from({ length: 60 }, (_, n) => `c${n + 1}`), new AbortController().signal);
  expect([asked.length, asked[0]?.startsWith('/plugins/full/scores?card_ids=c1%2Cc2')]).toEqual([2, true]);
  expect([...values]).toEqual([['c1', 87], ['c60', 0]]);
  expect(cellIn('percent', 87)).toEqual({ text: '87%', number: true });
});

it('plugins’ columns can be chosen, and keep a name without their plugin', () => {
  const column = { id: 'score', label: 'Complete', kind: 'c', value: '/score', format: 'percent' } as const;
  const own = pluginColumns([activePlugin('completeness', { list_columns: [column] })]);
  const [id = ''] = own.keys();
  expect(choosable(['title'], [], own)).toContain(id);
  expect([columnLabel(id, own), columnLabel(id, new Map()), isNumeric(id, own), isNumeric('sku', own)]).toEqual(['Complete', 'score', true, false]);
  expect(readList(new URLSearchParams({ columns: `title,${id}` })).columns).toEqual(['title', id]);
});

it('paths go through names with dots', () => {
  expect([valueAt(attributes, 'a.b'), valueAt(attributes, 'size.h'), valueAt(attributes, 'size.x.y'), valueAt(attributes, 'size.z'), valueAt(attributes, '__proto__.x')]).toEqual(['dotted', 74, 1, undefined, undefined]);
});

it('pictures are those of the card, then of its sources, web addresses only', () => {
  expect(picturesOf(attributes).map(({ address, source }) => `${source}>${address.slice(-7)}`)).toEqual(['>own.jpg', 'supplier:x>e/1.jpg', 'supplier:x>e/2.jpg']);
  expect([...kindsOf(attributes)]).toEqual(['supplier']);
});
