import type { Component } from 'svelte';
import { t } from './i18n/nav.ts';
import type { IconName } from './ui/icons.ts';

/** Every page: its path below `/admin`, the scope without which it shows nothing, and its code, fetched when first opened. */
export interface Page {
  pattern: RegExp;
  scope: string;
  /** A page takes the named groups of its pattern as `params`, or nothing. */
  load: () => Promise<{ default: Component<any> }>;
}

export const PAGES: readonly Page[] = [
  { pattern: /^\/cards$/, scope: 'cards:read', load: () => import('./pages/Cards.svelte') },
  { pattern: /^\/cards\/(?<id>[^/]+)$/, scope: 'cards:read', load: () => import('./pages/card/CardPage.svelte') },
  { pattern: /^\/mcp\/keys$/, scope: 'keys:read', load: () => import('./pages/keys/Keys.svelte') },
  { pattern: /^\/plugins$/, scope: 'plugins:read', load: () => import('./pages/plugins/Plugins.svelte') },
  { pattern: /^\/plugins\/(?<name>[^/]+)$/, scope: 'plugins:read', load: () => import('./pages/plugins/PluginPage.svelte') },
];

export interface NavigationEntry {
  path: string;
  /** Called while drawing, so that it follows the language. */
  label: () => string;
  scope: string;
  icon: IconName;
  /** Below the heading "Operate". */
  operate?: boolean;
  /** Pressed after `g`. */
  key?: string;
}

export const NAVIGATION: readonly NavigationEntry[] = [
  { path: '/cards', label: () => t('cards'), scope: 'cards:read', icon: 'cards', key: 'c' },
  { path: '/plugins', label: () => t('plugins'), scope: 'plugins:read', icon: 'plug', operate: true, key: 'p' },
  { path: '/mcp/keys', label: () => t('keys'), scope: 'keys:read', icon: 'key', operate: true, key: 'k' },
];

export interface Found {
  page: Page;
  params: Record<string, string>;
}

export function findPage(path: string): Found | null {
  for (const page of PAGES) {
    const match = page.pattern.exec(path);
    if (match) return { page, params: { ...match.groups } };
  }
  return null;
}
