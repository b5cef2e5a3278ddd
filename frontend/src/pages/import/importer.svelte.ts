import { asApiError } from '../../api/error.ts';
import { cancelJob, findJob, getJob, importCards, type ImportOptions, type Job } from '../../api/jobs.ts';
import { queryClient } from '../../api/query-client.ts';
import { randomId } from '../../ui/random-id.ts';
import { readHead, renamed, unknownColumns, type UnknownColumn, type Use } from './columns.ts';

type Step = 'choose' | 'checking' | 'checked' | 'running' | 'over';

const PROGRESS_MS = 1_000;
/** How long a cancelled import may take to say what became of it, before its request is given up. */
const CANCEL_MS = 5_000;

/** One import at a time. It lives beside the page, so that leaving the page does not stop it. */
class Importer {
  step = $state<Step>('choose');
  file = $state.raw<File | null>(null);
  mode = $state<ImportOptions['mode']>('upsert');
  atomic = $state(false);
  /** What the dry run found. */
  check = $state.raw<Job | null>(null);
  /** How far the import is, and what came of it. */
  job = $state.raw<Job | null>(null);
  error = $state.raw<unknown>(null);
  /** Columns that the server refused, for which another name helps. */
  unknown = $state.raw<UnknownColumn[]>([]);
  #abort: AbortController | null = null;
  /** Names the request of this import, and so its job: somebody else may import at the same time. */
  #requestId = '';
  #cancelled = false;

  get format(): 'csv' | 'ndjson' {
    return /\.(ndjson|jsonl|json)$/i.test(this.file?.name ?? '') ? 'ndjson' : 'csv';
  }

  /** Rows that would be written. */
  get rows(): number {
    return this.check ? Object.entries(this.check.counts).reduce((sum, [name, n]) => (name === 'unchanged' ? sum : sum + n), 0) : 0;
  }

  /** Finds out what the file would do. */
  async examine(file: File): Promise<void> {
    this.#abort?.abort();
    Object.assign(this, { file, step: 'checking', check: null, job: null, error: null, unknown: [] });
    const abort = (this.#abort = new AbortController());
    try {
      this.check = await importCards(file, this.format, { ...this.options, atomic: false, dryRun: true }, randomId(), abort.signal);
      this.step = 'checked';
    } catch (thrown) {
      if (abort.signal.aborted) return;
      if (this.format === 'csv') this.unknown = unknownColumns(await readHead(file), asApiError(thrown).errors);
      this.error = thrown;
      this.step = 'checked';
    }
  }

  /** Checks the file once more, with other names for columns that cards do not have. */
  async rename(uses: ReadonlyMap<number, Use>): Promise<void> {
    if (this.file) await this.examine(renamed(this.file, await readHead(this.file), uses));
  }

  async run(): Promise<void> {
    if (!this.file) return;
    Object.assign(this, { step: 'running', job: null, error: null });
    const abort = (this.#abort = new AbortController());
    this.#requestId = randomId();
    this.#cancelled = false;
    const timer = setInterval(() => void this.#follow(abort.signal), PROGRESS_MS);
    try {
      this.job = await importCards(this.file, this.format, this.options, this.#requestId, abort.signal);
    } catch (thrown) {
      // After a cancel the job says what became of it.
      if (this.#cancelled && this.job) this.job = await getJob(this.job.id).catch(() => this.job);
      else if (!abort.signal.aborted) this.error = thrown;
    }
    clearInterval(timer);
    this.step = 'over';
    for (const queryKey of [['cards'], ['jobs']]) void queryClient.invalidateQueries({ queryKey });
  }

  async cancel(): Promise<void> {
    const abort = this.#abort;
    this.#cancelled = true;
    try {
      this.job ??= (await findJob(this.#requestId, AbortSignal.timeout(CANCEL_MS))) ?? null;
      if (this.job) await cancelJob(this.job.id);
      setTimeout(() => abort?.abort(), this.job ? CANCEL_MS : 0);
    } catch (thrown) {
      this.#cancelled = false;
      this.error = asApiError(thrown);
    }
  }

  get options(): ImportOptions {
    return { mode: this.mode, atomic: this.atomic, dryRun: false, file: this.file?.name ?? '' };
  }

  reset(): void {
    this.#abort?.abort();
    Object.assign(this, { step: 'choose', file: null, check: null, job: null, error: null, unknown: [] });
  }

  /** The answer comes when the whole file was read; until then the job is in the list of jobs. */
  async #follow(signal: AbortSignal): Promise<void> {
    try {
      const job = await findJob(this.#requestId, signal);
      if (job && this.step === 'running') this.job = job;
    } catch {
      // No progress is seen; the import goes on.
    }
  }
}

export const importer = new Importer();
