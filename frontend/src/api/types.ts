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

export type ListedCard = Omit<Card, 'attributes' | 'version'>;

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
  version: string | null;
  title?: string | null;
  description?: string | null;
  state: string;
  /** In one sentence, whatever keeps it from serving. */
  reason?: string | null;
  refusal?: Refusal | null;
  /** The folder or file that it was found in. */
  package?: string;
  sha256?: string | null;
  api_prefix?: string | null;
  routes?: unknown[];
  tools?: { name: string }[];
  tabs?: PluginTab[];
  warnings?: string[];
  counters?: { calls: number; errors: number; panics: number; timeouts: number } | null;
}

export interface Refusal {
  code: string;
  reason?: string;
  expected?: string | null;
  found?: string | null;
  fix?: string | null;
}
