import { fieldError } from '../../api/error.ts';
import type { ProxyRoute } from '../../api/proxy-routes.ts';

/** A route that is being edited; `id` stays while its texts change. */
export interface DraftRoute {
  id: number;
  prefix: string;
  upstream: string;
}

let nextId = 1;

export function draftOf(routes: readonly ProxyRoute[]): DraftRoute[] {
  return routes.filter(({ read_only: fixed }) => !fixed).map(({ prefix, upstream }) => ({ id: nextId++, prefix, upstream }));
}

export function emptyRoute(): DraftRoute {
  return { id: nextId++, prefix: '', upstream: '' };
}

/** How many routes were added, removed or changed. */
export function changeCount(before: readonly ProxyRoute[], draft: readonly DraftRoute[]): number {
  const key = ({ prefix, upstream }: Pick<ProxyRoute, 'prefix' | 'upstream'>) => `${prefix}\n${upstream}`;
  const set = before.filter(({ read_only: fixed }) => !fixed);
  const were = new Set(set.map(key));
  const are = new Set(draft.map(key));
  const added = draft.filter((route) => !were.has(key(route))).length;
  const removed = set.filter((route) => !are.has(key(route))).length;
  return Math.max(added, removed);
}

/** What the server said of one member of one row, by JSON pointer into what was sent. */
export function routeError(error: unknown, row: number, member: 'prefix' | 'upstream'): string | undefined {
  return fieldError(error, `/items/${row}/${member}`);
}
