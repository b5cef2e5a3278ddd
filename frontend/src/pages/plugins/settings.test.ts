import { expect, it } from 'vitest';
import type { PluginSettings } from '../../api/types.ts';
import { changedSettings, inherited, isMask, originOf, parseSettings, parseTyped, settingsOf, typedOf, without, type Setting } from './settings.ts';

const shown = (more: Partial<PluginSettings>): PluginSettings => ({ name: 'x', settings: {}, stored: {}, environment: {}, defaults: {}, schema: null, unreadable: [], version: 0, ...more });
const setting = (editor: Setting['editor']): Setting => ({ name: 'a', title: 'a', description: '', editor, required: false, choices: [] });

it('each setting is typed as its schema says', () => {
  const properties = {
    delay: { type: 'integer', title: 'Pause', description: 'Between pages.', minimum: 0 },
    mode: { enum: ['a', 'b'] },
    on: { type: 'boolean' },
    contact: { type: 'string', maxLength: 200 },
    text: { type: 'string', maxLength: 4000 },
    hosts: { type: 'array', items: { type: 'string' } },
    token: { type: 'string', writeOnly: true },
    smtp: { type: 'object' },
  };
  const fields = settingsOf(shown({ settings: { extra: null, key: { set: true } }, schema: { properties, required: ['contact'] } }), { own: 1 });
  expect(fields.map(({ name, editor }) => `${name}: ${editor}`)).toEqual(['delay: integer', 'mode: choice', 'on: yes-no', 'contact: text', 'text: long-text', 'hosts: lines', 'token: secret', 'smtp: json', 'extra: json', 'key: secret', 'own: json']);
  expect(fields[0]).toMatchObject({ title: 'Pause', description: 'Between pages.', minimum: 0, required: false });
  expect(fields[3]?.required).toBe(true);
});

it('a schema that is odd does no harm', () => {
  expect(settingsOf(shown({ schema: { properties: [] } as never }), {})).toEqual([]);
  expect(settingsOf(shown({ schema: { properties: { a: true } } }), {})[0]).toMatchObject({ name: 'a', title: 'a', editor: 'json' });
});

it('a value comes from here, the environment, or the plugin', () => {
  const layers = shown({ environment: { a: 1 }, defaults: { a: 0, b: 0 } });
  expect(['a', 'b', 'c'].map((name) => originOf(layers, {}, name))).toEqual(['environment', 'default', 'none']);
  expect(originOf(layers, { a: null }, 'a')).toBe('stored');
  expect(['a', 'b', 'c'].map((name) => inherited(layers, name))).toEqual([1, 0, undefined]);
});

it('what is typed becomes a value of its kind, or a sentence', () => {
  expect(parseTyped(setting('integer'), ' 5 ')).toEqual({ value: 5 });
  expect(parseTyped(setting('number'), '1,5')).toEqual({ value: 1.5 });
  expect(parseTyped(setting('integer'), '1.5')).toEqual({ problem: 'Enter a whole number.' });
  expect(parseTyped(setting('number'), '')).toEqual({ problem: 'Enter a number.' });
  expect(parseTyped(setting('lines'), 'a\n\n b ')).toEqual({ value: ['a', 'b'] });
  expect(parseTyped(setting('text'), '')).toEqual({ value: '' });
  expect(parseTyped(setting('json'), '{')).toHaveProperty('problem');
  expect(typedOf(setting('lines'), ['a', 'b'])).toBe('a\nb');
  expect(typedOf(setting('secret'), { set: true })).toBe('');
  expect(isMask({ set: true }) && !isMask({ set: true, more: 1 })).toBe(true);
});

it('only what differs counts as changed, and a default may be set on purpose', () => {
  expect(changedSettings({ a: 1, b: { c: 1 } }, { b: { c: 1 }, d: null })).toEqual(['a', 'd']);
  expect(without({ a: 1, b: 2 }, 'a')).toEqual({ b: 2 });
});

it('only an object can be stored', () => {
  expect(parseSettings('{"a": 1}')).toEqual({ a: 1 });
  expect(parseSettings('[1]')).toBe('The settings must be a JSON object.');
  expect(parseSettings('{')).toMatch(/^Not JSON/);
});
