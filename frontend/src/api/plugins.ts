import { request } from './client.ts';
import type { ActivePlugin, RegisteredPlugin } from './types.ts';

export async function listActivePlugins(signal: AbortSignal): Promise<ActivePlugin[]> {
  return (await request<{ items: ActivePlugin[] }>('/plugins', { signal })).items;
}

export async function listRegisteredPlugins(signal: AbortSignal): Promise<RegisteredPlugin[]> {
  return (await request<{ items: RegisteredPlugin[] }>('/plugin-registry', { signal })).items;
}

export interface ClientError {
  phase: string;
  message: string;
  version: string;
}

/** Tells the server what went wrong in a plugin's browser code; nobody waits for it. */
export function reportClientError(plugin: string, error: ClientError): void {
  request(`/plugin-registry/${encodeURIComponent(plugin)}/client-errors`, { method: 'POST', body: error }).catch(() => {
    // A host without this endpoint, or a user who may not call it: the message on the page is enough.
  });
}
