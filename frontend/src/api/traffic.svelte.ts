import { readMetrics, type Sample } from './metrics.ts';
import { session } from './session.svelte.ts';
import { withSample } from './traffic.ts';

/**
 * The last hour of what the host counts of its plugins, as far as this page has been open. The host keeps no history of
 * these, so it is gathered here: from the first page that shows it, for as long as the user stays.
 */
const EVERY_MS = 15_000;

class Traffic {
  samples = $state.raw<Sample[]>([]);
  /** Why the last reading failed; what was gathered before stays. */
  problem = $state.raw<unknown>(null);
  #timer: ReturnType<typeof setInterval> | undefined;

  /** Begins to gather, unless that was begun or the user may not see it. */
  begin(): void {
    if (this.#timer || !session.can('system:read')) return;
    this.#timer = setInterval(() => void this.#read(), EVERY_MS);
    document.addEventListener('visibilitychange', this.#look);
    void this.#read();
  }

  end(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.samples = [];
    this.problem = null;
  }

  /** A page that was opened out of sight has its first figures as soon as it is looked at. */
  #look = () => {
    if (this.#timer && !this.samples.length) void this.#read();
  };

  async #read(): Promise<void> {
    if (document.hidden || session.phase !== 'signed-in') return;
    try {
      this.samples = withSample(this.samples, await readMetrics());
      this.problem = null;
    } catch (thrown) {
      this.problem = thrown;
    }
  }
}

export const traffic = new Traffic();

$effect.root(() => {
  $effect(() => {
    if (session.phase === 'signed-out') traffic.end();
  });
});
