import { expect, it } from 'vitest';
import { sharedNames } from '../build/shared-names.ts';

const SIGN_IN = 'assets/sign-in-BvflaXvE.js';
const shared = (code: string, file = 'assets/editors-CFDUmfpI.js') => {
  const { code: written, names } = sharedNames(code, file);
  return [written, Object.fromEntries(names)];
};

it('gives what one file has from another the same name in both', () => {
  expect(shared('var x=1,y=2;export{x as $,y as At};', SIGN_IN)).toEqual(['var x=1,y=2;export{x as $0,y as A1};', { x: '$0', y: 'A1' }]);
  expect(shared('import{$ as Lt,At as Wt}from"./sign-in-BvflaXvE.js";Lt(Wt);')).toEqual(['import{$0 as Lt,A1 as Wt}from"./sign-in-BvflaXvE.js";Lt(Wt);', { Lt: '$0', Wt: 'A1' }]);
  expect(shared('import{t as Lt}from"./shell-B3SmzrX4.js";Lt();')[1]).toEqual({ Lt: 't2' });
});

it('finds what is fetched later by its new name', () => {
  expect(shared('import("./shell-B3SmzrX4.js").then(e=>e.g)', SIGN_IN)[0]).toBe('import("./shell-B3SmzrX4.js").then(e=>e.g2)');
  expect(shared('import(`./shell-B3SmzrX4.js`).then($=>$.g)', SIGN_IN)[0]).toBe('import(`./shell-B3SmzrX4.js`).then($=>$.g2)');
  expect(() => shared('import("./shell-B3SmzrX4.js")', SIGN_IN)).toThrow('asks ./shell-B3SmzrX4.js for all of it');
  expect(shared('import("./editors-CFDUmfpI.js").then(e=>e.n)', SIGN_IN)[0], 'nothing else has anything from there').toBe('import("./editors-CFDUmfpI.js").then(e=>e.n)');
});

it('leaves what it has no name for, and refuses what it would break', () => {
  expect(shared('export{x as A0,y as Abc};var x,y;', SIGN_IN)[1]).toEqual({});
  expect(() => shared('import{t as x}from"./tab-OLXwMlwl.js";function t4(){}x(t4);')).toThrow('has a t4 of its own');
  expect(() => shared('import*as all from"./tab-OLXwMlwl.js";all();')).toThrow('imports all of');
  expect(shared('import{h as x}from"./sign-in-BvflaXvE.js";x("(h0|=a(h1");')[1], 'a text is no name').toEqual({ x: 'h0' });
});
