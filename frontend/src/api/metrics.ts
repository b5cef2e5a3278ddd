import { request } from './client.ts';

/** What the host counts, read out of its page for Prometheus. Times are in seconds. */

/** Calls by how long they took: how many took at most so many seconds, each bound with all below it. */
export type Durations = ReadonlyMap<number, number>;

/** Counted since the host or the plugin began. */
export interface Counts {
  calls: number;
  failed: number;
  durations: Durations;
}

export interface Sample {
  /** Milliseconds since 1970. */
  at: number;
  /** By the plugin's name. */
  plugins: ReadonlyMap<string, Counts>;
  /** By `METHOD /path` of the route table, for routes of plugins. */
  routes: ReadonlyMap<string, Counts>;
}

interface Building {
  calls: number;
  failed: number;
  durations: Map<number, number>;
}

const LINE = /^([a-z_]+)\{([^}]*)\} (\S+)$/;
const LABEL = /(\w+)="([^"]*)"/g;
const REQUESTS = 'cardinal_http_request_duration_seconds';
const CALLS = 'cardinal_plugin_call_duration_seconds';
const FAULTS = 'cardinal_plugin_faults_total';
const PLUGIN_ROUTES = '/v1/admin/plugins/';

export function parseMetrics(text: string, at: number): Sample {
  const plugins = new Map<string, Building>();
  const routes = new Map<string, Building>();
  for (const line of text.split('\n')) {
    const match = line.startsWith('cardinal_') ? LINE.exec(line) : null;
    if (!match) continue;
    const [, name = '', labelled = '', value = ''] = match;
    const labels = Object.fromEntries([...labelled.matchAll(LABEL)].map(([, key = '', label = '']) => [key, label]));
    const number = Number(value);
    if (name.startsWith(REQUESTS)) {
      const { method = '', route = '', status = '' } = labels;
      const failed = status === '5xx';
      if (route.startsWith(PLUGIN_ROUTES)) add(entry(routes, `${method} ${route}`), name.slice(REQUESTS.length), labels.le, number, failed);
    } else if (name.startsWith(CALLS)) {
      add(entry(plugins, labels.plugin ?? ''), name.slice(CALLS.length), labels.le, number, false);
    } else if (name === FAULTS && labels.kind !== 'refused') {
      entry(plugins, labels.plugin ?? '').failed += number;
    }
  }
  return { at, plugins, routes };
}

function counts(): Building {
  return { calls: 0, failed: 0, durations: new Map() };
}

function entry(all: Map<string, Building>, key: string): Building {
  const found = all.get(key) ?? counts();
  all.set(key, found);
  return found;
}

function add(to: Building, part: string, le: string | undefined, value: number, failed: boolean): void {
  if (part === '_count') {
    to.calls += value;
    if (failed) to.failed += value;
  } else if (part === '_bucket' && le !== undefined) {
    const bound = le === '+Inf' ? Infinity : Number(le);
    to.durations.set(bound, (to.durations.get(bound) ?? 0) + value);
  }
}

/** What happened between two samples. A counter that went down began anew: then all of `now` is since. */
export function between(before: Counts | undefined, now: Counts): Counts {
  if (!before || before.calls > now.calls) return now;
  const durations = new Map([...now.durations].map(([bound, count]) => [bound, count - (before.durations.get(bound) ?? 0)]));
  return { calls: now.calls - before.calls, failed: Math.max(0, now.failed - before.failed), durations };
}

/** The time within which the share `q` of the calls ended; `Infinity` beyond the last bound, null without calls. */
export function quantile({ durations }: Counts, q: number): number | null {
  const bounds = [...durations].toSorted(([a], [b]) => a - b);
  const total = bounds.at(-1)?.[1] ?? 0;
  if (total <= 0) return null;
  const rank = q * total;
  let [low, below] = [0, 0];
  for (const [bound, count] of bounds) {
    if (count >= rank) {
      if (bound === Infinity) return Infinity;
      // Within a bucket the calls are taken as evenly spread, as Prometheus does.
      return count === below ? bound : low + ((bound - low) * (rank - below)) / (count - below);
    }
    [low, below] = [bound, count];
  }
  return null;
}

export async function readMetrics(signal?: AbortSignal): Promise<Sample> {
  const text = await request<string>('/metrics', { root: '', signal, once: true });
  return parseMetrics(text, Date.now());
}
