import { join } from 'node:path';
import { parseAst, type Plugin } from 'vite';
import { BETWEEN_TEMPLATES, PLAIN_BUTTON, SCOPE, type Tree } from '../src/ui/unpack.ts';

/** Begins a text that is translated; `build/texts.ts` writes it into the markup. It is a private-use character, which no text has. */
export const STATIC_TEXT = '\uE000';
/** What the packed form is made of; a template with one of these in a text or a value cannot be packed. */
const MARKS = new RegExp(`[(|~^)"<${BETWEEN_TEMPLATES}]`);
/** The class of a component's styles (`shortHash`), which stands behind all others. */
const OWN_CLASS = /(?:^| )s([0-9a-z]{1,2})$/;

interface Node {
  type: string;
  start: number;
  end: number;
  [member: string]: unknown;
}

/**
 * Writes the elements of each component as one text, a fifth shorter than the nested lists that Svelte writes:
 * `(td|=end*2g(a*|href=/)~^)` for `[['td', { class: 'end s2g' }, ['a', { class: 's2g', href: '/' }], ' ', , ]]`.
 * A text to translate is `<Name` there, an attribute of that kind `|title>Name`. How Svelte is to read a template shows by
 * its number of elements, but for a drawing, which says it in front. `build/shared-templates.ts` makes one text of all
 * those of a file.
 */
export function packedTemplates(root: string): Plugin {
  const fromPacked = join(root, 'src/ui/from-packed.ts');
  return {
    name: 'cardinal-templates',
    apply: 'build',
    enforce: 'post',
    transform(code, id) {
      if (!id.endsWith('.svelte')) return null;
      // Which slots a component was given only those of Svelte 4 ask.
      let packed = code.replaceAll(/,\s*\$\$slots: \{[^{}]*\}/g, '');
      for (const call of callsIn(parseAst(packed) as unknown as Node).toReversed()) {
        const [list, flags] = call.arguments as [Node, Node | undefined];
        const tree = treeOf(list) as Tree;
        const text = pack(tree);
        if (text === null) return this.error(`${id}: a template has a text or a value that cannot be packed: ${packed.slice(list.start, list.end)}`);
        const how = flags ? Number(flags.value) : 0;
        // What is open at the end needs no mark that it ends.
        const whole = (how === Number(tree.length > 1) ? '' : String(how)) + text.replace(/\)+$/, '');
        packed = `${packed.slice(0, call.start)}/* @__PURE__ */ fromPacked(${JSON.stringify(whole)})${packed.slice(call.end)}`;
      }
      return packed === code ? null : { code: `import { fromPacked } from ${JSON.stringify(fromPacked)};\n${packed}`, map: null };
    },
  };
}

/** Null where it cannot be packed. */
export function pack(tree: Tree): string | null {
  let scope = '';
  /** Classes, with a sign for the component's own, which is named the first time alone. */
  const signed = (words: string) =>
    words.replace(OWN_CLASS, (_, own: string) => {
      const id = own === scope ? '' : own;
      scope = own;
      return SCOPE + id;
    });
  const packed = (items: Tree): string | null => {
    const parts = items.map((item) => {
      if (item === undefined) return '^';
      if (item === ' ') return '~';
      if (typeof item === 'string') return MARKS.test(item) || !item ? null : item.includes(STATIC_TEXT) ? `<${item.replace(STATIC_TEXT, '')}` : `"${item}`;
      const [name, attributes, ...children] = item;
      const { class: words = '', ...others } = attributes ?? {};
      const classes = signed(words);
      const isPlainButton = name === 'button' && others.type === 'button';
      const entries = Object.entries(others).filter(([key]) => !isPlainButton || key !== 'type');
      const inside = packed(children as Tree);
      const isOdd = entries.some(([key, value]) => typeof value !== 'string' || MARKS.test(value) || /[=>]/.test(key));
      if (inside === null || isOdd || name.startsWith('/') || MARKS.test(words) || words.includes(SCOPE)) return null;
      const head = (isPlainButton ? PLAIN_BUTTON : name) + (classes.startsWith(SCOPE) ? classes : classes && `|=${classes}`);
      return `(${head}${entries.map(([key, value]) => `|${key}${value.startsWith(STATIC_TEXT) ? `>${value.slice(1)}` : `=${value}`}`).join('')}${inside})`;
    });
    return parts.includes(null) ? null : parts.join('');
  };
  return packed(tree);
}

/** Each call of `$.from_tree`, in their order. */
function callsIn(tree: Node): Node[] {
  const found: Node[] = [];
  for (const node of walk(tree)) {
    const callee = node.callee as Node | undefined;
    if (node.type !== 'CallExpression' || callee?.type !== 'MemberExpression') continue;
    const { object, property } = callee as unknown as { object: { name?: string }; property: { name?: string } };
    if (object.name === '$' && property.name === 'from_tree') found.push(node);
  }
  return found.toSorted((a, b) => a.start - b.start);
}

/** The value of a literal, or of a list or an object of them. */
function treeOf(node: Node | null): unknown {
  if (node === null) return undefined;
  switch (node.type) {
    case 'ArrayExpression': return (node.elements as (Node | null)[]).map(treeOf);
    case 'ObjectExpression':
      return Object.fromEntries((node.properties as { key: { name?: string; value?: string }; value: Node }[]).map(({ key, value }) => [key.name ?? key.value, treeOf(value)]));
    case 'Literal': return node.value;
    case 'TemplateLiteral': return (node.quasis as { value: { cooked: string } }[])[0]?.value.cooked;
    case 'Identifier': return undefined;
    default: throw new Error(`an element of a template is a ${node.type}`);
  }
}

function* walk(value: unknown): Generator<Node> {
  if (typeof value !== 'object' || value === null) return;
  if (typeof (value as Node).type === 'string') yield value as Node;
  for (const member of Object.values(value)) yield* walk(member);
}
