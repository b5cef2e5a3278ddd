import { preferences } from '../ui/preferences.svelte.ts';

/**
 * Texts of the UI. English stands in `i18n/<area>.ts`, next to the function `t` of that area; Russian in
 * `i18n/ru/<area>.ts`, which the compiler holds against the English one. Russian is fetched only when it is chosen.
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

type Russian = Record<string, Texts>;
let russian = $state.raw<Russian | null>(null);

/** Fetches the chosen language, if it is not there yet; until then, and without it, texts are English. */
export async function loadLanguage(): Promise<void> {
  if (preferences.language !== 'ru' || russian) return;
  try {
    russian = (await import('./ru/index.ts')).default;
  } catch {
    // The server is away or has a newer version: English is better than no page.
  }
}

export function catalogue<T extends Texts>(area: string, english: T): <K extends keyof T & string>(key: K, ...values: Arguments<T[K]>) => string {
  return (key, ...values) => {
    const translated = preferences.language === 'ru' ? russian?.[area]?.[key] : undefined;
    const language = translated === undefined ? 'en' : 'ru';
    const text = translated ?? (english[key] as string | Plural);
    return fill(text, (values[0] ?? {}) as Record<string, string | number>, language);
  };
}

const RULES: Record<string, Intl.PluralRules> = {};

function fill(text: string | Plural, values: Record<string, string | number>, language: string): string {
  if (typeof text !== 'string') {
    const rules = (RULES[language] ??= new Intl.PluralRules(language));
    const category = rules.select(Number(values.n)) as keyof Plural;
    return fill(text[category] ?? text.other, values, language);
  }
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    if (value === undefined) return whole;
    return typeof value === 'number' ? new Intl.NumberFormat(preferences.locale).format(value) : value;
  });
}
