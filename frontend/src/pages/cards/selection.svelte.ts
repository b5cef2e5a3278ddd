import { SvelteSet } from 'svelte/reactivity';

/** The cards that are ticked: some by id, or all that the filter picks. */
export class Selection {
  readonly ids = new SvelteSet<string>();
  /** How many cards the filter picks, once all of them were chosen. */
  all = $state<number | null>(null);
  #last = '';

  get size(): number {
    return this.all ?? this.ids.size;
  }

  has(id: string): boolean {
    return this.all !== null || this.ids.has(id);
  }

  toggle(id: string): void {
    this.all = null;
    if (!this.ids.delete(id)) this.ids.add(id);
    this.#last = id;
  }

  /** Everything between the card that was ticked last and this one, in the order of `page`. */
  extendTo(id: string, page: readonly string[]): void {
    const from = page.indexOf(this.#last);
    const to = page.indexOf(id);
    if (from < 0 || to < 0) return this.toggle(id);
    this.all = null;
    for (const between of page.slice(Math.min(from, to), Math.max(from, to) + 1)) this.ids.add(between);
    this.#last = id;
  }

  setPage(page: readonly string[], ticked: boolean): void {
    this.all = null;
    for (const id of page) {
      if (ticked) this.ids.add(id);
      else this.ids.delete(id);
    }
  }

  clear(): void {
    this.all = null;
    this.ids.clear();
    this.#last = '';
  }
}
