import { createQuery } from '../../api/create-query.svelte.ts';
import { listRegisteredPlugins } from '../../api/plugins.ts';

/** Changes of plugins are told by events; calls and faults are counted without any. */
const COUNTERS_EVERY_MS = 10_000;

/** Every plugin that was found, for the list, for each plugin's page and for the first page. */
export function registryQuery(enabled: () => boolean = () => true) {
  return createQuery(() => ({
    queryKey: ['plugin-registry'],
    queryFn: listRegisteredPlugins,
    refetchInterval: COUNTERS_EVERY_MS,
    enabled: enabled(),
  }));
}
