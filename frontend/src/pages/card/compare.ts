import { isObject, sameJson } from '../../api/merge-patch.ts';
import type { Json, JsonObject, Source } from '../../api/types.ts';

/** What sources say beside what the card says. */

export interface Difference {
  name: string;
  card: Json | undefined;
  theirs: Json;
  /** The source's key. */
  source: string;
}

/** Members of a source that are about fetching it, and not about the product. */
const BOOKKEEPING = new Set(['fetched_at', 'url', 'sku', 'title', 'images', 'pictures']);

/** The values of a source that a card can take over, by name. */
export function valuesOf(source: Source): [string, Json][] {
  return isObject(source.data) ? Object.entries(source.data).filter(([, value]) => value !== null && value !== '') : [];
}

/** Where a source says something else than the card, or something that the card lacks. */
export function differences(own: JsonObject, sources: Record<string, Source>): Difference[] {
  return Object.entries(sources).flatMap(([source, entry]) =>
    valuesOf(entry)
      .filter(([name, value]) => !BOOKKEEPING.has(name) && typeof value !== 'object' && !agrees(own[name], value))
      .map(([name, theirs]) => ({ name, card: own[name], theirs, source })),
  );
}

/** A price of 1199 is the price "1199.00". */
function agrees(card: Json | undefined, theirs: Json): boolean {
  if (card === undefined) return false;
  if (sameJson(card, theirs)) return true;
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
