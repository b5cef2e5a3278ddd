/** Where the user is, as the URL says it: all state that is worth a link lives there. */

const BASE = '/admin';

interface Place {
  /** Below `/admin`, for example `/cards/0197…`. */
  path: string;
  search: URLSearchParams;
}

type Guard = () => boolean;

class Router {
  place = $state.raw<Place>(read());
  /** Where in this tab's history we are, so that a refused "back" can be undone. */
  #index = Number((history.state as { index?: number } | null)?.index ?? 0);
  #guard: Guard | null = null;

  constructor() {
    addEventListener('popstate', (event) => {
      const index = Number((event.state as { index?: number } | null)?.index ?? 0);
      if (index === this.#index) return;
      if (this.#leaves(read()) && !this.#mayLeave()) return history.go(this.#index - index);
      this.#index = index;
      this.place = read();
    });
    addEventListener('click', (event) => this.#follow(event));
  }

  /** Goes to `to` (`/cards?q=x`, below `/admin`). */
  go(to: string, options: { replace?: boolean } = {}): void {
    const target = read(new URL(BASE + to, location.origin));
    if (this.#leaves(target) && !this.#mayLeave()) return;
    if (!options.replace) this.#index += 1;
    history[options.replace ? 'replaceState' : 'pushState']({ index: this.#index }, '', BASE + to);
    if (this.#leaves(target)) scrollTo(0, 0);
    this.place = target;
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

  /** While set, leaving the page (not a change of its query) asks first. Returns how to remove it. */
  guard(guard: Guard): () => void {
    this.#guard = guard;
    return () => {
      if (this.#guard === guard) this.#guard = null;
    };
  }

  #leaves(target: Place): boolean {
    return target.path !== this.place.path;
  }

  #mayLeave(): boolean {
    return this.#guard?.() ?? true;
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

function read(url: { pathname: string; search: string } = location): Place {
  const path = url.pathname.startsWith(BASE) ? url.pathname.slice(BASE.length) : url.pathname;
  return { path: path || '/', search: new URLSearchParams(url.search) };
}

export const router = new Router();
