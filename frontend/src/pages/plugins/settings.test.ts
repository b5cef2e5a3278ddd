import { expect, it } from 'vitest';
import type { PluginSettings } from '../../api/types.ts';
import { parseSettings, settingsOf } from './settings.ts';

const shown = (more: Partial<PluginSettings>): PluginSettings => ({ name: 'x', settings: {}, stored: {}, environment: {}, defaults: {}, schema: null, unreadable: [], version: 0, ...more });

it('each setting says its value and where it comes from', () => {
  const rows = settingsOf(shown({
    settings: { delay: 5, smtp: { host: 'mail', port: 25 }, token: { set: true }, extra: null },
    stored: { smtp: { port: 25 }, token: { set: true }, extra: null },
    environment: { smtp: { host: 'mail' } },
    defaults: { delay: 5 },
    schema: { properties: { delay: { title: 'Pause', description: 'Between pages.' }, smtp: {}, token: { writeOnly: true }, unset: { writeOnly: true } } },
  }));
  expect(rows.map((row) => [row.name, row.value, row.from])).toEqual([
    ['delay', '5', 'the plugin’s default'],
    ['smtp', '{"host":"mail","port":25}', 'set here, the environment'],
    ['token', 'set, and not shown', 'set here'],
    ['unset', 'not set', ''],
    ['extra', 'null', 'set here'],
  ]);
  expect(rows[0]).toMatchObject({ title: 'Pause', description: 'Between pages.' });
});

it('a schema that is odd does no harm', () => {
  expect(settingsOf(shown({ schema: { properties: [] } as never }))).toEqual([]);
  expect(settingsOf(shown({ schema: { properties: { a: true } } }))[0]).toMatchObject({ name: 'a', title: '', value: 'not set' });
});

it('only an object can be stored', () => {
  expect(parseSettings('{"a": 1}')).toEqual({ a: 1 });
  expect(parseSettings('[1]')).toBe('The settings must be an object, { … }.');
  expect(parseSettings('{')).toMatch(/^Not JSON/);
});
