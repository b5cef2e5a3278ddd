import { request } from './client.ts';
import type { Kind } from './generated.ts';

export type { Kind };

export async function listKinds(signal: AbortSignal): Promise<Kind[]> {
  return (await request<{ items: Kind[] }>('/kinds', { signal })).items;
}
