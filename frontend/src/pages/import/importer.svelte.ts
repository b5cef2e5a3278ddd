import { asApiError } from '../../api/error.ts';
import { cancelJob, importCards, isOver, listJobs, type ImportOptions, type Job } from '../../api/jobs.ts';
import { queryClient } from '../../api/query-client.ts';

type Step = 'choose' | 'checking' | 'checked' | 'running' | 'over';

const PROGRESS_MS = 1_000;

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
  #abort: AbortController | null = null;

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
    Object.assign(this, { file, step: 'checking', check: null, job: null, error: null });
    const abort = (this.#abort = new AbortController());
    try {
      this.check = await importCards(file, this.format, { mode: this.mode, atomic: false, dryRun: true }, abort.signal);
      this.step = 'checked';
    } catch (thrown) {
      if (abort.signal.aborted) return;
      this.error = thrown;
      this.step = 'checked';
    }
  }

  async run(): Promise<void> {
    if (!this.file) return;
    Object.assign(this, { step: 'running', job: null, error: null });
    const abort = (this.#abort = new AbortController());
    const began = new Date(Date.now() - PROGRESS_MS).toISOString();
    const timer = setInterval(() => void this.#follow(began, abort.signal), PROGRESS_MS);
    try {
      this.job = await importCards(this.file, this.format, { mode: this.mode, atomic: this.atomic, dryRun: false }, abort.signal);
    } catch (thrown) {
      // After a cancel the job says what became of it.
      if (!abort.signal.aborted) this.error = thrown;
    }
    clearInterval(timer);
    this.step = 'over';
    for (const queryKey of [['cards'], ['jobs']]) void queryClient.invalidateQueries({ queryKey });
  }

  async cancel(): Promise<void> {
    const { job } = this;
    if (job) await cancelJob(job.id).catch((thrown: unknown) => (this.error = asApiError(thrown)));
    this.#abort?.abort();
  }

  reset(): void {
    this.#abort?.abort();
    Object.assign(this, { step: 'choose', file: null, check: null, job: null, error: null });
  }

  /** The answer comes when the whole file was read; until then the job is in the list of jobs. */
  async #follow(since: string, signal: AbortSignal): Promise<void> {
    try {
      const jobs = await listJobs(signal, 5);
      const mine = jobs.find((job) => job.action === 'import' && job.args.dry_run !== true && job.created_at >= since && !isOver(job));
      if (mine && this.step === 'running') this.job = mine;
    } catch {
      // No progress is seen; the import goes on.
    }
  }
}

export const importer = new Importer();
