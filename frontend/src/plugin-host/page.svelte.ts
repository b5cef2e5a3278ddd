import { reportClientError } from '../api/plugins.ts';
import { queryClient } from '../api/query-client.ts';
import { request } from '../api/client.ts';
import { session } from '../api/session.svelte.ts';
import type { Card } from '../api/types.ts';
import type { CardDetail, HostState } from '../../plugin-host.d.ts';
import { router } from '../router.svelte.ts';
import elements from '../styles/elements.css?inline';
import { preferences } from '../ui/preferences.svelte.ts';
import { toasts } from '../ui/toasts.svelte.ts';
import { uiLocale } from './format.ts';
import { PluginHostRuntime } from './host.ts';
import { loadModule } from './load.ts';

/** Joins the plugin host to this page. */

const TAB_SHEET = ':host { display: block; color: var(--text); }';

let card: Card | null = null;

/** The card that plugins see as the current one. */
export function openCard(now: Card | null): void {
  card = now;
}

function cardDetail(): CardDetail {
  return card ? { item: card } : {};
}

function state(): HostState {
  const { path, search } = router.place;
  return {
    user: session.me ? { id: session.me.user.id, username: session.me.user.username } : null,
    locale: uiLocale(),
    theme: preferences.shownTheme,
    scopes: [...(session.me?.scopes ?? [])],
    route: path + (search.size ? `?${search}` : ''),
  };
}

function baseSheet(): CSSStyleSheet {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(elements + TAB_SHEET);
  return sheet;
}

export const pluginHost = new PluginHostRuntime({
  page: {
    request: async (path, options) => {
      const answer = await request(path, options);
      // A plugin that wrote something has most likely written to the card: what the page shows of it is old.
      if (options.method !== 'GET' && options.method !== 'HEAD') void queryClient.invalidateQueries({ queryKey: ['card'] });
      return answer;
    },
    state,
    cardDetail,
    toast: (plugin, message) => toasts.show(`${plugin}: ${message}`),
  },
  load: loadModule,
  baseSheet: baseSheet(),
  report: ({ plugin, version, phase, message }) => reportClientError(plugin, { version, phase, message }),
});
pluginHost.watchLateErrors(window);

// Another user gets plugins that never saw the first one.
$effect.root(() => {
  $effect(() => {
    if (session.phase === 'signed-out') pluginHost.unloadAll();
  });
});
