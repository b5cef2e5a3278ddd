import { untrack } from 'svelte';

/** A map of a few entries that is followed as a whole: what reads any of it is drawn again after each change. */
export class TrackedMap<K, V> {
  #entries = $state.raw<ReadonlyMap<K, V>>(new Map());

  get size(): number {
    return this.#entries.size;
  }

  has(key: K): boolean {
    return this.#entries.has(key);
  }

  get(key: K): V | undefined {
    return this.#entries.get(key);
  }

  keys(): K[] {
    return [...this.#entries.keys()];
  }

  entries(): ReadonlyMap<K, V> {
    return this.#entries;
  }

  set(key: K, value: V): void {
    this.#change((entries) => entries.set(key, value));
  }

  delete(key: K): boolean {
    const there = untrack(() => this.has(key));
    if (there) this.#change((entries) => entries.delete(key));
    return there;
  }

  clear(): void {
    if (untrack(() => this.size)) this.#entries = new Map();
  }

  /** Whoever changes it does not follow it by that. */
  #change(change: (entries: Map<K, V>) => void): void {
    const entries = new Map(untrack(() => this.#entries));
    change(entries);
    this.#entries = entries;
  }
}
