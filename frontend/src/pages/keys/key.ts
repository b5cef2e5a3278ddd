import type { ApiKey } from '../../api/types.ts';

const SOON_MS = 14 * 86_400_000;

export interface KeyState {
  text: string;
  tone: 'good' | 'warn' | 'bad' | 'idle';
  usable: boolean;
}

export function keyState(key: Pick<ApiKey, 'revoked_at' | 'expires_at'>, now = Date.now()): KeyState {
  if (key.revoked_at) return { text: 'revoked', tone: 'idle', usable: false };
  if (!key.expires_at) return { text: 'active', tone: 'good', usable: true };
  const left = Date.parse(key.expires_at) - now;
  if (left <= 0) return { text: 'expired', tone: 'idle', usable: false };
  return left < SOON_MS ? { text: 'expires soon', tone: 'warn', usable: true } : { text: 'active', tone: 'good', usable: true };
}

/** The keys that work and go with this one: its rotations, and what was made with any of them. */
export function usableLineage(id: string, keys: ApiKey[], now = Date.now()): ApiKey[] {
  const found = new Set([id]);
  const grow = (goesAlong: (key: ApiKey) => boolean) => {
    for (let before = 0; before < found.size; ) {
      before = found.size;
      for (const key of keys) if (goesAlong(key)) found.add(key.id);
    }
  };
  const follows = (key: ApiKey) => key.replaces_id !== null && found.has(key.replaces_id);
  const isReplaced = (old: ApiKey) => keys.some((key) => found.has(key.id) && key.replaces_id === old.id);
  grow((key) => follows(key) || isReplaced(key));
  grow((key) => follows(key) || (key.made_by_key_id !== null && found.has(key.made_by_key_id)));
  return keys.filter((key) => key.id !== id && found.has(key.id) && keyState(key, now).usable);
}

/** The Admin UI and MCP are served by one host under one origin. */
export function mcpEndpoint(origin = location.origin): string {
  return `${origin}/api`;
}

export function curlSnippet(secret: string, origin = location.origin): string {
  return `curl -H 'Authorization: Bearer ${secret}' '${origin}/v1/admin/master-cards?limit=10'`;
}

/** The form that most MCP clients read. */
export function mcpClientSnippet(secret: string, origin = location.origin): string {
  const server = { type: 'http', url: mcpEndpoint(origin), headers: { Authorization: `Bearer ${secret}` } };
  return JSON.stringify({ mcpServers: { cardinal: server } }, null, 2);
}
