import { QueryClient } from '@tanstack/svelte-query';
import { ApiError } from './error.ts';

const TRIES = 2;
const PASSING = new Set([0, 502, 503, 504]);

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // What the server refused it refuses again; only what may pass by itself is tried once more.
      retry: (failures, error) => failures < TRIES && error instanceof ApiError && PASSING.has(error.status),
      networkMode: 'always',
    },
  },
});
