import type { Card as CardAsSent, CardPage as CardPageAsSent, JsonObject, PluginSettings as PluginSettingsAsSent, Source as SourceAsSent, Status } from './generated.ts';

/**
 * What the server sends. `generated.ts` has all that its description of the API says; here is what that leaves open, and
 * what the description does not tell: the plugins of `/plugins` and `/plugin-registry`.
 */

export type { ApiKey, Json, JsonObject, ListedSource, Me } from './generated.ts';

export type CardStatus = Status;
export const CARD_STATUSES: readonly CardStatus[] = ['draft', 'active', 'archived'];

/** Without its author where it is older than that. */
export type Source = Pick<SourceAsSent, 'kind' | 'data'> & { [K in 'plugin' | 'plugin_version' | 'updated_at']?: NonNullable<SourceAsSent[K]> } & {
  updated_by?: { kind: string; id: string; name?: string };
};

export type Card = Omit<CardAsSent, 'attributes' | 'deleted_at'> & { attributes: JsonObject & { sources?: Record<string, Source> } };

export type ListedCard = Omit<Card, 'attributes'>;

/** The members that a list asks for. */
export type CardPage = Omit<CardPageAsSent, 'items'> & { items: ListedCard[] };

export interface PluginTab {
  id: string;
  label: string;
  /** Of a card's tab: it asks to be drawn apart from the page. */
  frame?: boolean;
}

/** A column of the card list: a value of the plugin's own sources, or what a route of it says. */
export interface ListColumn {
  id: string;
  label: string;
  kind?: string;
  /** A JSON pointer into the source's data. */
  value?: string;
  /** In place of `kind` and `value`; below the plugin's prefix. */
  route?: string;
  format: 'text' | 'number' | 'percent' | 'date';
}

export interface CardAction {
  id: string;
  label: string;
  on: ('card' | 'selection')[];
  /** Below the plugin's prefix; without it the plugin's frontend draws a dialog. */
  route: { method: string; path: string } | null;
  confirm: string | null;
}

/** An active plugin, as far as the UI needs it. */
export interface ActivePlugin {
  name: string;
  version: string;
  title: string | null;
  api_prefix: string | null;
  tabs: PluginTab[];
  pages: PluginTab[];
  list_columns: ListColumn[];
  card_actions: CardAction[];
  frontend: { main_url: string; integrity: string } | null;
}

/** Any plugin that was found, whatever became of it. */
export interface RegisteredPlugin {
  name: string;
  /** The folder or file that it was found in. */
  package: string;
  state: string;
  /** Of a plugin in service: why the files that lie there now do not replace what serves. */
  refusal?: Refusal | null;
  /** In one sentence, whatever keeps it from serving. */
  reason?: string | null;
  quarantine?: Quarantine | null;
  /** The last time that it ended the process that serves. */
  crash?: Crash | null;
  warnings?: string[];
  version?: string | null;
  title?: string | null;
  description?: string | null;
  author?: string | null;
  core_version?: string | null;
  plugin_api_version?: string | null;
  api_prefix?: string | null;
  sha256?: string | null;
  signed_by?: string | null;
  /** The files that lie there now, when what was loaded before serves in their place; `refusal` is theirs. */
  pending?: { version?: string | null; sha256?: string | null; signed_by?: string | null } | null;
  generation?: number | null;
  generations?: { generation: number; since: string; state: string; version: string; sha256: string; retired_at: string | null }[];
  budgets?: { calls: { most: number; used: number }; connections: { most: number; used: number }; memory_bytes: number; /** Open files that are known to be its own. */ descriptors: number } | null;
  /** What this host can go back to, and what was rolled back; the one that was put into service last first. */
  versions?: PluginVersion[];
  library?: { sdk: string; rustc: string } | null;
  tabs?: PluginTab[];
  pages?: PluginTab[];
  list_columns?: ListColumn[];
  card_actions?: CardAction[];
  /** What it declares to be run as jobs. */
  jobs?: { name: string; title?: string | null; schedule?: string | null }[];
  provides_kinds?: string[];
  reads_kinds?: string[];
  routes?: PluginRoute[];
  tools?: PluginTool[];
  counters?: PluginCounters | null;
}

export interface PluginVersion {
  version: string;
  sha256: string;
  state: string;
  activated_at?: string | null;
  can_roll_back: boolean;
  /** Why it is not put into service by itself any more. */
  set_aside?: { reason?: string; by?: { kind?: string } } | null;
}

export interface Refusal {
  code: string;
  reason: string;
  expected?: string | null;
  found?: string | null;
  fix: string;
  /** Tables and columns that would be lost: an operator may agree to exactly these. */
  losses?: string[];
}

export interface Crash {
  at: string;
  cause: string;
  /** How the process ended, as a shell would say it. */
  ended: string;
  plugin?: { name: string; version: string; handler?: string | null; offset?: string | null } | null;
  thread?: string | null;
  in_flight?: { plugin: string; version: string; calls: number }[];
  uptime_ms: number;
}

export interface Quarantine {
  version: string;
  since: string;
  /** Nobody saw it do anything: it alone was at work at each of several unattributed crashes. */
  suspected: boolean;
  crash: Crash;
}

export interface PluginRoute {
  method: string;
  path: string;
  scope: string;
  timeout_ms: number;
  max_body_bytes: number;
}

export interface PluginTool {
  name: string;
  title?: string | null;
  description: string;
  scope: string;
  requires_confirmation: boolean;
}

export interface PluginFault {
  at: string;
  kind: string;
  cause: string;
  handler: string;
  ms: number;
  request_id: string;
}

export interface PluginCounters {
  calls: number;
  errors: number;
  panics: number;
  timeouts: number;
  refused: number;
  in_flight: number;
  /** Failures of its frontend that browsers reported. */
  client_errors?: number;
  /** Those among them in which it held up its page for seconds. */
  client_hangs?: number;
  breaker?: { mode: string; state: string; retry_after_seconds?: number | null; opened: number; faults: number };
  causes?: Record<string, number>;
  recent_faults?: PluginFault[];
  execution?: {
    execution: string;
    inline: number;
    handlers: number;
    lane_threads: number;
    most_threads?: number;
    blocked_core: number;
    blocked_lane: number;
    blocking: { handler: string; longest_ms: number }[];
  } | null;
}

/** A plugin's settings; a secret that is set is `{"set": true}`. */
export type PluginSettings = Omit<PluginSettingsAsSent, 'settings' | 'stored' | 'environment' | 'defaults' | 'schema'> & {
  /** What the plugin gets: the three layers below put together. */
  settings: JsonObject;
  stored: JsonObject;
  environment: JsonObject;
  defaults: JsonObject;
  /** Null when the plugin has no settings. */
  schema: JsonObject | null;
};
