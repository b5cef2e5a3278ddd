import type { ApiKey } from '../../api/types.ts';
import { t } from '../../i18n/keys.ts';

const SOON_MS = 14 * 86_400_000;

export interface KeyState {
  text: string;
  tone: 'good' | 'warn' | 'quiet';
  shape: 'on' | 'fail' | 'off';
  usable: boolean;
  /** It still works, and not for long. */
  soon: boolean;
}

export function keyState(key: Pick<ApiKey, 'revoked_at' | 'expires_at'>, now = Date.now()): KeyState {
  const ended = { tone: 'quiet', shape: 'off', usable: false, soon: false } as const;
  if (key.revoked_at) return { ...ended, text: t('state_revoked') };
  const left = key.expires_at ? Date.parse(key.expires_at) - now : Infinity;
  if (left <= 0) return { ...ended, text: t('state_expired') };
  const soon = left < SOON_MS;
  return { text: soon ? t('state_soon') : t('state_active'), tone: soon ? 'warn' : 'good', shape: soon ? 'fail' : 'on', usable: true, soon };
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

/** A request that the key may make: one that is good at MCP alone lists the tools. */
export function curlSnippet(secret: string, mcpOnly: boolean, origin = location.origin): string {
  const curl = `curl -H 'Authorization: Bearer ${secret}'`;
  if (!mcpOnly) return `${curl} '${origin}/v1/admin/master-cards?limit=10'`;
  return `${curl} -H 'Content-Type: application/json' -d '${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} })}' '${mcpEndpoint(origin)}'`;
}

/** The form that most MCP clients read. */
export function mcpClientSnippet(secret: string, origin = location.origin): string {
  const server = { type: 'http', url: mcpEndpoint(origin), headers: { Authorization: `Bearer ${secret}` } };
  return JSON.stringify({ mcpServers: { cardinal: server } }, null, 2);
}
