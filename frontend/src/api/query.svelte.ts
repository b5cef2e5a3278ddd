/** What the server has, kept by key: asked for once for all who show it, and again when it is old. */

const RETRY_FIRST_MS = 1_000;
/** How long an answer stays that nobody shows. */
const FORGET_AFTER_MS = 300_000;

export type QueryKey = readonly unknown[];
export type QueryFunction<T> = (signal: AbortSignal, before: T | undefined) => Promise<T>;

export interface QueryOptions<T> {
  queryKey: QueryKey;
  queryFn: QueryFunction<T>;
  /** For how long an answer counts as fresh; `Infinity`: until it is invalidated. */
  staleTime?: number;
}

/** All whose key begins like this, or for which the predicate holds. */
export interface QueryFilters {
  queryKey?: QueryKey;
  predicate?: (query: { queryKey: QueryKey }) => boolean;
}

export interface Defaults {
  staleTime?: number;
  retry?: (failures: number, error: unknown) => boolean;
}

export class Query<T = unknown> {
  data = $state.raw<T>();
  error = $state.raw<Error | null>(null);
  /** Under way, and not only waiting for the server to be back. */
  fetching = $state(false);
  /** Old, whatever its age. */
  invalid = false;
  #updated = 0;
  #watchers = new Set<() => QueryOptions<T>>();
  #underWay: { controller: AbortController; done: Promise<void> } | null = null;
  #forget: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly client: QueryClient, readonly queryKey: QueryKey) {}

  get isUnderWay(): boolean {
    return this.#underWay !== null;
  }

  get isWatched(): boolean {
    return this.#watchers.size > 0;
  }

  /** Keeps the answer at hand and fresh until the returned function is called. */
  watch(options: () => QueryOptions<T>): () => void {
    clearTimeout(this.#forget);
    this.#watchers.add(options);
    this.fetchIfStale();
    return () => {
      this.#watchers.delete(options);
      if (this.isWatched) return;
      this.cancel();
      this.#forget = setTimeout(() => this.client.remove(this), FORGET_AFTER_MS);
    };
  }

  fetchIfStale(): void {
    const age = Date.now() - this.#updated;
    const stale = [...this.#watchers].some((options) => age >= (options().staleTime ?? this.client.defaults.staleTime ?? 0));
    if (this.isWatched && (stale || this.invalid || this.error || this.data === undefined)) void this.fetch();
  }

  /** Joins a request that is under way; a `restart` breaks it off when there is an answer to show meanwhile. Never rejects. */
  fetch({ queryFn = [...this.#watchers].at(-1)?.().queryFn, restart = false }: { queryFn?: QueryFunction<T> | undefined; restart?: boolean } = {}): Promise<void> {
    if (this.#underWay && !(restart && this.data !== undefined)) return this.#underWay.done;
    this.cancel();
    if (!queryFn) return Promise.resolve();
    const controller = new AbortController();
    if (this.data === undefined) this.error = null;
    const end = (take: () => void) => {
      if (this.#underWay?.controller !== controller) return;
      this.#underWay = null;
      this.fetching = false;
      take();
    };
    // Set before the request begins, which may end at once.
    const underWay = { controller, done: Promise.resolve() };
    this.#underWay = underWay;
    underWay.done = this.#ask(queryFn, controller.signal).then(
      (data) => end(() => this.set(data)),
      (error: unknown) => end(() => (this.error = error instanceof Error ? error : new Error(String(error)))),
    );
    return underWay.done;
  }

  set(data: T): void {
    this.data = share(this.data, data) as T;
    this.error = null;
    this.invalid = false;
    this.#updated = Date.now();
  }

  cancel(): void {
    this.#underWay?.controller.abort();
    this.#underWay = null;
    this.fetching = false;
  }

  async #ask(queryFn: QueryFunction<T>, signal: AbortSignal): Promise<T> {
    for (let failures = 0; ; failures++) {
      if (!this.client.online) await this.client.back();
      signal.throwIfAborted();
      this.fetching = true;
      try {
        return await queryFn(signal, this.data);
      } catch (thrown) {
        if (signal.aborted || !this.client.defaults.retry?.(failures, thrown)) throw thrown;
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_FIRST_MS * 2 ** failures));
      if (!signal.aborted && !this.client.online) this.fetching = false;
    }
  }
}

export class QueryClient {
  #queries = new Map<string, Query<any>>();
  #waiting: (() => void)[] = [];
  online = true;

  constructor(readonly defaults: Defaults = {}) {
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) this.#fetchStale();
    });
  }

  query<T>(queryKey: QueryKey): Query<T> {
    const hash = JSON.stringify(queryKey);
    const query = this.#queries.get(hash) ?? new Query<T>(this, queryKey);
    this.#queries.set(hash, query);
    return query;
  }

  find({ queryKey = [], predicate }: QueryFilters): Query<any>[] {
    const begins = (key: QueryKey) => queryKey.every((part, at) => JSON.stringify(part) === JSON.stringify(key[at]));
    return [...this.#queries.values()].filter((query) => begins(query.queryKey) && (predicate?.(query) ?? true));
  }

  /** They are old now. Those that are shown are fetched, by a request that begins now; with `none` when they are next shown. */
  async invalidateQueries(filters: QueryFilters & { refetchType?: 'none' }): Promise<void> {
    const found = this.find(filters);
    for (const query of found) query.invalid = true;
    if (filters.refetchType !== 'none') await Promise.all(found.map((query) => (query.isWatched ? query.fetch({ restart: true }) : undefined)));
  }

  /** Keeps `data` as the answer. A request that is under way may be older, and begins again. */
  setQueryData<T>(queryKey: QueryKey, data: T): void {
    const query = this.query<T>(queryKey);
    query.set(data);
    if (query.isUnderWay) void query.fetch({ restart: true });
  }

  /** Without a server requests wait. */
  setOnline(online: boolean): void {
    if (this.online === online) return;
    this.online = online;
    if (!online) return;
    for (const resolve of this.#waiting.splice(0)) resolve();
    this.#fetchStale();
  }

  back(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  remove(query: Query<any>): void {
    const hash = JSON.stringify(query.queryKey);
    if (this.#queries.get(hash) === query) this.#queries.delete(hash);
  }

  clear(): void {
    for (const query of this.#queries.values()) query.cancel();
    this.#queries.clear();
  }

  #fetchStale(): void {
    for (const query of this.#queries.values()) query.fetchIfStale();
  }
}

/** `after`, with all parts of `before` that say the same: what has not changed is not drawn anew. */
export function share(before: unknown, after: unknown): unknown {
  if (!isPlain(before) || !isPlain(after) || Array.isArray(before) !== Array.isArray(after)) return after;
  const names = Object.keys(after);
  let same = names.length === Object.keys(before).length;
  const shared: Record<string, unknown> = Array.isArray(after) ? ([] as unknown as Record<string, unknown>) : {};
  for (const name of names) {
    // Not by an assignment: `__proto__` is a name like any other in what came as JSON.
    Object.defineProperty(shared, name, { value: share(before[name], after[name]), enumerable: true, configurable: true, writable: true });
    same &&= Object.hasOwn(before, name) && shared[name] === before[name];
  }
  return same ? before : shared;
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return Array.isArray(value) || (typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype);
}
