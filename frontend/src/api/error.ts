import { fromServer } from '../i18n/catalogue.svelte.ts';
import { t } from '../i18n/common.ts';

/** One field that the server refused; `pointer` is a JSON pointer into the body that was sent. */
export interface FieldProblem {
  pointer: string;
  detail: string;
}

/**
 * The only shape in which a failed request reaches the rest of the UI, and plugins:
 * an RFC 9457 problem, or our own words when there was no such answer.
 */
export class ApiError extends Error {
  override name = 'ApiError';
  /** 0 when no answer came at all. */
  status: number;
  code: string;
  detail: string;
  request_id: string | null;
  errors: FieldProblem[];
  required_scope: string | null;
  retry_after_seconds: number | null;
  /** The problem's other members, such as the card's current version in a 412. */
  problem: Record<string, unknown>;

  constructor(status: number, code: string, detail: string, rest: Partial<ApiError> = {}) {
    super(detail);
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.request_id = rest.request_id ?? null;
    this.errors = rest.errors ?? [];
    this.required_scope = rest.required_scope ?? null;
    this.retry_after_seconds = rest.retry_after_seconds ?? null;
    this.problem = rest.problem ?? {};
  }
}

/** Refusals that are about one field, though the answer names none. */
const FIELDS: Record<string, string> = { 'sku-taken': '/sku' };

/** Reads a failed answer, whatever a proxy in between may have made of it. */
export async function errorFromResponse(response: Response): Promise<ApiError> {
  const problem = await readObject(response);
  const text = (name: string) => (typeof problem[name] === 'string' ? (problem[name] as string) : null);
  const code = text('code') ?? `http-${response.status}`;
  const detail = text('detail') ?? text('title') ?? `The server answered ${response.status} without saying why.`;
  const pointer = FIELDS[code];
  return new ApiError(
    response.status,
    code,
    detail,
    {
      request_id: text('request_id') ?? response.headers.get('x-request-id'),
      errors: Array.isArray(problem.errors) ? problem.errors.filter(isFieldProblem) : pointer ? [{ pointer, detail }] : [],
      required_scope: text('required_scope'),
      retry_after_seconds: retryAfter(response.headers.get('retry-after'), Date.now()),
      problem,
    },
  );
}

/** The page that says what a refusal means and what to do; undefined when the server did not name one. */
export function problemPage({ status, code }: ApiError): string | undefined {
  return status > 0 && !code.startsWith('http-') ? `/problems/${code}` : undefined;
}

/** Anything that was thrown, as an `ApiError`. */
export function asApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  const detail = thrown instanceof Error ? thrown.message : String(thrown);
  return new ApiError(0, 'unexpected', detail);
}

/** `fetch` rejects with a bare TypeError when the server cannot be reached. */
export function networkError(): ApiError {
  return new ApiError(0, 'network', 'The server could not be reached. Check the connection and try again.');
}

/** What the server said about one field, by JSON pointer; nothing when the field is fine. */
export function fieldError(error: unknown, pointer: string): string | undefined {
  if (!(error instanceof ApiError)) return undefined;
  const found = error.errors.filter((e) => e.pointer === pointer || e.pointer.startsWith(`${pointer}/`));
  if (!found.length) return undefined;
  if (FIELDS[error.code]) return fromServer(error.code, error.detail);
  return found.map((e) => ofField(e, e.pointer.slice(pointer.length + 1))).join(' ');
}

/** What is wrong with a field, after its name; a place in a list is none. */
export function ofField({ pointer, detail }: FieldProblem, name = pointer): string {
  const words = fieldText(detail);
  return name && !/^\d+$/.test(name) ? t('ofField', { name: name.replaceAll('~1', '/').replaceAll('~0', '~'), words }) : words;
}

/** What the server says of a field, which has no code: found by the sentence itself, whatever numbers are in it. */
export function fieldText(detail: string): string {
  const known = fromServer(detail.replace(/\d+/g, '#'), detail);
  return known === detail ? t('inServersWords', { detail }) : known;
}

/** Why something was refused, with what is wrong where. */
export function reasonOf(error: ApiError): string {
  return [fromServer(error.code, error.detail), ...(FIELDS[error.code] ? [] : error.errors.map((e) => ofField(e)))].join(' ');
}

/** `Retry-After` comes as seconds or as a date. */
export function retryAfter(header: string | null, now: number): number | null {
  if (!header) return null;
  const seconds = /^\d+$/.test(header.trim()) ? Number(header) : (Date.parse(header) - now) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, Math.ceil(seconds)) : null;
}

async function readObject(response: Response): Promise<Record<string, unknown>> {
  try {
    const body: unknown = await response.json();
    return body && typeof body === 'object' && !Array.isArray(body) ? (body as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function isFieldProblem(value: unknown): value is FieldProblem {
  const v = value as Partial<FieldProblem> | null;
  return typeof v?.pointer === 'string' && typeof v.detail === 'string';
}
