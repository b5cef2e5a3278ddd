import { parseAst } from 'vite';

/** The files that others have something from, each with the two digits that its names end with. */
const DIGITS: Record<string, readonly [string, string]> = { 'sign-in': ['0', '1'], shell: ['2', '3'], tab: ['4', '5'] };
/** As the bundler names what a file exports: a letter, then a letter with `t`. */
const NAME = /^([\w$])(t?)$/;
const FILE = /([a-z-]+)-[\w-]{8}\.js$/;
const FETCHED = /(import\((["`])([^"`]+)\2\))(?:(\.then\(([\w$]+)=>\5\.)([\w$]+)\))?/g;

/** The few members of a syntax tree's nodes that are asked for. */
interface Specifier {
  start: number;
  end: number;
  local: { name: string };
  imported?: { name: string };
  exported?: { name: string };
}
interface Statement {
  type: string;
  source?: { value: string } | null;
  specifiers?: Specifier[];
}

/**
 * Gives what one file has from another the same name in both: `import{A0,B0}` is half of `import{A as Lt,B as Wt}`, and
 * there are 500 of them. A name follows from the file and the bundler's own name alone, so that no file changes without
 * its address. Returns the code and, for the minifier, how its own names are to be called.
 */
export function sharedNames(code: string, file: string): { code: string; names: Map<string, string> } {
  const names = new Map<string, string>();
  const edits: { start: number; end: number; text: string }[] = [];
  const { body } = parseAst(code) as unknown as { body: Statement[] };
  const taken = new Set(variables(body));
  for (const { type, source, specifiers = [] } of body) {
    if (type !== 'ImportDeclaration' && type !== 'ExportNamedDeclaration') continue;
    for (const { start, end, local, imported, exported } of specifiers) {
      const own = (imported ?? exported)?.name;
      if (own === undefined) throw new Error(`${file} imports all of ${source?.value}`);
      const shared = sharedName(source?.value ?? file, own);
      if (!shared) continue;
      if (taken.has(shared)) throw new Error(`${file} has a ${shared} of its own`);
      names.set(local.name, shared);
      edits.push({ start, end, text: imported ? `${shared} as ${local.name}` : `${local.name} as ${shared}` });
    }
  }
  for (const { start, end, text } of edits.toReversed()) code = code.slice(0, start) + text + code.slice(end);
  code = code.replaceAll(FETCHED, (all, fetched: string, _quote, from: string, then: string | undefined, _name, own = '') => {
    if (!digitsOf(from)) return all;
    if (!then) throw new Error(`${file} asks ${from} for all of it`);
    return `${fetched}${then}${sharedName(from, own) ?? own})`;
  });
  return { code, names };
}

/** The name of every variable and member. */
function* variables(value: unknown): Generator<string> {
  if (typeof value !== 'object' || value === null) return;
  const { type, name } = value as { type?: string; name?: string };
  if (type === 'Identifier' && name !== undefined) yield name;
  for (const member of Object.values(value)) yield* variables(member);
}

function digitsOf(file: string): readonly [string, string] | undefined {
  return DIGITS[FILE.exec(file)?.[1] ?? ''];
}

function sharedName(file: string, own: string): string | null {
  const digits = digitsOf(file);
  const [, letter, second] = NAME.exec(own) ?? [];
  return digits && letter !== undefined && !/\d/.test(letter) ? letter + digits[second ? 1 : 0] : null;
}
