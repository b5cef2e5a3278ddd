import { expect, it } from 'vitest';
import { changesOf, dayBound, targetOf } from './audit.ts';

it('what an entry records is shown before and after', () => {
  expect(changesOf({ username: 'b', username_before: 'a', role: { before: 'viewer', after: 'editor' }, ended_sessions: 2 })).toEqual([
    { name: 'username', before: 'a', after: 'b' },
    { name: 'role', before: 'viewer', after: 'editor' },
    { name: 'ended_sessions', after: '2' },
  ]);
  expect(changesOf({ version: 3, before: [], now: [{ prefix: '/a' }] })).toEqual([
    { name: 'items', before: '[]', after: '[\n {\n  "prefix": "/a"\n }\n]' },
    { name: 'version', after: '3' },
  ]);
  expect(changesOf(null)).toEqual([]);
  expect(changesOf('x')).toEqual([{ name: '', after: 'x' }]);
});

it('a day ends where the next one begins', () => {
  expect(Date.parse(dayBound('2026-11-23', true)) - Date.parse(dayBound('2026-11-23', false))).toBe(86_400_000);
});

it('what was done to somebody is named', () => {
  expect(targetOf({ target: '0197', detail: { username: 'ines' } })).toBe('ines');
  expect(targetOf({ target: 'supplier', detail: { version: '1' } })).toBe('supplier');
  expect(targetOf({ target: null, detail: { username: 'ines' } })).toBe('');
});
