import { reportClientError } from '../api/plugins.ts';
import { queryClient } from '../api/query-client.ts';
import { request } from '../api/client.ts';
import { ApiError } from '../api/error.ts';
import { session } from '../api/session.svelte.ts';
import type { ActivePlugin, Card } from '../api/types.ts';
import type { CardDetail, HostState } from '../../plugin-host.d.ts';
import { t } from '../i18n/plugin-tab.ts';
import { readPicture } from '../api/pictures.ts';
import { router } from '../router.svelte.ts';
import { preferences } from '../ui/preferences.svelte.ts';
import { toasts } from '../ui/toasts.svelte.ts';
import type { Page } from './facade.ts';
import { uiLocale } from './format.ts';
import type { FrameView } from './frame-protocol.ts';
import { mountFramed, type FrameOptions, type FramedTab } from './frame-tab.ts';
import { PluginHostRuntime, type MountedTab } from './host.ts';
import type { Detail } from './loaded.ts';
import { loadModule, pluginInStack } from './load.ts';
import { keepPageLooks } from './page-looks.ts';
import { PictureAddresses } from './pictures.ts';
import { safeMode } from './safe-mode.ts';
import { Strikes, type Place } from './strikes.ts';
import { PAGE_SHEETS } from './page-sheets.ts';
import { TAB_SHEET } from './tab-sheet.ts';

/** Joins the plugin host to this page. */

/** A script that runs this long without a pause has held up the page. */
const HELD_UP_MS = 5_000;
/** Pictures go through `<img>`, where their addresses are checked. */
const PICTURES = '/pictures';

let card: Card | null = null;
/** More than one when an action is open above a tab. */
const framed = new Set<FramedTab>();
const addresses = new PictureAddresses();

/** The card that plugins see as the current one. */
export function openCard(now: Card | null): void {
  const before = card;
  card = now;
  addresses.learn(now);
  if (!now || !before || now === before || now.id !== before.id) return;
  pluginHost.cardChanged({ item: now });
  for (const tab of framed) tab.cardChanged({ item: now });
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
  sheet.replaceSync(PAGE_SHEETS.elements + TAB_SHEET);
  return sheet;
}

const page: Page = {
  request: async (path, options) => {
    if (decodeURIComponent(path).startsWith(PICTURES)) throw new ApiError(0, 'invalid-path', 'Show a picture by an <img>; apiRequest does not fetch it.');
    const answer = await request(path, options);
    addresses.learn(answer);
    // A plugin that wrote something has most likely written to the card: what the page shows of it is old.
    if (options.method !== 'GET' && options.method !== 'HEAD') void queryClient.invalidateQueries({ queryKey: ['card'] });
    return answer;
  },
  picture: (address) => {
    if (!addresses.has(address)) return Promise.reject(new ApiError(0, 'invalid-picture', 'This address is neither in the card nor in an answer of the server.'));
    return readPicture(address);
  },
  state,
  cardDetail,
  toast: (plugin, message) => toasts.show(`${plugin}: ${message}`),
};

export const pluginHost = new PluginHostRuntime({
  page,
  load: loadModule,
  baseSheet: baseSheet(),
  report: ({ plugin, version, phase, message }) => reportClientError(plugin, { version, phase, message }),
});
pluginHost.watchLateErrors(window);

const strikes = new Strikes(storage(), locks());
const marksRead = strikes.start();

/** Whether the plugin itself asks for a frame around its tab. */
export function asksForFrame(plugin: ActivePlugin, tabId: string): boolean {
  return plugin.tabs.some(({ id, frame }) => id === tabId && frame);
}

/** Where a plugin's tab is to be drawn; `ask` when it is not to be drawn by itself. */
export async function placeFor(plugin: ActivePlugin, tabId: string): Promise<Place | 'ask' | 'safe'> {
  if (safeMode) return 'safe';
  await marksRead;
  const struck = strikes.of(codeOf(plugin));
  if (struck === 'frame') return 'ask';
  return struck || asksForFrame(plugin, tabId) ? 'frame' : 'page';
}

/** The server hears of tabs whose page never came back, from the next page that somebody is signed in on. */
async function reportHangs(): Promise<void> {
  for (const { code, version = '', place } of (await marksRead).splice(0)) {
    reportClientError(pluginInStack(code) ?? code, { version, phase: 'hang', message: `The page ended while this was drawn in the ${place}.` });
  }
}

