import { t } from '../i18n/common.ts';
import { preferences } from '../ui/preferences.svelte.ts';

/** How values are shown, on the UI's own pages and by plugins alike. */

export function uiLocale(): string {
  return preferences.locale;
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;', '`': '&#96;' };

/** Text made safe for HTML, in element content and in quoted attributes. */
export function esc(text: unknown): string {
  return String(text ?? '').replace(/[&<>"'`]/g, (char) => ENTITIES[char] ?? char);
}

type Money = number | string | null | undefined;

/** Decimal strings keep every digit: Intl formats them without going through a float. */
export function formatMoney(value: Money, currency?: string | null, locale = uiLocale()): string {
  if (value === null || value === undefined || value === '') return '';
  const decimal = typeof value === 'string' ? value.trim() : value;
  if (!Number.isFinite(Number(decimal))) return String(value);
  const exact = decimal as Intl.StringNumericLiteral;
  const code = currency?.trim() ?? '';
  try {
    if (code) return new Intl.NumberFormat(locale, { style: 'currency', currency: code }).format(exact);
  } catch {
    // Not three letters, so Intl will not have it: shown as it is, below.
  }
  const amount = new Intl.NumberFormat(locale, { minimumFractionDigits: 2, maximumFractionDigits: 20 }).format(exact);
  return code ? `${amount} ${code}` : amount;
}

/** A date, with its time when it has one. What is no date comes back as it is. */
export function formatDate(isoString: string | null | undefined, locale = uiLocale()): string {
  if (!isoString) return '';
  const date = new Date(isoString);
  if (Number.isNaN(date.getTime())) return String(isoString);
  // A date without a time is the same day everywhere; as midnight UTC it would be yesterday in the west.
  if (/^\d{4}-\d{2}-\d{2}$/.test(isoString)) return new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeZone: 'UTC' }).format(date);
  return new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' }).format(date);
}

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [['year', 31_536_000], ['month', 2_592_000], ['day', 86_400], ['hour', 3_600], ['minute', 60]];

/** "3 hours ago", "in 2 days". */
export function formatRelative(isoString: string, now = Date.now(), locale = uiLocale()): string {
  const seconds = (new Date(isoString).getTime() - now) / 1000;
  if (Number.isNaN(seconds)) return isoString;
  const format = new Intl.RelativeTimeFormat(locale, { numeric: 'auto' });
  for (const [unit, size] of UNITS) {
    if (Math.abs(seconds) >= size) return format.format(Math.round(seconds / size), unit);
  }
  return format.format(0, 'minute');
}

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** "2 min" below a day, then the date, with its year when it is not this one. */
export function formatAgo(isoString: string, now = Date.now(), locale = uiLocale()): string {
  const date = new Date(isoString);
  const passed = now - date.getTime();
  if (Number.isNaN(passed)) return isoString;
  if (passed < 0 || passed >= DAY_MS) {
    const sameYear = date.getFullYear() === new Date(now).getFullYear();
    return new Intl.DateTimeFormat(locale, { day: 'numeric', month: 'short', ...(sameYear ? {} : { year: 'numeric' }) }).format(date);
  }
  if (passed < MINUTE_MS) return new Intl.RelativeTimeFormat(locale, { numeric: 'auto' }).format(0, 'second');
  return passed < HOUR_MS ? t('minutesShort', { n: Math.floor(passed / MINUTE_MS) }) : t('hoursShort', { n: Math.floor(passed / HOUR_MS) });
}

/** "3 min ago", for a sentence; a day or more ago the date. */
export function formatSince(isoString: string, now = Date.now(), locale = uiLocale()): string {
  const minutes = Math.floor((now - new Date(isoString).getTime()) / MINUTE_MS);
  if (!(minutes >= 0 && minutes < DAY_MS / MINUTE_MS)) return formatAgo(isoString, now, locale);
  if (!minutes) return t('justNow');
  const format = new Intl.RelativeTimeFormat(locale, { style: 'short' });
  return minutes < 60 ? format.format(-minutes, 'minute') : format.format(-Math.floor(minutes / 60), 'hour');
}

/** "1 minute 20 seconds": how long to wait. */
export function formatWait(seconds: number, locale = uiLocale()): string {
  const whole = Math.max(1, Math.ceil(seconds));
  const minutes = Math.floor(whole / 60);
  const parts = [minutes ? formatUnit(minutes, 'minute', locale) : '', whole % 60 ? formatUnit(whole % 60, 'second', locale) : ''];
  return parts.filter(Boolean).join(' ');
}

function formatUnit(n: number, unit: string, locale: string): string {
  return new Intl.NumberFormat(locale, { style: 'unit', unit, unitDisplay: 'long' }).format(n);
}

export function formatCount(n: number, locale = uiLocale()): string {
  return new Intl.NumberFormat(locale).format(n);
}

const BYTE_UNITS = ['byte', 'kilobyte', 'megabyte', 'gigabyte'];

/** "64 kB", counted in steps of 1,024 as limits are. */
export function formatBytes(bytes: number, locale = uiLocale()): string {
  const step = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), BYTE_UNITS.length - 1);
  const format = new Intl.NumberFormat(locale, { style: 'unit', unit: BYTE_UNITS[step] ?? 'byte', unitDisplay: step ? 'short' : 'long', maximumFractionDigits: 1 });
  return format.format(bytes / 1024 ** step);
}
