import { t } from '../../i18n/keys.ts';

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
      { scope: 'mcp:use', label: t('may_mcp') },
      { scope: 'mcp:unattended', label: t('may_unattended') },
    ] },
    { title: t('of_cards'), choices: pair('cards').concat({ scope: 'cards:purge', label: t('may_purge') }) },
    { title: t('of_allPlugins'), choices: pair('plugin:*') },
    ...plugins.map((plugin) => ({ title: t('of_plugin', { title: plugin.title ?? plugin.name }), choices: pair(`plugin:${plugin.name}`) })),
    { title: t('of_jobs'), choices: pair('jobs') },
    { title: t('of_keys'), choices: pair('keys') },
    { title: t('of_users'), choices: pair('users') },
    { title: t('of_management'), choices: [
      { scope: 'plugins:read', label: t('may_read') },
      { scope: 'plugins:manage', label: t('may_manage') },
    ] },
    { title: t('of_audit'), choices: [{ scope: 'audit:read', label: t('may_read') }] },
    { title: t('of_system'), choices: pair('system') },
    { title: t('of_proxy'), choices: pair('proxy') },
  ];
}

function pair(resource: string): ScopeChoice[] {
  return [
    { scope: `${resource}:read`, label: t('may_read') },
    { scope: `${resource}:write`, label: t('may_write') },
  ];
}
