import { request } from './client.ts';

/** A kind of data that sources of cards are of. */
export interface Kind {
  kind: string;
  /** Active plugins that write it. */
  provided_by: string[];
  read_by: string[];
  /** Plugins that would write or read it, and are not in service. */
  inactive: string[];
  /** Cards that have it. */
  cards: number;
  cards_is_estimate: boolean;
  /** Cards have it, and no plugin that is installed writes it. */
  orphaned: boolean;
  warning: string | null;
}

export async function listKinds(signal: AbortSignal): Promise<Kind[]> {
  return (await request<{ items: Kind[] }>('/kinds', { signal })).items;
}
