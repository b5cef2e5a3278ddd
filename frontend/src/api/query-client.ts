import { QueryClient, type QueryFilters } from '@tanstack/svelte-query';
import { ApiError } from './error.ts';

const TRIES = 2;
const PASSING = new Set([0, 502, 503, 504]);

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // What the server refused it refuses again; only what may pass by itself is tried once more.
      retry: (failures, error) => failures < TRIES && error instanceof ApiError && PASSING.has(error.status),
      // Without a server they wait, with what they have, and go on when it is back; see `live.svelte.ts`.
      networkMode: 'online',
    },
  },
});

/**
 * What is shown of these is fetched by a request that begins after now. An answer that is under way may have been made
 * before what has changed: it is waited for, not broken off, so that much news keeps nobody from ever getting one.
 */
export async function refresh(filters: QueryFilters, client = queryClient): Promise<void> {
  const underWay = new Set(client.getQueryCache().findAll({ ...filters, fetchStatus: 'fetching' }).map(({ queryHash }) => queryHash));
  await client.invalidateQueries(filters, { cancelRefetch: false });
  if (underWay.size) await client.invalidateQueries({ predicate: ({ queryHash }) => underWay.has(queryHash) }, { cancelRefetch: false });
}
