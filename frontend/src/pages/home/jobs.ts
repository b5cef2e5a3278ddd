import { request } from '../../api/client.ts';
import { t } from '../../i18n/home.ts';

/** A job as far as the first page shows it. */
export interface HomeJob {
  id: string;
  action: string;
  state: string;
  done: number;
  total: number | null;
  failed: number;
  reason: string | null;
  created_at: string;
  finished_at: string | null;
}

export async function lastJobs(limit: number, signal: AbortSignal): Promise<HomeJob[]> {
  return (await request<{ items: HomeJob[] }>(`/jobs?limit=${limit}`, { signal })).items;
}

const ACTIONS = ['import', 'archive', 'activate', 'delete', 'purge', 'remove_source', 'plugin_tool'] as const;
const STATES = ['queued', 'running', 'done', 'failed', 'cancelled', 'interrupted'] as const;

export function jobTitle({ action }: Pick<HomeJob, 'action'>): string {
  const known = ACTIONS.find((one) => one === action);
  return known ? t(`job_${known}`) : t('job_other', { action });
}

export function jobState({ state }: Pick<HomeJob, 'state'>): string {
  const known = STATES.find((one) => one === state);
  return known ? t(`state_${known}`) : state;
}
