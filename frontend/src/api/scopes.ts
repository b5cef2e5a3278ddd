/**
 * Whether `scopes` allow `needed` (`resource:action`), by the server's rules: `*` is all,
 * `resource:*` all of a resource, write implies read, `plugin:*:action` every plugin.
 * The server decides in the end; this keeps the UI from offering what it would refuse.
 */
export function holds(scopes: readonly string[], needed: string): boolean {
  return scopes.some((scope) => covers(scope, needed));
}

/** The actions that never come with a wildcard of a key; only a login session has them. */
const NEVER_DELEGATED = new Set(['mcp:approve']);

function covers(scope: string, needed: string): boolean {
  if (scope === '*' || scope === needed) return true;
  const have = scope.split(':');
  const need = needed.split(':');
  if (have.length < need.length) return have.at(-1) === '*' && have.slice(0, -1).every((part, i) => part === need[i]);
  if (have.length !== need.length) return false;
  return have.every((part, i) => part === need[i] || part === '*' || (i === need.length - 1 && part === 'write' && need[i] === 'read'));
}

export interface ScopeChoice {
  scope: string;
  label: string;
}

export interface ScopeGroup {
  title: string;
  choices: ScopeChoice[];
}

/** The scopes that a key can be given, grouped as the form shows them. */
export function scopeGroups(plugins: readonly { name: string; title: string | null }[]): ScopeGroup[] {
  return [
    { title: 'MCP', choices: [
      { scope: 'mcp:use', label: 'speak MCP' },
      { scope: 'mcp:unattended', label: 'run tools that need confirmation without a person' },
    ] },
    { title: 'Cards', choices: pair('cards').concat({ scope: 'cards:purge', label: 'remove for good' }) },
    { title: 'All plugins, later ones too', choices: pair('plugin:*') },
    ...plugins.map((plugin) => ({ title: `Plugin ${plugin.title ?? plugin.name}`, choices: pair(`plugin:${plugin.name}`) })),
    { title: 'Jobs', choices: pair('jobs') },
    { title: 'API keys', choices: pair('keys') },
    { title: 'Users', choices: pair('users') },
    { title: 'Plugin management', choices: [
      { scope: 'plugins:read', label: 'read' },
      { scope: 'plugins:manage', label: 'manage' },
    ] },
    { title: 'Audit', choices: [{ scope: 'audit:read', label: 'read' }] },
    { title: 'System', choices: pair('system') },
    { title: 'Proxy', choices: pair('proxy') },
  ];
}

function pair(resource: string): ScopeChoice[] {
  return [
    { scope: `${resource}:read`, label: 'read' },
    { scope: `${resource}:write`, label: 'write' },
  ];
}

export interface ScopePreset {
  id: string;
  label: string;
  explanation: string;
  scopes: string[];
}

export const SCOPE_PRESETS: readonly ScopePreset[] = [
  {
    id: 'mcp',
    label: 'MCP client',
    explanation: 'Use every plugin’s tools and read cards. Tools that need confirmation still ask a person.',
    scopes: ['mcp:use', 'cards:read', 'plugin:*:read', 'plugin:*:write'],
  },
  {
    id: 'read',
    label: 'Read only',
    explanation: 'Read cards and what plugins show. Changes nothing.',
    scopes: ['cards:read', 'plugin:*:read'],
  },
  {
    id: 'integration',
    label: 'Integration',
    explanation: 'Read and write cards, call every plugin.',
    scopes: ['cards:write', 'plugin:*:write'],
  },
  {
    id: 'all',
    label: 'Full access',
    explanation: 'Everything that you may do yourself, except approving on behalf of a person.',
    scopes: ['*'],
  },
];

/** Only what the caller has can be granted; a preset that asks for more is not offered. */
export function grantable(own: readonly string[], wanted: string): boolean {
  return holds(own, wanted) && !NEVER_DELEGATED.has(wanted);
}
