import { describe, expect, it } from 'vitest';
import { esc, formatAgo, formatDate, formatMoney, formatRelative, formatWait } from './format.ts';

/** Intl puts a no-break space between code and amount. */
const plain = (text: string) => text.replaceAll('\u00a0', ' ');

describe('esc', () => {
  it('makes text safe in content and in quoted attributes', () => {
    expect(esc(`<img src=x onerror="a('b')">\`&`)).toBe('&lt;img src=x onerror=&quot;a(&#39;b&#39;)&quot;&gt;&#96;&amp;');
  });
  it('shows nothing for nothing, and anything else as text', () => {
    expect([esc(null), esc(undefined), esc(0), esc(false)]).toEqual(['', '', '0', 'false']);
  });
});

describe('formatMoney', () => {
  it('takes numbers and decimal strings', () => {
    expect(formatMoney(1234.5, 'USD', 'en')).toBe('$1,234.50');
    expect(formatMoney('1234.50', 'EUR', 'en')).toBe('€1,234.50');
    expect(formatMoney('-3', 'JPY', 'en')).toBe('-¥3');
  });
  it('keeps every digit of a decimal string', () => {
    expect(formatMoney('12345678901234567890.12', 'USD', 'en')).toBe('$12,345,678,901,234,567,890.12');
  });
  it('shows an unknown currency as its code', () => {
    expect(plain(formatMoney('9.99', 'XQZ', 'en'))).toBe('XQZ 9.99');
    expect(formatMoney('9.99', 'GOLD', 'en')).toBe('9.99 GOLD');
    expect(formatMoney('9.9', null, 'en')).toBe('9.90');
  });
  it('leaves what is no amount as it is', () => {
    expect([formatMoney('free', 'USD', 'en'), formatMoney('', 'USD', 'en'), formatMoney(null, 'USD', 'en'), formatMoney(Number.NaN, 'USD', 'en')]).toEqual(['free', '', '', 'NaN']);
  });
});

describe('formatDate', () => {
  it('keeps the day of a date without a time, in every time zone', () => {
    expect(formatDate('2025-03-01', 'en')).toBe('Mar 1, 2025');
  });
  it('shows the time of a date that has one', () => {
    expect(formatDate('2025-03-01T12:00:00Z', 'en')).toMatch(/2025.*\d:\d\d/);
  });
  it('leaves what is no date as it is', () => {
    expect([formatDate('soon', 'en'), formatDate('', 'en'), formatDate(null, 'en')]).toEqual(['soon', '', '']);
  });
});

describe('formatRelative and formatWait', () => {
  const now = Date.parse('2025-03-01T12:00:00Z');
  it('say how far away a time is', () => {
    expect(formatRelative('2025-03-01T09:00:00Z', now, 'en')).toBe('3 hours ago');
    expect(formatRelative('2025-03-03T12:00:00Z', now, 'en')).toBe('in 2 days');
    expect(formatRelative('2025-03-01T11:59:50Z', now, 'en')).toBe('this minute');
  });
  it('say how long to wait', () => {
    expect([formatWait(1), formatWait(0.2), formatWait(60), formatWait(80)]).toEqual(['1 second', '1 second', '1 minute', '1 minute 20 seconds']);
  });
});

it('times are short below a day, then dates', () => {
  const now = Date.parse('2026-11-23T12:00:00Z');
  const ago = (ms: number) => formatAgo(new Date(now - ms).toISOString(), now, 'en-GB');
  expect([ago(5_000), ago(120_000), ago(3 * 3_600_000)]).toEqual(['now', '2 min', '3 h']);
  expect([ago(3 * 86_400_000), ago(400 * 86_400_000)]).toEqual(['20 Nov', '19 Oct 2025']);
});
