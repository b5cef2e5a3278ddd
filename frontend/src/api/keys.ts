import { query, request } from './client.ts';
import { allPages } from './page.ts';
import type { ApiKey } from './types.ts';

export interface NewKey {
  name: string;
  scopes: string[];
  expires_at?: string;
  expires_in_days?: number;
  /** Good at the MCP endpoint alone. */
  mcp_only?: boolean;
  /** Absent: the server's default. null: none. */
  rate_limit?: { per_minute: number } | null;
}

/** The only answer that ever carries the secret. */
export interface IssuedKey {
  item: ApiKey;
  key: string;
}

const keyPath = (id: string) => `/api-keys/${encodeURIComponent(id)}`;

const KEYS_PER_REQUEST = 200;

/** All of them: a list of keys is short, and whoever looks for one to revoke must not miss it. */
export function listKeys(signal: AbortSignal): Promise<ApiKey[]> {
  return allPages('/api-keys', { limit: KEYS_PER_REQUEST }, signal);
}

export function createKey(key: NewKey): Promise<IssuedKey> {
  return request('/api-keys', { method: 'POST', body: key });
}

export function rotateKey(id: string, overlapSeconds: number): Promise<IssuedKey> {
  return request(`${keyPath(id)}/rotate`, { method: 'POST', body: { overlap_seconds: overlapSeconds } });
}

/** With it goes its lineage, unless that is kept. */
export function revokeKey(id: string, keepChildren: boolean): Promise<void> {
  return request(`${keyPath(id)}${query({ keep_children: keepChildren ? 'true' : null })}`, { method: 'DELETE' });
}
