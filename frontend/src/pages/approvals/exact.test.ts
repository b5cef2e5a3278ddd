import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import { member, parseExact, piecesOf, visible } from './exact.ts';

const shown = (json: string) => piecesOf(parseExact(json)).map(({ text }) => text).join('');

it('every digit of a number is shown', () => {
  expect(shown('{"price":12345678901234567890.10,"n":1e400}')).toBe('{\n  "price": 12345678901234567890.10,\n  "n": 1e400\n}');
});

it('a text that looks like a number, a word or a mark of ours stays a text', () => {
  expect(shown('["n1","true","s",null,true,-0.0]')).toBe('[\n  "n1",\n  "true",\n  "s",\n  null,\n  true,\n  -0.0\n]');
});

it('brackets, quotes and escapes inside texts are no structure', () => {
  expect(shown(String.raw`{"a\"}":"[{\\\",:","b":{"c":[]},"d":{}}`)).toBe(String.raw`{
  "a\"}": "[{\\\",:",
  "b": {
    "c": []
  },
  "d": {}
}`);
});

it('what cannot be seen is a code: line ends, marks of direction, blanks, and what takes no place', () => {
  expect(shown(JSON.stringify('a\nb\u202Ec\u200Bd\u2066e\u00A0f\u3164g\uFE0Fh\u{E0041}i\u2028j\u115F\u2800')))
    .toBe(String.raw`"a\nb\u202Ec\u200Bd\u2066e\u00A0f\u3164g\uFE0Fh\u{E0041}i\u2028j\u115F\u2800"`);
  expect(visible('Ça va, דוד 日本 👍 – 5 €')).toBe('Ça va, דוד 日本 👍 – 5 €');
});

it('an escape that somebody typed is told from one of ours by its backslashes', () => {
  expect(shown(JSON.stringify('\\u202E'))).toBe(String.raw`"\\u202E"`);
});

it('members of Object are no members of the answer', () => {
  const value = parseExact('{"item":{"__proto__":{"x":1}}}');
  expect(member(value, 'constructor')).toBeUndefined();
  expect(piecesOf(member(value, 'item') ?? 's').map(({ text }) => text).join('')).toBe('{\n  "__proto__": {\n    "x": 1\n  }\n}');
});

it('texts of the caller are told from the page’s own', () => {
  expect(piecesOf(parseExact('{"a":1}')).filter(({ theirs }) => theirs).map(({ text }) => text)).toEqual(['"a"']);
});

it('what cannot be seen is what the host takes for unseen', () => {
  const table = readFileSync(resolve('../host/crates/base/src/printable.rs'), 'utf8');
  const ranges = [...table.matchAll(/'\\u\{(\w+)\}'..='\\u\{(\w+)\}',/g)].map(([, from = '', to = '']) => [Number.parseInt(from, 16), Number.parseInt(to, 16)] as const);
  const ofHost = (code: number, char: string) => /[\p{Cc}\p{White_Space}]/u.test(char) || ranges.some(([from, to]) => from <= code && code <= to);
  // What has no meaning yet is no letter that somebody writes, and a half of a pair is no text.
  const apart = Array.from({ length: 0x110000 }, (_, code) => code).filter((code) => {
    const char = String.fromCodePoint(code);
    return !/[\p{Cn}\p{Cs} ]/u.test(char) && ofHost(code, char) !== (visible(char) !== char);
  });
  expect(ranges.length).toBeGreaterThan(20);
  expect(apart.map((code) => code.toString(16))).toEqual([]);
});
