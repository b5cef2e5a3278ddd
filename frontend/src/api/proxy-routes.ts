import { request } from './client.ts';
import type { ProxyRoute, ProxyRoutes } from './generated.ts';

export type { ProxyRoute, ProxyRoutes };

export function getProxyRoutes(signal: AbortSignal): Promise<ProxyRoutes> {
  return request('/proxy-routes', { signal });
}

/** Replaces all that are set here; refused (412) when they are no longer at `version`. */
export function putProxyRoutes(items: ProxyRoute[], version: number): Promise<ProxyRoutes> {
  return request('/proxy-routes', { method: 'PUT', body: { items }, ifMatch: `"${version}"` });
}
