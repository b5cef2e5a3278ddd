import { isObject, sameJson } from '../../api/merge-patch.ts';
import type { Json, JsonObject, Source } from '../../api/types.ts';
import { isMoney } from '../cards/cell.ts';

/** What sources say beside what the card says. */

export interface Difference {
  name: string;
  card: Json | undefined;
  theirs: Json;
  /** The source's key. */
  source: string;
}

/** Members of a source that say which page was read, and when: nobody wants them all in the card. */
const BOOKKEEPING = new Set(['fetched_at', 'url', 'sku', 'title', 'sources']);
const PICTURES = new Set(['images', 'pictures']);

/** What the card has by the name of a source's value: its own title and SKU, and else an attribute. */
export function ownValue(card: { title: string; sku: string; attributes: JsonObject }, name: string): Json | undefined {
  return name === 'title' || name === 'sku' ? card[name] : card.attributes[name];
}

/** What "Use all" takes: what is about the product and differs. */
export function takenByAll(card: { attributes: JsonObject }, values: readonly [string, Json][]): [string, Json][] {
  return values.filter(([name, value]) => !BOOKKEEPING.has(name) && !sameJson(card.attributes[name], value));
}

/** The values of a source that a card with the attributes `own` can take over, by name. */
export function valuesOf({ data }: Source, own: JsonObject): [string, Json][] {
  if (!isObject(data)) return [];
  // Sources write a price and its currency apart; where the card has both in one, it goes on having both.
  const priced = Object.keys(data).some((name) => isMoney(own[name]));
  return Object.entries(data)
    .filter(([name, value]) => value !== null && value !== '' && !(priced && name === 'currency'))
    .map(([name, value]) => [name, asMoney(own[name], value, data.currency)]);
}

/** When a page was read, and which: what a source says of itself. */
const ITS_OWN = new Set(['fetched_at', 'url']);

/** A source's values by name, those first that the card `own` says something else for. */
export function differingFirst(own: Parameters<typeof ownValue>[0], values: readonly [string, Json][]): [string, Json][] {
  const rank = ([name, value]: [string, Json]) => Number(sameJson(ownValue(own, name), value)) || 2 * Number(ITS_OWN.has(name));
  return values.toSorted((a, b) => rank(a) - rank(b) || a[0].localeCompare(b[0]));
}

function asMoney(own: Json | undefined, value: Json, currency: Json | undefined): Json {
  if (!isMoney(own) || (typeof value !== 'number' && typeof value !== 'string')) return value;
  return { amount: typeof own.amount === 'number' ? Number(value) : String(value), currency: typeof currency === 'string' ? currency : own.currency };
}

/** Where a source says something else than the card, or something that the card lacks. */
export function differences(own: JsonObject, sources: Record<string, Source>): Difference[] {
  return Object.entries(sources).flatMap(([source, entry]) =>
    valuesOf(entry, own)
      .filter(([name, value]) => !BOOKKEEPING.has(name) && !PICTURES.has(name) && (typeof value !== 'object' || isMoney(value)) && !agrees(own[name], value))
      .map(([name, theirs]) => ({ name, card: own[name], theirs, source })),
  );
}

/** A price of 1199 is the price "1199.00". */
function agrees(card: Json | undefined, theirs: Json): boolean {
  if (card === undefined) return false;
  if (sameJson(card, theirs)) return true;
  if (isMoney(card) && isMoney(theirs)) return card.currency === theirs.currency && Number(card.amount) === Number(theirs.amount);
  const [a, b] = [card, theirs].map((value) => (typeof value === 'number' || (typeof value === 'string' && value.trim() !== '') ? Number(value) : Number.NaN));
  return a === b;
}

/** The rows of a comparison, those that differ first. */
export function rowsOf(columns: readonly (JsonObject | null)[]): { name: string; values: (Json | undefined)[]; same: boolean }[] {
  const names = [...new Set(columns.flatMap((column) => Object.keys(column ?? {})))].toSorted((a, b) => a.localeCompare(b));
  const rows = names.map((name) => {
    const values = columns.map((column) => column?.[name]);
    return { name, values, same: values.every((value) => sameJson(value, values[0])) };
  });
  return [...rows.filter((row) => !row.same), ...rows.filter((row) => row.same)];
}
