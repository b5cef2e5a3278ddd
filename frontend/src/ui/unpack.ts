// @ts-expect-error It has no types: it is what Svelte's compiler calls.
import { from_tree } from 'svelte/internal/client';

/**
 * A component's elements, as Svelte's `from_tree` takes them: a text, nothing where a comment is to be, or a list of a
 * name, attributes and children.
 */
export type Tree = (string | undefined | Element)[];
type Element = [name: string, attributes: Record<string, string> | null, ...children: unknown[]];

/** Stands for the name and the type of a button that sends no form. */
export const PLAIN_BUTTON = '!';

/** The inverse of `build/templates.ts`: each mark with the text behind it is one step. */
export function unpack(packed: string): Tree {
  const around: Tree[] = [[]];
  for (const [, mark, text = ''] of packed.matchAll(/([(|~^)"])([^(|~^)"]*)/g)) {
    const inside = around.at(-1) as Tree;
    if (mark === '(') {
      const element: Element = text === PLAIN_BUTTON ? ['button', { type: 'button' }] : [text, null];
      inside.push(element);
      around.push(element as Tree);
    } else if (mark === '|') {
      const at = text.indexOf('=');
      ((inside as Element)[1] ??= {})[text.slice(0, at) || 'class'] = text.slice(at + 1);
    } else if (mark === ')') around.pop();
    else inside.push(mark === '^' ? undefined : mark === '~' ? ' ' : text);
  }
  return around[0] as Tree;
}

/** What a build calls in the place of `from_tree`. */
export function fromPacked(packed: string, flags?: number): () => Node {
  return (from_tree as (tree: Tree, flags?: number) => () => Node)(unpack(packed), flags);
}
