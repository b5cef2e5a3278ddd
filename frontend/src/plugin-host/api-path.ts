import { ApiError } from '../api/error.ts';

const ROOT = '/v1/admin/';
/** More layers of percent-encoding than any server or proxy would ever take off. */
const MAX_LAYERS = 5;

/**
 * Checks a path that a plugin asked for, before a byte is sent: it must begin with `/` and stay below
 * `/v1/admin/` whoever resolves it, the browser now or a server that decodes once more.
 * Returns it resolved, relative to `/v1/admin`.
 */
export function resolveApiPath(path: unknown, origin: string): string {
  if (typeof path !== 'string' || !path.startsWith('/')) {
    throw refused(`apiRequest needs a path that begins with "/"; this one is ${JSON.stringify(path) ?? String(path)}.`);
  }
  // Always parses: it begins with a path of ours, so `path` can add no scheme and no host.
  const url = new URL(ROOT.slice(0, -1) + path, origin);
  if (url.origin !== origin || !staysBelowRoot(url.pathname)) {
    throw refused(`apiRequest only reaches paths below /v1/admin; ${JSON.stringify(path)} leaves it.`);
  }
  return url.pathname.slice(ROOT.length - 1) + url.search;
}

function staysBelowRoot(pathname: string): boolean {
  let layer = pathname;
  for (let i = 0; i < MAX_LAYERS; i += 1) {
    if (!resolveDots(layer).startsWith(ROOT)) return false;
    let decoded: string;
    try {
      decoded = decodeURIComponent(layer);
    } catch {
      // What does not decode has no further layer: the server refuses it, or reads it as it stands.
      return i > 0;
    }
    if (decoded === layer) return true;
    layer = decoded;
  }
  return false;
}

/** As a lenient server would: backslashes are slashes, empty segments count for nothing. */
function resolveDots(path: string): string {
  const out: string[] = [];
  for (const segment of path.split(/[/\\]/)) {
    if (segment === '..') out.pop();
    else if (segment && segment !== '.') out.push(segment);
  }
  return `/${out.join('/')}/`;
}

function refused(detail: string): ApiError {
  return new ApiError(0, 'invalid-path', detail);
}
