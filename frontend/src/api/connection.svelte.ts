import { onReach } from './client.ts';

const PROBE_FIRST_MS = 1_000;
const PROBE_LONGEST_MS = 15_000;
const PROBE_TIMEOUT_MS = 10_000;
const PAGE = '/admin/';

/** What the server says of the UI that it serves. */
export type Served = 'same' | 'newer' | 'away';

// Taken before any plugin's code runs, as in `client.ts`.
const fetchNow = globalThis.fetch?.bind(globalThis);

/**
 * Whether the server answers, as far as this page can know: by each request of the page, and while none is answered by
 * asking now and then. It also knows when the server has another build of the UI than the one that runs here.
 */
export class Connection {
  offline = $state(false);
  /** The server has another UI: what is not loaded yet of this one is gone. */
  outdated = $state(false);
  #waiting: (() => void)[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #pause = PROBE_FIRST_MS;

  constructor(private readonly look: () => Promise<Served> = lookAtServer) {}

  /** From now on. A plugin's frame, which has this module too, asks no server for anything. */
  watch(): this {
    addEventListener('offline', () => this.#lost());
    addEventListener('online', () => void this.probe());
    onReach((reached) => (reached ? this.#found() : this.#lost()));
    if (navigator.onLine === false) this.#lost();
    return this;
  }

  /** Resolves when the server answers: at once when it does now. */
  back(): Promise<void> {
    return this.offline ? new Promise((resolve) => this.#waiting.push(resolve)) : Promise.resolve();
  }

  /** Asks for the page that this one came from: whether the server is there, and whether it still has this UI. */
  async probe(): Promise<Served> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const served = await this.look();
    if (served === 'away') this.#lost();
    else this.#found();
    if (served === 'newer') this.outdated = true;
    return served;
  }

  #lost(): void {
    if (!this.offline) {
      this.offline = true;
      this.#pause = PROBE_FIRST_MS;
    }
    // Requests that fail meanwhile do not put the next look off.
    if (this.#timer !== undefined) return;
    this.#timer = setTimeout(() => void this.probe(), this.#pause);
    this.#pause = Math.min(this.#pause * 2, PROBE_LONGEST_MS);
  }

  #found(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.offline) return;
    this.offline = false;
    for (const resolve of this.#waiting.splice(0)) resolve();
    // Servers come back with another build as often as with the same.
    void this.probe();
  }
}

async function lookAtServer(): Promise<Served> {
  try {
    const response = await fetchNow(PAGE, { cache: 'no-cache', credentials: 'omit', headers: { Accept: 'text/html' }, signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) });
    // A proxy that answers in the server's place is no server.
    if (!response.ok) return 'away';
    return entryOf(await response.text()) === entryOfPage() ? 'same' : 'newer';
  } catch {
    return 'away';
  }
}

/** The script that a page begins with; its name changes with the build. */
export function entryOf(html: string): string | null {
  return /<script[^>]*\bsrc="([^"]+)"/.exec(html)?.[1] ?? null;
}

function entryOfPage(): string | null {
  return document.querySelector('script[type="module"][src]')?.getAttribute('src') ?? null;
}

export const connection = new Connection();
