// @ts-expect-error It has no types: it is what Svelte's compiler calls.
import { from_tree } from 'svelte/internal/client';
import { translate } from '../i18n/catalogue.svelte.ts';
import { preferences } from './preferences.svelte.ts';
import { type Tree, unpack } from './unpack.ts';

const fromTree = from_tree as (tree: Tree, flags?: number) => () => Node;

/** What a build calls in the place of `from_tree`. The elements are made anew for another language. */
export function fromPacked(packed: string, flags?: number): () => Node {
  let language: string | undefined;
  let make: () => Node;
  return () => {
    if (language !== preferences.language) {
      language = preferences.language;
      make = fromTree(unpack(packed, translate), flags);
    }
    return make();
  };
}