/** Somebody wants it in the page all the same. */
export function forgive(plugin: ActivePlugin): void {
  strikes.forgive(codeOf(plugin));
}

export type TabEvents = Pick<FrameOptions, 'late' | 'touched' | 'closed'>;

/** Draws a tab, a page or an action, in the page or apart from it, and undoes on leaving what it did to the page. */
export function openTab(slot: HTMLElement, plugin: ActivePlugin, tabId: string, place: Place, events: TabEvents, detail: Detail = cardDetail()): MountedTab {
  const code = codeOf(plugin);
  const restoreLooks = keepPageLooks();
  strikes.begin({ code, version: plugin.version, place });
  const tab = place === 'page' ? openInPage(slot, plugin, tabId, events, detail) : openInFrame(slot, plugin, tabId, events, detail);
  return {
    done: tab.done,
    dispose() {
      tab.dispose();
      strikes.end(code);
      restoreLooks();
    },
  };
}

function openInPage(slot: HTMLElement, plugin: ActivePlugin, tabId: string, events: TabEvents, detail: Detail): MountedTab {
  const stopWatching = watchFrames(plugin.name, (ms) => {
    strikes.strike(codeOf(plugin), 'page');
    const message = t('heldUp', { seconds: Math.round(ms / 1000) });
    reportClientError(plugin.name, { version: plugin.version, phase: 'hang', message });
    events.late(message);
  });
  const tab = pluginHost.mount(slot, plugin, tabId, detail);
  return {
    done: tab.done,
    dispose() {
      stopWatching();
      tab.dispose();
    },
  };
}

function openInFrame(slot: HTMLElement, plugin: ActivePlugin, tabId: string, events: TabEvents, detail: Detail): MountedTab {
  const tab = mountFramed(slot, plugin, tabId, detail, {
    ...events,
    page,
    view,
    report: (phase, message) => reportClientError(plugin.name, { version: plugin.version, phase, message }),
  });
  framed.add(tab);
  return {
    done: tab.done,
    dispose() {
      framed.delete(tab);
      tab.dispose();
    },
  };
}

function view(): FrameView {
  const { theme, density, language } = preferences;
  return { state: state(), theme, density, language };
}

function codeOf(plugin: ActivePlugin): string {
  return plugin.frontend?.main_url ?? plugin.name;
}

interface AnimationFrameTiming extends PerformanceEntry {
  scripts: readonly { duration: number; sourceURL: string }[];
}

/** Hears of scripts of `plugin` that held up the page and ended in the end, where the browser tells of them. */
function watchFrames(plugin: string, heldUp: (ms: number) => void): () => void {
  const type = 'long-animation-frame';
  if (!globalThis.PerformanceObserver?.supportedEntryTypes.includes(type)) return () => {};
  const observer = new PerformanceObserver((list) => {
    for (const { scripts } of list.getEntries() as AnimationFrameTiming[]) {
      const worst = scripts.find(({ duration, sourceURL }) => duration > HELD_UP_MS && pluginInStack(sourceURL) === plugin);
      if (worst) heldUp(worst.duration);
    }
  });
  observer.observe({ type });
  return () => observer.disconnect();
}

function storage(): Storage | null {
  try {
    return localStorage;
  } catch {
    return null; // switched off by the browser
  }
}

function locks() {
  const { locks: manager } = navigator;
  if (!manager) return null;
  return {
    hold: (name: string) => void manager.request(name, () => new Promise(() => {})),
    held: async () => new Set((await manager.query()).held?.map(({ name }) => name ?? '')),
  };
}

addEventListener('pagehide', () => strikes.hidden(true));
document.addEventListener('visibilitychange', () => strikes.hidden(document.hidden));

$effect.root(() => {
  $effect(() => {
    if (session.phase === 'signed-in') void reportHangs();
  });
  // Another user gets plugins that never saw the first one.
  $effect(() => {
    if (session.phase !== 'signed-out') return;
    pluginHost.unloadAll();
    addresses.forget();
  });
  $effect(() => {
    view();
    for (const tab of framed) tab.viewChanged();
  });
});
