import { expect, it } from 'vitest';
import type { AuditLine } from '../../api/audit.ts';
import type { Job } from '../../api/jobs.ts';
import { actionInWords, changesOf, dayBound, namesOf, targetOf } from './audit.ts';

const ID = '01a21a04-aa01-74c8-af83-ad7373dd982a';

it('what an entry records is shown before and after', () => {
  expect(changesOf({ username: 'b', username_before: 'a', role: { before: 'viewer', after: 'editor' }, ended_sessions: 2 })).toEqual([
    { name: 'username', before: 'a', after: 'b' },
    { name: 'role', before: 'viewer', after: 'editor' },
    { name: 'ended_sessions', after: '2' },
  ]);
  expect(changesOf({ version: 3, before: [], now: [{ prefix: '/a' }] })).toEqual([
    { name: 'items', before: '[]', after: '[\n {\n  "prefix": "/a"\n }\n]' },
    { name: 'version', after: '3' },
  ]);
  expect(changesOf({ scopes: ['cards:read', 'mcp:use'], replaces_id: null, expires_at: null, expires_at_before: '2026-11-23' })).toEqual([
    { name: 'scopes', after: 'cards:read, mcp:use' },
    { name: 'expires_at', before: '2026-11-23', after: 'null' },
  ]);
  expect(changesOf(null)).toEqual([]);
  expect(changesOf('x')).toEqual([{ name: '', after: 'x' }]);
});

it('a day ends where the next one begins', () => {
  expect(Date.parse(dayBound('2026-11-23', true)) - Date.parse(dayBound('2026-11-23', false))).toBe(86_400_000);
});

it('what was done to somebody is named', () => {
  expect(targetOf({ action: 'user.create', target: ID, detail: { username: 'ines' } })).toEqual({ name: 'ines', href: '/admin/users?q=ines' });
  expect(targetOf({ action: 'plugin.reload', target: 'supplier', detail: { version: '1' } })).toEqual({ name: 'supplier', href: '/admin/plugins/supplier' });
  expect(targetOf({ action: 'api_key.revoke', target: ID, detail: { name: 'ERP' } })).toEqual({ name: 'ERP', href: '/admin/mcp/keys' });
  expect(targetOf({ action: 'approval.ask', target: ID, detail: { tool: 'cards_update' } })).toEqual({ name: 'cards_update', href: `/admin/approvals?call=${ID}` });
  expect(targetOf({ action: 'auth.login', target: null, detail: { username: 'ines' } })).toEqual({ name: '' });
});

it('a job is named by what it does', () => {
  expect(targetOf({ action: 'job.start', target: ID, detail: { action: 'archive', name: null, plugin: null, total: 10 } })).toEqual({ name: 'Archive 10 cards', isJob: true });
  expect(targetOf({ action: 'card.import', target: ID, detail: { dry_run: true, mode: 'create' } })).toEqual({ name: 'Import dry run', isJob: true });
  expect(targetOf({ action: 'job.cancel', target: ID, detail: null }, namesOf([], [{ id: ID, action: 'import', args: {}, total: null } as unknown as Job]))).toEqual({ name: 'Import', isJob: true });
});

it('an id without a name on its line has the one of another line, and else none', () => {
  const created = { action: 'user.create', target: ID, detail: { username: 'ines' }, actor: { kind: 'user', id: 'o', name: 'owner' } } as unknown as AuditLine;
  const updated = { action: 'user.update', target: ID, detail: { role: 'editor' } };
  expect(targetOf(updated, namesOf([created])).name).toBe('ines');
  expect(targetOf({ action: 'user.update', target: 'o', detail: null }, namesOf([created])).name).toBe('owner');
  expect(targetOf(updated)).toEqual({ name: '' });
});

it('an act is said in words where they are known', () => {
  expect([actionInWords('plugin.rollback'), actionInWords('plugin.odd')]).toEqual(['Roll back plugin', 'plugin.odd']);
});
