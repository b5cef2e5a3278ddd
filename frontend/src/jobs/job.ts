import { isOver, type Job } from '../api/jobs.ts';
import { t } from '../i18n/jobs.ts';

/** What a job does, in words. */
export function jobTitle(job: Job): string {
  const title = titleOf(job);
  return job.args.dry_run === true && job.action !== 'import' ? `${t('dryRun')} · ${title}` : title;
}

function titleOf({ action, args, total, plugin, name }: Job): string {
  const n = total ?? 0;
  switch (action) {
    case 'import': return [args.dry_run === true ? t('check') : t('import'), args.file].filter(Boolean).join(' · ');
    case 'purge': return t('purge');
    case 'archive': return t('archive', { n });
    case 'activate': return t('activate', { n });
    case 'draft': return t('draft', { n });
    case 'delete': return t('delete', { n });
    case 'remove_source': return t('removeSource', { source: String(args.source_key ?? ''), n });
    case 'set_attribute': return t('setAttribute', { name: String(args.key), n });
    case 'remove_attribute': return t('removeAttribute', { name: String(args.key), n });
    case 'plugin_tool': return t('runTool', { tool: String(args.tool ?? ''), n });
    case 'plugin_job': return `${plugin ?? ''}: ${name ?? ''}`;
    default: return action;
  }
}

/** Between 0 and 1; null while the end is not known. */
export function fraction(job: Job): number | null {
  if (isOver(job)) return 1;
  return job.total ? Math.min(1, (job.done + job.failed) / job.total) : null;
}

/** Seconds until it is done, at the rate so far. */
export function secondsLeft(job: Job): number | null {
  if (isOver(job) || !job.total || !(job.rate_per_second > 0)) return null;
  return Math.max(1, Math.round((job.total - job.done - job.failed) / job.rate_per_second));
}

/** "3 created, 1 updated", as far as it has come. */
export function outcome(job: Job): string {
  const words: Record<string, (n: number) => string> = { created: (n) => t('created', { n }), updated: (n) => t('updated', { n }), unchanged: (n) => t('unchanged', { n }), changed: (n) => t('changed', { n }), called: (n) => t('called', { n }) };
  const parts = Object.entries(job.counts ?? {}).filter(([, n]) => n > 0).map(([name, n]) => words[name]?.(n) ?? `${name} ${n}`);
  if (job.failed) parts.push(t('failed', { n: job.failed }));
  return parts.join(', ');
}

/** The list of what has changed since a job edited an attribute, the oldest change first: each card's history takes its own back. */
export function changedSince({ action, args, counts, started_at }: Job): string | undefined {
  if (!['set_attribute', 'remove_attribute'].includes(action) || args.dry_run === true || !counts.changed || !started_at) return undefined;
  return `/admin/cards?${new URLSearchParams({ updated_since: started_at, sort: 'updated_at' })}`;
}

export function stateWord(job: Job): string {
  return { queued: t('queued'), running: t('running'), done: job.failed ? t('doneWithErrors') : t('done'), failed: t('stateFailed'), cancelled: t('cancelled'), interrupted: t('interrupted') }[job.state] ?? job.state;
}
