import { query, request } from './client.ts';
import type { Json, ListColumn } from './types.ts';

/** Cards that a plugin's route is asked for at once. */
const BATCH = 50;

/** A column whose values a route answers with. */
export type RoutedColumn = ListColumn & {
  route: string;
  /** Where the plugin's routes are. */
  prefix: string;
};

/** What a plugin says of these cards, by card. Those that it says nothing of are not among them. */
export async function columnValues({ prefix, route }: RoutedColumn, ids: readonly string[], signal: AbortSignal): Promise<Map<string, Json>> {
  const values = new Map<string, Json>();
  for (let at = 0; at < ids.length; at += BATCH) {
    const asked = ids.slice(at, at + BATCH);
    const path = `/plugins/${encodeURIComponent(prefix)}${route}${query({ card_ids: asked.join(',') })}`;
    const answer = (await request<{ values?: Record<string, Json> } | null>(path, { signal }))?.values ?? {};
    for (const id of asked) {
      const value = Object.hasOwn(answer, id) ? answer[id] : undefined;
      if (value !== undefined && value !== null) values.set(id, value);
    }
  }
  return values;
}
