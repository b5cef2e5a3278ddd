import { ApiError } from './error.ts';
import { QueryClient, type QueryFilters } from './query.svelte.ts';

const TRIES = 2;
const PASSING = new Set([0, 502, 503, 504]);

export const queryClient = new QueryClient({
  staleTime: 5_000,
  // What the server refused it refuses again; only what may pass by itself is tried once more.
  retry: (failures, error) => failures < TRIES && error instanceof ApiError && PASSING.has(error.status),
});

/**
 * What is shown of these is fetched by a request that begins after now. An answer that is under way may have been made
 * before what has changed: it is waited for, not broken off, so that much news keeps nobody from ever getting one.
 */
export async function refresh(filters: QueryFilters, client = queryClient): Promise<void> {
  await Promise.all(client.find(filters).map(async (query) => {
    query.invalid = true;
    const wasUnderWay = query.isUnderWay;
    if (query.isWatched) await query.fetch();
    if (!wasUnderWay) return;
    query.invalid = true;
    if (query.isWatched) await query.fetch();
  }));
}
