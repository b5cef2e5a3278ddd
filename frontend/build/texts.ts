import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse as parseSvelte } from 'svelte/compiler';
import { parseAst, type Plugin } from 'vite';
import { hashOf } from '../src/i18n/hash.ts';
import { STATIC_TEXT } from './templates.ts';

/** What the build calls in the place of every area's `t`. Nothing in the sources has this name: `inject` imports it. */
const TRANSLATE = 'translateText';
const AREA = /[/]i18n[/]([a-z-]+)\.ts$/;
const RUSSIAN = /\/src\/i18n\/ru\/index\.ts$/;

export type Text = string | { other: string; [form: string]: string };
type Texts = ReadonlyMap<string, Text>;
/** What means something in markup. A text with one of these, or with a mark of packed templates, stays a call. */
const NOT_MARKUP = /[&{}<>(|~^)"`]/;
/** Attributes that people read. */
const READ_ATTRIBUTES = new Set(['alt', 'aria-label', 'data-label', 'placeholder', 'title']);
/** The few members of a syntax tree's nodes that are asked for. */
interface Node {
  type: string;
  start: number;
  end: number;
  [member: string]: unknown;
}

/**
 * Puts each English text where it is used: `t('removed', { name })` becomes `translateText("{name} removed", { name })`,
 * and `t(`role_${role}`)` asks a table of such texts by `role`. A text that is all that an element or an attribute
 * says, `<th>{t('name')}</th>`, stands in the component's template, marked, and is translated with it
 * (`build/templates.ts`). Names of texts and catalogues are not in the build, nor is a text that nobody uses. Russian is found by the English text. Since the call is to a global, Svelte takes
 * it for one that always answers the same and draws it once; `App.svelte` draws all anew when the language changes.
 */
export function textsInPlace(root: string): Plugin {
  const folder = join(root, 'src/i18n');
  const russian = catalogues(join(folder, 'ru'));
  const english = toldApart(catalogues(folder), russian);
  return {
    name: 'cardinal-texts',
    apply: 'build',
    enforce: 'pre',
    config: () => ({ build: { rolldownOptions: { transform: { inject: { [TRANSLATE]: [join(folder, 'catalogue.svelte.ts'), 'translate'] } } } } }),
    transform(code, id) {
      if (RUSSIAN.test(id)) return { code: `export default ${JSON.stringify(byEnglish(english, russian))}`, map: null };
      if (!id.includes('/src/') || !/\.(ts|svelte)$/.test(id) || !code.includes('i18n/')) return null;
      try {
        return { code: withTexts(code, id.endsWith('.ts') ? 'ts' : 'svelte', english), map: null };
      } catch (error) {
        return this.error(`${id}: ${(error as Error).message}`);
      }
    },
  };
}

export function withTexts(code: string, language: 'ts' | 'svelte', english: ReadonlyMap<string, Texts>): string {
  const tree = (language === 'ts' ? parseAst(code, { lang: 'ts' }) : parseSvelte(code, { modern: true })) as unknown as Node;
  const edits: { start: number; end: number; text: string }[] = [];
  const areas = new Map<string, Texts>();
  const called = new Set<unknown>();
  const nodes = [...walk(tree)];
  for (const node of nodes.filter(({ type }) => type === 'ImportDeclaration')) {
    const texts = english.get(AREA.exec((node.source as { value: string }).value)?.[1] ?? '');
    if (!texts || node.importKind === 'type') continue;
    const [only, ...others] = node.specifiers as { imported: { name: string }; local: Node }[];
    if (only?.imported.name !== 't' || others.length) throw new Error('an area of texts has `t` to import, alone');
    areas.set(only.local.name as string, texts);
    called.add(only.local).add(only.imported);
    edits.push({ start: node.start, end: node.end, text: '' });
  }
  const inMarkup = language === 'svelte' ? staticTexts(nodes, areas) : new Map<unknown, { tag: Node; text: string }>();
  for (const node of nodes.filter(({ type }) => type === 'CallExpression')) {
    const callee = node.callee as Node;
    const texts = callee.type === 'Identifier' && areas.get(callee.name as string);
    if (!texts) continue;
    called.add(callee);
    const whole = inMarkup.get(node);
    if (whole) {
      edits.push({ start: whole.tag.start, end: whole.tag.end, text: whole.text });
      continue;
    }
    const name = (node.arguments as Node[])[0] as Node;
    edits.push({ start: callee.start, end: callee.end, text: TRANSLATE }, { start: name.start, end: name.end, text: textNamed(name, code, texts) });
  }
  for (const node of nodes) {
    if (node.type === 'Identifier' && areas.has(node.name as string) && !called.has(node) && !isMember(node, nodes)) throw new Error(`\`${String(node.name)}\` of an area of texts can be called alone`);
  }
  let before = code.length;
  for (const { start, end, text } of edits.toSorted((a, b) => b.start - a.start)) {
    if (end > before) throw new Error('a text is chosen by a text');
    code = code.slice(0, start) + text + code.slice(end);
    before = start;
  }
  return code;
}

/** The calls whose text can stand in the markup as it is, each with the braces around it and what takes their place. */
function staticTexts(nodes: Node[], areas: ReadonlyMap<string, Texts>): Map<unknown, { tag: Node; text: string }> {
  const found = new Map<unknown, { tag: Node; text: string }>();
  const add = (tag: Node, quote: string) => {
    const { type, callee, arguments: list = [] } = tag.expression as { type: string; callee?: { name?: string }; arguments?: { type: string; value: string }[] };
    const text = type === 'CallExpression' && list.length === 1 && list[0]?.type === 'Literal' ? areas.get(callee?.name ?? '')?.get(list[0].value) : undefined;
    if (typeof text === 'string' && !NOT_MARKUP.test(text) && text === text.trim()) found.set(tag.expression, { tag, text: `${quote}${STATIC_TEXT}${text}${quote}` });
  };
  for (const element of nodes.filter(({ type, name }) => type === 'RegularElement' && name !== 'textarea')) {
    const attributes = element.attributes as { type: string; name: string; value: Node }[];
    // Beside a spread, Svelte sets attributes one by one.
    if (!attributes.some(({ type }) => type === 'SpreadAttribute')) {
      for (const { type, name, value } of attributes) if (type === 'Attribute' && READ_ATTRIBUTES.has(name) && value.type === 'ExpressionTag') add(value, '"');
    }
    const children = (element.fragment as { nodes: Node[] }).nodes;
    const isSpace = (node: Node | undefined) => node?.type === 'Text' && !(node.data as string).trim();
    for (const [at, child] of children.entries()) {
      const beside = [children[at - 1], children[at + 1], isSpace(children[at - 1]) ? children[at - 2] : undefined, isSpace(children[at + 1]) ? children[at + 2] : undefined];
      // Texts side by side are one text.
      if (child.type === 'ExpressionTag' && !beside.some((node) => node?.type === 'ExpressionTag' || (node?.type === 'Text' && !isSpace(node)))) add(child, '');
    }
  }
  return found;
}

/** Code for the text, or the texts, that an expression names. */
function textNamed(name: Node, code: string, texts: Texts): string {
  const source = (node: unknown) => code.slice((node as Node).start, (node as Node).end);
  switch (name.type) {
    case 'Literal': {
      const text = texts.get(name.value as string);
      if (text === undefined) throw new Error(`no text has the name ${String(name.value)}`);
      return JSON.stringify(text);
    }
    case 'ConditionalExpression':
      return `${source(name.test)} ? ${textNamed(name.consequent as Node, code, texts)} : ${textNamed(name.alternate as Node, code, texts)}`;
    case 'TemplateLiteral': {
      const parts = (name.quasis as { value: { cooked: string } }[]).map(({ value }) => value.cooked);
      const fits = ([one]: [string, Text]) => parts.length === 2 && one.startsWith(parts[0] ?? '') && one.endsWith(parts[1] ?? '');
      const table = [...texts].filter(fits);
      if (!parts.some(Boolean) || !table.length) throw new Error(`no texts have names like ${source(name)}`);
      // What all their names have in common nobody asks for.
      const [before = '', after = ''] = parts;
      const short = table.map(([one, text]) => [one.slice(before.length, one.length - after.length), text]);
      return `(${JSON.stringify(Object.fromEntries(short))})[${source((name.expressions as Node[])[0])}]`;
    }
    default:
      throw new Error(`which text is ${source(name)}? A literal can be told, a condition of literals, and a template with one gap`);
  }
}

/** Whether it is a member's name, which has nothing to do with the variable of that name. */
function isMember(node: Node, nodes: Node[]): boolean {
  return nodes.some((other) => (other.type === 'MemberExpression' && other.property === node && !other.computed) || (other.type === 'Property' && other.key === node && other.value !== node && !other.shorthand));
}

function* walk(value: unknown): Generator<Node> {
  if (typeof value !== 'object' || value === null) return;
  if (typeof (value as Node).type === 'string') yield value as Node;
  for (const member of Object.values(value)) yield* walk(member);
}

/** Every catalogue of a folder, by area. */
function catalogues(folder: string): Map<string, Texts> {
  const files = readdirSync(folder).filter((file) => /^[a-z-]+\.ts$/.test(file) && !['index.ts', 'hash.ts'].includes(file));
  return new Map(files.map((file) => [file.slice(0, -3), catalogueOf(readFileSync(join(folder, file), 'utf8'))]));
}

/** The one object of strings, and of objects of strings, that a file declares. */
function catalogueOf(code: string): Texts {
  const object = [...walk(parseAst(code, { lang: 'ts' }))].find(({ type }) => type === 'ObjectExpression');
  const valueOf = (node: Node): Text => (node.type === 'ObjectExpression' ? (Object.fromEntries(entriesOf(node).map(([name, value]) => [name, valueOf(value) as string])) as Text) : (node.value as string));
  return new Map(object ? entriesOf(object).map(([name, value]) => [name, valueOf(value)]) : []);
}

function entriesOf(object: Node): [string, Node][] {
  return (object.properties as { key: { name?: string; value?: string }; value: Node }[]).map(({ key, value }) => [key.name ?? key.value ?? '', value]);
}

/** The English texts, those marked by `¦1`, `¦2` that have another translation than the same words before them. */
function toldApart(english: Map<string, Texts>, russian: Map<string, Texts>): Map<string, Texts> {
  const translations = new Map<string, string[]>();
  const marked = (area: string, name: string, text: Text): Text => {
    const known = translations.get(JSON.stringify(text)) ?? [];
    const translation = JSON.stringify(russian.get(area)?.get(name));
    if (!known.includes(translation)) known.push(translation);
    translations.set(JSON.stringify(text), known);
    const mark = known.indexOf(translation) ? `¦${known.indexOf(translation)}` : '';
    return typeof text === 'string' ? text + mark : { ...text, other: `${text.other}${mark}` };
  };
  return new Map([...english].map(([area, texts]) => [area, new Map([...texts].map(([name, text]) => [name, marked(area, name, text)]))]));
}

/** Russian texts by what their English ones come to. */
function byEnglish(english: Map<string, Texts>, russian: Map<string, Texts>): Record<string, Text> {
  const found = new Map<string, { text: string; translation: Text }>();
  for (const [area, texts] of english) {
    for (const [name, text] of texts) {
      const translation = russian.get(area)?.get(name);
      if (translation === undefined) continue;
      const before = found.get(hashOf(text));
      if (before && before.text !== JSON.stringify(text)) throw new Error(`${JSON.stringify(text)} and ${before.text} come to the same`);
      found.set(hashOf(text), { text: JSON.stringify(text), translation });
    }
  }
  // What the server says is found by its code.
  const server = Object.fromEntries(russian.get('server') ?? []) as unknown as Text;
  return { ...Object.fromEntries([...found].map(([hash, { translation }]) => [hash, translation])), server };
}
