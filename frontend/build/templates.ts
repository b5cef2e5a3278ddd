import { join } from 'node:path';
import { parseAst, type Plugin } from 'vite';
import { PLAIN_BUTTON, type Tree } from '../src/ui/unpack.ts';

/** Begins a text that is translated; `build/texts.ts` writes it into the markup. It is a private-use character, which no text has. */
export const STATIC_TEXT = '\uE000';
/** What the packed form is made of; a template with one of these in a text or a value stays as it is. */
const MARKS = /[(|~^)"<]/;

interface Node {
  type: string;
  start: number;
  end: number;
  [member: string]: unknown;
}

/**
 * Writes the elements of each component as one text, a fifth shorter than the nested lists that Svelte writes:
 * `(td|=end(button|type=button)~^)` for `[['td', { class: 'end' }, ['button', { type: 'button' }], ' ', , ]]`.
 * A text to translate is `<Name` there, an attribute of that kind `|title>Name`.
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
      for (const { callee, list } of callsIn(parseAst(packed) as unknown as Node).toReversed()) {
        const text = pack(treeOf(list) as Tree);
        // What is open at the end needs no mark that it ends.
        if (text !== null) packed = `${packed.slice(0, callee.start)}/* @__PURE__ */ fromPacked(${JSON.stringify(text.replace(/\)+$/, ''))}${packed.slice(list.end)}`;
      }
      if (packed.includes(STATIC_TEXT)) this.error(`${id}: a text is in a template that cannot be packed`);
      return packed === code ? null : { code: `import { fromPacked } from ${JSON.stringify(fromPacked)};\n${packed}`, map: null };
    },
  };
}

/** Null where it cannot be packed. */
export function pack(tree: Tree): string | null {
  const parts = tree.map((item) => {
    if (item === undefined) return '^';
    if (item === ' ') return '~';
    if (typeof item === 'string') return MARKS.test(item) || !item ? null : item.includes(STATIC_TEXT) ? `<${item.replace(STATIC_TEXT, '')}` : `"${item}`;
    const [name, attributes, ...children] = item;
    const inside = pack(children as Tree);
    const isPlainButton = name === 'button' && attributes?.type === 'button';
    const entries = Object.entries(attributes ?? {}).filter(([key]) => !isPlainButton || key !== 'type');
    if (inside === null || name.startsWith('/') || entries.some(([key, value]) => typeof value !== 'string' || MARKS.test(value) || /[=>]/.test(key))) return null;
    return `(${isPlainButton ? PLAIN_BUTTON : name}${entries.map(([key, value]) => `|${key === 'class' ? '' : key}${value.startsWith(STATIC_TEXT) ? `>${value.slice(1)}` : `=${value}`}`).join('')}${inside})`;
  });
  return parts.includes(null) ? null : parts.join('');
}

/** Each call of `$.from_tree`, in their order, with its first argument. */
function callsIn(tree: Node): { callee: Node; list: Node }[] {
  const found: { callee: Node; list: Node }[] = [];
  for (const node of walk(tree)) {
    const callee = node.callee as Node | undefined;
    if (node.type !== 'CallExpression' || callee?.type !== 'MemberExpression') continue;
    const { object, property } = callee as unknown as { object: { name?: string }; property: { name?: string } };
    if (object.name === '$' && property.name === 'from_tree') found.push({ callee, list: (node.arguments as Node[])[0] as Node });
  }
  return found.toSorted((a, b) => a.list.start - b.list.start);
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
