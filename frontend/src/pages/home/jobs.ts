import type { Job } from '../../api/jobs.ts';
import { t } from '../../i18n/home.ts';

const ACTIONS = ['import', 'archive', 'activate', 'delete', 'purge', 'remove_source', 'plugin_tool'] as const;

export function jobTitle({ action }: Pick<Job, 'action'>): string {
  const known = ACTIONS.find((one) => one === action);
  return known ? t(`job_${known}`) : t('job_other', { action });
}

/** 0 to 1; null while nobody knows how much there is. */
export function jobShare({ done, total }: Pick<Job, 'done' | 'total'>): number | null {
  return total ? Math.min(1, done / total) : null;
}
