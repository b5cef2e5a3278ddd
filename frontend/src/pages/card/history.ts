import type { HistoryLine } from '../../api/cards.ts';
import { isObject, mergePatch, sameJson } from '../../api/merge-patch.ts';
import type { Json, JsonObject } from '../../api/types.ts';

/** A change of the card with what every field was before and after it. */
export interface Version {
  line: HistoryLine;
  rows: FieldChange[];
  /** The source that it wrote or removed. */
  source?: string;
}

export interface FieldChange {
  /** `title`, or `attributes.brand` */
  field: string;
  /** Undefined when there was none, or when it is not known. */
  before: Json | undefined;
  after: Json | undefined;
}

const FIELDS = ['title', 'sku', 'status'];
/** These say what all fields became, and not what became of some. */
const WHOLE = new Set(['create', 'import']);

/** Replays the history, given newest first, and says of each line what it changed. */
export function versionsOf(lines: readonly HistoryLine[]): Version[] {
  let state: JsonObject | null = null;
  const versions: Version[] = [];
  for (const line of lines.toReversed()) {
    const after: JsonObject | null = apply(state, line);
    const rows = after && !sameJson(state ?? {}, after) ? diff(state ?? {}, after) : sentRows(line, state);
    const source = typeof line.change.source_key === 'string' ? { source: line.change.source_key } : {};
    versions.push({ line, rows, ...source });
    state = after;
  }
  return versions.toReversed();
}

/** All fields flat: `title`, `attributes.brand`. Null as long as no line said all of them. */
function apply(state: JsonObject | null, { action, change }: HistoryLine): JsonObject | null {
  const whole = typeof change.title === 'string' && typeof change.sku === 'string' && (WHOLE.has(action) || change.version !== undefined);
  if (!state && !whole) return null;
  const after: JsonObject = whole ? { status: 'draft' } : { ...state };
  for (const field of FIELDS) if (typeof change[field] === 'string') after[field] = change[field];
  if (isObject(change.attributes)) {
    for (const [name, value] of Object.entries(change.attributes)) {
      const key = `attributes.${name}`;
      if (name === 'sources') continue;
      if (whole) after[key] = value;
      else if (value === null) delete after[key];
      // A job that gives many cards an attribute gives it whole.
      else after[key] = change.job === undefined ? merged(after[key], value) : value;
    }
  } else if (whole && state) {
    for (const [key, value] of Object.entries(state)) if (key.startsWith('attributes.')) after[key] = value;
  }
  return after;
}

/** RFC 7396. */
function merged(target: Json | undefined, patch: Json): Json {
  if (!isObject(patch)) return patch;
  const result: JsonObject = isObject(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = merged(result[name], value);
  }
  return result;
}

function diff(before: JsonObject, after: JsonObject): FieldChange[] {
  const fields = [...new Set([...FIELDS, ...[...Object.keys(before), ...Object.keys(after)].toSorted((a, b) => a.localeCompare(b))])];
  return fields.filter((field) => !sameJson(before[field], after[field])).map((field) => ({ field, before: before[field], after: after[field] }));
}

/** Where what came before is not known: what was sent. */
function sentRows({ change }: HistoryLine, state: JsonObject | null): FieldChange[] {
  if (state) return [];
  const attributes = isObject(change.attributes) ? Object.entries(change.attributes).map(([name, value]) => [`attributes.${name}`, value] as const) : [];
  return [...FIELDS.filter((field) => change[field] !== undefined).map((field) => [field, change[field]] as const), ...attributes].map(([field, value]) => ({ field, before: undefined, after: value === null ? undefined : value }));
}

/** The merge patch that gives a field an earlier value; `undefined` takes an attribute away. */
export function restorePatch(field: string, now: Json | undefined, value: Json | undefined): JsonObject | undefined {
  if (!field.startsWith('attributes.')) return value === undefined ? undefined : { [field]: value };
  const name = field.slice('attributes.'.length);
  const attributes = mergePatch(now === undefined ? {} : { [name]: now }, value === undefined ? {} : { [name]: value });
  return attributes && { attributes };
}

export type Piece = { text: string; kind: 'same' | 'removed' | 'added' };

/** What two texts have in common at both ends, and what differs between, cut at words. */
export function textDiff(before: string, after: string): { before: Piece[]; after: Piece[] } {
  const a = before.split(/(\s+)/);
  const b = after.split(/(\s+)/);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const pieces = (words: string[], kind: 'removed' | 'added'): Piece[] =>
    [
      { text: words.slice(0, head).join(''), kind: 'same' as const },
      { text: words.slice(head, words.length - tail).join(''), kind },
      { text: words.slice(words.length - tail).join(''), kind: 'same' as const },
    ].filter((piece) => piece.text !== '');
  return { before: pieces(a, 'removed'), after: pieces(b, 'added') };
}
