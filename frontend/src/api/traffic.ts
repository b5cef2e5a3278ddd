import { between, type Counts, type Sample } from './metrics.ts';

/** One span between two samples, per minute. */
export interface Span {
  from: number;
  to: number;
  perMinute: number;
  /** 0 to 1; 0 without calls. */
  failedShare: number;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** Spans that a chart of an hour has at most. */
export const MOST_SAMPLES = 240;

/** Samples with another one added: those of the last hour, no more than a bound. */
export function withSample(samples: readonly Sample[], next: Sample): Sample[] {
  return [...samples.filter(({ at }) => at < next.at && next.at - at <= HOUR_MS), next].slice(-MOST_SAMPLES);
}

type Pick = (sample: Sample) => Counts | undefined;

export function spans(samples: readonly Sample[], pick: Pick): Span[] {
  return samples.slice(1).flatMap((now, i) => {
    const before = samples[i];
    const counted = pick(now);
    if (!before || !counted) return [];
    const { calls, failed } = between(pick(before), counted);
    const minutes = (now.at - before.at) / MINUTE_MS;
    return [{ from: before.at, to: now.at, perMinute: calls / minutes, failedShare: calls ? Math.min(1, failed / calls) : 0 }];
  });
}

export interface Rates {
  perMinute: number | null;
  /** Null without calls. */
  failedShare: number | null;
  counts: Counts;
}

/**
 * Of all that the samples span. One sample alone says how many in all, and nothing of how many a minute: `sinceMs`, when
 * the counting began, does.
 */
export function rates(samples: readonly Sample[], pick: Pick, sinceMs: number | null = null): Rates | null {
  const last = samples.at(-1);
  const now = last && pick(last);
  if (!last || !now) return null;
  const first = samples[0];
  const spanned = first && first !== last;
  const counted = spanned ? between(pick(first), now) : now;
  const from = spanned ? first.at : sinceMs;
  const minutes = from === null ? 0 : (last.at - from) / MINUTE_MS;
  // What was counted before the window is left out of its rate, but quiet plugins still show how long their calls took.
  return {
    perMinute: minutes > 0 ? counted.calls / minutes : null,
    failedShare: counted.calls ? Math.min(1, counted.failed / counted.calls) : null,
    counts: counted.calls ? counted : now,
  };
}
