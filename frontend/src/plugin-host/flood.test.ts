import { expect, it } from 'vitest';
import { Lane, RateGate } from './flood.ts';

it('a gate lets as many through as fit its window', () => {
  const gate = new RateGate(2, 1000);
  expect([gate.admit(0), gate.admit(1), gate.admit(999), gate.admit(1000), gate.admit(1000)]).toEqual([true, true, false, true, false]);
});

it('a lane runs few at a time, keeps the order, and refuses when its queue is full', async () => {
  const lane = new Lane(2, 2, () => new Error('full'));
  const finish: (() => void)[] = [];
  const started: number[] = [];
  const call = (n: number) => lane.run(() => {
    started.push(n);
    return new Promise<number>((resolve) => finish.push(() => resolve(n)));
  });
  const calls = [call(1), call(2), call(3), call(4)];
  await expect(call(5)).rejects.toThrow('full');
  expect(started).toEqual([1, 2]);
  finish[0]?.();
  await calls[0];
  await Promise.resolve();
  expect(started).toEqual([1, 2, 3]);
  finish[1]?.();
  await calls[1];
  finish[2]?.();
  await calls[2];
  finish[3]?.();
  expect(await Promise.all(calls)).toEqual([1, 2, 3, 4]);
  // All places are free again, after a failure too.
  await expect(lane.run(() => Promise.reject(new Error('own')))).rejects.toThrow('own');
  await expect(lane.run(() => Promise.resolve('free'))).resolves.toBe('free');
});
