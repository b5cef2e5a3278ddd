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
  expect(pack(trees[0] as Tree)).toBe('(section|=panel*7|aria-labelledby=looks(header(h2|id=looks)~^)"and = a text)');
});

it('the class of the component is named once', () => {
  const tree: Tree = [['ul', { class: 's2g' }, ['li', { class: 'row s2g', id: 'a' }], ['li', { class: 's2g' }], ['li', { class: 'row' }]], ['p', { class: 's3' }], ['p', { class: 's2g' }]];
  expect(pack(tree)).toBe('(ul*2g(li|=row*|id=a)(li*)(li|=row))(p*3)(p*2g)');
  expect(unpack(pack(tree) ?? '?', String)).toEqual(tree);
  expect(pack([['button', { class: 's2g', type: 'button' }]])).toBe('(!*2g)');
  for (const odd of ['a*b', 'a`b']) expect(pack([['p', { class: odd }]]), odd).toBeNull();
});

it('texts and attributes that are marked are translated', () => {
  const tree: Tree = [['th', { title: `${STATIC_TEXT}A name`, class: 'a>b' }, `${STATIC_TEXT}Name`], ['button', { type: 'button' }, ['svg', null], ` ${STATIC_TEXT}A `]];
  expect(pack(tree)).toBe('(th|=a>b|title>A name<Name)(!(svg)< A )');
  expect(unpack(pack(tree) ?? '?', (text) => `[${text}]`)).toEqual([
    ['th', { title: '[A name]', class: 'a>b' }, '[Name]'],
    ['button', { type: 'button' }, ['svg', null], ' [A] '],
  ]);
});

it('what holds a mark of the packed form is not packed', () => {
  for (const text of ['rgb(1)', 'a|b', '~', '^', '"', '<', '`', '']) expect(pack([['p', null, text]]), text).toBeNull();
  expect(pack([['p', { title: '(a)' }]])).toBeNull();
});
