import type { CardDetail, CardListener, RenderContext } from '../../plugin-host.d.ts';
import type { ActivePlugin } from '../api/types.ts';
import { t } from '../i18n/plugin-tab.ts';
import { createFacade, type Page } from './facade.ts';
import { Cancelled, describe, PluginFailure, within, type FailurePhase } from './failure.ts';
import { RateGate } from './flood.ts';
import { asFunction, invoke, stackOf } from './foreign.ts';
import { pluginInStack, type LoadModule } from './load.ts';
import { LoadedPlugin, type Detail, type Renderer } from './loaded.ts';
import { followPictures } from './pictures.ts';

export const ACTIVATE_LIMIT_MS = 5_000;
export const RENDER_LIMIT_MS = 10_000;
const REPORTS_PER_MINUTE = 10;

export interface Report {
  plugin: string;
  version: string;
  phase: FailurePhase;
  message: string;
}

export interface HostOptions {
  page: Page;
  load: LoadModule;
  /** Styles that every tab begins with, so that a plugin's buttons look like the page's. */
  baseSheet: CSSStyleSheet;
  /** A failure, for the server's page about the plugin. Sampled. */
  report(report: Report): void;
  activateMs?: number;
  renderMs?: number;
}

/** A tab that is on the page. */
export interface MountedTab {
  /** Settles when the tab is drawn; rejects with a `PluginFailure`, or `Cancelled` when it was left. */
  readonly done: Promise<void>;
  dispose(): void;
}

export type LateErrorListener = (plugin: string, message: string) => void;

/**
 * Runs the plugins' browser code: loads it when one of its tabs is first opened, gives it its frozen host,
 * draws its tabs into shadow roots, and turns whatever goes wrong into one message in that tab.
 */
export class PluginHostRuntime {
  readonly #options: HostOptions;
  readonly #loaded = new Map<string, LoadedPlugin>();
  /** How often a plugin's code was tried, so that a retry does not get the browser's remembered failure. */
  readonly #attempts = new Map<string, number>();
  readonly #ownedErrors = new WeakMap<object, string>();
  readonly #reports = new Map<string, RateGate>();
  readonly #lateListeners = new Set<LateErrorListener>();

  constructor(options: HostOptions) {
    this.#options = options;
  }

