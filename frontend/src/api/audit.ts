import { query, request } from './client.ts';
import type { Page } from './page.ts';
import type { AuditLine } from './generated.ts';

export type { AuditLine };

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
