import { expect, it } from 'vitest';
import type { ApiKey } from '../../api/types.ts';
import { curlSnippet, keyState, mcpClientSnippet, usableLineage } from './key.ts';
import { newKey, type KeyForm } from './key-form.ts';

const form: KeyForm = { name: ' Robot ', preset: 'mcp', scopes: ['cards:purge'], mcpOnly: undefined, expiry: '90', expiresOn: '', rate: 'default', perMinute: 600 };

it('a preset gives its scopes, a choice by hand its own', () => {
  expect(newKey(form)).toEqual({ name: 'Robot', scopes: ['mcp:use', 'cards:read', 'plugin:*:read', 'plugin:*:write'], expires_in_days: 90, mcp_only: true });
  expect(newKey({ ...form, preset: 'own' }).scopes).toEqual(['cards:purge']);
});

it('a key for a client of MCP is good there alone, unless one says otherwise', () => {
  const made = (changed: Partial<KeyForm>) => newKey({ ...form, ...changed }).mcp_only;
  expect([made({}), made({ mcpOnly: false }), made({ preset: 'own', scopes: ['mcp:use'] }), made({ preset: 'own', scopes: ['mcp:use'], mcpOnly: true })]).toEqual([true, undefined, undefined, true]);
  expect([made({ preset: 'own', mcpOnly: true }), made({ preset: 'read', mcpOnly: true })], 'it would be good for nothing').toEqual([undefined, undefined]);
});

it('expiry is in days, on a date, or never', () => {
  expect(newKey({ ...form, expiry: 'never' })).not.toHaveProperty('expires_in_days');
  const dated = newKey({ ...form, expiry: 'date', expiresOn: '2030-05-01' });
  expect(new Date(dated.expires_at ?? '').getTime()).toBe(new Date(2030, 4, 1, 23, 59, 59).getTime());
});

it('the limit is the default, the key’s own, or none', () => {
  expect(newKey(form)).not.toHaveProperty('rate_limit');
  expect(newKey({ ...form, rate: 'own', perMinute: 5 }).rate_limit).toEqual({ per_minute: 5 });
  expect(newKey({ ...form, rate: 'none' }).rate_limit).toBeNull();
});

it('tells keys that work from those that do not', () => {
  const now = Date.parse('2025-06-01T00:00:00Z');
  const state = (revoked_at: string | null, expires_at: string | null) => keyState({ revoked_at, expires_at }, now);
  expect(state(null, null)).toMatchObject({ text: 'Active', usable: true });
  expect(state(null, '2025-06-03T00:00:00Z')).toMatchObject({ text: 'Expires soon', usable: true });
  expect(state(null, '2025-05-31T00:00:00Z')).toMatchObject({ text: 'Expired', usable: false });
  expect(state('2025-05-01T00:00:00Z', null)).toMatchObject({ text: 'Revoked', usable: false });
});

it('finds what goes with a key', () => {
  const key = (id: string, made_by_key_id: string | null, replaces_id: string | null = null, more: Partial<ApiKey> = {}) =>
    ({ id, made_by_key_id, replaces_id, revoked_at: null, expires_at: null, ...more }) as ApiKey;
  const over = { revoked_at: '2025-05-01T00:00:00Z' };
  const keys = [
    key('grandchild', 'child'), key('child', 'root'), key('of revoked', 'revoked'), key('revoked', 'root', null, over),
    key('root', null), key('other', null), key('self', 'self'), key('newer', null, 'root'), key('newest', null, 'newer'),
    key('of newest', 'newest'), key('rotated by another', 'child', 'other'),
  ];
  const ids = (id: string) => usableLineage(id, keys).map((found) => found.id);
  const whole = ['grandchild', 'child', 'of revoked', 'newer', 'newest', 'of newest', 'rotated by another'];
  expect(ids('root')).toEqual(whole);
  expect(new Set(ids('newest'))).toEqual(new Set([...whole.filter((id) => id !== 'newest'), 'root']));
  expect([ids('child'), ids('self'), ids('other')]).toEqual([['grandchild', 'rotated by another'], [], ['rotated by another']]);
});

it('the snippets name the server and carry the key', () => {
  expect(curlSnippet('mpk_x', false, 'https://c.example')).toBe("curl -H 'Authorization: Bearer mpk_x' 'https://c.example/v1/admin/master-cards?limit=10'");
  expect(curlSnippet('mpk_x', true, 'https://c.example')).toMatch(/^curl -H 'Authorization: Bearer mpk_x' .*"tools\/list".* 'https:\/\/c.example\/api'$/);
  expect(JSON.parse(mcpClientSnippet('mpk_x', 'https://c.example'))).toEqual({
    mcpServers: { cardinal: { type: 'http', url: 'https://c.example/api', headers: { Authorization: 'Bearer mpk_x' } } },
  });
});
