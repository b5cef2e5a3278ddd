import { query, request } from '../../api/client.ts';
import { CARD_STATUSES, type CardStatus } from '../../api/types.ts';

export interface CardCounts {
  all: number;
  byStatus: Record<CardStatus, number>;
}

/** As the list of cards knows them: counted where that is quick, estimated beyond. */
export async function countCards(signal: AbortSignal): Promise<CardCounts> {
  const count = async (status: CardStatus) => (await request<{ total_estimate: number | null }>(`/master-cards${query({ limit: 1, fields: 'id', status })}`, { signal })).total_estimate ?? 0;
  const each = await Promise.all(CARD_STATUSES.map(count));
  const byStatus = Object.fromEntries(CARD_STATUSES.map((status, i) => [status, each[i] ?? 0])) as Record<CardStatus, number>;
  return { all: each.reduce((sum, n) => sum + n, 0), byStatus };
}
