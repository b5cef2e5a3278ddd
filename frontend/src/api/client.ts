import { errorFromResponse, networkError } from './error.ts';

export const API_ROOT = '/v1/admin';

// Taken while this module is loaded, before any plugin's code is: what a plugin puts in its place later sees no token.
const { fetch } = globalThis;
const { stringify, parse } = JSON;
const { hasOwn } = Object;

/** An object whose members nobody else defines: it inherits none, so no getter or setter of `Object.prototype` sees it. */
type Bare<T> = T & { __proto__: null };

export interface RequestOptions {
  method?: string;
  /** Sent as JSON. */
  body?: unknown;
  /** Sent as it is, in the place of `body`; `contentType` names it. */
  raw?: Blob;
  /** Where `path` begins, when it is not below `/v1/admin`: `''` for `/metrics`. */
  root?: string;
  /** Another media type than `application/json`, for merge patches. */
  contentType?: string;
  ifMatch?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** Sign-in itself: sent without a token, and its 401 means a wrong password. */
  anonymous?: boolean;
  /** `no-cache` when absent. */
  cache?: RequestCache;
  /** The answer as it was sent, JSON too. */
  asText?: boolean;
  /** A refused token is an error at once, without asking for the password again. */
  once?: boolean;
}

export interface Answer<T> {
  data: T;
  status: number;
  headers: Headers;
}

/** Who holds the token. The session registers itself here, so that the client depends on nothing. */
export interface Credentials {
  token(): string | null;
  /** The token was refused: resolves once somebody signed in again, rejects when they gave up. */
  renew(refused: string | null): Promise<void>;
}

let credentials: Credentials = { token: () => null, renew: () => Promise.reject(new Error('not signed in')) };

export function useCredentials(source: Credentials): void {
  credentials = source;
}

let reach: (reached: boolean) => void = () => {};

/** `listener` hears of every request whether an answer came, whatever it said. */
export function onReach(listener: (reached: boolean) => void): void {
  reach = listener;
}

/** The one way to the server: `path` is relative to `/v1/admin`. */
export async function request<T = unknown>(path: string, options: RequestOptions = {}): Promise<T> {
  return (await requestWithHeaders<T>(path, options)).data;
}

export async function requestWithHeaders<T = unknown>(path: string, options: RequestOptions = {}): Promise<Answer<T>> {
  const token = options.anonymous ? null : credentials.token();
  let response = await send(path, options, token);
  if (response.status === 401 && !options.anonymous && !options.once) {
    // A 401 was refused before anything was done, so sending it again is safe for every method.
    try {
      await credentials.renew(token);
    } catch {
      throw await errorFromResponse(response);
    }
    options.signal?.throwIfAborted();
    response = await send(path, options, credentials.token());
  }
  if (!response.ok) throw await errorFromResponse(response);
  return { data: (await (options.asText ? response.text() : read(response))) as T, status: response.status, headers: response.headers };
}

/**
 * An answer that goes on for as long as both sides want it. A refused token is an error at once: what runs in the
 * background asks nobody for a password.
 */
export async function openStream(path: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
  const response = await send(path, { signal, headers }, credentials.token());
  if (!response.ok) throw await errorFromResponse(response);
  return response;
}

/** Bytes, for a picture: nobody is asked for a password because of one, and what the browser has kept is good. */
export async function requestBlob(path: string): Promise<Blob> {
  const response = await send(path, { cache: 'default' }, credentials.token());
  if (!response.ok) throw await errorFromResponse(response);
  return response.blob();
}

/** Nothing that a plugin can replace is called with the token, or with what holds it: no prototype's method, no getter. */
async function send(path: string, options: RequestOptions, token: string | null): Promise<Response> {
  // A record of texts but for the prototype, which is no member of it.
  const headers = { __proto__: null, Accept: 'application/json, */*;q=0.5', ...options.headers } as unknown as Record<string, string>;
  if (token) headers.Authorization = `Bearer ${token}`;
  if (options.ifMatch) headers['If-Match'] = options.ifMatch;
  if (options.body !== undefined || options.raw) headers['Content-Type'] = options.contentType ?? 'application/json';
  const init: Bare<RequestInit> = {
    __proto__: null,
    method: options.method ?? 'GET',
    headers,
    body: options.raw ?? (options.body === undefined ? null : stringify(options.body)),
    signal: options.signal ?? null,
    credentials: 'omit',
    // Lists and cards must be fresh; where an ETag helps, the browser still revalidates.
    cache: options.cache ?? 'no-cache',
    redirect: 'error',
  };
  try {
    // Its own alone: a plugin's `Object.prototype.root` would send the token to an address of its choice.
    const root = hasOwn(options, 'root') ? (options.root ?? API_ROOT) : API_ROOT;
    const response = await fetch(root + path, init);
    reach(true);
    return response;
  } catch (thrown) {
    if (options.signal?.aborted) throw thrown;
    reach(false);
    throw networkError();
  }
}

/** Parsed JSON; text when it is not JSON; null when there is nothing. */
async function read(response: Response): Promise<unknown> {
  if (response.status === 204) return null;
  const type = response.headers.get('content-type') ?? '';
  if (/[/+]json\b/i.test(type)) {
    const text = await response.text();
    return text === '' ? null : parse(text);
  }
  return response.text();
}

/** A query string of what is set, in a stable order; `''` when nothing is. */
export function query(values: Record<string, string | number | null | undefined>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== '') params.set(name, String(value));
  }
  const text = params.toString();
  return text ? `?${text}` : '';
}
