import type { PluginLine } from '../../api/plugin-logs.ts';

/** One sort of failure, however often it happened. */
export interface FaultGroup {
  key: string;
  /** `browser`, or whose fault it was: `plugin`, `database`, `downstream`, `host`. */
  cause: string;
  what: string;
  where: string;
  times: number;
  last: PluginLine;
}

const PREFIX = /^a call failed: (?:[a-z-]+: )?/;

/** Warnings and errors by what happened, the most recent first. Lines come newest first. The place of a panic has a line of its own, beside that of the call that it ended. */
export function groupFaults(lines: readonly PluginLine[]): FaultGroup[] {
  const groups = new Map<string, FaultGroup>();
  const calls = new Set(lines.filter(({ message }) => PREFIX.test(message)).map(({ request_id }) => request_id));
  for (const line of lines) {
    if ((line.level !== 'error' && line.level !== 'warn') || (line.fields?.panic === true && line.request_id && calls.has(line.request_id))) continue;
    const { cause, what, where } = faultOf(line);
    const key = JSON.stringify([cause, what, where]);
    const group = groups.get(key);
    if (group) group.times += 1;
    else groups.set(key, { key, cause, what, where, times: 1, last: line });
  }
  return [...groups.values()];
}

function faultOf({ source, message, fields }: PluginLine): Pick<FaultGroup, 'cause' | 'what' | 'where'> {
  const field = (name: string) => (typeof fields?.[name] === 'string' ? fields[name] : '');
  if (source === 'browser') return { cause: 'browser', what: field('error') || message, where: field('phase') };
  return { cause: field('cause') || (source === 'host' ? 'host' : 'plugin'), what: message.replace(PREFIX, ''), where: field('handler') };
}
