import { preferences, type Language } from '../ui/preferences.svelte.ts';
import { hashOf } from './hash.ts';

/**
 * Texts of the UI. English stands in `i18n/<area>.ts`, next to the function `t` of that area; Russian in
 * `i18n/ru/<area>.ts`, which the compiler holds against the English one. Russian is fetched only when it is chosen.
 * In a build, `¦` and what follows it in an English text tell apart what is one word in English and two in Russian.
 */

/** A text that depends on a number `n`, by the categories of `Intl.PluralRules`. */
export interface Plural {
  one: string;
  few?: string;
  many?: string;
  other: string;
}

export type Texts = Record<string, string | Plural>;
/** What a translation must have: the same names, of the same sort. */
export type Translation<T extends Texts> = { [K in keyof T]: T[K] extends string ? string : Required<Plural> };

type Names<S> = S extends `${string}{${infer Name}}${infer Rest}` ? Name | Names<Rest> : never;
type ValuesOf<T> = T extends string ? Names<T> : T extends Plural ? 'n' | Names<T['other']> : never;
/** The values that a text asks for, by name. */
type Arguments<T> = [ValuesOf<T>] extends [never] ? [] : [values: Record<ValuesOf<T>, string | number>];

/** As written, by area and name; as built, by what the English text comes to (`build/texts.ts`). */
let russian = $state.raw<Record<string, Texts> | Texts | null>(null);

/** Fetches the chosen language, if it is not there yet; until then, and without it, texts are English. */
export async function loadLanguage(language: Language = preferences.language): Promise<void> {
  if (language !== 'ru' || russian) return;
  try {
    russian = (await import('./ru/index.ts')).default;
  } catch {
    // The server is away or has a newer version: English is better than no page.
  }
}

/** Changes the language of all that is drawn, once its texts are there. A reload before that finds it chosen. */
export async function chooseLanguage(language: Language): Promise<void> {
  preferences.keepLanguage(language);
  await loadLanguage(language);
  preferences.language = language;
}

export function catalogue<T extends Texts>(area: string, english: T): <K extends keyof T & string>(key: K, ...values: Arguments<T[K]>) => string {
  return (key, ...values) => say(english[key] as string | Plural, (russian?.[area] as Texts | undefined)?.[key], values[0]);
}

/** What the build makes of every `t`. */
export function translate(english: string | Plural, values?: Values): string {
  return say(english, russian && (russian as Texts)[hashOf(english)], values);
}

/** What the server says with a code, in Russian where the catalogue knows the code. */
export function fromServer(code: string, words: string): string {
  const known = preferences.language === 'ru' && (russian?.server as Record<string, string> | undefined)?.[code];
  return known ? fill(known, Object.fromEntries((words.match(/\d+/g) ?? []).toReversed().entries()), 'ru') : words;
}

type Values = Record<string, string | number>;

function say(english: string | Plural, translated: string | Plural | null | undefined, values: Values = {}): string {
  return preferences.language === 'ru' && translated ? fill(translated, values, 'ru') : fill(english, values, 'en');
}

const RULES: Record<string, Intl.PluralRules> = {};

function fill(text: string | Plural, values: Values, language: string): string {
  if (typeof text !== 'string') {
    const rules = (RULES[language] ??= new Intl.PluralRules(language));
    const category = rules.select(Number(values.n)) as keyof Plural;
    return fill(text[category] ?? text.other, values, language);
  }
  return text.replace(/¦.*$|\{(\w+)\}/g, (whole, name?: string) => {
    if (!name) return '';
    const value = values[name];
    if (value === undefined) return whole;
    return typeof value === 'number' ? new Intl.NumberFormat(preferences.locale).format(value) : value;
  });
}
