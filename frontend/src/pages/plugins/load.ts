import { between, quantile, type Counts, type Sample } from '../../api/metrics.ts';
import { rates, spans, type Span } from '../../api/traffic.ts';
import type { PluginRoute, RegisteredPlugin } from '../../api/types.ts';

/** How much a plugin is called and how it does, of the last hour as far as this page has been open. */
export interface Load {
  perMinute: number | null;
  failedShare: number | null;
  /** Seconds. */
  p50: number | null;
  p99: number | null;
}

function loadOf(samples: readonly Sample[], pick: (sample: Sample) => Counts | undefined, sinceMs: number | null): Load {
  const found = rates(samples, pick, sinceMs);
  if (!found) return { perMinute: null, failedShare: null, p50: null, p99: null };
  const { perMinute, failedShare, counts } = found;
  return { perMinute, failedShare, p50: quantile(counts, 0.5), p99: quantile(counts, 0.99) };
}

/** When the generation that serves began to count. */
function since({ generations, generation }: RegisteredPlugin): number | null {
  const serving = generations.find((one) => one.generation === generation);
  return serving ? Date.parse(serving.since) : null;
}

export function ratesOf(plugin: RegisteredPlugin, samples: readonly Sample[]): Load {
  return loadOf(samples, ({ plugins }) => plugins.get(plugin.name), since(plugin));
}

export function spansOf(plugin: RegisteredPlugin, samples: readonly Sample[]): Span[] {
  return spans(samples, ({ plugins }) => plugins.get(plugin.name));
}

/** The 99th percentile of each span, for its line. */
export function slowest(plugin: RegisteredPlugin, samples: readonly Sample[]): number[] {
  return samples.slice(1).map((now, i) => {
    const counts = now.plugins.get(plugin.name);
    const value = counts ? quantile(between(samples[i]?.plugins.get(plugin.name), counts), 0.99) : null;
    return value === null ? 0 : Math.min(value, 10);
  });
}

export function routeLoad(plugin: RegisteredPlugin, route: PluginRoute, samples: readonly Sample[]): Load {
  return loadOf(samples, ({ routes }) => routes.get(`${route.method} ${routePath(plugin, route)}`), since(plugin));
}

/** The whole path of a plugin's route. */
export function routePath({ api_prefix, name }: RegisteredPlugin, { path }: Pick<PluginRoute, 'path'>): string {
  return `/v1/admin/plugins/${api_prefix ?? name}${path}`;
}
