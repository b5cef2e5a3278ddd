import { listHistory, restoreCard } from '../../api/cards.ts';
import { ApiError } from '../../api/error.ts';
import { createJob, getJob, isOver, type Job, type NewJob } from '../../api/jobs.ts';
import { queryClient } from '../../api/query-client.ts';
import { CARD_STATUSES, type CardStatus } from '../../api/types.ts';
import { t } from '../../i18n/cards.ts';
import { jobTitle, stateWord } from '../../jobs/job.ts';
import { toasts } from '../../ui/toasts.svelte.ts';

const PROGRESS_MS = 500;
/** What gives a card each status. */
const ACTIONS = { active: 'activate', archived: 'archive', draft: 'draft' } as const satisfies Record<CardStatus, NewJob['action']>;
/** What is taken back card by card, by their histories. */
const BY_HISTORY: ReadonlySet<string> = new Set(['set_attribute', 'remove_attribute', 'delete']);
/** Each of them takes two requests. */
const MOST_BY_HISTORY = 200;
/** Changes of sources alone, which are not taken back: a plugin may answer a change of the card with one. */
const OF_SOURCES: ReadonlySet<string> = new Set(['enrich', 'remove_source']);
const LINES = 10;
/** Refusals that are about one card: it is gone, its SKU is another one's by now, or somebody has just changed it. */
const NOT_THIS_CARD: ReadonlySet<number> = new Set([404, 409, 412]);

/** The jobs that give cards the statuses back that they had before `action`; none where it gave no status. */
export function jobsBack(action: string, before: ReadonlyMap<string, CardStatus>): NewJob[] {
  if (!Object.values<string>(ACTIONS).includes(action)) return [];
  return CARD_STATUSES.filter((status) => ACTIONS[status] !== action)
    .map((status) => ({ action: ACTIONS[status], ids: [...before.keys()].filter((id) => before.get(id) === status) }))
    .filter(({ ids }) => ids.length);
}

/**
 * Makes each of these cards what it was before the job, if nobody has changed it since, and says how many there were. The
 * server refuses a card that somebody changes meanwhile.
 */
export async function takeBack(job: string, ids: readonly string[]): Promise<number> {
  let restored = 0;
  for (const id of ids) {
    try {
      const { items } = await listHistory(id, null, undefined, LINES);
      const last = items.find(({ action }) => !OF_SOURCES.has(action));
      if (last?.change.job !== job) continue;
      await restoreCard(id, last.action === 'delete' ? undefined : last.version - 1, items[0]?.version);
      restored += 1;
    } catch (thrown) {
      if (!(thrown instanceof ApiError && NOT_THIS_CARD.has(thrown.status))) throw thrown;
    }
  }
  return restored;
}

/** The job once it is over. */
export async function finished(job: Job): Promise<Job> {
  while (!isOver(job)) {
    await new Promise((resolve) => setTimeout(resolve, PROGRESS_MS));
    job = await getJob(job.id);
  }
  return job;
}

/** Says when a job that changed cards is over, and offers to take it back where that is possible. */
export async function offerUndo(job: Job, before: ReadonlyMap<string, CardStatus>): Promise<void> {
  const back = jobsBack(job.action, before);
  const byHistory = BY_HISTORY.has(job.action) && before.size <= MOST_BY_HISTORY;
  if (!back.length && !byHistory) return;
  job = await finished(job);
  const changed = job.counts.changed ?? 0;
  if (changed) toasts.undoable(`${jobTitle(job)}: ${stateWord(job)}`, () => (byHistory ? restoreAll(job, [...before.keys()], changed) : Promise.all(back.map(createJob))));
}

async function restoreAll(job: Job, ids: readonly string[], changed: number): Promise<void> {
  try {
    const restored = await takeBack(job.id, ids);
    const left = changed - restored;
    toasts.show([t('restored', { n: restored }), ...(left > 0 ? [t('changedAgain', { n: left })] : [])].join(' · '));
  } finally {
    void queryClient.invalidateQueries({ queryKey: ['cards'] });
  }
}