  /** Draws a tab, a page or an action of `plugin`, by its key, into `slot`, which it takes over. */
  mount(slot: HTMLElement, plugin: ActivePlugin, key: string, detail: Detail): MountedTab {
    const abort = new AbortController();
    const disposers: (() => unknown)[] = [];
    const host = document.createElement('div');
    host.dataset.plugin = plugin.name;
    slot.replaceChildren(host);
    const root = host.attachShadow({ mode: 'open' });
    let stopFollowing: (() => void) | null = null;

    const dispose = () => {
      abort.abort();
      stopFollowing?.();
      this.#callAll(plugin, disposers.splice(0));
      host.remove();
    };
    const draw = async () => {
      const loaded = await this.#ready(plugin, abort.signal);
      const renderer = await this.#renderer(loaded, key, abort.signal);
      const stopSheets = loaded.followSheets((sheets) => {
        root.adoptedStyleSheets = [this.#options.baseSheet, ...sheets];
      });
      const stopPictures = followPictures(root, this.#options.page.picture);
      stopFollowing = () => {
        stopSheets();
        stopPictures();
      };
      const container = document.createElement('div');
      container.className = 'plugin-tab';
      root.append(container);
      await this.#render(loaded, renderer, container, detail, abort.signal, disposers);
    };
    const done = draw().catch((thrown: unknown) => {
      dispose();
      if (thrown instanceof PluginFailure) this.#report(plugin.name, plugin.version, thrown.phase, thrown.technical ?? thrown.message);
      throw thrown;
    });
    return { done, dispose };
  }

  /** Says to every plugin's code in this page that the open card is another version now. */
  cardChanged(detail: CardDetail): void {
    for (const loaded of this.#loaded.values()) this.#callAll(loaded.plugin, loaded.cardChanges(detail));
  }

  /** Forgets a plugin's code, and everything that it registered. */
  unload(name: string): void {
    const loaded = this.#loaded.get(name);
    if (!loaded) return;
    this.#loaded.delete(name);
    loaded.abort.abort();
    const last = loaded.module?.deactivate;
    this.#callAll(loaded.plugin, typeof last === 'function' ? [...loaded.disposers, last as () => unknown] : loaded.disposers);
  }

  unloadAll(): void {
    for (const name of this.#loaded.keys()) this.unload(name);
  }

  /** Blames errors that nobody caught on the plugin whose code they come from. Returns how to stop. */
  watchLateErrors(target: Window): () => void {
    const onError = (event: ErrorEvent) => this.#blame(event.error, `${event.filename}\n${stackOf(event.error)}`, event.message);
    const onRejection = (event: PromiseRejectionEvent) => this.#blame(event.reason, stackOf(event.reason), describe(event.reason));
    target.addEventListener('error', onError);
    target.addEventListener('unhandledrejection', onRejection);
    return () => {
      target.removeEventListener('error', onError);
      target.removeEventListener('unhandledrejection', onRejection);
    };
  }

  onLateError(listener: LateErrorListener): () => void {
    this.#lateListeners.add(listener);
    return () => this.#lateListeners.delete(listener);
  }

  async #ready(plugin: ActivePlugin, signal: AbortSignal): Promise<LoadedPlugin> {
    const loaded = this.#current(plugin);
    // Code and activation have one limit each; the sum of both bounds what a tab waits for somebody else's first opening.
    const limit = 2 * this.#activateMs + 1_000;
    await within(loaded.ready, limit, () => this.#tooSlow('load', 'Starting', limit), signal);
    return loaded;
  }

  #current(plugin: ActivePlugin): LoadedPlugin {
    const known = this.#loaded.get(plugin.name);
    if (known && known.plugin.frontend?.main_url === plugin.frontend?.main_url && !known.failed) return known;
    this.unload(plugin.name);
    const loaded = new LoadedPlugin(plugin, this.#ownedErrors);
    this.#loaded.set(plugin.name, loaded);
    loaded.ready = this.#start(loaded);
    loaded.ready.catch(() => {
      loaded.failed = true;
    });
    return loaded;
  }

  async #start(loaded: LoadedPlugin): Promise<void> {
    const { plugin, signal } = loaded;
    const { frontend } = plugin;
    if (!frontend) throw new PluginFailure('load', t('noCode'));
    const attempt = this.#attempts.get(frontend.main_url) ?? 0;
    this.#attempts.set(frontend.main_url, attempt + 1);

    const module = await within(
      this.#options.load(frontend.main_url, frontend.integrity, attempt),
      this.#activateMs,
      () => this.#tooSlow('load', 'Loading', this.#activateMs),
      signal,
    );
    const { activate } = module;
    if (typeof activate !== 'function') throw new PluginFailure('load', t('noActivate'));
    loaded.module = module;
    const facade = createFacade(loaded, this.#options.page);
    try {
      await within(
        invoke(() => activate(facade)),
        this.#activateMs,
        () => this.#tooSlow('activate', 'Starting', this.#activateMs),
        signal,
      );
    } catch (thrown) {
      if (thrown instanceof PluginFailure || thrown instanceof Cancelled) throw thrown;
      throw new PluginFailure('activate', t('startFailed'), thrown);
    }
  }

  /** A plugin may register after `activate` has returned; it has the same time for it. */
  #renderer(loaded: LoadedPlugin, key: string, signal: AbortSignal): Promise<Renderer> {
    return within(
      loaded.whenRegistered(key),
      this.#activateMs,
      () => new PluginFailure('register', t('noRenderer', { tab: key })),
      signal,
    );
  }

  async #render(loaded: LoadedPlugin, renderer: Renderer, container: HTMLElement, detail: Detail, signal: AbortSignal, disposers: (() => unknown)[]): Promise<void> {
    const context: Required<RenderContext> = Object.freeze({
      signal,
      onDispose: (fn: () => void) => void disposers.push(asFunction(fn, 'onDispose')),
      onCardChanged: (fn: CardListener) => void disposers.push(loaded.onCardChanged(fn)),
    });
    let left = false;
    const work = invoke(() => renderer(container, structuredClone(detail) as never, context)).then((returned) => {
      if (typeof returned !== 'function') return;
      // Too late for the tab to call it: it was left, or ran out of time.
      if (left || signal.aborted) returned();
      else disposers.push(returned);
    });
    try {
      await within(work, this.#renderMs, () => this.#tooSlow('render', 'Drawing', this.#renderMs), signal);
    } catch (thrown) {
      left = true;
      if (thrown instanceof PluginFailure || thrown instanceof Cancelled) throw thrown;
      throw new PluginFailure('render', t('drawingFailed'), thrown);
    }
  }

  #callAll(plugin: ActivePlugin, calls: (() => unknown)[]): void {
    for (const fn of calls) {
      invoke(fn).catch((thrown: unknown) => this.#late(plugin.name, describe(thrown)));
    }
  }

  #blame(thrown: unknown, stack: string, message: string): void {
    const owned = typeof thrown === 'object' && thrown !== null ? this.#ownedErrors.get(thrown) : undefined;
    const name = owned ?? pluginInStack(stack);
    if (name) this.#late(name, message);
  }

  #late(name: string, message: string): void {
    this.#report(name, this.#loaded.get(name)?.plugin.version ?? '', 'late', message);
    for (const listener of this.#lateListeners) listener(name, message);
  }

  #report(plugin: string, version: string, phase: FailurePhase, message: string): void {
    const gate = this.#reports.get(plugin) ?? new RateGate(REPORTS_PER_MINUTE, 60_000);
    this.#reports.set(plugin, gate);
    if (gate.admit()) this.#options.report({ plugin, version, phase, message: message.slice(0, 2_000) });
  }

  #tooSlow(phase: FailurePhase, work: 'Loading' | 'Starting' | 'Drawing', ms: number): PluginFailure {
    return new PluginFailure(phase, t(`tooSlow${work}`, { seconds: ms / 1000 }));
  }

  get #activateMs(): number {
    return this.#options.activateMs ?? ACTIVATE_LIMIT_MS;
  }

  get #renderMs(): number {
    return this.#options.renderMs ?? RENDER_LIMIT_MS;
  }
}
