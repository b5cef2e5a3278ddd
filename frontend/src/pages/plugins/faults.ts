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

/** Warnings and errors by what happened, the most recent first. Lines come newest first. */
export function groupFaults(lines: readonly PluginLine[]): FaultGroup[] {
  const groups = new Map<string, FaultGroup>();
  for (const line of lines) {
    if (line.level !== 'error' && line.level !== 'warn') continue;
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
