import { query, request } from './client.ts';
import type { Page } from './page.ts';
import type { Json } from './types.ts';

export interface AuditLine {
  id: string;
  at: string;
  actor: { kind: string; id: string | null; name: string | null };
  action: string;
  target: string | null;
  /** `ok` or `refused`. */
  outcome: string;
  ip: string | null;
  request_id: string | null;
  detail: Json;
  /** Refused attempts of one caller that this line stands for. */
  count: number;
  first_at: string;
}

export interface AuditFilter {
  actor?: string | null;
  action?: string | null;
  target?: string | null;
  outcome?: string | null;
  since?: string | null;
  until?: string | null;
}

export function listAudit(filter: AuditFilter, cursor: string | null, limit: number, signal: AbortSignal): Promise<Page<AuditLine>> {
  return request(`/audit${query({ ...filter, cursor, limit })}`, { signal });
}
