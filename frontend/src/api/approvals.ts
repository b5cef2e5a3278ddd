import { query, request } from './client.ts';
import type { Approval } from './generated.ts';
import type { Page } from './page.ts';
import { session } from './session.svelte.ts';

export type { Approval };

/** No event says that a call has expired. */
const EXPIRY_MS = 30_000;
const MOST = 200;
const RECENT = 50;

const path = (id: string) => `/approvals/${encodeURIComponent(id)}`;

/** Calls that wait, the one that expires first before the others; the same for every part that shows them. */
export function waitingQuery() {
  return {
    queryKey: ['approvals'],
    queryFn: async (signal: AbortSignal) => (await request<Page<Approval>>(`/approvals${query({ limit: MOST })}`, { signal })).items.toReversed(),
    enabled: session.can('mcp:approve'),
    refetchInterval: EXPIRY_MS,
  };
}

/** Calls that do not wait any more, the newest first. */
export async function listDecided(signal: AbortSignal): Promise<Approval[]> {
  const { items } = await request<Page<Approval>>(`/approvals${query({ state: 'any', limit: RECENT })}`, { signal });
  return items.filter(({ state }) => state !== 'pending');
}

/** One call as the server wrote it: numbers of its arguments have more digits than JavaScript keeps. */
export function readApproval(id: string, signal: AbortSignal): Promise<string> {
  return request(path(id), { signal, asText: true });
}

/** Only a refusal has a reason. */
export function decide(id: string, decision: 'approve' | 'deny', reason: string): Promise<unknown> {
  return request(`${path(id)}/${decision}`, { method: 'POST', body: decision === 'deny' && reason ? { reason } : undefined });
}
