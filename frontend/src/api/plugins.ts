import { request } from './client.ts';
import type { ActivePlugin, JsonObject, PluginSettings, RegisteredPlugin } from './types.ts';
import type { Registry } from './generated.ts';

/** Asked by several pages: one answer for all. */
export const activePlugins = () => ({ queryKey: ['plugins'], queryFn: fetchActive, staleTime: 60_000 });

const fetchActive = async (signal: AbortSignal) => (await request<{ items: ActivePlugin[] }>('/plugins', { signal })).items;

export function listRegisteredPlugins(signal: AbortSignal): Promise<Registry> {
  return request('/plugin-registry', { signal });
}

const pluginPath = (name: string) => `/plugin-registry/${encodeURIComponent(name)}`;

/** Looks at the plugins folder again. */
export function rescanPlugins(): Promise<Registry> {
  return request('/plugin-registry/rescan', { method: 'POST' });
}

export type PluginAct = 'enable' | 'disable' | 'reload' | 'rollback' | 'release' | 'confirm-migration' | 'accept-signer' | 'remove';

/** What is agreed to for one package alone, so that no other one slips in between. */
const FOR_ONE_PACKAGE: ReadonlySet<PluginAct> = new Set(['confirm-migration', 'accept-signer']);

/** Answers with the plugin as it is afterwards. `to` is the package that a rollback goes back to. */
export async function actOnPlugin({ name, pending, sha256 }: RegisteredPlugin, act: PluginAct, to?: string): Promise<RegisteredPlugin> {
  const chosen = FOR_ONE_PACKAGE.has(act) ? (pending?.sha256 ?? sha256) : to;
  const body = chosen ? { body: { sha256: chosen } } : {};
  return (await request<{ item: RegisteredPlugin }>(`${pluginPath(name)}/${act}`, { method: 'POST', ...body })).item;
}

/** Takes its package out of the plugins folder of the host that answers. */
export function removePluginPackage(name: string): Promise<void> {
  return request(`${pluginPath(name)}/package`, { method: 'DELETE' });
}

/** Everything that the plugin has in the database, for good. What it wrote to cards stays. */
export function purgePluginData(name: string): Promise<void> {
  return request(`${pluginPath(name)}/data`, { method: 'DELETE', body: { confirm: name } });
}

export function getPluginSettings(name: string, signal: AbortSignal): Promise<PluginSettings> {
  return request(`${pluginPath(name)}/settings`, { signal });
}

/** Replaces what is stored; the server refuses (412) when that is no longer at `version`. */
export function putPluginSettings(name: string, settings: JsonObject, version: number): Promise<PluginSettings> {
  return request(`${pluginPath(name)}/settings`, { method: 'PUT', body: settings, ifMatch: `"${version}"` });
}

export interface ClientError {
  phase: string;
  message: string;
  version: string;
}

/** Tells the server what went wrong in a plugin's browser code; nobody waits for it. */
export function reportClientError(plugin: string, error: ClientError): void {
  request(`${pluginPath(plugin)}/client-errors`, { method: 'POST', body: error }).catch(() => {
    // A host without this endpoint, or a user who may not call it: the message on the page is enough.
  });
}

/** Puts a signed library into the plugins folder of the host that answers; `signature` is its minisign file in base64. */
export async function uploadPlugin(library: Blob, signature: string): Promise<RegisteredPlugin | null> {
  const headers = { 'Plugin-Signature': signature };
  return (await request<{ item: RegisteredPlugin | null }>('/plugin-registry/upload', { method: 'POST', raw: library, contentType: 'application/octet-stream', headers })).item;
}
