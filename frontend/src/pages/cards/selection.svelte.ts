import type { CardStatus, ListedCard } from '../../api/types.ts';
import { TrackedMap } from '../../ui/tracked-map.svelte.ts';

type Ticked = Pick<ListedCard, 'id' | 'status'>;

/** The cards that are ticked: some by id, or all that the filter picks. */
export class Selection {
  /** With the status that the list shows, which a change of it can be taken back to. */
  readonly ids = new TrackedMap<string, CardStatus>();
  /** How many cards the filter picks, once all of them were chosen. */
  all = $state<number | null>(null);
  #last = '';

  get size(): number {
    return this.all ?? this.ids.size;
  }

  has(id: string): boolean {
    return this.all !== null || this.ids.has(id);
  }

  toggle({ id, status }: Ticked): void {
    this.all = null;
    if (!this.ids.delete(id)) this.ids.set(id, status);
    this.#last = id;
  }

  /** Everything between the card that was ticked last and this one, in the order of `page`. */
  extendTo(card: Ticked, page: readonly Ticked[]): void {
    const from = page.findIndex(({ id }) => id === this.#last);
    const to = page.indexOf(card);
    if (from < 0 || to < 0) return this.toggle(card);
    this.setPage(page.slice(Math.min(from, to), Math.max(from, to) + 1), true);
    this.#last = card.id;
  }

  setPage(page: readonly Ticked[], ticked: boolean): void {
    this.all = null;
    for (const { id, status } of page) {
      if (ticked) this.ids.set(id, status);
      else this.ids.delete(id);
    }
  }

  clear(): void {
    this.all = null;
    this.ids.clear();
    this.#last = '';
  }
}
