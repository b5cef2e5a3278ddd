import type { CardFilter } from './cards.ts';
import { openStream, query, request } from './client.ts';
import type { Json, JsonObject } from './types.ts';

export type JobState = 'queued' | 'running' | 'done' | 'failed' | 'cancelled' | 'interrupted';

export interface Job {
  id: string;
  action: string;
  /** Of a plugin's job: the plugin, the job's name, and how far it is in the plugin's words. */
  plugin?: string | null;
  name?: string | null;
  message?: string | null;
  state: JobState;
  started_by: { kind: string; id: string; name?: string };
  args: JsonObject;
  done: number;
  /** Null while it is not known. */
  total: number | null;
  failed: number;
  rate_per_second: number;
  counts: Record<string, number>;
  notes: Json;
  reason: string | null;
  cancel_asked_at: string | null;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
  /** The first of them: 100, and 5 in lists. */
  errors: JobError[];
}

/** One row or card that could not be done. */
export interface JobError {
  line?: number;
  card_id?: string;
  sku?: string;
  code?: string;
  detail?: string;
  errors?: { pointer: string; detail: string; /** The first characters of what the row says there. */ value?: string }[];
}

export interface NewJob {
  action: 'archive' | 'activate' | 'draft' | 'delete' | 'remove_source' | 'set_attribute' | 'remove_attribute' | 'plugin_tool';
  ids?: string[];
  filter?: CardFilter;
  /** How many cards the filter picks; with another number by now, nothing is done. */
  expected_count?: number;
  args?: JsonObject;
  /** Change nothing, only count what would change. */
  dry_run?: boolean;
}

const jobPath = (id: string) => `/jobs/${encodeURIComponent(id)}`;

/** The job that a request began, by the `X-Request-Id` that it was sent with; undefined until the server has it. */
export async function findJob(requestId: string, signal: AbortSignal): Promise<Job | undefined> {
  return (await request<{ items: Job[] }>(`/jobs${query({ request_id: requestId, limit: 1 })}`, { signal })).items[0];
}

/** The last ones, of all or of one plugin. */
export async function listJobs(signal: AbortSignal, limit = 30, plugin = ''): Promise<Job[]> {
  return (await request<{ items: Job[] }>(`/jobs${query({ limit, plugin })}`, { signal })).items;
}

export async function getJob(id: string, signal?: AbortSignal): Promise<Job> {
  return (await request<{ item: Job }>(jobPath(id), { signal })).item;
}

export async function createJob(job: NewJob): Promise<Job> {
  return (await request<{ item: Job }>('/jobs', { method: 'POST', body: job })).item;
}

export function cancelJob(id: string): Promise<unknown> {
  return request(`${jobPath(id)}/cancel`, { method: 'POST' });
}

/** All errors of a job, one JSON object per line. */
export async function jobErrors(id: string, signal: AbortSignal): Promise<Blob> {
  return (await openStream(`${jobPath(id)}/errors`, {}, signal)).blob();
}

/** Whether nothing more will happen to it. */
export function isOver(job: Job): boolean {
  return job.finished_at !== null || !['queued', 'running'].includes(job.state);
}

export interface ImportOptions {
  mode: 'create' | 'upsert';
  /** All rows or none. */
  atomic: boolean;
  dryRun: boolean;
  /** The file's name, which the list of jobs shows. */
  file: string;
}

const MAX_FILE_NAME = 200;

/** Where an import is sent to, below `/v1/admin`. */
export function importPath({ mode, atomic, dryRun, file }: ImportOptions): string {
  return `/master-cards/import${query({ mode, atomic: String(atomic), dry_run: String(dryRun), file: file.slice(0, MAX_FILE_NAME) })}`;
}

export function importType(format: 'csv' | 'ndjson'): string {
  return format === 'csv' ? 'text/csv' : 'application/x-ndjson';
}

/** Sends a file of cards; the answer comes when the whole of it was read. */
export async function importCards(file: Blob, format: 'csv' | 'ndjson', options: ImportOptions, requestId: string, signal: AbortSignal): Promise<Job> {
  const headers = { 'X-Request-Id': requestId };
  return (await request<{ item: Job }>(importPath(options), { method: 'POST', raw: file, contentType: importType(format), headers, signal })).item;
}
