import { query, request } from '../../api/client.ts';
import { CARD_STATUSES, type CardStatus } from '../../api/types.ts';

export interface CardCounts {
  all: number;
  byStatus: Record<CardStatus, number>;
}

/** As the list of cards knows them: counted where that is quick, estimated beyond. */
export async function countCards(signal: AbortSignal): Promise<CardCounts> {
  const count = async (status: CardStatus | null) => (await request<{ total_estimate: number | null }>(`/master-cards${query({ limit: 1, fields: 'id', status })}`, { signal })).total_estimate ?? 0;
  const [all, ...each] = await Promise.all([null, ...CARD_STATUSES].map(count));
  const byStatus = Object.fromEntries(CARD_STATUSES.map((status, i) => [status, each[i] ?? 0])) as Record<CardStatus, number>;
  return { all: all ?? 0, byStatus };
}
