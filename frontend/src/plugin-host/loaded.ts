import type { CardActionDetail, CardDetail, CardListener, RenderContext } from '../../plugin-host.d.ts';
import type { ActivePlugin } from '../api/types.ts';
import { asFunction } from './foreign.ts';
import type { PluginModule } from './load.ts';

/** What a renderer is given: the open card, the cards of an action, or nothing on a page. */
export type Detail = CardDetail | CardActionDetail;
type Drawn = void | (() => void);
export type Renderer = (container: HTMLElement, detail: never, context: RenderContext) => Drawn | Promise<Drawn>;

/** Names what is drawn. No tab's id has a space, so that they never meet. */
export const pageKey = (id: string): string => `page ${id}`;
export const actionKey = (id: string): string => `action ${id}`;

/** One plugin's code in this page, from its first opened tab until it is unloaded. */
export class LoadedPlugin {
  readonly abort = new AbortController();
  readonly disposers: (() => unknown)[] = [];
  module: PluginModule | null = null;
  ready: Promise<void> = Promise.resolve();
  failed = false;
  readonly #sheets: CSSStyleSheet[] = [];
  readonly #sheetFollowers = new Set<(sheets: CSSStyleSheet[]) => void>();
  readonly #renderers = new Map<string, Renderer>();
  readonly #cardListeners = new Set<CardListener>();
  readonly #awaited = new Map<string, ((renderer: Renderer) => void)[]>();

  constructor(
    readonly plugin: ActivePlugin,
    private readonly errors: WeakMap<object, string>,
  ) {}

  get name(): string {
    return this.plugin.name;
  }

  get signal(): AbortSignal {
    return this.abort.signal;
  }

  /** Of two renderers for one tab the later counts, from the next opening on. */
  register(key: string, renderer: Renderer): void {
    this.#renderers.set(key, renderer);
    for (const resolve of this.#awaited.get(key) ?? []) resolve(renderer);
    this.#awaited.delete(key);
  }

  whenRegistered(key: string): Promise<Renderer> {
    const renderer = this.#renderers.get(key);
    if (renderer) return Promise.resolve(renderer);
    return new Promise((resolve) => this.#awaited.set(key, [...(this.#awaited.get(key) ?? []), resolve]));
  }

  addSheet(sheet: CSSStyleSheet): void {
    this.#sheets.push(sheet);
    for (const follow of this.#sheetFollowers) follow(this.#sheets);
  }

  followSheets(follow: (sheets: CSSStyleSheet[]) => void): () => void {
    follow(this.#sheets);
    this.#sheetFollowers.add(follow);
    return () => this.#sheetFollowers.delete(follow);
  }

  onCardChanged(listener: CardListener): () => void {
    const own = asFunction(listener, 'onCardChanged') as CardListener;
    this.#cardListeners.add(own);
    return () => this.#cardListeners.delete(own);
  }

  /** One call for each listener; whoever makes them knows what to do with one that throws. */
  cardChanges(detail: CardDetail): (() => unknown)[] {
    return Array.from(this.#cardListeners, (listener) => () => listener(structuredClone(detail)));
  }

  onDispose(fn: () => void): void {
    this.disposers.push(asFunction(fn, 'onDispose'));
  }

  own(error: object): void {
    this.errors.set(error, this.name);
  }
}
