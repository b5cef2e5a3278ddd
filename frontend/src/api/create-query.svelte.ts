import { untrack } from 'svelte';
import { queryClient } from './query-client.ts';
import type { Query, QueryKey, QueryOptions } from './query.svelte.ts';

export interface Asked<T> extends QueryOptions<T> {
  /** Not asked for while this is false. */
  enabled?: boolean;
  /** Asked for again this often, while the page is in sight. */
  refetchInterval?: number | false | ((query: { state: { data: T | undefined } }) => number | false);
  /** What was shown under the key before stays until the first answer. */
  keepPrevious?: boolean;
}

export type QueryResult<T> = ReturnType<typeof createQuery<T>>;

/** What the server has by a key, kept fresh for as long as the component that calls this is there. */
export function createQuery<T>(ask: () => Asked<T>) {
  const options = $derived(ask());
  const hash = $derived(JSON.stringify(options.queryKey));
  const query = $derived.by(() => {
    void hash;
    return queryClient.query<T>(untrack(() => options).queryKey);
  });
  const enabled = $derived(options.enabled ?? true);
  let before: T | undefined;
  const data = $derived(query.data === undefined ? options.keepPrevious ? before : undefined : (before = query.data));
  const interval = $derived(enabled && (typeof options.refetchInterval === 'function' ? options.refetchInterval({ state: { data: query.data } }) : options.refetchInterval));

  // Before the first drawing, which says then that an answer is on its way.
  $effect.pre(() => {
    const watched = query;
    if (enabled) return untrack(() => watched.watch(() => options));
  });
  $effect(() => {
    if (!interval) return;
    const timer = setInterval(() => document.hidden || query.fetch(), interval);
    return () => clearInterval(timer);
  });

  return {
    get data() {
      return data;
    },
    get error() {
      return query.error;
    },
    get isError() {
      return query.error !== null;
    },
    /** There is nothing to show yet. */
    get isPending() {
      return data === undefined && query.error === null;
    },
    get isLoading() {
      return query.fetching && data === undefined;
    },
    get isFetching() {
      return query.fetching;
    },
    get isPlaceholderData() {
      return query.data === undefined && data !== undefined;
    },
    refetch: () => query.fetch({ queryFn: options.queryFn, restart: true }),
    /** What is kept, for what a page does beyond showing it. */
    get query(): Query<T> {
      return query;
    },
  };
}

/** A list that is fetched page by page; when it is fetched again, all its pages are. */
export function createPagedQuery<P>(ask: () => { queryKey: QueryKey; page: (cursor: string | null, signal: AbortSignal) => Promise<P>; next: (page: P) => string | null }) {
  const options = $derived(ask());
  const list = createQuery<P[]>(() => ({
    queryKey: options.queryKey,
    queryFn: async (signal, before) => {
      const pages: P[] = [];
      let cursor: string | null = null;
      do {
        const page: P = await options.page(cursor, signal);
        pages.push(page);
        cursor = options.next(page);
      } while (cursor !== null && pages.length < (before?.length ?? 1));
      return pages;
    },
  }));
  const cursor = $derived.by(() => {
    const last = list.data?.at(-1);
    return last === undefined ? null : options.next(last);
  });
  return {
    list,
    get hasNextPage() {
      return cursor !== null;
    },
    fetchNextPage: () => list.query.fetch({ queryFn: async (signal, before = []) => [...before, await options.page(cursor, signal)] }),
  };
}
