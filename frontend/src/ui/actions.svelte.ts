import { untrack } from 'svelte';
import { router } from '../router.svelte.ts';
import type { IconName } from './icons.ts';

/** Something that the page which is open can do, offered by the palette as well. */
export interface Action {
  label: string;
  icon: IconName;
  run: () => void;
}

class Actions {
  #groups = $state.raw<Action[][]>([]);

  get all(): Action[] {
    return this.#groups.flat();
  }

  /** Offers `actions` until the returned function is called: `$effect(() => actions.offer([…]))`. */
  offer(actions: Action[]): () => void {
    queueMicrotask(() => (this.#groups = [...this.#groups, actions]));
    return () => queueMicrotask(() => (this.#groups = this.#groups.filter((group) => group !== actions)));
  }
}

export const actions = new Actions();

/** Calls `open` when the page's address asks for something new (`?new=1`), which it then forgets. To be called while a page is made. */
export function onNew(open: () => void): void {
  $effect(() => {
    if (!router.place.search.has('new')) return;
    untrack(() => {
      router.set({ new: '' }, { replace: true });
      open();
    });
  });
}
