import type { PluginLine } from '../../api/plugin-logs.ts';

/** Lines that a browser is asked to draw. */
export const MOST_LINES = 1_000;

/** `lines` with more behind them; a line that is there already is not there twice. */
export function appended(lines: readonly PluginLine[], more: readonly PluginLine[]): PluginLine[] {
  const last = lines.at(-1)?.id ?? -Infinity;
  return [...lines, ...more.filter(({ id }) => id > last)].slice(-MOST_LINES);
}

/** Lines whose message, request or fields have all words of `search`. */
export function matching(lines: readonly PluginLine[], search: string): readonly PluginLine[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return lines;
  return lines.filter((line) => {
    const text = `${line.message} ${line.request_id ?? ''} ${line.source} ${line.fields ? JSON.stringify(line.fields) : ''}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** A panic's: its message says where it was, and its backtrace is longer than all else. */
const APART = new Set(['backtrace', 'panic', 'thread']);

/** A line's fields as they stand behind its message. */
export function fieldsInWords(fields: PluginLine['fields']): string {
  return Object.entries(fields ?? {}).filter(([name]) => !APART.has(name)).map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`).join(' ');
}
