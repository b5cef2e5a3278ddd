import { query, request } from './client.ts';
import type { LinePage, PluginLine } from './generated.ts';

export type { PluginLine };

export const LINE_LEVELS = ['error', 'warn', 'info', 'debug', 'trace'] as const;
export type LineLevel = (typeof LINE_LEVELS)[number];

/** Below `/v1/admin`; read live, it takes the same query. */
export function logsPath(plugin: string, level: LineLevel, limit: number): string {
  return `/plugin-registry/${encodeURIComponent(plugin)}/logs${query({ level, limit })}`;
}

/** The last lines of a level and graver ones, the newest first. */
export function readLogs(plugin: string, level: LineLevel, limit: number, signal: AbortSignal): Promise<LinePage> {
  return request(logsPath(plugin, level, limit), { signal });
}
