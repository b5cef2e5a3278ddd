/**
 * A component's elements, as Svelte's `from_tree` takes them: a text, nothing where a comment is to be, or a list of a
 * name, attributes and children.
 */
export type Tree = (string | undefined | Element)[];
type Element = [name: string, attributes: Record<string, string> | null, ...children: unknown[]];

/** Stands for the name and the type of a button that sends no form. */
export const PLAIN_BUTTON = '!';
/** Behind other classes, or behind an element's name: the class of the component, whose number stands there the first time. */
export const SCOPE = '*';
/** Between the templates of a file. */
export const BETWEEN_TEMPLATES = '`';

/** The inverse of `build/templates.ts`: each mark with the text behind it is one step. */
export function unpack(packed: string, translate: (text: string) => string): Tree {
  const around: Tree[] = [[]];
  let scope = '';
  const scoped = (text: string): string[] => {
    const [before = '', id] = text.split(SCOPE);
    if (id) scope = `s${id}`;
    return id === undefined ? [before] : [before, scope];
  };
  for (const [, mark, text = ''] of packed.matchAll(/([(|~^)"<])([^(|~^)"<]*)/g)) {
    const inside = around.at(-1) as Tree;
    if (mark === '(') {
      const [name = '', own] = scoped(text);
      const element: Element = name === PLAIN_BUTTON ? ['button', { type: 'button' }] : [name, null];
      if (own) (element[1] ??= {}).class = own;
      inside.push(element);
      around.push(element as Tree);
    } else if (mark === '|') {
      const at = text.search(/[=>]/);
      const name = text.slice(0, at);
      const value = text.slice(at + 1);
      ((inside as Element)[1] ??= {})[name || 'class'] = text[at] === '>' ? translate(value) : name ? value : scoped(value).join(' ');
    } else if (mark === ')') around.pop();
    else if (mark === '<') inside.push(text.replace(/\S(.*\S)?/, (words) => translate(words)));
    else inside.push(mark === '^' ? undefined : mark === '~' ? ' ' : text);
  }
  return around[0] as Tree;
}
