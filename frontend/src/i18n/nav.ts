import { catalogue } from './catalogue.svelte.ts';

/** Names of pages, in the navigation and in the palette. */
export const texts = {
  approvals: 'Approvals',
  audit: 'Audit',
  cards: 'Cards',
  home: 'Home',
  import: 'Import',
  keys: 'MCP & keys',
  kinds: 'Kinds',
  plugins: 'Plugins',
  proxyRoutes: 'Proxy routes',
  system: 'System',
  users: 'Users',
} as const;

export const t = catalogue('nav', texts);
