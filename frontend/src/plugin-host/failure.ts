export type FailurePhase = 'load' | 'activate' | 'register' | 'render' | 'late' | 'hang';

/** Those that a frame may name; that it hangs the page alone can know. */
const PHASES = new Set<FailurePhase>(['load', 'activate', 'register', 'render', 'late']);
const MAX_RECEIVED = 2_000;

/** Why a plugin's tab shows nothing: one plain sentence, and the plugin's own words beside it. */
export class PluginFailure extends Error {
  override name = 'PluginFailure';
  readonly phase: FailurePhase;
  /** What the plugin threw, for its author. */
  readonly technical: string | null;

  constructor(phase: FailurePhase, message: string, thrown?: unknown) {
    super(message);
    this.phase = phase;
    this.technical = thrown === undefined ? null : describe(thrown);
  }

  /** One that came as a message. Whatever it says, it is text. */
  static received(phase: FailurePhase, message: unknown, technical: unknown): PluginFailure {
    const failure = new PluginFailure(PHASES.has(phase) ? phase : 'render', String(message).slice(0, MAX_RECEIVED));
    return Object.assign(failure, { technical: technical === null ? null : String(technical).slice(0, MAX_RECEIVED) });
  }
}

/** A thrown value as text. Anything can be thrown, also an object whose `toString` throws. */
export function describe(thrown: unknown): string {
  try {
    if (thrown instanceof Error) return `${thrown.name}: ${thrown.message}`;
    return String(thrown);
  } catch {
    return 'a value that cannot be shown';
  }
}

export class Cancelled extends Error {
  override name = 'AbortError';
}

/** `work`, or a rejection once `ms` are over or `signal` says so. What `work` does later is ignored. */
export function within<T>(work: Promise<T>, ms: number, tooLong: () => Error, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const cancel = () => reject(new Cancelled('cancelled'));
    if (signal.aborted) return cancel();
    const timer = setTimeout(() => reject(tooLong()), ms);
    signal.addEventListener('abort', cancel, { once: true });
    work.then(resolve, reject).finally(() => {
      clearTimeout(timer);
      signal.removeEventListener('abort', cancel);
    });
  });
}
