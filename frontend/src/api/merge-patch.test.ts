import { expect, it } from 'vitest';
import { mergePatch, sameJson, unpatchableNull } from './merge-patch.ts';
import type { Json, JsonObject } from './types.ts';

/** RFC 7396, section 2, as the server applies it. */
function apply(target: Json | undefined, patch: Json): Json {
  if (patch === null || typeof patch !== 'object' || Array.isArray(patch)) return patch;
  const result: JsonObject = target !== null && typeof target === 'object' && !Array.isArray(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = apply(result[key], value);
  }
  return result;
}

it.each<[JsonObject, JsonObject, JsonObject | undefined]>([
  [{ a: 1 }, { a: 1 }, undefined],
  [{ a: 1 }, { a: 2 }, { a: 2 }],
  [{ a: 1, b: 2 }, { a: 1 }, { b: null }],
  [{ a: { b: 1, c: 2 } }, { a: { b: 1, c: 3 } }, { a: { c: 3 } }],
  [{ a: { b: 1 } }, { a: {} }, { a: { b: null } }],
  [{ a: [1, 2] }, { a: [1] }, { a: [1] }],
  [{ a: [1, { b: null }] }, { a: [1, { b: null }] }, undefined],
  [{ a: 1 }, { a: { b: 1 } }, { a: { b: 1 } }],
  [{ a: { b: 1 } }, { a: 'x' }, { a: 'x' }],
  [{}, { a: {} }, { a: {} }],
])('%j to %j', (from, to, patch) => {
  expect(mergePatch(from, to)).toEqual(patch);
  expect(patch ? apply(from, patch) : from).toEqual(to);
});

it('takes names that JavaScript treats specially', () => {
  const patch = mergePatch({}, JSON.parse('{"__proto__": {"x": 1}, "constructor": 2}') as JsonObject);
  expect(JSON.stringify(patch)).toBe('{"__proto__":{"x":1},"constructor":2}');
});

it('finds a null that a patch could not store', () => {
  expect(unpatchableNull({}, { a: { 'b/c': null } })).toBe('/a/b~1c');
  expect(unpatchableNull({ a: null }, { a: null })).toBeUndefined();
  expect(unpatchableNull({}, { a: [null] })).toBeUndefined();
  expect(unpatchableNull({ a: 1 }, { a: null })).toBe('/a');
});

it('compares JSON by value', () => {
  expect(sameJson({ a: [1, { b: 2 }], c: null }, { c: null, a: [1, { b: 2 }] })).toBe(true);
  expect(sameJson({ a: 1 }, { b: 1 })).toBe(false);
  expect(sameJson([], {})).toBe(false);
});
