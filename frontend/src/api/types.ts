/** What the server sends; see `/v1/admin/openapi.json` of a running host for all of it. */

export type CardStatus = 'draft' | 'active' | 'archived';
export const CARD_STATUSES: readonly CardStatus[] = ['draft', 'active', 'archived'];

export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json;
}

export interface Source {
  kind: string;
  data: Json;
  plugin?: string;
  plugin_version?: string;
  updated_at?: string;
  updated_by?: { kind: string; id: string; name?: string };
}

export interface Card {
  id: string;
  title: string;
  sku: string;
  status: CardStatus;
  attributes: JsonObject & { sources?: Record<string, Source> };
  version: number;
  created_at: string;
  updated_at: string;
}

export type ListedCard = Omit<Card, 'attributes'>;

export interface CardPage {
  items: ListedCard[];
  next_cursor: string | null;
  prev_cursor: string | null;
  total_estimate: number | null;
}

export interface Me {
  user: { id: string; username: string; kind: string };
  scopes: string[];
  auth: string;
  expires_at: string | null;
}

export interface ApiKey {
  id: string;
  name: string;
  key_hint: string;
  scopes: string[];
  rate_limit: { per_minute: number; burst?: number | null } | null;
  expires_at: string | null;
  created_at: string;
  last_used_at: string | null;
  last_used_ip: string | null;
  revoked_at: string | null;
  revoked_reason: string | null;
  /** The key that this one was rotated from. */
  replaces_id: string | null;
  /** The key that was rotated from this one and is not revoked. */
  replaced_by_id: string | null;
  /** The key that this one was made with, or its successor. */
  made_by_key_id: string | null;
}

export interface PluginTab {
  id: string;
  label: string;
}

/** An active plugin, as far as the UI needs it. */
export interface ActivePlugin {
  name: string;
  version: string;
  title: string | null;
  tabs: PluginTab[];
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
  budgets?: { calls: { most: number; used: number }; connections: { most: number; used: number }; memory_bytes: number } | null;
  /** What this host can go back to, and what was rolled back; the one that was put into service last first. */
  versions?: PluginVersion[];
  library?: { sdk: string; rustc: string } | null;
  tabs?: PluginTab[];
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
  set_aside?: { reason?: string } | null;
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
export interface PluginSettings {
  name: string;
  /** What the plugin gets: the three layers below put together. */
  settings: JsonObject;
  stored: JsonObject;
  environment: JsonObject;
  defaults: JsonObject;
  /** Null when the plugin has no settings. */
  schema: JsonObject | null;
  /** JSON pointers to secrets that have to be given again. */
  unreadable: string[];
  version: number;
}

/** A source of a card without its data, as the card's list of sources has it. */
export interface ListedSource {
  source_key: string;
  /** Its plugin is not installed any more. */
  orphaned: boolean;
}
