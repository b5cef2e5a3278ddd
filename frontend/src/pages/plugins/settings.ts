import { isObject, sameJson } from '../../api/merge-patch.ts';
import type { Json, JsonObject, PluginSettings } from '../../api/types.ts';
import { t } from '../../i18n/plugins.ts';

/** How one setting is typed. */
export type Editor = 'yes-no' | 'choice' | 'integer' | 'number' | 'text' | 'long-text' | 'lines' | 'secret' | 'json';
export type Origin = 'stored' | 'environment' | 'default' | 'none';

export interface Setting {
  name: string;
  title: string;
  description: string;
  editor: Editor;
  required: boolean;
  /** Of `choice`. */
  choices: Json[];
  /** What can be typed at least and at most, where the schema says so. */
  minimum?: number;
  maximum?: number;
  maxLength?: number;
}

/** More characters than this are typed in a box of several lines. */
const LONG_TEXT = 300;

/** The settings that the schema names, in its order, then those that it does not and that are set. */
export function settingsOf(shown: PluginSettings, draft: JsonObject): Setting[] {
  const properties = isObject(shown.schema?.properties) ? shown.schema.properties : {};
  const required = new Set(Array.isArray(shown.schema?.required) ? shown.schema.required : []);
  const names = new Set([...Object.keys(properties), ...Object.keys(shown.settings), ...Object.keys(draft)]);
  return [...names].map((name) => {
    const property = isObject(properties[name]) ? properties[name] : {};
    const setting: Setting = {
      name,
      title: text(property.title) || name,
      description: text(property.description),
      editor: editorOf(property, draft[name] ?? shown.settings[name]),
      required: required.has(name),
      choices: Array.isArray(property.enum) ? property.enum : [],
    };
    for (const bound of ['minimum', 'maximum', 'maxLength'] as const) {
      if (typeof property[bound] === 'number') setting[bound] = property[bound];
    }
    return setting;
  });
}

function editorOf(property: JsonObject, value: Json | undefined): Editor {
  if (property.writeOnly === true || isMask(value)) return 'secret';
  if (Array.isArray(property.enum) && property.enum.length) return 'choice';
  switch (property.type) {
    case 'boolean': return 'yes-no';
    case 'integer': return 'integer';
    case 'number': return 'number';
    case 'string': return Number(property.maxLength) > LONG_TEXT || property.format === 'multiline' ? 'long-text' : 'text';
    case 'array': return isObject(property.items) && property.items.type === 'string' && !Array.isArray(property.items.enum) ? 'lines' : 'json';
    default: return 'json';
  }
}

/** A secret that is set comes as this, and stays what it is when it is sent back so. */
export function isMask(value: Json | undefined): boolean {
  return isObject(value) && Object.keys(value).length === 1 && value.set === true;
}

/** Where the value in force comes from, with `draft` in the place of what is stored. */
export function originOf({ environment, defaults }: PluginSettings, draft: JsonObject, name: string): Origin {
  if (Object.hasOwn(draft, name)) return 'stored';
  if (Object.hasOwn(environment, name)) return 'environment';
  return Object.hasOwn(defaults, name) ? 'default' : 'none';
}

/** What is in force below what is set here. */
export function inherited({ environment, defaults }: PluginSettings, name: string): Json | undefined {
  return Object.hasOwn(environment, name) ? environment[name] : defaults[name];
}

/** What was typed as the value of a setting; a sentence when it cannot be one. */
export function parseTyped({ editor }: Setting, typed: string): { value: Json } | { problem: string } {
  switch (editor) {
    case 'integer':
    case 'number': {
      const number = typed.trim() === '' ? NaN : Number(typed.trim().replace(',', '.'));
      if (!Number.isFinite(number)) return { problem: t('needsNumber') };
      return editor === 'integer' && !Number.isInteger(number) ? { problem: t('needsWhole') } : { value: number };
    }
    case 'lines': return { value: typed.split('\n').map((line) => line.trim()).filter(Boolean) };
    case 'json': return parseJson(typed);
    default: return { value: typed };
  }
}

/** The text that the value is typed as. */
export function typedOf({ editor }: Setting, value: Json | undefined): string {
  if (value === undefined || isMask(value)) return '';
  if (editor === 'lines' && Array.isArray(value)) return value.join('\n');
  return editor === 'json' ? JSON.stringify(value, null, 2) : String(value);
}

function parseJson(typed: string): { value: Json } | { problem: string } {
  try {
    return { value: JSON.parse(typed) as Json };
  } catch (thrown) {
    return { problem: t('notJson', { reason: thrown instanceof Error ? thrown.message : String(thrown) }) };
  }
}

/** What was typed, as the settings to store; or why it cannot be. */
export function parseSettings(typed: string): JsonObject | string {
  const parsed = parseJson(typed);
  if ('problem' in parsed) return parsed.problem;
  return isObject(parsed.value) ? parsed.value : t('needsObject');
}

/** The names whose stored value differs. */
export function changedSettings(before: JsonObject, draft: JsonObject): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(draft)]);
  return [...names].filter((name) => Object.hasOwn(before, name) !== Object.hasOwn(draft, name) || !sameJson(before[name] ?? null, draft[name] ?? null));
}

export function without(draft: JsonObject, name: string): JsonObject {
  const { [name]: _, ...rest } = draft;
  return rest;
}

function text(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}
