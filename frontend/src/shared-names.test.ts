import { expect, it } from 'vitest';
import { fetchedNames, missingNames, sharedNames, withSharedLists, type Chunk } from '../build/shared-names.ts';

const chunk = (fileName: string, code: string, imports: string[] = [], dynamicImports: string[] = []): Chunk => ({ fileName, code, imports, dynamicImports });

const FIRST = chunk('assets/first.js', 'function a(){}function b(){}function c(){import("./page.js").then(e=>e.t)}export{a as x,b as y,c as z};', [], ['assets/page.js']);
const PAGE = chunk('assets/page.js', 'import{x as b,y as e}from"./first.js";e();e();b();var p={},q=1;export{p as t,q as u};', ['assets/first.js']);
const ENTRY = chunk('assets/entry.js', 'import{z as t}from"./first.js";t();', ['assets/first.js']);

it('gives what files have of one another one name, the shortest for what is named most', () => {
  const names = sharedNames([FIRST, PAGE, ENTRY]);
  expect(Object.fromEntries(names.get(FIRST.fileName) ?? [])).toEqual({ b: 'A', a: 'B', c: 'C' });
  expect(Object.fromEntries(names.get(PAGE.fileName) ?? []), 'what nobody takes keeps its name').toEqual({ e: 'A', b: 'B' });
  expect(Object.fromEntries(names.get(ENTRY.fileName) ?? [])).toEqual({ t: 'C' });
});

it('counts only files that have another address when one of them has changed', () => {
  const busy = { ...ENTRY, code: `${ENTRY.code}${'t();'.repeat(9)}` };
  expect(sharedNames([FIRST, PAGE, busy]).get(FIRST.fileName)).toEqual(sharedNames([FIRST, PAGE, ENTRY]).get(FIRST.fileName));
});

it('writes each shared name once, and what is fetched by the name that it is asked for', () => {
  const fetched = fetchedNames([FIRST, PAGE, ENTRY]);
  expect([...fetched]).toEqual(['assets/page.js t']);
  const page = { fileName: PAGE.fileName, code: 'import{x as B,y as A}from"./first.js";A();A();B();var p={},q=1;export{p as t,q as D};' };
  expect(withSharedLists(page, new Map([['e', 'A'], ['b', 'B'], ['q', 'D']]), fetched)).toBe('import{A,B}from"./first.js";A();A();B();var p={},q=1;export{p as t,q as D};');
  expect(withSharedLists({ fileName: PAGE.fileName, code: 'var P={};export{P as t};' }, new Map([['p', 'P']]), fetched)).toBe('var P={};export{P,P as t};');
});

it('finds what no file gives', () => {
  expect(missingNames([FIRST, PAGE, ENTRY])).toEqual([]);
  expect(missingNames([FIRST, chunk('assets/other.js', 'import{gone as a}from"./first.js";a()')])).toEqual(['assets/first.js gone', 'assets/page.js t']);
});
