import { isObject, mergePatch, sameJson, unpatchableNull } from '../../api/merge-patch.ts';
import type { Card, CardStatus, Json, JsonObject } from '../../api/types.ts';

/** What the form holds. */
export interface Draft {
  title: string;
  sku: string;
  status: CardStatus;
  /** Without what plugins wrote, which nobody edits. */
  attributes: JsonObject;
}

export interface Changes {
  /** What to send; absent when nothing has changed. */
  patch?: JsonObject;
  /** A pointer to a null that a patch cannot store. */
  unpatchable?: string;
  /** Fields and attributes that differ from the card, by name. */
  names: string[];
}

/** Something that both sides changed, each to another value. */
export interface Conflict {
  /** `title`, or `attributes.brand` */
  field: string;
  before: Json | undefined;
  mine: Json | undefined;
  theirs: Json | undefined;
}

export interface Rebased {
  draft: Draft;
  conflicts: Conflict[];
  /** What the other side changed, apart from sources. */
  changed: string[];
}

const FIELDS = ['title', 'sku', 'status'] as const;
const PREFIX = 'attributes.';

export function draftOf(card: Card): Draft {
  return { title: card.title, sku: card.sku, status: card.status, attributes: ownAttributes(card) };
}

export function ownAttributes(card: Card): JsonObject {
  const { sources: _, ...own } = card.attributes;
  return own;
}

/** What the form changes in `base`. */
export function changes(base: Card, draft: Draft): Changes {
  const before = ownAttributes(base);
  const patch: JsonObject = {};
  for (const field of FIELDS) {
    if (draft[field] !== base[field]) patch[field] = draft[field];
  }
  const attributes = mergePatch(before, draft.attributes);
  if (attributes) patch.attributes = attributes;
  const names = [...Object.keys(patch).filter((name) => name !== 'attributes'), ...Object.keys(attributes ?? {})];
  if (names.length === 0) return { names };
  const unpatchable = unpatchableNull(before, draft.attributes);
  return { patch, names, ...(unpatchable !== undefined && { unpatchable }) };
}

/** The draft put on top of what somebody else has saved: what was not touched follows, what was stays. */
export function rebase(base: Card, draft: Draft, theirs: Card): Rebased {
  const before = flat(draftOf(base));
  const mine = flat(draft);
  const now = flat(draftOf(theirs));
  const result = new Map<string, Json>();
  const conflicts: Conflict[] = [];
  const changed: string[] = [];
  for (const field of new Set([...before.keys(), ...now.keys(), ...mine.keys()])) {
    const values = { before: before.get(field), mine: mine.get(field), theirs: now.get(field) };
    const touched = !sameJson(values.before, values.mine);
    const moved = !sameJson(values.before, values.theirs);
    if (moved) changed.push(field.replace(PREFIX, ''));
    if (touched && moved && !sameJson(values.mine, values.theirs)) conflicts.push({ field, ...values });
    const kept = touched ? values.mine : values.theirs;
    if (kept !== undefined) result.set(field, kept);
  }
  return { draft: unflat(result), conflicts, changed };
}

/** `draft` with one field as somebody else has it. */
export function withField(draft: Draft, field: string, value: Json | undefined): Draft {
  const fields = flat(draft);
  if (value === undefined) fields.delete(field);
  else fields.set(field, value);
  return unflat(fields);
}

function flat(draft: Draft): Map<string, Json> {
  const fields = new Map<string, Json>(FIELDS.map((field) => [field, draft[field]]));
  for (const [name, value] of Object.entries(draft.attributes)) fields.set(PREFIX + name, value);
  return fields;
}

function unflat(fields: Map<string, Json>): Draft {
  const attributes = Object.fromEntries([...fields].filter(([field]) => field.startsWith(PREFIX)).map(([field, value]) => [field.slice(PREFIX.length), value]));
  return { title: String(fields.get('title') ?? ''), sku: String(fields.get('sku') ?? ''), status: fields.get('status') as CardStatus, attributes };
}

export type Parsed = { value: JsonObject } | { problem: 'not-json' | 'not-object' | 'sources'; detail?: string };

/** The attributes as somebody typed them. */
export function parseAttributes(text: string): Parsed {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    return { problem: 'not-json', detail: thrown instanceof Error ? thrown.message : String(thrown) };
  }
  if (!isObject(value)) return { problem: 'not-object' };
  return Object.hasOwn(value, 'sources') ? { problem: 'sources' } : { value };
}
