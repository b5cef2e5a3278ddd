import { isObject, mergePatch, unpatchableNull } from '../../api/merge-patch.ts';
import type { Card, CardStatus, JsonObject } from '../../api/types.ts';

/** The form's text, as typed. */
export interface Draft {
  title: string;
  sku: string;
  status: CardStatus;
  attributes: string;
}

export interface Changes {
  /** What to send; absent when nothing has changed or the text is not usable. */
  patch?: JsonObject;
  /** Why the attributes' text is not usable. */
  problem?: string;
}

export function draftOf(card: Card): Draft {
  return { title: card.title, sku: card.sku, status: card.status, attributes: JSON.stringify(ownAttributes(card), null, 2) };
}

/** The attributes without what plugins wrote, which nobody edits. */
export function ownAttributes(card: Card): JsonObject {
  const { sources: _, ...own } = card.attributes;
  return own;
}

/** What the form changes in `base`. */
export function changes(base: Card, draft: Draft): Changes {
  const before = ownAttributes(base);
  const patch: JsonObject = {};
  for (const field of ['title', 'sku', 'status'] as const) {
    if (draft[field] !== base[field]) patch[field] = draft[field];
  }
  const parsed = parseAttributes(draft.attributes, before);
  if (typeof parsed === 'string') return { problem: parsed };
  const attributes = mergePatch(before, parsed);
  if (attributes) patch.attributes = attributes;
  return Object.keys(patch).length ? { patch } : {};
}

function parseAttributes(text: string, before: JsonObject): JsonObject | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    return `Not JSON: ${thrown instanceof Error ? thrown.message : thrown}`;
  }
  if (!isObject(value)) return 'The attributes must be an object, { … }.';
  if (Object.hasOwn(value, 'sources')) return '“sources” belongs to the plugins and cannot be set here.';
  const nulled = unpatchableNull(before, value);
  if (nulled !== undefined) return `${nulled} is null, which would remove it: leave the name out instead.`;
  return value;
}
