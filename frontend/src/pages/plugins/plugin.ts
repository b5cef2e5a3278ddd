import type { PluginAct } from '../../api/plugins.ts';
import type { PluginCounters, PluginVersion, RegisteredPlugin } from '../../api/types.ts';
import { t } from '../../i18n/plugins.ts';

export interface Standing {
  tone: 'good' | 'warn' | 'bad' | 'quiet';
  shape: 'on' | 'half' | 'off' | 'fail';
  /** "Active" */
  word: string;
  /** In one plain sentence, for whoever does not know the word of the state. */
  meaning: string;
}

type State = 'active' | 'disabled' | 'refused' | 'failed' | 'quarantined' | 'draining' | 'retired';
const LOOKS: Record<State, Pick<Standing, 'tone' | 'shape'>> = {
  active: { tone: 'good', shape: 'on' },
  disabled: { tone: 'quiet', shape: 'off' },
  refused: { tone: 'bad', shape: 'fail' },
  failed: { tone: 'bad', shape: 'fail' },
  quarantined: { tone: 'bad', shape: 'fail' },
  draining: { tone: 'warn', shape: 'half' },
  retired: { tone: 'quiet', shape: 'off' },
};

/** What lies in the folder is out because somebody went back from it, and not for what the host found. */
function wentBack({ refusal, pending, versions }: Pick<RegisteredPlugin, 'refusal' | 'pending' | 'versions'>): boolean {
  const aside = versions.find(({ sha256 }) => sha256 === pending?.sha256)?.set_aside;
  return refusal?.code === 'rolled-back' && Boolean(aside) && aside?.by.kind !== 'host';
}

export function standingOf(plugin: Pick<RegisteredPlugin, 'state' | 'refusal' | 'pending' | 'versions' | 'version'>): Standing {
  const state = Object.hasOwn(LOOKS, plugin.state) ? (plugin.state as State) : null;
  if (!state) return { tone: 'warn', shape: 'half', word: t('state_starting'), meaning: t('means_starting') };
  const word = t(`state_${state}`);
  if (state === 'active' && wentBack(plugin)) return { ...LOOKS.active, word, meaning: t('means_wentBack', { version: plugin.version ?? '' }) };
  if (state === 'active' && plugin.refusal) return { tone: 'warn', shape: 'fail', word, meaning: t('means_kept') };
  return { ...LOOKS[state], word, meaning: t(`means_${state}`) };
}

export function titleOf(plugin: Pick<RegisteredPlugin, 'name' | 'title'>): string {
  return plugin.title || plugin.name;
}

export function isBroken(counters: PluginCounters | null | undefined): boolean {
  return (counters?.breaker.state ?? 'closed') !== 'closed';
}

/** Whether an operator should look at it. */
export function needsAttention(plugin: RegisteredPlugin): boolean {
  const { tone } = standingOf(plugin);
  return tone === 'bad' || (plugin.state === 'active' && tone === 'warn') || isBroken(plugin.counters);
}

/** What needs attention first, then by title. */
export function inOrder(plugins: readonly RegisteredPlugin[], needs: (plugin: RegisteredPlugin) => boolean = needsAttention): RegisteredPlugin[] {
  return plugins.toSorted((a, b) => Number(needs(b)) - Number(needs(a)) || titleOf(a).localeCompare(titleOf(b)));
}

/** Calls that went wrong, whoever's fault it was; those that the host rejected before they began are not among them. */
export function failuresOf(counters: PluginCounters): number {
  return counters.errors + counters.panics + counters.timeouts;
}

/** Faults of server and browser together. */
export function faultsOf(counters: PluginCounters | null | undefined): number {
  return counters ? failuresOf(counters) + counters.client_errors : 0;
}

/** The versions that it can go back to, the newest first. */
export function wayBack(plugin: Pick<RegisteredPlugin, 'versions'>): PluginVersion[] {
  return plugin.versions.filter((version) => version.can_roll_back);
}

