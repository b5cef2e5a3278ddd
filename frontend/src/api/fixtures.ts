import type { ActivePlugin, PluginCounters, PluginVersion, RegisteredPlugin } from './types.ts';

/** What the host sends of a plugin that does nothing, for tests: each says only what it is about. */

const BARE = { api_prefix: null, card_actions: [], description: null, list_columns: [], pages: [], provides_kinds: [], reads_kinds: [], tabs: [] };

export function activePlugin(name: string, more: Partial<ActivePlugin> = {}): ActivePlugin {
  return { ...BARE, name, title: name, version: '1.0.0', frontend: null, ...more };
}

export function registeredPlugin(name: string, more: Partial<RegisteredPlugin> = {}): RegisteredPlugin {
  return {
    ...BARE, name, package: name, state: 'active', author: null, budgets: null, core_version: null, counters: null, crash: null, generation: null,
    generations: [], jobs: [], library: null, pending: null, plugin_api_version: null, quarantine: null, reason: null, refusal: null, routes: [],
    sha256: null, signed_by: null, threads: 0, title: null, tools: [], version: null, versions: [], warnings: [], ...more,
  };
}

export function pluginCounters(more: Partial<PluginCounters> = {}): PluginCounters {
  return {
    breaker: { mode: 'on', state: 'closed', opened: 0, faults: 0, retry_after_seconds: null }, calls: 0, causes: {}, client_errors: 0, client_hangs: 0,
    errors: 0, execution: null, in_flight: 0, log_lines: 0, log_lines_dropped: 0, panics: 0, recent_faults: [], refused: 0, timeouts: 0, ...more,
  };
}

export function pluginVersion(version: string, more: Partial<PluginVersion> = {}): PluginVersion {
  return { version, sha256: version, state: 'kept', can_roll_back: true, activated_at: null, set_aside: null, ...more };
}

export function setAsideBy(kind: string): PluginVersion['set_aside'] {
  return { at: '2026-01-01T00:00:00Z', reason: 'slow', by: { kind, id: null, name: null } };
}
