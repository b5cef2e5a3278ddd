/** The names in braces of a route's path: `/enrich/{card_id}`, `/files/{*rest}`. */
export function pathParameters(path: string): string[] {
  return [...path.matchAll(/\{\*?([^}]+)\}/g)].map(([, name = '']) => name);
}

/** The path with its parameters and query filled in; slashes stay only in a parameter that takes the rest of the path. */
export function filledPath(path: string, values: Readonly<Record<string, string>>, query: string): string {
  const filled = path.replace(/\{(\*?)([^}]+)\}/g, (_, rest: string, name: string) => {
    const value = values[name] ?? '';
    return rest ? value.split('/').map(encodeURIComponent).join('/') : encodeURIComponent(value);
  });
  const text = query.trim().replace(/^\?/, '');
  return text ? `${filled}?${new URLSearchParams(text)}` : filled;
}

/** What a tool's schema asks for, to be filled in. */
export function sampleOf(schema: unknown): Record<string, unknown> {
  const { properties, required } = (schema ?? {}) as { properties?: Record<string, { type?: unknown; default?: unknown }>; required?: string[] };
  const EMPTY: Record<string, unknown> = { string: '', integer: 0, number: 0, boolean: false, array: [], object: {} };
  return Object.fromEntries((required ?? []).map((name) => [name, properties?.[name]?.default ?? EMPTY[String(properties?.[name]?.type)] ?? null]));
}

/** How an answer is shown: JSON in lines, anything else as it came. */
export function shownBody(data: unknown): string {
  if (data === null || data === '') return '';
  return typeof data === 'string' ? data : JSON.stringify(data, null, 2);
}
