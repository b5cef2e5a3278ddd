import type { ApiRequestOptions, CardDetail, CardListener, HostState, PluginHost } from '../../plugin-host.d.ts';
import { ApiError } from '../api/error.ts';
import type { RequestOptions } from '../api/client.ts';
import type { ActivePlugin } from '../api/types.ts';
import { resolveApiPath } from './api-path.ts';
import { Lane, RateGate } from './flood.ts';
import { esc, formatDate, formatMoney } from './format.ts';
import { actionKey, pageKey, type Renderer } from './loaded.ts';

const REQUESTS_AT_ONCE = 6;
const REQUESTS_WAITING = 200;
const TOASTS_PER_WINDOW = 5;
const TOAST_WINDOW_MS = 10_000;
const TOAST_MAX_LENGTH = 300;
const MAX_SHEETS = 64;

/** What the page gives the plugin host; the token is not among it. */
export interface Page {
  request(path: string, options: RequestOptions): Promise<unknown>;
  state(): HostState;
  cardDetail(): CardDetail;
  toast(plugin: string, message: string): void;
  /** The bytes of a picture of the web, for a tab that shows it. */
  picture(address: string): Promise<Blob>;
}

/** The part of a loaded plugin that its facade works on. */
export interface Owner {
  readonly name: string;
  readonly plugin: Pick<ActivePlugin, 'tabs' | 'pages' | 'card_actions'>;
  readonly signal: AbortSignal;
  addSheet(sheet: CSSStyleSheet): void;
  onDispose(fn: () => void): void;
  onCardChanged(fn: CardListener): () => void;
  register(key: string, fn: Renderer): void;
  /** Marks an error as this plugin's, should nobody catch it. */
  own(error: object): void;
}

/** The object that `activate(host)` receives: frozen, and bound to one plugin. */
export function createFacade(owner: Owner, page: Page): Required<PluginHost> {
  const lane = new Lane(REQUESTS_AT_ONCE, REQUESTS_WAITING, () =>
    new ApiError(0, 'too-many-requests', `More than ${REQUESTS_WAITING} requests of this plugin are waiting.`));
  const toasts = new RateGate(TOASTS_PER_WINDOW, TOAST_WINDOW_MS);
  let sheets = 0;
  const register = (what: string, list: string, declared: readonly { id: string }[], key: (id: string) => string) => (id: string, fn: Renderer) => {
    if (!declared.some((one) => one.id === id)) {
      throw new Error(`${what} "${id}" is not in the manifest's contributes.${list} (declared: ${declared.map((one) => one.id).join(', ') || 'none'}).`);
    }
    if (typeof fn !== 'function') throw new TypeError(`The renderer of ${what.toLowerCase()} "${id}" is not a function.`);
    owner.register(key(id), fn);
  };

  return Object.freeze<Required<PluginHost>>({
    apiRequest: async (path: string, opts: ApiRequestOptions = {}) => {
      try {
        const resolved = resolveApiPath(path, location.origin);
        const options = requestOptions(opts, owner.signal);
        return (await lane.run(() => {
          options.signal?.throwIfAborted();
          return page.request(resolved, options);
        })) as never;
      } catch (thrown) {
        if (thrown instanceof Error) owner.own(thrown);
        throw thrown;
      }
    },
    esc,
    formatMoney: (value, currency) => formatMoney(value, currency),
    formatDate: (isoString) => formatDate(isoString),
    showToast: (message) => {
      if (!owner.signal.aborted && toasts.admit()) page.toast(owner.name, String(message).slice(0, TOAST_MAX_LENGTH));
    },
    getState: () => deepFreeze(structuredClone(page.state())),
    getCardDetail: () => structuredClone(page.cardDetail()),
    registerCardTabRenderer: register('Tab', 'cardTabs', owner.plugin.tabs, (id) => id),
    registerPageRenderer: register('Page', 'pages', owner.plugin.pages, pageKey),
    registerCardActionRenderer: register('Action', 'cardActions', owner.plugin.card_actions, actionKey),
    css: (text) => {
      if (sheets >= MAX_SHEETS) throw new Error(`host.css was called more than ${MAX_SHEETS} times.`);
      sheets += 1;
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(String(text));
      owner.addSheet(sheet);
    },
    onCardChanged: (fn) => owner.onCardChanged(fn),
    onDispose: (fn) => owner.onDispose(fn),
    signal: owner.signal,
  });
}

function requestOptions(opts: ApiRequestOptions, ends: AbortSignal): RequestOptions {
  const options: RequestOptions = {
    method: String(opts.method ?? 'GET').toUpperCase(),
    signal: opts.signal ? AbortSignal.any([opts.signal, ends]) : ends,
  };
  if (opts.body === undefined || opts.body === null) return options;
  if (options.method === 'GET' || options.method === 'HEAD') throw new ApiError(0, 'invalid-request', `A ${options.method} request has no body.`);
  return { ...options, body: opts.body };
}

function deepFreeze<T>(value: T): T {
  if (value && typeof value === 'object') {
    Object.values(value).forEach(deepFreeze);
    Object.freeze(value);
  }
  return value;
}
