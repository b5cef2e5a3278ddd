import { createQuery } from '../../api/create-query.svelte.ts';
import { listRegisteredPlugins } from '../../api/plugins.ts';
import { session } from '../../api/session.svelte.ts';
import { getSystem } from '../../api/system.ts';

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

/** Whether the host takes uploads, and has packages removed; who may not ask for it hears it from the host. */
export function uploadsQuery() {
  const system = createQuery(() => ({ queryKey: ['system'], queryFn: getSystem, enabled: session.can('plugins:manage') && session.can('system:read') }));
  return {
    get isOff() {
      return system.data?.settings.PLUGIN_UPLOAD === 'off';
    },
  };
}
