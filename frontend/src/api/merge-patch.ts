import type { Json, JsonObject } from './types.ts';

/** The RFC 7396 merge patch that turns `from` into `to`; undefined when they are equal. */
export function mergePatch(from: JsonObject, to: JsonObject): JsonObject | undefined {
  const patch: JsonObject = {};
  for (const key of Object.keys(from)) {
    if (!Object.hasOwn(to, key)) define(patch, key, null);
  }
  for (const [key, value] of Object.entries(to)) {
    const before = Object.hasOwn(from, key) ? from[key] : undefined;
    if (isObject(before) && isObject(value)) {
      const inner = mergePatch(before, value);
      if (inner) define(patch, key, inner);
    } else if (before === undefined || !sameJson(before, value)) {
      define(patch, key, value);
    }
  }
  return Object.keys(patch).length ? patch : undefined;
}

/**
 * A merge patch says "remove" with null, so a null that was not there before cannot be stored by one.
 * Returns the JSON pointer of the first such null.
 */
export function unpatchableNull(from: Json | undefined, to: Json, pointer = ''): string | undefined {
  if (to === null) return from === null ? undefined : pointer;
  if (!isObject(to)) return undefined;
  for (const [key, value] of Object.entries(to)) {
    const before = isObject(from) && Object.hasOwn(from, key) ? from[key] : undefined;
    const found = unpatchableNull(before, value, `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`);
    if (found !== undefined) return found;
  }
  return undefined;
}

export function sameJson(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((value, i) => sameJson(value, b[i]));
  if (!isObject(a) || !isObject(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && sameJson(a[key], b[key]));
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Assignment would set the prototype for a key named `__proto__`. */
function define(target: JsonObject, key: string, value: Json): void {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}
