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
