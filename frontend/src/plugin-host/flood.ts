/** Keeps one plugin from using up what all share: at most `limit` calls within `windowMs`. */
export class RateGate {
  #times: number[] = [];

  constructor(
    private readonly limit: number,
    private readonly windowMs: number,
  ) {}

  admit(now = Date.now()): boolean {
    this.#times = this.#times.filter((time) => now - time < this.windowMs);
    if (this.#times.length >= this.limit) return false;
    this.#times.push(now);
    return true;
  }
}

/** At most `width` at a time, at most `queue` waiting; more than that is refused. */
export class Lane {
  #running = 0;
  #waiting: (() => void)[] = [];

  constructor(
    private readonly width: number,
    private readonly queue: number,
    private readonly full: () => Error,
  ) {}

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.width) {
      if (this.#waiting.length >= this.queue) throw this.full();
      // Whoever finishes hands its place over, so `#running` stays as it is.
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else {
      this.#running += 1;
    }
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running -= 1;
    }
  }
}
