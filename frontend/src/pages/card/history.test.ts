import { expect, it } from 'vitest';
import type { HistoryLine } from '../../api/cards.ts';
import { restorePatch, textDiff, versionsOf } from './history.ts';
import { inWords } from './value-type.ts';

let version = 0;
const line = (action: string, change: object): HistoryLine => ({ id: String((version += 1)), version, at: '', actor: { kind: 'user', id: 'u' }, action, change: change as never });
const all = [
  line('create', { title: 'a', sku: '1', status: 'draft', attributes: { brand: 'x', size: { h: 1, w: 2 } } }),
  line('update', { title: 'b', attributes: { size: { w: null }, brand: null } }),
  line('enrich', { source_key: 'supplier:x', kind: 'supplier' }),
  line('update', { status: 'active', attributes: { brand: 'y' } }),
  line('restore', { title: 'a', sku: '1', status: 'draft', version: 1, attributes: { brand: 'x', size: { h: 1, w: 2 } } }),
].toReversed();

it('says of each version what every field was before and after', () => {
  const versions = versionsOf(all);
  expect(versions.map(({ rows }) => rows.map((row) => row.field).toSorted())).toEqual([
    ['attributes.brand', 'attributes.size', 'status', 'title'], ['attributes.brand', 'status'], [], ['attributes.brand', 'attributes.size', 'title'],
    ['attributes.brand', 'attributes.size', 'sku', 'status', 'title'],
  ]);
  expect(versions[2]?.source).toBe('supplier:x');
  expect(versions[3]?.rows.find((row) => row.field === 'attributes.size')).toEqual({ field: 'attributes.size', before: { h: 1, w: 2 }, after: { h: 1 } });
  expect(versions[0]?.rows.find((row) => row.field === 'title')).toEqual({ field: 'title', before: 'b', after: 'a' });
});

it('takes the value that a job gives for the whole attribute', () => {
  const [set] = versionsOf([line('update', { attributes: { size: { w: null } }, job: 'j' }), ...all.slice(-1)]);
  expect(set?.rows).toEqual([{ field: 'attributes.size', before: { h: 1, w: 2 }, after: { w: null } }]);
});

it('shows what was sent where the beginning is not there', () => {
  expect(versionsOf(all.slice(1, 2))[0]?.rows).toEqual([{ field: 'status', before: undefined, after: 'active' }, { field: 'attributes.brand', before: undefined, after: 'y' }]);
});

it('a restored value becomes the patch that leads to it', () => {
  expect(restorePatch('title', 'b', 'a')).toEqual({ title: 'a' });
  expect(restorePatch('attributes.size', { h: 1 }, { h: 1, w: 2 })).toEqual({ attributes: { size: { w: 2 } } });
  expect(restorePatch('attributes.brand', 'y', undefined)).toEqual({ attributes: { brand: null } });
  expect(restorePatch('attributes.brand', 'y', 'y')).toBeUndefined();
});

it('of an object that is flat, the member that changed differs', () => {
  const [before, after] = [{ h: 1, w: 2 }, { h: 3, w: 2 }].map(inWords);
  expect(textDiff(before ?? '', after ?? '').after).toEqual([{ text: 'h ', kind: 'same' }, { text: '3,', kind: 'added' }, { text: ' w 2', kind: 'same' }]);
  expect(inWords({ deep: { a: 1 } })).toBe('{"deep":{"a":1}}');
});

it('texts differ in words between what they share', () => {
  expect(textDiff('Oslo chair, oak', 'Oslo lounge chair, oak')).toEqual({
    before: [{ text: 'Oslo ', kind: 'same' }, { text: 'chair, oak', kind: 'same' }],
    after: [{ text: 'Oslo ', kind: 'same' }, { text: 'lounge ', kind: 'added' }, { text: 'chair, oak', kind: 'same' }],
  });
});
