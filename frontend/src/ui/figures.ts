import { t } from '../i18n/common.ts';
import { uiLocale } from '../plugin-host/format.ts';

/** Numbers of charts and tables: short, in the reader's own notation. */

export function formatShare(share: number, locale = uiLocale()): string {
  const digits = share > 0 && share < 0.1 ? 1 : 0;
  return new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: digits }).format(share);
}

/** "38 ms", "1.84 s"; beyond the last bound that is measured, "> 10 s". */
export function formatSeconds(seconds: number, locale = uiLocale()): string {
  if (seconds === Infinity) return `> ${formatSeconds(10, locale)}`;
  const unit = seconds < 1 ? 'millisecond' : 'second';
  const value = seconds < 1 ? seconds * 1000 : seconds;
  // English would leave the space out, and no other language.
  return new Intl.NumberFormat(locale, { style: 'unit', unit, unitDisplay: 'narrow', maximumSignificantDigits: 3 }).format(value).replace(/(\d)(?=[a-z])/, '$1\u00A0');
}

/** "about 1,230": an estimate must not look as if it had been counted. */
export function formatAbout(n: number, locale = uiLocale()): string {
  return t('about', { n: new Intl.NumberFormat(locale, { maximumSignificantDigits: 3 }).format(n) });
}

/** Of calls per minute: whole from 10 on. */
export function formatRate(perMinute: number, locale = uiLocale()): string {
  return new Intl.NumberFormat(locale, { maximumFractionDigits: perMinute < 10 ? 1 : 0 }).format(perMinute);
}

/** "2 d 4 h", "3 h 12 min", "40 s". */
export function formatSpan(seconds: number, locale = uiLocale()): string {
  const unit = (value: number, name: string) => new Intl.NumberFormat(locale, { style: 'unit', unit: name, unitDisplay: 'narrow' }).format(value);
  const units: [string, number][] = [['day', 86_400], ['hour', 3_600], ['minute', 60], ['second', 1]];
  const at = units.findIndex(([, size]) => seconds >= size);
  const shown = units.slice(at < 0 ? 3 : at).slice(0, 2);
  let left = Math.max(0, Math.round(seconds));
  return shown
    .map(([name, size]) => {
      const value = Math.floor(left / size);
      left -= value * size;
      return value || size === shown[0]?.[1] ? unit(value, name) : '';
    })
    .filter(Boolean)
    .join(' ');
}

/** A line through `values` in a box of `width` by `height`, for the `d` of a path; the highest is at the top. */
export function linePath(values: readonly number[], width: number, height: number, highest = Math.max(...values, 0)): string {
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  const points = values.map((value, i) => `${round(i * step)} ${round(height - (highest ? value / highest : 0) * (height - 2) - 1)}`);
  return points.length ? `M${points.join('L')}` : '';
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** The next round number at or above: 1, 2 or 5 times a power of ten. */
export function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power;
}
