import { expect, it } from 'vitest';
import type { Counts, Sample } from './metrics.ts';
import { MOST_SAMPLES, rates, spans, withSample } from './traffic.ts';

const MINUTE = 60_000;
const counts = (calls: number, failed = 0): Counts => ({ calls, failed, durations: new Map([[1, calls], [Infinity, calls]]) });
const sample = (at: number, calls: number, failed = 0): Sample => ({ at, plugins: new Map([['notes', counts(calls, failed)]]), routes: new Map() });
const notes = ({ plugins }: Sample) => plugins.get('notes');

it('keeps an hour of samples', () => {
  const old = [sample(0, 1), sample(MINUTE, 2)];
  expect(withSample(old, sample(61 * MINUTE, 3)).map(({ at }) => at)).toEqual([MINUTE, 61 * MINUTE]);
  const many = Array.from({ length: MOST_SAMPLES }, (_, i) => sample(i, i));
  expect(withSample(many, sample(1000, 1))).toHaveLength(MOST_SAMPLES);
});

it('spans are per minute, whatever lies between two samples', () => {
  const samples = [sample(0, 100), sample(30_000, 130, 3), sample(2 * MINUTE + 30_000, 150, 3), sample(3 * MINUTE, 4)];
  expect(spans(samples, notes).map(({ perMinute, failedShare }) => [perMinute, failedShare])).toEqual([[60, 0.1], [10, 0], [8, 0]]);
});

it('rates are of what the samples span, and of all since the beginning at first', () => {
  expect(rates([], notes)).toBeNull();
  expect(rates([sample(10 * MINUTE, 50)], notes, 0)).toMatchObject({ perMinute: 5, failedShare: 0 });
  expect(rates([sample(10 * MINUTE, 50)], notes)?.perMinute).toBeNull();
  const quiet = rates([sample(0, 50, 5), sample(MINUTE, 50, 5)], notes);
  expect(quiet).toMatchObject({ perMinute: 0, failedShare: null });
  expect(quiet?.counts.calls, 'how long calls took is still known').toBe(50);
});
