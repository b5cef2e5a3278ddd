import { countCards as countExactly, listCards } from '../../api/cards.ts';
import { CARD_STATUSES, type CardStatus } from '../../api/types.ts';

export interface CardCounts {
  all: number;
  byStatus: Record<CardStatus, number>;
  /** Those of `byStatus` that are the host's estimate; with any, `all` is one, too. */
  estimated: CardStatus[];
}

/** Fewer are counted: that is quick. */
const COUNTED = 1_000;

export async function countCards(signal: AbortSignal): Promise<CardCounts> {
  const counts = await Promise.all(
    CARD_STATUSES.map(async (status) => {
      const { total_estimate: about } = await listCards({ limit: 1, fields: 'id', status }, signal);
      const exact = about < COUNTED ? await countExactly({ status }, signal) : null;
      return { status, cards: exact ?? about, estimated: exact === null };
    }),
  );
  const byStatus = Object.fromEntries(counts.map(({ status, cards }) => [status, cards])) as Record<CardStatus, number>;
  return { all: counts.reduce((sum, { cards }) => sum + cards, 0), byStatus, estimated: counts.filter(({ estimated }) => estimated).map(({ status }) => status) };
}
