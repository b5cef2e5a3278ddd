import { expect, it } from 'vitest';
import { pluginCounters, pluginVersion, registeredPlugin as plugin, setAsideBy } from '../../api/fixtures.ts';
import type { Refusal, RegisteredPlugin } from '../../api/types.ts';
import { actsFor, crashInWords, executionInWords, faultsOf, inOrder, needsAttention, phaseInWords, standingOf, unmetKinds, wayBack } from './plugin.ts';

const refusal: Refusal = { code: 'bad-manifest', reason: 'No.', fix: 'Correct it.' };

it('a plugin that serves while its new files are refused is in service and needs a look', () => {
  const old = plugin('a', { refusal });
  expect(standingOf(old)).toEqual({ tone: 'warn', shape: 'fail', word: 'Active', meaning: 'The earlier version is in service. The files now in the folder were refused.' });
  expect(needsAttention(old)).toBe(true);
  expect(needsAttention(plugin('a'))).toBe(false);
  expect(needsAttention(plugin('a', { state: 'disabled' }))).toBe(false);
  expect(needsAttention(plugin('a', { state: 'quarantined' }))).toBe(true);
  expect(standingOf(plugin('a', { state: 'a state of a later host' as RegisteredPlugin['state'] })).tone).toBe('warn');
});

it('a plugin that somebody has rolled back is well; one that the host has rolled back is not', () => {
  const by = (kind: string) => plugin('a', {
    version: '1.0.0', refusal: { ...refusal, code: 'rolled-back' }, pending: { version: '1.1.0', sha256: 'new', signed_by: null },
    versions: [pluginVersion('1.1.0', { sha256: 'new', set_aside: setAsideBy(kind) })],
  });
  expect(standingOf(by('user'))).toEqual({ tone: 'good', shape: 'on', word: 'Active', meaning: 'Rolled back to 1.0.0.' });
  expect(['user', 'key', 'host'].map((kind) => needsAttention(by(kind)))).toEqual([false, false, true]);
});

it('a plugin whose calls are refused for a while needs a look', () => {
  const counters = pluginCounters({ calls: 1, errors: 1, breaker: { mode: 'on', state: 'open', opened: 1, faults: 20, retry_after_seconds: null } });
  expect(needsAttention(plugin('a', { counters }))).toBe(true);
});

it('what is offered follows from the state', () => {
  expect(actsFor(plugin('a'))).toEqual(['reload', 'disable']);
  expect(actsFor(plugin('a', { state: 'disabled' }))).toEqual(['enable']);
  expect(actsFor(plugin('a', { state: 'retired' }))).toEqual([]);
  expect(actsFor(plugin('a', { state: 'quarantined' }))).toEqual(['release', 'disable']);
  expect(actsFor(plugin('a', { refusal: { ...refusal, code: 'signer-changed' } }))).toEqual(['accept-signer', 'reload', 'disable']);
  const loses: Refusal = { ...refusal, code: 'destructive-migration' };
  expect(actsFor(plugin('a', { state: 'refused', refusal: { ...loses, losses: ['table items'] } }))).toEqual(['confirm-migration', 'reload', 'disable']);
  // Data that is gone already is nothing to agree to.
  expect(actsFor(plugin('a', { state: 'refused', refusal: loses }))).toEqual(['reload', 'disable']);
});

it('a way back is offered when there is one', () => {
  const kept = (version: string, can_roll_back: boolean) => pluginVersion(version, { can_roll_back });
  const newest = plugin('a', { versions: [kept('2.0.0', false), kept('1.1.0', true), kept('1.0.0', true)] });
  expect(actsFor(newest)).toEqual(['reload', 'rollback', 'disable']);
  expect(wayBack(newest).map((way) => way.version)).toEqual(['1.1.0', '1.0.0']);
  expect(actsFor(plugin('a', { versions: [kept('2.0.0', false)] }))).toEqual(['reload', 'disable']);
});

it('readers run dry when nobody else writes what they read', () => {
  const supplier = plugin('supplier', { provides_kinds: ['supplier', 'price'] });
  const gallery = plugin('gallery', { reads_kinds: ['supplier', 'price'] });
  const shop = plugin('shop', { provides_kinds: ['price'] });
  const dry = (...all: RegisteredPlugin[]) => unmetKinds(supplier, [supplier, ...all]).map(({ kind, others }) => `${kind}: ${others.map((other) => other.name).join()}`);
  expect(dry(gallery, shop)).toEqual(['supplier: gallery']);
  expect(dry(gallery, { ...shop, state: 'disabled' })).toEqual(['supplier: gallery', 'price: gallery']);
  expect(dry({ ...gallery, state: 'refused' })).toEqual([]);
});

it('where calls run is said in words', () => {
  const execution = { handlers: 3, lane_threads: 1, most_threads: 16, blocked_core: 0, blocked_lane: 0, blocking: [], held_threads: [] };
  expect(executionInWords({ ...execution, execution: 'lane', inline: 0 })).toBe('Up to 16 threads of its own.');
  expect(executionInWords({ ...execution, execution: 'auto', inline: 1 })).toBe('1 of 3 handlers on the host’s threads, the others on up to 16 of its own.');
  expect(executionInWords({ ...execution, execution: 'auto', inline: 3 })).toBe('The host’s threads.');
});

it('failures in browsers count as faults', () => {
  const counters = pluginCounters({ calls: 9, errors: 1, panics: 1, timeouts: 1, refused: 5 });
  expect(faultsOf({ ...counters, client_errors: 8 })).toBe(11);
  expect(faultsOf(counters)).toBe(3);
  expect(faultsOf(null)).toBe(0);
});

it('what needs attention stands first', () => {
  const plugins = [plugin('b'), plugin('a'), plugin('z', { state: 'refused' })];
  expect(inOrder(plugins).map(({ name }) => name)).toEqual(['z', 'a', 'b']);
});

it('a crash of a sort that is not known yet is named', () => {
  expect(crashInWords('stack-overflow')).toContain('stack');
  expect([phaseInWords('late'), phaseInWords('odd')]).toEqual(['After the tab was drawn', 'odd']);
  expect(crashInWords('odd')).toBe('The process ended (odd).');
});
