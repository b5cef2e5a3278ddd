import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { ApiError, fieldError, fieldText, reasonOf } from '../api/error.ts';
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

it('what is wrong with a field is Russian where its sentence is known, and else in the server’s words', async () => {
  const errors = [{ pointer: '/title', detail: '1 to 500 characters are needed, 501 were sent.' }, { pointer: '/attributes/size~1outer', detail: 'Too large for a parcel.' }];
  const error = new ApiError(422, 'validation-failed', 'Some fields are not valid.', { errors });
  expect([fieldError(error, '/title'), fieldError(error, '/attributes')]).toEqual([errors[0]?.detail, 'size/outer: Too large for a parcel.']);
  expect(reasonOf(error)).toBe('Some fields are not valid. /title: 1 to 500 characters are needed, 501 were sent. /attributes/size/outer: Too large for a parcel.');
  preferences.language = 'ru';
  await loadLanguage();
  expect(fieldError(error, '/title')).toBe('Нужно от 1 до 500 символов, отправлено 501.');
  expect(fieldError(error, '/attributes/size~1outer')).toBe('Сервер сообщает: Too large for a parcel.');
  expect(fieldError(error, '/attributes')).toBe('Поле «size/outer». Сервер сообщает: Too large for a parcel.');
  const scopes = new ApiError(422, 'validation-failed', '', { errors: [{ pointer: '/scopes/0', detail: 'Only a login can answer confirmations, never a key.' }] });
  expect(fieldError(scopes, '/scopes'), 'a place in a list is no name').toBe('На вызовы отвечают только после входа, не ключом.');
});

it('knows sentences about fields as the host writes them', async () => {
  const host = resolve('../host/crates');
  const files = readdirSync(host, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.rs'));
  // A string goes on in the next line of the source behind a backslash; a gap for a value is one sign.
  const sources = files.map((file) => readFileSync(join(host, file), 'utf8').replace(/\\\n\s*/g, '').replace(/\{[^{}"]*\}|\d+/g, '#')).join('\n');
  const sentences = Object.keys(russian['./ru/server.ts'] ?? {}).filter((key) => key.includes(' '));
  expect(sentences.length).toBeGreaterThan(40);
  expect(sentences.filter((sentence) => !sources.includes(`"${sentence}"`))).toEqual([]);
  for (const sentence of sentences) {
    const gaps = names(String(russian['./ru/server.ts']?.[sentence])).map(Number);
    expect([sentence, gaps.every((at) => at < (sentence.match(/#/g)?.length ?? 0))]).toEqual([sentence, true]);
  }
  preferences.language = 'ru';
  await loadLanguage();
  expect(fieldText('At most 200.')).toBe('Не больше 200.');
});
