import { asApiError } from './error.ts';
import { EventStreamReader } from './event-stream.ts';

/** An event of the server, parsed. */
export interface LiveEvent {
  /** `card.updated` */
  type: string;
  topic: string;
  [member: string]: unknown;
}

/** `reset`: events were missed, or may have been; whatever is shown has to be fetched anew. */
export type LiveListener = (event: LiveEvent | 'reset') => void;

type Open = (path: string, headers: Record<string, string>, signal: AbortSignal) => Promise<Response>;
type Ending = 'again' | 'later';

const FIRST_RETRY_MS = 2_000;
const LONGEST_RETRY_MS = 60_000;
/** The server says something every 15 seconds; after this long a silent connection is a dead one. */
const SILENCE_MS = 45_000;
/** A stream that lived this long was a good one: the next failure is the first again. */
const GOOD_AFTER_MS = 10_000;

/**
 * Follows what happens on the server, for as long as it is told to: a broken stream is opened again where it ended,
 * with growing pauses while that fails. A refused token ends it; signing in starts it again.
 */
export class Live {
  readonly #open: Open;
  readonly #path: string;
  readonly #listeners = new Set<LiveListener>();
  readonly #reader = new EventStreamReader();
  #running: AbortController | null = null;
  #retryMs = FIRST_RETRY_MS;
  #failures = 0;
  #wake: (() => void) | null = null;

  constructor(open: Open, path = '/events') {
    this.#open = open;
    this.#path = path;
  }

  on(listener: LiveListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  start(): void {
    if (this.#running) return;
    this.#running = new AbortController();
    void this.#follow(this.#running);
  }

  /** The place in the stream is kept: what happens meanwhile comes with the next start. */
  stop(): void {
    this.#running?.abort();
    this.#running = null;
  }

  /** Tries now what waits for its next attempt. */
  retry(): void {
    this.#wake?.();
  }

  /** Another user begins with what happens from now on. */
  forget(): void {
    this.stop();
    this.#reader.lastId = '';
  }

  async #follow(running: AbortController): Promise<void> {
    this.#failures = 0;
    while (!running.signal.aborted) {
      const began = Date.now();
      let ending: Ending = 'later';
      let atLeast = 0;
      try {
        ending = await this.#once(running.signal);
      } catch (thrown) {
        const error = asApiError(thrown);
        if (error.status === 401 || error.status === 403) break;
        // A place that the server cannot read is none.
        if (error.status === 400) this.#reader.lastId = '';
        atLeast = (error.retry_after_seconds ?? 0) * 1000;
      }
      if (Date.now() - began > GOOD_AFTER_MS) this.#failures = 0;
      // At once when the server wishes it, but not in a circle.
      const pause = ending === 'again' && this.#failures === 0 ? 0 : Math.max(this.#pause(), atLeast);
      this.#failures += 1;
      await this.#sleep(pause, running.signal);
    }
    if (this.#running === running) this.#running = null;
  }

  /** One connection, from its opening to its end. */
  async #once(outer: AbortSignal): Promise<Ending> {
    const silence = new AbortController();
    const signal = AbortSignal.any([outer, silence.signal]);
    let timer = setTimeout(() => silence.abort(), SILENCE_MS);
    this.#reader.restart();
    const { lastId } = this.#reader;
    try {
      const response = await this.#open(this.#path, { Accept: 'text/event-stream', ...(lastId && { 'Last-Event-ID': lastId }) }, signal);
      // It tells what happens from now on: what was fetched before it was opened may be older.
      if (!lastId) this.#tell('reset');
      const body = response.body?.getReader();
      for (;;) {
        const piece = await body?.read();
        if (!piece || piece.done) return 'later';
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS);
        const ending = this.#take(piece.value);
        if (ending) return ending;
      }
    } finally {
      clearTimeout(timer);
      // Whatever ended it, the connection is given back.
      silence.abort();
    }
  }

  #take(bytes: Uint8Array): Ending | null {
    const { events, retryMs } = this.#reader.read(bytes);
    if (retryMs !== undefined) this.#retryMs = Math.min(Math.max(retryMs, 500), LONGEST_RETRY_MS);
    for (const { type, data } of events) {
      const parsed = parse(data);
      if (type === 'closed') return endingOf(parsed.reason);
      this.#tell(type === 'reset' ? 'reset' : ({ ...parsed, type } as LiveEvent));
    }
    return null;
  }

  #tell(event: LiveEvent | 'reset'): void {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch (thrown) {
        // One listener's fault is not the others', nor the stream's.
        reportError(thrown);
      }
    }
  }

  #sleep(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', wake);
        this.#wake = null;
        resolve();
      };
      const timer = setTimeout(wake, ms);
      this.#wake = wake;
      signal.addEventListener('abort', wake);
      if (signal.aborted) wake();
    });
  }

  /** Longer with each failure, and not the same for everybody: a server that was restarted gets its readers back one by one. */
  #pause(): number {
    return Math.min(this.#retryMs * 2 ** this.#failures, LONGEST_RETRY_MS) * (0.75 + Math.random() / 2);
  }
}

/** What the server's goodbye asks for. A refused credential shows when the stream is opened again. */
function endingOf(reason: unknown): Ending {
  return reason === 'slow' || reason === 'rights-changed' ? 'again' : 'later';
}

function parse(data: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(data);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
