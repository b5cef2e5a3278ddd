import type { Finding } from '../../api/generated.ts';
import type { System } from '../../api/system.ts';
import type { Json } from '../../api/types.ts';
import { fromServer } from '../../i18n/catalogue.svelte.ts';
import { t } from '../../i18n/operate.ts';

export interface Check {
  tone: 'good' | 'warn' | 'bad';
  text: string;
  href?: string;
  /** What was looked at. */
  subject?: string;
  /** What was found there, and what to do. */
  notes?: string[];
}

/** Of the open files that a process may have, from here on somebody should look. */
const MANY_FILES = 0.8;
const OUT_OF_SERVICE = ['refused', 'failed', 'quarantined'];

/** What the host knows about itself that an operator has to know. */
export function checksOf(system: System): Check[] {
  const { health, pools, process, unattributed_crashes: crashes, worker_restarts: restarts, log, undeclared_proxies: proxies, plugins } = system;
  const out = OUT_OF_SERVICE.reduce((sum, state) => sum + (plugins[state] ?? 0), 0);
  const waiting = pools.filter((pool) => pool.waiting > 0);
  const checks: Check[] = [
    health.database.up ? { tone: 'good', text: t('check_database', { version: health.database.version?.split(' ', 1)[0] ?? '' }) } : { tone: 'bad', text: t('check_database_down') },
    health.ready ? { tone: 'good', text: t('check_ready') } : { tone: 'bad', text: t('check_not_ready', { state: health.state }) },
    out ? { tone: 'warn', text: t('check_plugins', { n: out }), href: '/admin/plugins?show=attention' } : { tone: 'good', text: t('check_plugins_well', { n: plugins.active ?? 0 }), href: '/admin/plugins' },
    ...(waiting.length ? waiting.map(({ pool, plugin, waiting: n }): Check => ({ tone: 'warn', text: t('check_pool', { n, pool: plugin ?? pool }) })) : [{ tone: 'good' as const, text: t('check_pools') }]),
    { tone: process.open_fds > process.max_fds * MANY_FILES ? 'warn' : 'good', text: t('check_files', { used: process.open_fds, most: process.max_fds }) },
    crashes.count ? { tone: 'warn', text: t('check_crashes', { n: crashes.count }) } : { tone: 'good', text: t('check_no_crashes') },
  ];
  if (restarts) checks.push({ tone: 'warn', text: t('check_restarts', { n: restarts }) });
  if (log.dropped_lines) checks.push({ tone: 'warn', text: t('check_dropped', { n: log.dropped_lines }) });
  if (proxies.length) checks.push({ tone: 'warn', text: t('check_proxies', { list: proxies.join(', ') }) });
  return checks;
}

const WORST = ['bad', 'warn', 'good'];
const TONES = { error: 'bad', warning: 'warn', ok: 'good' } as const;

export function worstFirst(checks: readonly Check[]): Check[] {
  return checks.toSorted((a, b) => WORST.indexOf(a.tone) - WORST.indexOf(b.tone));
}

/** The same of what `cardinal check` says, in the server's words where Russian has none of its own. */
export function findingsOf(findings: readonly Finding[]): Check[] {
  return findings.map(({ code, severity, subject, message, found, expected, fix }) => ({
    tone: TONES[severity],
    subject,
    text: fromServer(code, message),
    notes: [found && t('foundWhat', { found }), expected && t('expectedWhat', { expected }), fix].filter((note) => typeof note === 'string'),
  }));
}

/** A setting's value in one line. */
export function settingShown(value: Json | undefined): string {
  if (value === null || value === undefined) return t('notSet');
  if (Array.isArray(value)) return value.length ? value.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))).join(', ') : t('none');
  return typeof value === 'string' ? value : JSON.stringify(value);
}
