import { query, request } from './client.ts';

/** A page of a list that goes on behind `next_cursor`. */
export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

/** All pages up to a bound, for lists that are short by nature. */
export async function allPages<T>(path: string, values: Record<string, string | number | null>, signal: AbortSignal, mostPages = 10): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | null = null;
  for (let i = 0; i < mostPages; i += 1) {
    const page: Page<T> = await request(path + query({ ...values, cursor }), { signal });
    items.push(...page.items);
    cursor = page.next_cursor ?? null;
    if (!cursor) break;
  }
  return items;
}
