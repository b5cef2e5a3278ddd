import { expect, it } from 'vitest';
import { pluginCounters, pluginVersion, registeredPlugin, setAsideBy } from '../../api/fixtures.ts';
import type { Job } from '../../api/jobs.ts';
import type { ApiKey, RegisteredPlugin } from '../../api/types.ts';
import { inOrder, looksOf, ofApprovals, ofJobs, ofKeys, ofKinds, ofPlugins, ofProxy, pluginsInOrder } from './attention.ts';

const NOW = Date.parse('2026-11-23T12:00:00Z');
const plugin = (more: Partial<RegisteredPlugin>): RegisteredPlugin => registeredPlugin('supplier', { title: 'Supplier', ...more });
const counters = pluginCounters({ calls: 100, errors: 8 });
const counts = (calls: number, failed: number) => ({ calls, failed, durations: new Map() });
const sample = (at: number, calls: number, failed: number) => ({ at, host: counts(0, 0), plugins: new Map([['supplier', counts(calls, failed)]]), routes: new Map() });

it('a plugin waits when it is out of service, paused, or failing', () => {
  expect(ofPlugins([plugin({})], [])).toEqual([]);
  expect(ofPlugins([plugin({ state: 'refused', refusal: { code: 'bad-manifest', reason: 'No manifest.', fix: '' } })], [])[0]).toMatchObject({ tone: 'bad', text: 'Supplier: Refused', more: 'No manifest.' });
  expect(ofPlugins([plugin({ counters: { ...counters, breaker: { mode: 'on', state: 'open', opened: 1, faults: 9, retry_after_seconds: null } } })], [])[0]?.text).toBe('Supplier: calls are paused');
  const failing = ofPlugins([plugin({ counters })], [sample(0, 0, 0), sample(60_000, 100, 4)]);
  expect(failing[0]).toMatchObject({ text: 'Supplier: 4% of calls fail', href: '/admin/plugins/supplier?tab=faults' });
  expect(ofPlugins([plugin({ counters: { ...counters, errors: 2 } })], [sample(0, 0, 0), sample(60_000, 100, 2)]), 'too few to say').toEqual([]);
});

it('a plugin whose calls fail stands before those that are well, with the sign of it', () => {
  const samples = [sample(0, 0, 0), sample(60_000, 100, 4)];
  const failing = plugin({ counters });
  const well = registeredPlugin('completeness', { title: 'Completeness' });
  expect(pluginsInOrder([well, failing], samples).map(({ name }) => name)).toEqual(['supplier', 'completeness']);
  expect(pluginsInOrder([failing, well], []).map(({ name }) => name)).toEqual(['completeness', 'supplier']);
  expect(looksOf(failing, samples)).toMatchObject({ word: 'Active', shape: 'fail', tone: 'bad' });
  expect(looksOf(well, samples)).toMatchObject({ word: 'Active', shape: 'on', tone: 'good', need: undefined });
});

it('nothing waits where somebody has gone back on purpose', () => {
  const aside = pluginVersion('2.0.0', { sha256: 'new', set_aside: setAsideBy('user') });
  const back = plugin({ version: '1.0.0', refusal: { code: 'rolled-back', reason: 'No.', fix: '' }, pending: { version: '2.0.0', sha256: 'new', signed_by: null }, versions: [aside] });
  expect(ofPlugins([back], [])).toEqual([]);
  expect(ofPlugins([{ ...back, versions: [] }], [])[0]?.text).toBe('Supplier: new package refused');
});

it('a key waits when it expires within two weeks, and not when it has', () => {
  const key = (name: string, expires_at: string | null, more = {}) => ({ id: name, name, expires_at, revoked_at: null, last_used_at: null, ...more }) as ApiKey;
  const lines = ofKeys([key('soon', '2026-11-26T12:00:00Z'), key('gone', '2026-11-20T12:00:00Z'), key('late', '2027-11-20T12:00:00Z'), key('never', null)], NOW);
  expect(lines.map(({ text, more }) => [text, more])).toEqual([['Key soon expires in 3 days', 'never used']]);
});

it('a job waits for a day when it failed or left something out', () => {
  const job = (more: Partial<Job>) => ({ id: 'j', action: 'import', args: {}, state: 'done', failed: 0, created_at: '2026-11-23T11:00:00Z', finished_at: null, reason: null, ...more }) as Job;
  expect(ofJobs([job({}), job({ failed: 3, args: { dry_run: true } })], NOW)).toEqual([]);
  expect(ofJobs([job({ failed: 12 }), job({ state: 'failed', reason: 'Disk full.' }), job({ failed: 1, created_at: '2026-11-20T11:00:00Z' })], NOW).map(({ text, tone }) => [text, tone])).toEqual([['Import: 12 failed', 'warn'], ['Import failed', 'bad']]);
});

it('calls that wait for a person are one line', () => {
  expect(ofApprovals(0)).toEqual([]);
  expect(ofApprovals(2).map(({ text, href }) => [text, href])).toEqual([['2 calls wait for approval', '/admin/approvals']]);
});

it('what is worst stands first', () => {
  const kinds = ofKinds([{ kind: 'price', provided_by: [], read_by: ['shop'], inactive: [], cards: 0, cards_is_estimate: false, orphaned: false, warning: 'Nobody writes it.' }]);
  const lines = inOrder([...kinds, ...ofProxy(['HTML']), ...ofPlugins([plugin({ state: 'failed' })], [])]);
  expect(lines.map(({ icon }) => icon)).toEqual(['alert', 'tag', 'route']);
});
