import { request } from './client.ts';
import type { JsonObject } from './types.ts';

/** A saved list view of one's own. */
export interface View extends ViewContent {
  id: string;
  version: number;
}

export interface ViewContent {
  name: string;
  /** Query parameters of the list. */
  filter: Record<string, string>;
  sort: string | null;
  /** Members of a card, or paths such as `attributes.brand`; null is the usual ones. */
  columns: string[] | null;
}

export async function listViews(signal: AbortSignal): Promise<View[]> {
  return (await request<{ items: View[] }>('/views', { signal })).items;
}

export async function createView(view: ViewContent): Promise<View> {
  return (await request<{ item: View }>('/views', { method: 'POST', body: view })).item;
}

export async function patchView(id: string, patch: JsonObject): Promise<View> {
  return (await request<{ item: View }>(`/views/${encodeURIComponent(id)}`, { method: 'PATCH', body: patch })).item;
}

export function deleteView(id: string): Promise<void> {
  return request(`/views/${encodeURIComponent(id)}`, { method: 'DELETE' });
}
