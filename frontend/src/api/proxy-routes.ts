import { request } from './client.ts';

export interface ProxyRoute {
  prefix: string;
  upstream: string;
  /** It stands in `PROXY_ROUTES` and is changed there. */
  read_only: boolean;
  /** `PROXY_ROUTES` has its prefix, too, and that one counts. */
  shadowed: boolean;
}

export interface ProxyRoutes {
  items: ProxyRoute[];
  version: number;
  warnings: string[];
}

export function getProxyRoutes(signal: AbortSignal): Promise<ProxyRoutes> {
  return request('/proxy-routes', { signal });
}

/** Replaces all that are set here; refused (412) when they are no longer at `version`. */
export function putProxyRoutes(items: ProxyRoute[], version: number): Promise<ProxyRoutes> {
  return request('/proxy-routes', { method: 'PUT', body: { items }, ifMatch: `"${version}"` });
}
