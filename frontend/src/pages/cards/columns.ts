import type { RoutedColumn } from '../../api/column-values.ts';
import type { ActivePlugin, ListColumn } from '../../api/types.ts';
import { t } from '../../i18n/cards.ts';
import { COVERAGE, DEFAULT_COLUMNS, PICTURE } from './list-query.ts';

/** How the columns of the list are called, which of them sort, and which need a card's attributes. */

const SORTS = new Set(['title', 'sku', 'created_at', 'updated_at']);
export const MEMBERS = ['sku', 'status', 'version', 'created_at', 'updated_at', 'id'] as const;

/** Begins the column of a plugin; saved views take it for the path of an attribute. */
const PLUGIN_COLUMN = 'attributes.column:';

/** The plugins' columns, by their ids in the list. */
export function pluginColumns(plugins: readonly ActivePlugin[] = []): Map<string, ListColumn> {
  return new Map(plugins.flatMap(({ list_columns }) => list_columns).map((column) => [PLUGIN_COLUMN + column.id, column]));
}

/** Those of the columns in the list that a plugin's route has the values of, by their ids in the list. */
export function routedColumns(shown: readonly string[], plugins: readonly ActivePlugin[] = []): Map<string, RoutedColumn> {
  const routed = plugins.flatMap(({ api_prefix, list_columns }) =>
    list_columns.flatMap((column) => ('route' in column && api_prefix !== null ? [[PLUGIN_COLUMN + column.id, { ...column, prefix: api_prefix }] as const] : [])),
  );
  return new Map(routed.filter(([id]) => shown.includes(id)));
}

export function columnLabel(id: string, own: ReadonlyMap<string, ListColumn>): string {
  switch (id) {
    case PICTURE: return t('picture');
    case COVERAGE: return t('coverage');
    case 'title': return t('title');
    case 'sku': return t('sku');
    case 'status': return t('status');
    case 'version': return t('version');
    case 'created_at': return t('created');
    case 'updated_at': return t('updated');
    case 'id': return t('id');
    case 'attributes.brand': return t('brand');
    case 'attributes.price': return t('price');
    default: return own.get(id)?.label ?? id.replace(/^attributes\.(column:)?/, '');
  }
}

export const sortOf = (id: string): string | null => (SORTS.has(id) ? id : null);
export const needsAttributes = (id: string): boolean => id.startsWith('attributes.');
export const isNumeric = (id: string, own: ReadonlyMap<string, ListColumn>): boolean => ['number', 'percent'].includes(own.get(id)?.format ?? '') || id === 'version' || id.endsWith('_at') || /(^|\.|_)price$/.test(id);

/** What can be chosen: the members of a card, the usual columns, those of plugins, and the attributes that the cards at hand have. */
export function choosable(shown: readonly string[], seen: Iterable<string>, own: ReadonlyMap<string, ListColumn>): string[] {
  const attributes = [...seen].map((name) => `attributes.${name}`).toSorted((a, b) => a.localeCompare(b));
  return [...new Set([...shown, ...DEFAULT_COLUMNS, ...own.keys(), ...MEMBERS, ...attributes])].filter((id) => id !== 'title');
}
