// @ts-expect-error It has no types: it is what Svelte's compiler calls.
import { from_tree } from 'svelte/internal/client';
import { translate } from '../i18n/catalogue.svelte.ts';
import { preferences } from './preferences.svelte.ts';
import { BETWEEN_TEMPLATES, type Tree, unpack } from './unpack.ts';

const fromTree = from_tree as (tree: Tree, flags?: number) => () => Node;

/** What a build calls in the place of all calls of `from_tree` of a file, with one text of all its templates. */
export function fromPacked(templates: string): (() => Node)[] {
  return templates.split(BETWEEN_TEMPLATES).map((packed) => {
    let language: string | undefined;
    let make: () => Node;
    // The elements are made anew for another language.
    return () => {
      if (language !== preferences.language) {
        language = preferences.language;
        const tree = unpack(packed, translate);
        make = fromTree(tree, parseInt(packed) || Number(tree.length > 1));
      }
      return make();
    };
  });
}
