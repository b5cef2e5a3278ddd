import { isOver, listJobs, type Job } from '../api/jobs.ts';
import { session } from '../api/session.svelte.ts';

/** While something runs its progress is asked for so often; that it began or ended comes as an event. */
const PROGRESS_MS = 1_500;

/** The last jobs, the same for every part that shows them: `createQuery(jobsQuery)`. */
export function jobsQuery() {
  return {
    queryKey: ['jobs'],
    queryFn: (signal: AbortSignal) => listJobs(signal),
    enabled: session.can('jobs:read'),
    refetchInterval: ({ state }: { state: { data?: Job[] | undefined } }) => (state.data?.some((job) => !isOver(job)) ? PROGRESS_MS : false),
  } as const;
}
