/**
 * The browser side of the plugin interface, version "1".
 *
 * A plugin's `frontend.main` is an ES module that exports `activate(host)`. No build step is needed:
 * put `// @ts-check` and `/** @type {import('./plugin-host').Activate} *\/` above `activate`
 * and an editor checks it against this file.
 */

/** The product card that is open. `item` is absent when there is none. */
export interface CardDetail {
  item?: Card;
}

export interface Card {
  id: string;
  title: string;
  sku: string;
  status: 'draft' | 'active' | 'archived';
  attributes: { sources?: Record<string, SourceEntry>; [name: string]: unknown };
  version: number;
  created_at: string;
  updated_at: string;
}

/** What plugins wrote to the card, by source key (`<plugin name>:<suffix>`). */
export interface SourceEntry {
  kind: string;
  data: unknown;
  plugin?: string;
  plugin_version?: string;
  updated_at?: string;
  updated_by?: { kind: string; id: string; name?: string };
}

export interface ApiRequestOptions {
  /** GET when absent. */
  method?: string;
  /** Sent as JSON. */
  body?: unknown;
  /** Cancels the request. Requests also end with the plugin itself. */
  signal?: AbortSignal;
}

/** What `apiRequest` rejects with. */
export interface ApiRequestError extends Error {
  /** The HTTP status; 0 when no answer came, or nothing was sent. */
  status: number;
  /** Stable, for programs: `not-found`, `insufficient-scope`, `plugin-timeout`… */
  code: string;
  /** One plain sentence, for people. */
  detail: string;
  /** Finds the request in the server's log. */
  request_id: string | null;
}

/** Frozen. Holds no credential. */
export interface HostState {
  readonly user: { readonly id: string; readonly username: string } | null;
  /** A BCP 47 tag. */
  readonly locale: string;
  readonly theme: 'light' | 'dark';
  readonly scopes: readonly string[];
  /** The path and query of the page, below `/admin`. */
  readonly route: string;
}

/** The cards that an action is to work on. */
export interface CardActionDetail {
  card_ids: string[];
}

/** The third argument of a renderer. */
export interface RenderContext {
  /** Aborted when the tab is left or drawn again. */
  readonly signal: AbortSignal;
  /** Runs `fn` when the tab is left or drawn again. */
  onDispose(fn: () => void): void;
  /** As {@link PluginHost.onCardChanged}, until the tab is left or drawn again. */
  onCardChanged?(fn: CardListener): void;
}

/** Gets a copy of the open card as it is now. */
export type CardListener = (cardDetail: CardDetail) => void;

/**
 * Fills `container`, an element of the plugin's own inside a shadow root: neither the page's styles nor
 * another plugin's reach it. A function that it returns runs when the tab is left. It has 10 seconds.
 *
 * An `<img>` shows pictures whose address stands in the card or in an answer of `apiRequest`: the server reads and
 * checks them, and `src` becomes a `blob:` address. A tab that has held up the page is drawn in a frame apart from it:
 * with the same host, and no reach to the rest of the page.
 *
 * ```js
 * host.registerCardTabRenderer('prices', async (container, { item }, { signal, onCardChanged }) => {
 *   if (!item) return void (container.textContent = 'Open a card first.');
 *   const show = async () => {
 *     const { prices } = await host.apiRequest(`/plugins/price-watch/cards/${item.id}`, { signal });
 *     const rows = prices.map(({ shop, price }) => `<li>${host.esc(shop)}: ${host.esc(host.formatMoney(price, 'EUR'))}</li>`);
 *     container.innerHTML = `<ul>${rows.join('')}</ul>`;
 *   };
 *   onCardChanged?.(() => void show());
 *   await show();
 * });
 * ```
 */
export type CardTabRenderer = (
  container: HTMLElement,
  cardDetail: CardDetail,
  context: RenderContext,
) => void | (() => void) | Promise<void | (() => void)>;

/**
 * Fills a page of the plugin's own, at `/admin/pages/<id>` and below: `host.getState().route` says where. Links to
 * `/admin/…` change the page without loading it anew. Otherwise as {@link CardTabRenderer}.
 *
 * ```js
 * host.registerPageRenderer?.('price-report', async (container) => {
 *   const { items } = await host.apiRequest('/plugins/price-watch/report');
 *   container.append(...items.map((item) => Object.assign(document.createElement('p'), { textContent: item.title })));
 * });
 * ```
 */
export type PageRenderer = (
  container: HTMLElement,
  detail: Record<string, never>,
  context: RenderContext,
) => void | (() => void) | Promise<void | (() => void)>;

/**
 * Fills the dialog that an action without a `route` opens. Otherwise as {@link CardTabRenderer}.
 *
 * ```js
 * host.registerCardActionRenderer?.('compare', (container, { card_ids }) => {
 *   container.textContent = `${card_ids.length} cards`;
 * });
 * ```
 */
export type CardActionRenderer = (
  container: HTMLElement,
  detail: CardActionDetail,
  context: RenderContext,
) => void | (() => void) | Promise<void | (() => void)>;

export interface PluginHost {
  /**
   * An authenticated request; `path` begins with `/` and is relative to `/v1/admin`.
   * Resolves to the parsed JSON, to text when the answer is not JSON, to null when there is none (204).
   * Rejects with an {@link ApiRequestError}.
   */
  apiRequest<T = any>(path: string, opts?: ApiRequestOptions): Promise<T>;
  /** Text made safe for HTML, in element content and in quoted attributes. */
  esc(text: unknown): string;
  /** A number or a decimal string as money. A currency that is not known shows as its code. */
  formatMoney(value: number | string | null | undefined, currency?: string | null): string;
  /** An ISO 8601 date or time as people of this locale write it. */
  formatDate(isoString: string | null | undefined): string;
  showToast(message: string): void;
  getState(): HostState;
  /** A copy of the card that is open, as it was read last. */
  getCardDetail(): CardDetail;
  /**
   * `tabId` is one of the manifest's `contributes.cardTabs[].id`. With `frame: true` there, the tab is drawn in a
   * sandboxed frame: with this host and its own element, and without the page, its storage or other servers.
   */
  registerCardTabRenderer(tabId: string, fn: CardTabRenderer): void;

  // Beyond version 1's eight members, and so optional: test for them (`host.css?.(…)`).

  /** `pageId` is one of the manifest's `contributes.pages[].id`. */
  registerPageRenderer?(pageId: string, fn: PageRenderer): void;
  /** `actionId` is one of the manifest's `contributes.cardActions[].id`. */
  registerCardActionRenderer?(actionId: string, fn: CardActionRenderer): void;
  /** Styles for the plugin's own tabs. (`<style>` and `style="…"` are dropped by the page's security policy.) */
  css?(text: string): void;
  /**
   * Runs `fn` whenever the open card has changed: a plugin wrote a source, somebody edited it. A tab is not drawn
   * again for that, so that what is typed in it stays. Returns how to stop.
   */
  onCardChanged?(fn: CardListener): () => void;
  /** Runs `fn` when the plugin is unloaded. */
  onDispose?(fn: () => void): void;
  /** Aborted when the plugin is unloaded. */
  readonly signal?: AbortSignal;
}

/** The function that the module exports. It has 5 seconds. */
export type Activate = (host: PluginHost) => void | Promise<void>;
