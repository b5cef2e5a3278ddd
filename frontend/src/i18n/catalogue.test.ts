import { afterEach, expect, it } from 'vitest';
import { preferences } from '../ui/preferences.svelte.ts';
import { catalogue, fromServer, loadLanguage, type Plural, type Texts } from './catalogue.svelte.ts';
import { t } from './shell.ts';

const english = import.meta.glob<{ texts: Texts }>(['./*.ts', '!./*.test.ts', '!./catalogue.svelte.ts', '!./hash.ts'], { eager: true });
const russian = import.meta.glob<Texts>(['./ru/*.ts', '!./ru/index.ts'], { eager: true, import: 'default' });
const areas = Object.entries(english).map(([path, { texts }]) => [path.slice(2, -3), texts] as const);

afterEach(() => (preferences.language = 'en'));

const forms = (text: string | Plural) => (typeof text === 'string' ? [text] : Object.values<string>(text as never));
const names = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).toSorted();

it.each(areas)('%s is translated whole, with the same values in each text', (area, texts) => {
  const translated = russian[`./ru/${area}.ts`];
  expect(Object.keys(translated ?? {}).toSorted()).toEqual(Object.keys(texts).toSorted());
  for (const [key, text] of Object.entries(texts)) {
    const wanted = names(forms(text).at(-1) ?? '');
    for (const form of forms(translated?.[key] ?? '')) expect([key, names(form)]).toEqual([key, wanted]);
  }
});

it('follows the language, in numbers and their forms too', async () => {
  expect(t('noticesWithErrors', { n: 1 })).toBe('Notices, 1 new error');
  expect(t('noticesWithErrors', { n: 1234 })).toBe('Notices, 1,234 new errors');
  preferences.language = 'ru';
  await loadLanguage();
  expect([1, 2, 5, 21].map((n) => t('noticesWithErrors', { n }))).toEqual([
    'Уведомления, 1 новая ошибка', 'Уведомления, 2 новые ошибки', 'Уведомления, 5 новых ошибок', 'Уведомления, 21 новая ошибка',
  ]);
});

it('a text without a translation is English', async () => {
  const odd = catalogue('nowhere', { hello: 'Hello {name}' } as const);
  preferences.language = 'ru';
  await loadLanguage();
  expect(odd('hello', { name: 'Ann' })).toBe('Hello Ann');
});

it('what the server says is Russian where its code is known, with the numbers of its words', async () => {
  expect(fromServer('disk-space', '/data2: 400 MiB free.')).toBe('/data2: 400 MiB free.');
  preferences.language = 'ru';
  await loadLanguage();
  expect(fromServer('disk-space', '/data2: 400 MiB free.')).toBe('Свободно 400 МиБ.');
  expect(fromServer('conflict', 'The job has already ended.')).toBe('The job has already ended.');
});
