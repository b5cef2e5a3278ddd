import { request } from './client.ts';
import type { ApiKey } from './types.ts';

export interface NewKey {
  name: string;
  scopes: string[];
  expires_at?: string;
  expires_in_days?: number;
  /** Absent: the server's default. null: none. */
  rate_limit?: { per_minute: number } | null;
}

/** The only answer that ever carries the secret. */
export interface IssuedKey {
  item: ApiKey;
  key: string;
}

const keyPath = (id: string) => `/api-keys/${encodeURIComponent(id)}`;

export async function listKeys(signal: AbortSignal): Promise<ApiKey[]> {
  return (await request<{ items: ApiKey[] }>('/api-keys', { signal })).items;
}

export function createKey(key: NewKey): Promise<IssuedKey> {
  return request('/api-keys', { method: 'POST', body: key });
}

export function rotateKey(id: string, overlapSeconds: number): Promise<IssuedKey> {
  return request(`${keyPath(id)}/rotate`, { method: 'POST', body: { overlap_seconds: overlapSeconds } });
}

export function revokeKey(id: string): Promise<void> {
  return request(keyPath(id), { method: 'DELETE' });
}
