import { request } from './client.ts';
import type { PoolReport, SystemCheck, Traffic, TrafficSpan } from './generated.ts';
import type { Json, JsonObject } from './types.ts';

export type { PoolReport, Traffic, TrafficSpan };

export interface LevelChange {
  target: string;
  level: string;
  until: string;
}

export interface LogState {
  format: string;
  level: string;
  changes: LevelChange[];
  dropped_lines: number;
}

export interface System {
  version: string;
  host_id: string;
  started_at: string;
  uptime_seconds: number;
  worker_restarts: number;
  health: { state: string; ready: boolean; database: { up: boolean; version: string | null } };
  pools: PoolReport[];
  /** How many plugins there are in each state. */
  plugins: Record<string, number>;
  unattributed_crashes: { count: number; last: Json };
  process: { cpu_seconds: number; resident_bytes: number; threads: number; open_fds: number; max_fds: number; unattributed_fds: number };
  requests: { in_flight: number; abandoned: number };
  log: LogState;
  undeclared_proxies: string[];
  settings: JsonObject;
}

export function getSystem(signal: AbortSignal): Promise<System> {
  return request('/system', { signal });
}

/** Asks other servers, too, so it may take some seconds. */
export function checkSystem(signal: AbortSignal): Promise<SystemCheck> {
  return request('/system/check', { signal });
}

export function getTraffic(signal: AbortSignal): Promise<Traffic> {
  return request('/system/traffic', { signal });
}

export const LOG_LEVELS = ['off', 'error', 'warn', 'info', 'debug', 'trace'] as const;

export interface LevelWish {
  /** A module, a plugin (`plugin::supplier`), or `*` for everything. */
  target: string;
  level: string;
  /** 0 takes a change back at once. */
  minutes: number;
}

export function setLogLevel(wish: LevelWish): Promise<{ log: LogState }> {
  return request('/system/log-level', { method: 'PUT', body: wish });
}
