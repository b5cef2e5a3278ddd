import { expect, it } from 'vitest';
import { pack, STATIC_TEXT } from '../../build/templates.ts';
import { type Tree, unpack } from './unpack.ts';

const trees: Tree[] = [
  [['section', { class: 'panel s7', 'aria-labelledby': 'looks' }, ['header', null, ['h2', { id: 'looks' }], ' ', undefined], 'and = a text']],
  [undefined, ' ', undefined, ['input', { required: '', pattern: 'a=b' }]],
  [['path', { d: 'M2 4.5h7' }], ['br', null]],
  [['button', { type: 'button' }, ['b', null]], ['button', { type: 'submit' }]],
  [],
];

it('what was packed is unpacked as it was', () => {
  for (const tree of trees) expect(unpack(pack(tree) ?? '?', String)).toEqual(tree);
  expect(pack(trees[0] as Tree)).toBe('(section|=panel s7|aria-labelledby=looks(header(h2|id=looks)~^)"and = a text)');
});

it('texts and attributes that are marked are translated', () => {
  const tree: Tree = [['th', { title: `${STATIC_TEXT}A name`, class: 'a>b' }, `${STATIC_TEXT}Name`], ['button', { type: 'button' }, ['svg', null], ` ${STATIC_TEXT}A `]];
  expect(pack(tree)).toBe('(th|title>A name|=a>b<Name)(!(svg)< A )');
  expect(unpack(pack(tree) ?? '?', (text) => `[${text}]`)).toEqual([
    ['th', { title: '[A name]', class: 'a>b' }, '[Name]'],
    ['button', { type: 'button' }, ['svg', null], ' [A] '],
  ]);
});

it('what holds a mark of the packed form is not packed', () => {
  for (const text of ['rgb(1)', 'a|b', '~', '^', '"', '<', '']) expect(pack([['p', null, text]]), text).toBeNull();
  expect(pack([['p', { title: '(a)' }]])).toBeNull();
});
