import { listCards, type CardQuery } from '../../api/cards.ts';

/** The list as it was left: what "Cards", the mark of the row one came from, and previous and next on a card go by. */
interface LastList {
  href: string;
  openedCard: string;
  /** The cards of the page, in its order. */
  ids: string[];
  asked: CardQuery;
  next: string | null;
  prev: string | null;
}

const STORAGE_KEY = 'cardinal.last-list';

export const lastList: LastList = { href: '/admin/cards', openedCard: '', ids: [], asked: {}, next: null, prev: null, ...read() };

export function keepList(changes: Partial<LastList>): void {
  Object.assign(lastList, changes);
  try {
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify(lastList));
  } catch {
    // Without storage a reload forgets the list; nothing else is lost.
  }
}

/** The card before or after `id` in the list, on the next page of it if need be; null at the list's end. */
export async function neighbour(id: string, step: 1 | -1, signal: AbortSignal): Promise<string | null> {
  const at = lastList.ids.indexOf(id);
  if (at < 0) return null;
  const beside = lastList.ids[at + step];
  if (beside) return beside;
  const cursor = step > 0 ? lastList.next : lastList.prev;
  if (!cursor) return null;
  const page = await listCards({ ...lastList.asked, cursor, fields: 'id' }, signal);
  const ids = page.items.map((card) => card.id);
  if (ids.length === 0) return null;
  const search = new URLSearchParams(lastList.href.split('?')[1]);
  search.set('cursor', cursor);
  keepList({ ids, next: page.next_cursor, prev: page.prev_cursor, asked: { ...lastList.asked, cursor }, href: `/admin/cards?${search}` });
  return (step > 0 ? ids[0] : ids.at(-1)) ?? null;
}

function read(): Partial<LastList> {
  try {
    return JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? '{}') as Partial<LastList>;
  } catch {
    return {};
  }
}
