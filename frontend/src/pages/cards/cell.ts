import { isObject } from '../../api/merge-patch.ts';
import type { Card, Json, ListColumn, Source } from '../../api/types.ts';
import { formatDate, formatMoney, uiLocale } from '../../plugin-host/format.ts';

/** Values of a card's attributes, as a row of the list shows them. */

type Attributes = Card['attributes'];

/** Names that pictures go by, in the card and in what plugins write. */
const PICTURE_NAMES = new Set(['image', 'images', 'picture', 'pictures', 'photo', 'photos', 'gallery', 'image_url', 'thumbnail']);
const ADDRESS = /^(https?:\/\/|data:image\/)/i;
const MAX_TEXT = 200;

export interface Cell {
  text: string;
  /** The source that it is from, when the card itself does not say. */
  source?: string;
  number?: boolean;
}

export function sourcesOf(attributes: Attributes): [string, Source][] {
  return isObject(attributes.sources) ? (Object.entries(attributes.sources) as [string, Source][]) : [];
}

/** The value at `path`: a name as it is, dots and all, or names below each other. */
export function valueAt(object: Json | undefined, path: string): Json | undefined {
  if (!isObject(object)) return undefined;
  if (Object.hasOwn(object, path)) return object[path];
  for (let dot = path.indexOf('.'); dot > 0; dot = path.indexOf('.', dot + 1)) {
    const head = path.slice(0, dot);
    if (Object.hasOwn(object, head)) return valueAt(object[head], path.slice(dot + 1));
  }
  return undefined;
}

export function cellAt(attributes: Attributes, path: string): Cell {
  const own = valueAt(attributes, path);
  if (own !== undefined && own !== null && own !== '') return cell(own, path, attributes.currency);
  for (const [source, { data }] of sourcesOf(attributes)) {
    const value = valueAt(data, path);
    if (value !== undefined && value !== null && value !== '') return { ...cell(value, path, isObject(data) ? data.currency : undefined), source };
  }
  return { text: '' };
}

/** What a plugin's column shows: the value in the source of its kind that was written last. */
export function cellOf(attributes: Attributes, { kind, value: pointer, format }: Extract<ListColumn, { kind: string }>): Cell {
  const [newest] = sourcesOf(attributes)
    .filter(([, source]) => source.kind === kind)
    .toSorted(([, a], [, b]) => (b.updated_at ?? '').localeCompare(a.updated_at ?? ''));
  const value = newest && atPointer(newest[1].data, pointer);
  return value === undefined || value === null ? { text: '' } : { ...cellIn(format, value), source: newest?.[0] ?? '' };
}

/** A value of a plugin's, in the format of its column. */
export function cellIn(format: ListColumn['format'], value: Json): Cell {
  if (format === 'date' && typeof value === 'string') return { text: formatDate(value).slice(0, MAX_TEXT) };
  if (format === 'text' || format === 'date' || typeof value !== 'number') return cell(value, '', undefined);
  const text = new Intl.NumberFormat(uiLocale(), format === 'percent' ? { style: 'percent' } : {}).format(format === 'percent' ? value / 100 : value);
  return { text, number: true };
}

function atPointer(value: Json | undefined, pointer: string): Json | undefined {
  for (const part of pointer.split('/').slice(1)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof value !== 'object' || value === null || !Object.prototype.propertyIsEnumerable.call(value, name)) return undefined;
    value = (value as Record<string, Json>)[name];
  }
  return value;
}

function cell(value: Json, path: string, currency: Json | undefined): Cell {
  const code = typeof currency === 'string' ? currency : null;
  if (/(^|\.|_)price$/.test(path) && (typeof value === 'number' || (typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value.trim())))) return { text: formatMoney(value, code), number: true };
  if (isMoney(value)) return { text: formatMoney(value.amount, value.currency), number: true };
  if (typeof value === 'number') return { text: String(value), number: true };
  if (typeof value === 'boolean') return { text: value ? '✓' : '✗' };
  if (Array.isArray(value)) return { text: value.map((item) => (typeof item === 'object' ? JSON.stringify(item) : String(item))).join(', ').slice(0, MAX_TEXT) };
  if (isObject(value)) return { text: JSON.stringify(value).slice(0, MAX_TEXT) };
  return { text: String(value).slice(0, MAX_TEXT) };
}

export function isMoney(value: Json | undefined): value is { amount: number | string; currency: string } {
  return isObject(value) && Object.keys(value).length === 2 && typeof value.currency === 'string' && (typeof value.amount === 'number' || typeof value.amount === 'string');
}

export interface CardPicture {
  address: string;
  /** The source's key; empty for the card's own. */
  source: string;
}

/** Every picture of the card and of its sources, its own first, each address once. */
export function picturesOf(attributes: Attributes, most = 200): CardPicture[] {
  const found = new Map<string, CardPicture>();
  const { sources: _, ...own } = attributes;
  collect(own, '', found);
  for (const [key, source] of sourcesOf(attributes)) collect(source.data, key, found);
  return [...found.values()].slice(0, most);
}

function collect(value: Json | undefined, source: string, found: Map<string, CardPicture>): void {
  if (!isObject(value)) return;
  for (const name of Object.keys(value)) {
    if (PICTURE_NAMES.has(name.toLowerCase())) for (const address of addresses(value[name])) if (!found.has(address)) found.set(address, { address, source });
  }
}

function addresses(value: Json | undefined): string[] {
  if (typeof value === 'string') return ADDRESS.test(value) ? [value] : [];
  if (Array.isArray(value)) return value.flatMap(addresses);
  return isObject(value) ? ['url', 'src', 'address', 'href'].flatMap((name) => addresses(value[name])) : [];
}

export function isPictureAddress(name: string, value: Json | undefined): value is string {
  return typeof value === 'string' && ADDRESS.test(value) && (PICTURE_NAMES.has(name.toLowerCase()) || /\.(jpe?g|png|webp|gif|avif)(\?|$)/i.test(value) || /^data:image/i.test(value));
}

export function arePictures(name: string, value: Json | undefined): value is string[] {
  return Array.isArray(value) && value.length > 0 && value.every((item) => isPictureAddress(name, item));
}

/** The kinds that the card has a source of. */
export function kindsOf(attributes: Attributes): Set<string> {
  return new Set(sourcesOf(attributes).map(([, source]) => source.kind));
}
