import { isObject } from '../../api/merge-patch.ts';
import type { Json } from '../../api/types.ts';
import type { IconName } from '../../ui/icons.ts';
import { isMoney, isPictureAddress } from '../cards/cell.ts';

/** Which editor a value gets. The value decides, and for pictures and prices its name too. */
export type ValueType = 'text' | 'number' | 'decimal' | 'money' | 'boolean' | 'list' | 'picture' | 'members' | 'json';

export const TYPE_ICONS: Record<ValueType, IconName> = { text: 'text', number: 'hash', decimal: 'money', money: 'money', boolean: 'toggle', list: 'list', picture: 'image', members: 'object', json: 'object' };

/** Types that a new attribute can have, with what it begins as. */
export const BLANK_VALUES = { text: '', number: 0, boolean: false, list: [], money: { amount: '', currency: 'EUR' }, picture: 'https://', json: {} } satisfies Partial<Record<ValueType, Json>>;

/** A type that an attribute can be given. */
export type NewType = keyof typeof BLANK_VALUES;

const MAX_MEMBERS = 12;
const DECIMAL = /^-?\d+(\.\d+)?$/;

export function typeOf(name: string, value: Json): ValueType {
  if (typeof value === 'boolean') return 'boolean';
  if (typeof value === 'number') return 'number';
  if (typeof value === 'string') {
    if (isPictureAddress(name, value) || value === BLANK_VALUES.picture) return 'picture';
    return /(^|_)(price|cost|amount)$/i.test(name) && DECIMAL.test(value) ? 'decimal' : 'text';
  }
  if (isMoney(value)) return 'money';
  if (Array.isArray(value)) return value.every((item) => typeof item === 'string' || typeof item === 'number') ? 'list' : 'json';
  return isObject(value) && isFlat(value) ? 'members' : 'json';
}

function isFlat(value: Record<string, Json>): boolean {
  const members = Object.values(value);
  return members.length > 0 && members.length <= MAX_MEMBERS && members.every((member) => typeof member === 'string' || typeof member === 'number');
}

/** A number as it was typed, with a comma or a point; undefined when it is none. */
export function parseNumber(text: string): number | undefined {
  const plain = text.trim().replace(/^(-?\d+),(\d+)$/, '$1.$2');
  if (!/^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain)) return undefined;
  const value = Number(plain);
  return Number.isFinite(value) ? value : undefined;
}

/** A decimal that is kept as a text, such as a price; undefined when it is none. */
export function parseDecimal(text: string): string | undefined {
  const plain = text.trim().replace(/^(-?\d+),(\d+)$/, '$1.$2');
  return DECIMAL.test(plain) ? plain : undefined;
}

/** What was typed in the place of `before`, as a value of the same type; undefined when it is none. */
export function parseMember(text: string, before: Json | undefined, decimal: boolean): Json | undefined {
  if (typeof before === 'number') return parseNumber(text);
  return decimal ? parseDecimal(text) : text;
}

/** Whether a list is one of numbers, so that a text has no place in it. */
export function isNumeric(items: readonly Json[]): boolean {
  return items.length > 0 && items.every((item) => typeof item === 'number');
}

/** In one line, for "was …" and for tables of differences. */
export function inWords(value: Json | undefined): string {
  if (value === undefined) return '–';
  if (typeof value === 'string') return value;
  if (isMoney(value)) return `${value.amount} ${value.currency}`;
  if (Array.isArray(value) && value.every((item) => typeof item !== 'object')) return value.join(', ');
  if (isObject(value) && isFlat(value)) return Object.entries(value).map(([name, member]) => `${name} ${String(member)}`).join(', ');
  return JSON.stringify(value);
}
