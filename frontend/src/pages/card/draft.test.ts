import { expect, it } from 'vitest';
import type { Card } from '../../api/types.ts';
import { changes, draftOf } from './draft.ts';

const card: Card = {
  id: '1', title: 'Lamp', sku: 'L-1', status: 'draft', version: 4, created_at: '', updated_at: '',
  attributes: { colour: 'red', size: { h: 1, w: 2 }, sources: { 'supplier:x': { kind: 'supplier', data: {} } } },
};

it('shows the attributes without what plugins wrote', () => {
  expect(JSON.parse(draftOf(card).attributes)).toEqual({ colour: 'red', size: { h: 1, w: 2 } });
});

it('an untouched form changes nothing, whatever its spacing', () => {
  expect(changes(card, draftOf(card))).toEqual({});
  expect(changes(card, { ...draftOf(card), attributes: '{"size":{"w":2,"h":1},"colour":"red"}' })).toEqual({});
});

it('only what was changed is sent', () => {
  const draft = { ...draftOf(card), title: 'Lamps', attributes: '{"colour":"blue","size":{"h":1}}' };
  expect(changes(card, draft)).toEqual({ patch: { title: 'Lamps', attributes: { colour: 'blue', size: { w: null } } } });
});

it.each([
  ['{', /^Not JSON/],
  ['[1]', /must be an object/],
  ['null', /must be an object/],
  ['{"sources":{}}', /belongs to the plugins/],
  ['{"colour":null}', /\/colour is null/],
])('attributes %s are refused in plain words', (attributes, problem) => {
  expect(changes(card, { ...draftOf(card), attributes }).problem).toMatch(problem);
});
