import type { CardFilter, CardQuery } from '../../api/cards.ts';
import type { View, ViewContent } from '../../api/views.ts';

/** What the address of the list says, and back. */

export const FILTERS = ['status', 'kind', 'missing_kind', 'plugin', 'updated_since', 'deleted'] as const;
export type FilterName = (typeof FILTERS)[number];
export const DEFAULT_SORT = '-updated_at';

export interface ListState {
  filter: CardFilter;
  sort: string;
  cursor: string;
  columns: string[];
  /** The id of the saved view that was opened, whatever was changed since. */
  view: string;
}

/** Ids are members of a card or paths below `attributes`, as saved views take them; two of them are drawn as more than a value. */
export const PICTURE = 'attributes.image';
export const COVERAGE = 'attributes.sources';
export const DEFAULT_COLUMNS: readonly string[] = [PICTURE, 'title', 'sku', 'attributes.brand', 'attributes.price', COVERAGE, 'status', 'updated_at'];

export function readList(search: URLSearchParams): ListState {
  const filter: CardFilter = {};
  for (const name of ['q', ...FILTERS] as const) {
    const value = search.get(name);
    if (value) filter[name] = value;
  }
  const columns = (search.get('columns') ?? '').split(',').filter(Boolean);
  return { filter, sort: search.get('sort') || DEFAULT_SORT, cursor: search.get('cursor') ?? '', columns: columns.length ? withTitle(columns) : [...DEFAULT_COLUMNS], view: search.get('view') ?? '' };
}

/** Without a title there is nothing to open a card by. */
function withTitle(columns: string[]): string[] {
  return columns.includes('title') ? columns : ['title', ...columns];
}

export function askedOf(state: ListState): CardQuery {
  return { ...state.filter, sort: state.sort, cursor: state.cursor };
}

/** The columns as the address has them: nothing for the usual ones. */
export function columnsParam(columns: readonly string[]): string {
  return columns.join() === DEFAULT_COLUMNS.join() ? '' : columns.join();
}

export function viewHref(view: View | null): string {
  const search = new URLSearchParams();
  if (view) {
    search.set('view', view.id);
    for (const [name, value] of Object.entries(view.filter)) search.set(name, String(value));
    if (view.sort && view.sort !== DEFAULT_SORT) search.set('sort', view.sort);
    const columns = columnsParam(view.columns ?? DEFAULT_COLUMNS);
    if (columns) search.set('columns', columns);
  }
  return `/cards${search.size ? `?${search}` : ''}`;
}

/** What a view would keep of the list as it is. */
export function viewOf(state: ListState, name: string): ViewContent {
  const columns = columnsParam(state.columns) ? state.columns : null;
  return { name, filter: { ...(state.filter as Record<string, string>) }, sort: state.sort === DEFAULT_SORT ? null : state.sort, columns };
}

/** Whether the list shows something else than the view it was opened by. */
export function differsFrom(state: ListState, view: View): boolean {
  const shown = viewOf(state, view.name);
  const sorted = (filter: Record<string, unknown>) => JSON.stringify(Object.entries(filter).map(([name, value]) => [name, String(value)]).toSorted());
  return sorted(shown.filter) !== sorted(view.filter) || (shown.sort ?? DEFAULT_SORT) !== (view.sort ?? DEFAULT_SORT) || (shown.columns ?? DEFAULT_COLUMNS).join() !== (view.columns ?? DEFAULT_COLUMNS).join();
}

export function isFiltered(filter: CardFilter): boolean {
  return Object.keys(filter).length > 0;
}
