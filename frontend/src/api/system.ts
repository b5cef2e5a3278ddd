import { request } from './client.ts';
import type { SystemCheck } from './generated.ts';
import type { Json, JsonObject } from './types.ts';

export interface PoolReport {
  /** `core`, `reaper` or `plugin`. */
  pool: string;
  plugin: string | null;
  max: number;
  size: number;
  idle: number;
  waiting: number;
}

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

/** What happened from one time to another. */
export interface TrafficSpan {
  from: string;
  to: string;
  requests: number;
  /** Those of them that were answered with a status of 5xx. */
  failed: number;
}

/** The last hour of the host that answers, or since it started. */
export interface Traffic extends TrafficSpan {
  /** Null without requests. */
  p99_ms: number | null;
  spans: TrafficSpan[];
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
