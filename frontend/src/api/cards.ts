import { openStream, query, request, requestWithHeaders } from './client.ts';
import type { Card, CardPage, CardStatus, JsonObject, ListedSource } from './types.ts';

const CARDS_PER_PAGE = 50;
/** Without the attributes: a card's sources alone may be megabytes. */
const LIST_FIELDS = 'id,title,sku,status,version,created_at,updated_at,updated_by';

/** Query parameters of the list; what is absent or empty is not asked for. */
export interface CardFilter {
  q?: string;
  status?: string;
  kind?: string;
  missing_kind?: string;
  plugin?: string;
  updated_since?: string;
  deleted?: string;
}

export interface CardQuery extends CardFilter {
  sort?: string;
  cursor?: string;
  limit?: number;
  fields?: string;
}

export interface NewCard {
  title: string;
  sku: string;
  status: CardStatus;
  attributes?: JsonObject;
}

/** One change of a card. `change` is what was sent. */
export interface HistoryLine {
  id: string;
  version: number;
  at: string;
  actor: { kind: string; id: string; name?: string };
  action: string;
  change: JsonObject;
}

export interface HistoryPage {
  items: HistoryLine[];
  next_cursor: string | null;
}

const cardPath = (id: string) => `/master-cards/${encodeURIComponent(id)}`;

/** Where a page of the list is, below `/v1/admin`. */
export function cardsPath(asked: CardQuery): string {
  return `/master-cards${query({ limit: CARDS_PER_PAGE, fields: LIST_FIELDS, ...asked })}`;
}

export function listCards(asked: CardQuery, signal: AbortSignal): Promise<CardPage> {
  return request(cardsPath(asked), { signal });
}

/** The attributes of a page of the list, by card: a request of its own, so that nobody waits for them to see titles. */
export async function listAttributes(asked: CardQuery, signal: AbortSignal): Promise<Map<string, Card['attributes']>> {
  const path = `/master-cards${query({ limit: CARDS_PER_PAGE, ...asked, fields: 'id,attributes' })}`;
  const page = await request<{ items: Pick<Card, 'id' | 'attributes'>[] }>(path, { signal });
  return new Map(page.items.map((card) => [card.id, card.attributes]));
}

/** How many cards the filter picks, exactly: slow at a million cards, and so only asked for when it is needed. Null when it took too long. */
export async function countCards(filter: CardFilter, signal?: AbortSignal): Promise<number | null> {
  const path = `/master-cards${query({ ...filter, limit: 1, fields: 'id', count: 'exact' })}`;
  return (await request<{ total: number | null }>(path, { signal })).total;
}

/** All cards of the filter, or those of `ids` (separated by commas) among them, as a file, as it comes. */
export function exportCards(filter: CardFilter & { ids?: string | undefined }, format: 'ndjson' | 'csv', signal: AbortSignal): Promise<Response> {
  return openStream(`/master-cards/export${query({ ...filter, format })}`, {}, signal);
}

export async function getCard(id: string, signal?: AbortSignal): Promise<Card> {
  return (await request<{ item: Card }>(cardPath(id), { signal })).item;
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

/** Hides the card; `restoreCard` brings it back. */
export function deleteCard(id: string): Promise<void> {
  return request(cardPath(id), { method: 'DELETE' });
}

/**
 * A deleted card comes back; with a version, fields and attributes but sources become what they were then. The server
 * refuses it (412) when the card is not at the version `now` any more.
 */
export async function restoreCard(id: string, version?: number, now?: number): Promise<Card> {
  const ifMatch = now === undefined ? {} : { ifMatch: `"${now}"` };
  return (await request<{ item: Card }>(`${cardPath(id)}/restore`, { method: 'POST', body: version === undefined ? {} : { version }, ...ifMatch })).item;
}

export function listHistory(id: string, cursor: string | null, signal?: AbortSignal, limit = 50): Promise<HistoryPage> {
  return request(`${cardPath(id)}/history${query({ limit, cursor })}`, { signal });
}

/** The card's sources without their data; what the card itself does not say is whether their plugins are still there. */
export async function listSources(id: string, signal: AbortSignal): Promise<ListedSource[]> {
  return (await request<{ items: ListedSource[] }>(`${cardPath(id)}/sources`, { signal })).items;
}

export function sourcePath(id: string, key: string): string {
  return `${cardPath(id)}/sources/${encodeURIComponent(key)}`;
}

export function removeSource(id: string, key: string): Promise<void> {
  return request(sourcePath(id, key), { method: 'DELETE' });
}
