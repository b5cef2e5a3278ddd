import { createJob, getJob, isOver, type Job, type NewJob } from '../../api/jobs.ts';
import { CARD_STATUSES, type CardStatus } from '../../api/types.ts';
import { jobTitle, stateWord } from '../../jobs/job.ts';
import { toasts } from '../../ui/toasts.svelte.ts';

const PROGRESS_MS = 500;
/** What gives a card each status. */
const ACTIONS = { active: 'activate', archived: 'archive', draft: 'draft' } as const satisfies Record<CardStatus, NewJob['action']>;

/** The jobs that give cards the statuses back that they had before `action`. */
export function jobsBack(action: string, before: ReadonlyMap<string, CardStatus>): NewJob[] {
  return CARD_STATUSES.filter((status) => ACTIONS[status] !== action)
    .map((status) => ({ action: ACTIONS[status], ids: [...before.keys()].filter((id) => before.get(id) === status) }))
    .filter(({ ids }) => ids.length);
}

/** The job once it is over. */
export async function finished(job: Job): Promise<Job> {
  while (!isOver(job)) {
    await new Promise((resolve) => setTimeout(resolve, PROGRESS_MS));
    job = await getJob(job.id);
  }
  return job;
}

/** Says when a job that changed the status of cards is over, and offers to take it back. */
export async function offerUndo(job: Job, before: ReadonlyMap<string, CardStatus>): Promise<void> {
  const back = jobsBack(job.action, before);
  if (!back.length) return;
  job = await finished(job);
  if (job.counts.changed) toasts.undoable(`${jobTitle(job)}: ${stateWord(job)}`, () => Promise.all(back.map(createJob)));
}
