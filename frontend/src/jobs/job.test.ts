import { expect, it } from 'vitest';
import type { Job } from '../api/jobs.ts';
import { changedSince, fraction, jobTitle, outcome, secondsLeft } from './job.ts';

const job: Job = {
  id: '1', action: 'archive', state: 'running', started_by: { kind: 'user', id: 'u' }, args: {}, done: 30, total: 100, failed: 20, rate_per_second: 10,
  counts: { updated: 30, unchanged: 0 }, notes: [], reason: null, cancel_asked_at: null, created_at: '', started_at: '', finished_at: null, errors: [],
};

it('says what a job does and how far it is', () => {
  expect(jobTitle(job)).toBe('Archive 100 cards');
  expect(jobTitle({ ...job, action: 'import', args: { dry_run: true } })).toBe('Import dry run');
  expect(jobTitle({ ...job, action: 'import', args: { file: 'autumn.csv' } })).toBe('Import · autumn.csv');
  expect([fraction(job), secondsLeft(job), outcome(job)]).toEqual([0.5, 5, '30 updated, 20 failed']);
});

it('leads to what has changed since an attribute was edited', () => {
  const edited = { ...job, action: 'set_attribute', args: { key: 'brand', value: 'Acme' }, counts: { changed: 2 }, started_at: '2026-03-02T11:00:00.5Z' };
  expect(changedSince(edited)).toBe('/admin/cards?updated_since=2026-03-02T11%3A00%3A00.5Z&sort=updated_at');
  expect([job, { ...edited, args: { ...edited.args, dry_run: true } }, { ...edited, counts: { unchanged: 2 } }, { ...edited, started_at: null }].map(changedSince)).toEqual(Array(4).fill(undefined));
});

it('does not guess an end that nobody knows', () => {
  expect([fraction({ ...job, total: null }), secondsLeft({ ...job, total: null }), secondsLeft({ ...job, rate_per_second: 0 })]).toEqual([null, null, null]);
  expect([fraction({ ...job, state: 'cancelled' }), secondsLeft({ ...job, finished_at: 'now' })]).toEqual([1, null]);
});
