import type { PluginAct } from '../../api/plugins.ts';
import type { PluginCounters, PluginVersion, RegisteredPlugin } from '../../api/types.ts';

type Tone = 'good' | 'warn' | 'bad' | 'idle';

export interface Standing {
  tone: Tone;
  /** In one plain sentence, for whoever does not know the word of the state. */
  meaning: string;
}

const STARTING: Standing = { tone: 'warn', meaning: 'On its way into service.' };
const STANDINGS: Record<string, Standing> = {
  active: { tone: 'good', meaning: 'In service.' },
  disabled: { tone: 'idle', meaning: 'Switched off by an operator, on every host. Its data is untouched.' },
  refused: { tone: 'bad', meaning: 'Turned away. It serves nothing, and nothing of it runs.' },
  failed: { tone: 'bad', meaning: 'The host could not do its part. A rescan tries again.' },
  quarantined: { tone: 'bad', meaning: 'Set aside on this host, because it took the server down.' },
  draining: { tone: 'warn', meaning: 'On its way out: calls that are under way still end.' },
  retired: { tone: 'idle', meaning: 'Its package was taken out of the folder. What it wrote to cards is still there.' },
};

export function standingOf(plugin: Pick<RegisteredPlugin, 'state' | 'refusal'>): Standing {
  const standing = STANDINGS[plugin.state] ?? STARTING;
  if (plugin.state !== 'active' || !plugin.refusal) return standing;
  return { tone: 'warn', meaning: 'In service as it was loaded before. The files that lie there now were turned away.' };
}

export function titleOf(plugin: Pick<RegisteredPlugin, 'name' | 'title'>): string {
  return plugin.title || plugin.name;
}

/** Whether an operator should look at it. */
export function needsAttention(plugin: RegisteredPlugin): boolean {
  const { tone } = standingOf(plugin);
  const breaker = plugin.counters?.breaker?.state ?? 'closed';
  return tone === 'bad' || (plugin.state === 'active' && tone === 'warn') || breaker !== 'closed';
}

/** Calls that went wrong, whoever's fault it was; those that the host turned away before they began are not among them. */
export function failuresOf(counters: PluginCounters): number {
  return counters.errors + counters.panics + counters.timeouts;
}

/** The versions that it can go back to, the newest first. */
export function wayBack(plugin: Pick<RegisteredPlugin, 'versions'>): PluginVersion[] {
  return (plugin.versions ?? []).filter((version) => version.can_roll_back);
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
  return (plugin.provides_kinds ?? []).map((kind) => ({ kind, others: active(all, plugin.name).filter((other) => other.reads_kinds?.includes(kind)) }));
}

/** The kinds that it reads, each with who writes it. */
export function writersOf(plugin: RegisteredPlugin, all: readonly RegisteredPlugin[]): Exchange[] {
  return (plugin.reads_kinds ?? []).map((kind) => ({ kind, others: active(all, plugin.name).filter((other) => other.provides_kinds?.includes(kind)) }));
}

/** The kinds that nobody writes any more once it is out of service, and who reads them. */
export function runDry(plugin: RegisteredPlugin, all: readonly RegisteredPlugin[]): Exchange[] {
  const writes = (other: RegisteredPlugin, kind: string) => other.provides_kinds?.includes(kind) ?? false;
  return readersOf(plugin, all).filter(({ kind, others }) => others.length > 0 && !active(all, plugin.name).some((other) => writes(other, kind)));
}

const CAUSES: Record<string, string> = {
  segfault: 'It read or wrote memory that is not its own (segmentation fault).',
  'stack-overflow': 'It used up its stack: an endless recursion, most likely.',
  abort: 'It aborted the process.',
  fault: 'Its code raised a fault of the processor.',
  exit: 'It ended the process.',
  hang: 'The process answered no more and was ended.',
  killed: 'The process was killed from outside, or the system was out of memory.',
  stopped: 'A signal had stopped the process; it answered no more and was ended.',
  descriptors: 'It closed or replaced file descriptors of the host, or lowered the limit of open files.',
  blocked: 'Its handlers never returned and held all its threads.',
};

export function crashInWords(cause: string): string {
  return CAUSES[cause] ?? `The process ended (${cause}).`;
}

const EXECUTIONS: Record<string, string> = {
  auto: 'chosen by how quick each handler is',
  inline: 'always on the core’s threads (inline)',
  lane: 'always on threads of its own (lane)',
};

/** Where its calls run. */
export function executionInWords(execution: NonNullable<PluginCounters['execution']>): string {
  const { inline, handlers } = execution;
  const chosen = EXECUTIONS[execution.execution] ?? execution.execution;
  if (execution.execution !== 'auto') return chosen;
  if (inline === handlers) return `on the core’s threads (inline), ${chosen}`;
  if (inline === 0) return `on threads of its own (lane), ${chosen}`;
  return `${inline} of ${handlers} handlers on the core’s threads (inline), the others on the plugin’s own (lane), ${chosen}`;
}
