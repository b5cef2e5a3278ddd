import { query, request } from './client.ts';
import type { JsonObject } from './types.ts';

/** A line of a plugin's log. */
export interface PluginLine {
  /** Grows with every line of the plugin. */
  id: number;
  at: string;
  level: string;
  /** `plugin`, `host` (what it says of the plugin) or `browser` (the plugin's frontend). */
  source: string;
  message: string;
  fields?: JsonObject | null;
  request_id?: string | null;
}

export interface LinePage {
  items: PluginLine[];
  next_cursor: string | null;
  host_id: string;
}

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
