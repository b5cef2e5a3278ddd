import type { Job } from '../../api/jobs.ts';
import type { Kind } from '../../api/kinds.ts';
import type { Sample } from '../../api/metrics.ts';
import type { System } from '../../api/system.ts';
import type { ApiKey, RegisteredPlugin } from '../../api/types.ts';
import { fromServer } from '../../i18n/catalogue.svelte.ts';
import { t } from '../../i18n/home.ts';
import { formatSince, formatRelative } from '../../plugin-host/format.ts';
import { formatShare } from '../../ui/figures.ts';
import type { IconName } from '../../ui/icons.ts';
import { keyState } from '../keys/key.ts';
import { checksOf } from '../operate/system.ts';
import { ratesOf } from '../plugins/load.ts';
import { inOrder as pluginsByNeed, isBroken, needsAttention, standingOf, titleOf, type Standing } from '../plugins/plugin.ts';
import { jobTitle } from '../../jobs/job.ts';

/** Something that waits for a decision, and where it is made. */
export interface Attention {
  key: string;
  icon: IconName;
  tone: 'bad' | 'warn';
  text: string;
  more?: string | undefined;
  /** When it began or will end. */
  at?: string | null | undefined;
  /** A page, or the job that the drawer opens at. */
  href?: string;
  job?: string;
  button: string;
}

const FAILING_SHARE = 0.01;
/** Fewer failures than this say nothing yet. */
const FAILING_CALLS = 5;
const DAY_MS = 86_400_000;

export function ofPlugins(plugins: readonly RegisteredPlugin[], samples: readonly Sample[]): Attention[] {
  return plugins.flatMap((plugin): Attention[] => {
    const base = { key: `plugin ${plugin.name} ${plugin.package}`, icon: 'alert' as const, href: `/admin/plugins/${encodeURIComponent(plugin.name)}`, button: t('openPlugin') };
    const title = titleOf(plugin);
    if (isBroken(plugin.counters)) return [{ ...base, tone: 'bad', text: t('pluginPaused', { title }) }];
    if (needsAttention(plugin)) {
      const { tone, word, meaning } = standingOf(plugin);
      return [{ ...base, tone: tone === 'bad' ? 'bad' : 'warn', text: plugin.state === 'active' ? t('pluginKept', { title }) : t('pluginState', { title, state: word }), more: plugin.refusal ? fromServer(plugin.refusal.code, plugin.refusal.reason) : (plugin.reason ?? meaning), at: plugin.quarantine?.since }];
    }
    const { failedShare } = ratesOf(plugin, samples);
    const failures = plugin.counters ? plugin.counters.errors + plugin.counters.panics + plugin.counters.timeouts : 0;
    if (failedShare === null || failedShare < FAILING_SHARE || failures < FAILING_CALLS) return [];
    return [{ ...base, tone: 'bad', text: t('pluginFails', { title, share: formatShare(failedShare) }), at: plugin.counters?.recent_faults?.[0]?.at, href: `${base.href}?tab=faults` }];
  });
}

/** How a plugin stands, with a sign where it needs attention. */
export function looksOf(plugin: RegisteredPlugin, samples: readonly Sample[]): Standing & { need: Attention | undefined } {
  const [need] = ofPlugins([plugin], samples);
  return { ...standingOf(plugin), need, ...(need && { shape: 'fail', tone: need.tone }) };
}

/** What needs attention first, then by title. */
export function pluginsInOrder(plugins: readonly RegisteredPlugin[], samples: readonly Sample[]): RegisteredPlugin[] {
  const inNeed = new Set(plugins.filter((plugin) => ofPlugins([plugin], samples).length > 0));
  return pluginsByNeed(plugins, (plugin) => inNeed.has(plugin));
}

export function ofKeys(keys: readonly ApiKey[], now = Date.now()): Attention[] {
  return keys
    .filter((key) => keyState(key, now).soon)
    .map((key) => ({
      key: `key ${key.id}`, icon: 'key', tone: 'warn', href: '/admin/mcp/keys?show=soon', button: t('rotate'),
      text: t('keyExpires', { name: key.name, when: formatRelative(key.expires_at ?? '', now) }),
      more: key.last_used_at ? t('lastUsed', { when: formatSince(key.last_used_at, now) }) : t('neverUsed'),
      at: key.expires_at,
    }));
}

/** Jobs of the last day that failed, as a whole or in part. What a dry run found is on the screen of whoever began it. */
export function ofJobs(jobs: readonly Job[], now = Date.now()): Attention[] {
  return jobs
    .filter((job) => job.args.dry_run !== true && (job.state === 'failed' || job.failed > 0) && now - Date.parse(job.finished_at ?? job.created_at) < DAY_MS)
    .map((job) => ({
      key: `job ${job.id}`, icon: 'list', tone: job.state === 'failed' ? 'bad' : 'warn', job: job.id, button: t('seeJobs'),
      text: job.state === 'failed' ? t('jobFailed', { job: jobTitle(job) }) : t('jobRows', { job: jobTitle(job), n: job.failed }),
      more: job.reason ?? undefined,
      at: job.finished_at ?? job.created_at,
    }));
}

export function ofKinds(kinds: readonly Kind[]): Attention[] {
  return kinds.flatMap(({ kind, warning }): Attention[] => (warning ? [{ key: `kind ${kind}`, icon: 'tag', tone: 'warn', text: t('kindWarns', { kind }), more: warning, href: '/admin/kinds', button: t('openKinds') }] : []));
}

/** But for plugins, which have lines of their own. */
export function ofSystem(system: System): Attention[] {
  return checksOf(system)
    .filter(({ tone, href }) => tone !== 'good' && !href)
    .map(({ tone, text }) => ({ key: `check ${text}`, icon: 'gear', tone: tone === 'bad' ? 'bad' : 'warn', text, href: '/admin/system', button: t('openSystem') }));
}

export function ofProxy(warnings: readonly string[]): Attention[] {
  return warnings.map((warning) => ({ key: `proxy ${warning}`, icon: 'route', tone: 'warn', text: t('proxyWarns'), more: warning, href: '/admin/proxy', button: t('openProxy') }));
}

export function ofApprovals(waiting: number): Attention[] {
  return waiting ? [{ key: 'approvals', icon: 'shield', tone: 'warn', text: t('callsWait', { n: waiting }), href: '/admin/approvals', button: t('openApprovals') }] : [];
}

/** The worst first. */
export function inOrder(lines: readonly Attention[]): Attention[] {
  return lines.toSorted((a, b) => Number(b.tone === 'bad') - Number(a.tone === 'bad'));
}
