import { expect, it } from 'vitest';
import { formatAbout, formatRate, formatSeconds, formatShare, formatSpan, linePath, roundUp } from './figures.ts';

it('figures are short', () => {
  expect(formatShare(0.041, 'en')).toBe('4.1%');
  expect(formatShare(0.5, 'en')).toBe('50%');
  expect(formatShare(0, 'en')).toBe('0%');
  expect(formatSeconds(0.0379, 'en')).toBe('37.9\u00A0ms');
  expect(formatSeconds(1.839, 'en')).toBe('1.84\u00A0s');
  expect(formatSeconds(Infinity, 'en')).toBe('> 10\u00A0s');
  expect(formatRate(342.4, 'en')).toBe('342');
  expect(formatRate(0.25, 'en')).toBe('0.3');
  expect(formatSpan(187_200, 'en')).toBe('2d 4h');
  expect(formatSpan(40, 'en')).toBe('40s');
  expect(formatSpan(3_600, 'en')).toBe('1h');
  expect(formatSpan(0, 'en')).toBe('0s');
});

it('a line stays within its box', () => {
  expect(linePath([0, 5, 10], 100, 32)).toBe('M0 31L50 16L100 1');
  expect(linePath([0, 0], 100, 32)).toBe('M0 31L100 31');
  expect(linePath([], 100, 32)).toBe('');
});

it('an axis ends at a round number', () => {
  expect([0, 0.7, 3, 10, 1204].map(roundUp)).toEqual([1, 1, 5, 10, 2000]);
});

it('an estimate is said with as many digits as it may be right in', () => {
  expect([12, 1_234, 98_765_432].map((n) => formatAbout(n, 'en'))).toEqual(['about 12', 'about 1,230', 'about 98,800,000']);
});
