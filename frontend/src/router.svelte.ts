import { ask } from './ui/ask.svelte.ts';

/** Where the user is, as the URL says it: all state that is worth a link lives there. */

const BASE = '/admin';

interface Place {
  /** Below `/admin`, for example `/cards/0197…`. */
  path: string;
  search: URLSearchParams;
}

/** What is lost with the page, as a question. */
type Guard = () => string;
/** What has to be there before the page at a path can be shown; null when all is. */
type Prepare = (path: string) => Promise<unknown> | null;

/** What this tab's history keeps beside an address. */
interface Kept {
  /** The entry's place in the history, so that a refused "back" can be undone. */
  index?: number;
  /** How far the page was scrolled when it was left. */
  scroll?: number;
}

/** A page whose content comes later than this begins at its top. */
const RESTORE_WITHIN_MS = 5_000;

class Router {
  place = $state.raw<Place>(read());
  #index = kept().index ?? 0;
  /** The path that was asked for and whose page is not there yet; the one before it stays, with all that is in it. */
  coming = $state.raw<string | null>(null);
  #guard: Guard | null = null;
  /** The move that was agreed to and is under way: it is not asked about again. */
  #agreed = false;
  #prepare: Prepare = () => null;
  /** Of the latest `go`: an earlier one that is still waiting goes nowhere. */
  #turn = 0;
  /** Where each entry of the history was scrolled to when it was left. */
  #scrolls = new Map<number, number>();
  #restoring: AbortController | null = null;

  constructor() {
    // The browser restores before the page has its content back, and so to the wrong place.
    history.scrollRestoration = 'manual';
    addEventListener('popstate', (event) => {
      const { index = 0 } = (event.state ?? {}) as Kept;
      if (index === this.#index) return;
      const agreed = this.#agreed;
      this.#agreed = false;
      if (this.#guard && !agreed && this.#leaves(read())) {
        const [back, again] = [this.#index - index, index - this.#index];
        history.go(back);
        void this.mayLeave().then((may) => {
          if (!may) return;
          this.#agreed = true;
          history.go(again);
        });
        return;
      }
      this.#scrolls.set(this.#index, scrollY);
      this.#turn += 1;
      this.coming = null;
      this.#index = index;
      this.place = read();
      this.#restore(this.#scrolls.get(index) ?? 0);
    });
    addEventListener('pagehide', () => history.replaceState({ index: this.#index, scroll: scrollY } satisfies Kept, ''));
    addEventListener('click', (event) => this.#follow(event));
    this.#restore(kept().scroll ?? 0);
  }

  /** Goes to `to` (`/cards?q=x`, below `/admin`). */
  go(to: string, options: { replace?: boolean } = {}): void {
    const target = read(new URL(BASE + to, location.origin));
    if (this.#guard && this.#leaves(target)) void this.mayLeave().then((may) => may && this.#go(target, to, options));
    else this.#go(target, to, options);
  }

  #go(target: Place, to: string, options: { replace?: boolean }): void {
    const leaves = this.#leaves(target);
    // The open page may change its query while another one is on its way.
    if (options.replace && !leaves) return this.#enter(target, to, options);
    const turn = (this.#turn += 1);
    const waiting = leaves ? this.#prepare(target.path) : null;
    this.coming = waiting && target.path;
    if (!waiting) return this.#enter(target, to, options);
    // When it does not come, the page that is open says why; see `connection.outdated`.
    void waiting.then(() => true, () => false).then((isThere) => {
      if (turn !== this.#turn) return;
      this.coming = null;
      if (isThere) this.#enter(target, to, options);
    });
  }

  #enter(target: Place, to: string, options: { replace?: boolean }): void {
    if (!options.replace) {
      this.#scrolls.set(this.#index, scrollY);
      this.#index += 1;
    }
    history[options.replace ? 'replaceState' : 'pushState']({ index: this.#index } satisfies Kept, '', BASE + to);
    this.#restoring?.abort();
    if (this.#leaves(target)) scrollTo(0, 0);
    this.place = target;
  }

  /** Whether there is a page of ours to go back to, other than by `go`. */
  get canGoBack(): boolean {
    return this.#index > 0;
  }

  /** Changes some of the query, leaves the rest; an empty value drops its name. */
  set(values: Record<string, string>, options: { replace?: boolean } = {}): void {
    const search = new URLSearchParams(this.place.search);
    for (const [name, value] of Object.entries(values)) {
      if (value) search.set(name, value);
      else search.delete(name);
    }
    const text = search.toString();
    if (text !== this.place.search.toString()) this.go(this.place.path + (text ? `?${text}` : ''), options);
  }

  prepareWith(prepare: Prepare): void {
    this.#prepare = prepare;
  }

  /** While set, leaving the page (not a change of its query) asks first, and so does closing or reloading it. Returns how to remove it. */
  guard(guard: Guard): () => void {
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    this.#guard = guard;
    addEventListener('beforeunload', warn);
    return () => {
      removeEventListener('beforeunload', warn);
      if (this.#guard === guard) this.#guard = null;
    };
  }

  /** Scrolls to `y` once the page is as long as it was, unless somebody scrolls first. */
  #restore(y: number): void {
    this.#restoring?.abort();
    if (y <= 0) return;
    const restoring = (this.#restoring = new AbortController());
    for (const type of ['wheel', 'touchmove', 'keydown', 'pointerdown']) addEventListener(type, () => restoring.abort(), { once: true, passive: true, signal: restoring.signal });
    const until = performance.now() + RESTORE_WITHIN_MS;
    const attempt = () => {
      if (restoring.signal.aborted) return;
      scrollTo(0, y);
      if (Math.abs(scrollY - y) <= 1 || performance.now() > until) restoring.abort();
      else requestAnimationFrame(attempt);
    };
    requestAnimationFrame(attempt);
  }

  #leaves(target: Place): boolean {
    return target.path !== this.place.path;
  }

  /** Asks, when something would be lost with the page. */
  async mayLeave(): Promise<boolean> {
    return !this.#guard || ask(this.#guard());
  }

  /** Ordinary links work as ordinary links: new tab, copy, middle click. A plain click stays in the app. */
  #follow(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.composedPath().find((node): node is HTMLAnchorElement => node instanceof HTMLAnchorElement && node.hasAttribute('href'));
    if (!link || link.target || link.hasAttribute('download')) return;
    const url = new URL(link.href);
    if (url.origin !== location.origin || !url.pathname.startsWith(`${BASE}/`) || url.pathname.startsWith(`${BASE}/assets/`) || url.hash) return;
    event.preventDefault();
    this.go(url.pathname.slice(BASE.length) + url.search);
  }
}

function kept(): Kept {
  return (history.state as Kept | null) ?? {};
}

function read(url: { pathname: string; search: string } = location): Place {
  const path = url.pathname.startsWith(BASE) ? url.pathname.slice(BASE.length) : url.pathname;
  return { path: path || '/', search: new URLSearchParams(url.search) };
}

export const router = new Router();