/** What can be done with it, the most wanted first. */
export function actsFor(plugin: Pick<RegisteredPlugin, 'state' | 'refusal' | 'versions'>): PluginAct[] {
  if (plugin.state === 'retired') return [];
  if (plugin.state === 'disabled') return ['enable'];
  if (plugin.state === 'quarantined') return ['release', 'disable'];
  const back: PluginAct[] = wayBack(plugin).length ? ['rollback'] : [];
  const usual: PluginAct[] = ['reload', ...back, 'disable'];
  if (plugin.refusal?.code === 'destructive-migration' && plugin.refusal.losses?.length) return ['confirm-migration', ...usual];
  return plugin.refusal?.code === 'signer-changed' ? ['accept-signer', ...usual] : usual;
}

/** An upload that does not serve. */
export function isRemovable({ name, package: file, state }: Pick<RegisteredPlugin, 'name' | 'package' | 'state'>): boolean {
  return file === `${name}.so` && ['disabled', 'refused', 'failed', 'quarantined'].includes(state);
}

export interface Exchange {
  kind: string;
  /** Active plugins at the other end, but for this one. */
  others: RegisteredPlugin[];
}

function active(all: readonly RegisteredPlugin[], but: string): RegisteredPlugin[] {
  return all.filter((other) => other.state === 'active' && other.name !== but);
}

/** The kinds that it writes, each with who reads it. */
export function readersOf(plugin: RegisteredPlugin, all: readonly RegisteredPlugin[]): Exchange[] {
  return plugin.provides_kinds.map((kind) => ({ kind, others: active(all, plugin.name).filter((other) => other.reads_kinds.includes(kind)) }));
}

/** The kinds that it reads, each with who writes it. */
export function writersOf(plugin: RegisteredPlugin, all: readonly RegisteredPlugin[]): Exchange[] {
  return plugin.reads_kinds.map((kind) => ({ kind, others: active(all, plugin.name).filter((other) => other.provides_kinds.includes(kind)) }));
}

/** The kinds that nobody writes any more once it is out of service, and who reads them. */
export function unmetKinds(plugin: RegisteredPlugin, all: readonly RegisteredPlugin[]): Exchange[] {
  const writes = (other: RegisteredPlugin, kind: string) => other.provides_kinds.includes(kind);
  return readersOf(plugin, all).filter(({ kind, others }) => others.length > 0 && !active(all, plugin.name).some((other) => writes(other, kind)));
}

const CRASHES = ['segfault', 'stack-overflow', 'abort', 'fault', 'exit', 'hang', 'killed', 'stopped', 'descriptors', 'blocked'] as const;

export function crashInWords(cause: string): string {
  const known = CRASHES.find((name) => name === cause);
  return known ? t(`crash_${known}`) : t('crash_other', { cause });
}

const CAUSES = ['plugin', 'database', 'downstream', 'host', 'client', 'browser'] as const;

/** Where a fault came from. */
export function causeInWords(cause: string): string {
  const known = CAUSES.find((name) => name === cause);
  return known ? t(`cause_${known}`) : cause;
}

const PHASES = ['load', 'activate', 'register', 'render', 'late', 'hang'] as const;

/** What a plugin's tab was about when it failed in a browser. */
export function phaseInWords(phase: string): string {
  const known = PHASES.find((name) => name === phase);
  return known ? t(`phase_${known}`) : phase;
}

/** Where its calls run. */
export function executionInWords(execution: NonNullable<PluginCounters['execution']>): string {
  const { inline, handlers, most_threads: most } = execution;
  if (execution.execution === 'inline' || (handlers > 0 && inline === handlers)) return t('runsInline');
  if (execution.execution === 'lane' || inline === 0) return t('runsLane', { n: most || execution.lane_threads });
  return t('runsMixed', { inline, handlers, n: most || execution.lane_threads });
}
