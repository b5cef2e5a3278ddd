import type { Component } from 'svelte';
import type { ActivePlugin } from './api/types.ts';
import { loadChunk } from './chunks.ts';
import { t } from './i18n/nav.ts';
import type { IconName } from './ui/icons.ts';

/** Every page: its path below `/admin`, the scope without which it shows nothing, and its code, fetched when first opened. */
export interface Page {
  pattern: RegExp;
  /** `''`: whoever is signed in. */
  scope: string;
  /** A page takes the named groups of its pattern as `params`, or nothing. */
  load: () => Promise<{ default: Component<any> }>;
}

export const PAGES: readonly Page[] = [
  { pattern: /^\/$/, scope: '', load: () => import('./pages/home/Home.svelte') },
  { pattern: /^\/cards$/, scope: 'cards:read', load: () => import('./pages/cards/Cards.svelte') },
  { pattern: /^\/cards\/(?<id>[^/]+)$/, scope: 'cards:read', load: () => import('./pages/card/CardPage.svelte') },
  { pattern: /^\/pages\/(?<id>[^/]+)(\/.*)?$/, scope: '', load: () => import('./pages/card/ContributedPage.svelte') },
  { pattern: /^\/import$/, scope: 'cards:write', load: () => import('./pages/import/Import.svelte') },
  { pattern: /^\/mcp\/keys$/, scope: 'keys:read', load: () => import('./pages/keys/Keys.svelte') },
  { pattern: /^\/approvals$/, scope: 'mcp:approve', load: () => import('./pages/approvals/Approvals.svelte') },
  { pattern: /^\/users$/, scope: 'users:read', load: () => import('./pages/users/Users.svelte') },
  { pattern: /^\/account$/, scope: '', load: () => import('./pages/account/Account.svelte') },
  { pattern: /^\/audit$/, scope: 'audit:read', load: () => import('./pages/operate/Audit.svelte') },
  { pattern: /^\/system$/, scope: 'system:read', load: () => import('./pages/operate/System.svelte') },
  { pattern: /^\/kinds$/, scope: 'plugins:read', load: () => import('./pages/operate/Kinds.svelte') },
  { pattern: /^\/proxy$/, scope: 'proxy:read', load: () => import('./pages/operate/ProxyRoutes.svelte') },
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

const NAVIGATION: readonly NavigationEntry[] = [
  { path: '/', label: () => t('home'), scope: '', icon: 'home', key: 'h' },
  { path: '/cards', label: () => t('cards'), scope: 'cards:read', icon: 'cards', key: 'c' },
  { path: '/import', label: () => t('import'), scope: 'cards:write', icon: 'download', key: 'i' },
  { path: '/plugins', label: () => t('plugins'), scope: 'plugins:read', icon: 'plug', operate: true, key: 'p' },
  { path: '/mcp/keys', label: () => t('keys'), scope: 'keys:read', icon: 'key', operate: true, key: 'k' },
  { path: '/approvals', label: () => t('approvals'), scope: 'mcp:approve', icon: 'shield', operate: true, key: 'w' },
  { path: '/users', label: () => t('users'), scope: 'users:read', icon: 'users', operate: true, key: 'u' },
  { path: '/audit', label: () => t('audit'), scope: 'audit:read', icon: 'audit', operate: true, key: 'a' },
  { path: '/kinds', label: () => t('kinds'), scope: 'plugins:read', icon: 'tag', operate: true },
  { path: '/proxy', label: () => t('proxyRoutes'), scope: 'proxy:read', icon: 'route', operate: true },
  { path: '/system', label: () => t('system'), scope: 'system:read', icon: 'gear', operate: true, key: 's' },
];

/** All that `may` see, with the pages that plugins contribute. */
export function navigation(may: (scope: string) => boolean, plugins: readonly ActivePlugin[] = []): NavigationEntry[] {
  const own = plugins.filter(({ frontend }) => frontend).flatMap(({ pages }) => pages);
  return [...NAVIGATION.filter(({ scope }) => may(scope)), ...own.map(({ id, label }): NavigationEntry => ({ path: `/pages/${id}`, label: () => label, scope: '', icon: 'plug' }))];
}

export interface Found {
  page: Page;
  params: Record<string, string>;
}

// A page as it was fetched; its key is its row above.
const fetched = new Map<Page, Component<any>>();
const coming = new Map<Page, Promise<Component<any>>>();

/** A page's code: at once when it is there, else when it comes. */
export function loadPage(page: Page): Component<any> | Promise<Component<any>> {
  const there = fetched.get(page);
  if (there) return there;
  const begun = coming.get(page);
  if (begun) return begun;
  const load = loadChunk(page.load).then(({ default: Content }) => {
    fetched.set(page, Content);
    return Content;
  });
  coming.set(page, load);
  load.catch(() => {}).finally(() => coming.delete(page));
  return load;
}

/** What has to be waited for before the page at `path` can be shown; null when that is nothing. */
export function preparePage(path: string): Promise<unknown> | null {
  const page = findPage(path)?.page;
  const code = page && loadPage(page);
  return code instanceof Promise ? code : null;
}

/** Fetches all pages for which `may` holds, one after the other, while the browser has nothing else to do. */
export async function prefetchPages(may: (scope: string) => boolean): Promise<void> {
  for (const page of PAGES.filter(({ scope }) => may(scope))) {
    await idle();
    try {
      await loadPage(page);
    } catch {
      return; // whoever opens the page hears why
    }
  }
}

function idle(): Promise<void> {
  return new Promise((resolve) => {
    if ('requestIdleCallback' in globalThis) requestIdleCallback(() => resolve(), { timeout: 5_000 });
    else setTimeout(resolve, 200);
  });
}

export function findPage(path: string): Found | null {
  for (const page of PAGES) {
    const match = page.pattern.exec(path);
    if (match) return { page, params: { ...match.groups } };
  }
  return null;
}
