import { randomId } from '../ui/random-id.ts';

/**
 * Tabs that have held up the page: remembered in this browser by the address of their code, which changes with it. A
 * page that hangs runs no code of ours, so each tab that is drawn leaves a mark that is taken away when it is left. A
 * mark whose page is gone is one that nobody could take away.
 */

export type Place = 'page' | 'frame';

export interface Mark {
  code: string;
  /** Of the plugin. */
  version: string;
  place: Place;
}

interface Storage {
  getItem(name: string): string | null;
  setItem(name: string, value: string): void;
  removeItem(name: string): void;
  readonly length: number;
  key(index: number): string | null;
}

/** Names of locks that a page holds as long as it lives. */
export interface Locks {
  hold(name: string): void;
  held(): Promise<Set<string>>;
}

const MARK = 'cardinal.tab-drawn.';
const STRIKES = 'cardinal.tab-strikes';
const MAX_REMEMBERED = 100;

export class Strikes {
  readonly #name = MARK + randomId();
  /** Of what is drawn now: a tab, and an action above it. */
  #drawn: Mark[] = [];

  constructor(
    private readonly storage: Storage | null,
    private readonly locks: Locks | null,
  ) {
    locks?.hold(this.#name);
  }

  /** Turns marks of pages that are gone into strikes, and returns them. */
  async start(): Promise<Mark[]> {
    const gone: Mark[] = [];
    if (!this.storage || !this.locks) return gone;
    const marks = this.#marks();
    if (!marks.length) return gone;
    const held = await this.locks.held();
    for (const name of marks.filter((other) => other !== this.#name && !held.has(other))) {
      gone.push(...[parse<Mark | Mark[]>(this.storage.getItem(name)) ?? []].flat());
      this.storage.removeItem(name);
    }
    for (const { code, place } of gone) this.strike(code, place);
    return gone;
  }

  /** A tab is on the page from now on. */
  begin(mark: Mark): void {
    this.#drawn.push(mark);
    this.#write();
  }

  /** It was left. */
  end(code: string): void {
    const at = this.#drawn.findLastIndex((mark) => mark.code === code);
    if (at >= 0) this.#drawn.splice(at, 1);
    if (this.#drawn.length) this.#write();
    else this.storage?.removeItem(this.#name);
  }

  /** A page that nobody looks at may be ended by the browser at any time, and no tab is to blame for that. */
  hidden(isHidden: boolean): void {
    if (isHidden) this.storage?.removeItem(this.#name);
    else if (this.#drawn.length) this.#write();
  }

  strike(code: string, place: Place): void {
    const all = this.#strikes();
    all.delete(code);
    all.set(code, place);
    const latest = [...all].slice(-MAX_REMEMBERED);
    this.#set(STRIKES, JSON.stringify(Object.fromEntries(latest)));
  }

  /** Where this code has held up the page, the frame being the worse place; null when it never did. */
  of(code: string): Place | null {
    return this.#strikes().get(code) ?? null;
  }

  forgive(code: string): void {
    const all = this.#strikes();
    if (all.delete(code)) this.#set(STRIKES, JSON.stringify(Object.fromEntries(all)));
  }

  #write(): void {
    this.#set(this.#name, JSON.stringify(this.#drawn));
  }

  #set(name: string, value: string): void {
    try {
      this.storage?.setItem(name, value);
    } catch {
      // Full: then the next opening knows nothing of this one.
    }
  }

  #marks(): string[] {
    const { storage } = this;
    const names = Array.from({ length: storage?.length ?? 0 }, (_, index) => storage?.key(index) ?? '');
    return names.filter((name) => name.startsWith(MARK));
  }

  #strikes(): Map<string, Place> {
    return new Map(Object.entries(parse<Record<string, Place>>(this.storage?.getItem(STRIKES) ?? null) ?? {}));
  }
}

function parse<T extends object>(text: string | null): T | null {
  try {
    const value: unknown = JSON.parse(text ?? 'null');
    return typeof value === 'object' ? (value as T | null) : null;
  } catch {
    return null;
  }
}
