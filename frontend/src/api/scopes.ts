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

export interface ScopePreset {
  id: 'mcp' | 'read' | 'integration' | 'all';
  scopes: string[];
}

export const SCOPE_PRESETS: readonly ScopePreset[] = [
  { id: 'mcp', scopes: ['mcp:use', 'cards:read', 'plugin:*:read', 'plugin:*:write'] },
  { id: 'read', scopes: ['cards:read', 'plugin:*:read'] },
  { id: 'integration', scopes: ['cards:write', 'plugin:*:write'] },
  { id: 'all', scopes: ['*'] },
];

/** Only what the caller has can be granted; a preset that asks for more is not offered. */
export function grantable(own: readonly string[], wanted: string): boolean {
  return holds(own, wanted) && !NEVER_DELEGATED.has(wanted);
}
