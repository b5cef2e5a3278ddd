import { expect, it } from 'vitest';
import type { Card } from '../../api/types.ts';
import { changes, draftOf, parseAttributes, rebase, withField } from './draft.ts';
import { isNumeric, parseMember, parseNumber, typeOf } from './value-type.ts';

const card: Card = {
  id: '1', title: 'Lamp', sku: 'L-1', status: 'draft', version: 4, created_at: '', updated_at: '',
  attributes: { colour: 'red', size: { h: 1, w: 2 }, sources: { 'supplier:x': { kind: 'supplier', data: {} } } },
};
const edited = (attributes: object, fields: object = {}) => ({ ...draftOf(card), ...fields, attributes: attributes as never });

it('shows the attributes without what plugins wrote', () => {
  expect(draftOf(card).attributes).toEqual({ colour: 'red', size: { h: 1, w: 2 } });
});

it('an untouched form changes nothing, whatever the order of its names', () => {
  expect(changes(card, draftOf(card))).toEqual({ names: [] });
  expect(changes(card, edited({ size: { w: 2, h: 1 }, colour: 'red' }))).toEqual({ names: [] });
});

it('only what was changed is sent, and named', () => {
  expect(changes(card, edited({ colour: 'blue', size: { h: 1 } }, { title: 'Lamps' }))).toEqual({
    patch: { title: 'Lamps', attributes: { colour: 'blue', size: { w: null } } }, names: ['title', 'colour', 'size'],
  });
});

it('a null that a patch cannot store is pointed out', () => {
  expect(changes(card, edited({ colour: null, size: { h: 1, w: 2 } })).unpatchable).toBe('/colour');
});

it.each([['{', 'not-json'], ['[1]', 'not-object'], ['null', 'not-object'], ['{"sources":{}}', 'sources']])('attributes %s are refused', (text, problem) => {
  expect(parseAttributes(text)).toMatchObject({ problem });
});

it('somebody else’s change fills what was not touched and leaves what was', () => {
  const theirs = { ...card, version: 5, status: 'active' as const, attributes: { colour: 'red', size: { h: 9, w: 2 }, brand: 'Nordhem' } };
  const { draft, conflicts, changed } = rebase(card, edited({ colour: 'blue', size: { h: 1, w: 2 } }, { title: 'Mine' }), theirs);
  expect(draft).toEqual({ title: 'Mine', sku: 'L-1', status: 'active', attributes: { colour: 'blue', size: { h: 9, w: 2 }, brand: 'Nordhem' } });
  expect(conflicts).toEqual([]);
  expect(changed.toSorted()).toEqual(['brand', 'size', 'status']);
});

it('only what both changed, to different values, is a conflict', () => {
  const theirs = { ...card, version: 5, title: 'Theirs', status: 'active' as const, attributes: { size: { h: 1, w: 2 } } };
  const mine = edited({ colour: 'blue', size: { h: 1, w: 2 } }, { title: 'Mine', status: 'active' });
  const { draft, conflicts } = rebase(card, mine, theirs);
  expect(conflicts).toEqual([
    { field: 'title', before: 'Lamp', mine: 'Mine', theirs: 'Theirs' },
    { field: 'attributes.colour', before: 'red', mine: 'blue', theirs: undefined },
  ]);
  expect(draft.title).toBe('Mine');
  expect(withField(withField(draft, 'title', 'Theirs'), 'attributes.colour', undefined)).toEqual({ title: 'Theirs', sku: 'L-1', status: 'active', attributes: { size: { h: 1, w: 2 } } });
});

it('a source alone moves nothing of the form', () => {
  expect(rebase(card, draftOf(card), { ...card, version: 5, attributes: { ...card.attributes, sources: {} } })).toEqual({ draft: draftOf(card), conflicts: [], changed: [] });
});

it.each([
  ['brand', 'Nordhem', 'text'], ['price', '12.50', 'decimal'], ['sku', '12.50', 'text'], ['n', 4, 'number'], ['on', true, 'boolean'], ['tags', ['a'], 'list'], ['rows', [{}], 'json'],
  ['cost', { amount: '1.00', currency: 'EUR' }, 'money'], ['size', { h: 1 }, 'members'], ['deep', { a: { b: 1 } }, 'json'], ['empty', {}, 'json'], ['gone', null, 'json'],
  ['image', 'https://a.example/x', 'picture'], ['swatch', 'https://a.example/x.webp?1', 'picture'], ['link', 'https://a.example/x', 'text'],
])('%s: %j is edited as %s', (name, value, type) => {
  expect(typeOf(name, value as never)).toBe(type);
});

it('numbers are read with a point or a comma, and nothing else is one', () => {
  expect(['1', ' 1.5 ', '1,5', '-0.25', '1e3', '', 'x', '1,000,000', '0x10', 'Infinity'].map(parseNumber)).toEqual([1, 1.5, 1.5, -0.25, 1000, undefined, undefined, undefined, undefined, undefined]);
  expect([isNumeric([1, 2]), isNumeric([1, 'a']), isNumeric([])]).toEqual([true, false, false]);
});

it('a value keeps its type, and a typo is no value', () => {
  const typed = ['12,5', '12,5o', ''];
  expect(typed.map((text) => parseMember(text, 4, false))).toEqual([12.5, undefined, undefined]);
  expect(typed.map((text) => parseMember(text, '4.00', true))).toEqual(['12.5', undefined, undefined]);
  expect(typed.map((text) => parseMember(text, 'oak', false))).toEqual(typed);
});
