import { query, request, requestWithHeaders } from './client.ts';
import type { Card, CardPage, CardStatus, JsonObject, ListedSource } from './types.ts';

const CARDS_PER_PAGE = 50;
/** Without the attributes: a card's sources alone may be megabytes. */
const LIST_FIELDS = 'id,title,sku,status,created_at,updated_at';

/** Query parameters of the list; what is absent or empty is not asked for. */
export interface CardFilter {
  q?: string;
  status?: string;
  kind?: string;
  missing_kind?: string;
  plugin?: string;
  updated_since?: string;
  sort?: string;
  cursor?: string;
  limit?: number;
  fields?: string;
}

export interface NewCard {
  title: string;
  sku: string;
  status: CardStatus;
}

const cardPath = (id: string) => `/master-cards/${encodeURIComponent(id)}`;

export function listCards(filter: CardFilter, signal: AbortSignal): Promise<CardPage> {
  return request(`/master-cards${query({ limit: CARDS_PER_PAGE, fields: LIST_FIELDS, ...filter })}`, { signal });
}

export async function getCard(id: string, signal?: AbortSignal): Promise<Card> {
  return (await request<{ item: Card }>(cardPath(id), signal ? { signal } : {})).item;
}

export async function createCard(card: NewCard): Promise<Card> {
  return (await request<{ item: Card }>('/master-cards', { method: 'POST', body: card })).item;
}

/** Sends a merge patch that the server refuses (412) when the card is no longer at `version`. */
export async function patchCard(id: string, patch: JsonObject, version: number): Promise<Card> {
  const answer = await requestWithHeaders<{ item: Card }>(cardPath(id), {
    method: 'PATCH',
    body: patch,
    contentType: 'application/merge-patch+json',
    ifMatch: `"${version}"`,
  });
  return answer.data.item;
}

/** The card's sources without their data; what the card itself does not say is whether their plugins are still there. */
export async function listSources(id: string, signal: AbortSignal): Promise<ListedSource[]> {
  return (await request<{ items: ListedSource[] }>(`${cardPath(id)}/sources`, { signal })).items;
}

export function removeSource(id: string, key: string): Promise<void> {
  return request(`${cardPath(id)}/sources/${encodeURIComponent(key)}`, { method: 'DELETE' });
}
