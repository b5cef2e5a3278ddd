import { session } from '../api/session.svelte.ts';
import { t } from '../i18n/shell.ts';
import { jobsDrawer } from '../jobs/drawer.svelte.ts';
import { safeMode, switchSafeMode } from '../plugin-host/safe-mode.ts';
import { router } from '../router.svelte.ts';
import type { Action } from '../ui/actions.svelte.ts';
import { preferences } from '../ui/preferences.svelte.ts';

/** What the palette offers on every page, as far as the user may do it. */
export function everywhere(): Action[] {
  const to = (scope: string, label: string, icon: Action['icon'], path: string) => (session.can(scope) ? [{ label, icon, run: () => router.go(path) }] : []);
  const isDark = preferences.shownTheme === 'dark';
  return [
    ...to('cards:write', t('newCard'), 'plus', '/cards?new=1'),
    ...to('cards:write', t('importFile'), 'download', '/import'),
    ...(session.can('keys:read') ? to('keys:write', t('newKey'), 'key', '/mcp/keys?new=1') : []),
    ...to('keys:read', t('connectClient'), 'plug', '/mcp/keys?tab=connect'),
    ...(session.can('users:read') ? to('users:write', t('newUser'), 'users', '/users?new=1') : []),
    ...to('plugins:manage', t('uploadPlugin'), 'plug', '/plugins?new=1'),
    ...(session.can('jobs:read') ? [{ label: t('showJobs'), icon: 'list' as const, run: () => jobsDrawer.open() }] : []),
    { label: isDark ? t('lightTheme') : t('darkTheme'), icon: 'toggle', run: () => (preferences.theme = isDark ? 'light' : 'dark') },
    { label: safeMode ? t('leaveSafeMode') : t('openSafeMode'), icon: 'plug', run: switchSafeMode },
    ...to('', t('account'), 'user', '/account'),
    { label: t('signOut'), icon: 'open', run: () => void session.signOut() },
  ];
}
