import { posix } from 'node:path';
import { parseAst } from 'vite';

/** The few members of a syntax tree's nodes that are asked for. */
interface Node {
  type: string;
  start: number;
  end: number;
  [member: string]: unknown;
}
interface Specifier extends Node {
  local: { name: string };
  imported?: { name: string };
  exported?: { name: string };
}
interface File {
  fileName: string;
  code: string;
}

/** What the minifier of a file is to know: its code, and the names that it must give, or must not give to anything. */
export interface Prepared {
  code: string;
  names: Record<string, string>;
}

/** Of names of two letters the second changes last: those that are used most end alike. One letter is for what is inside a function. */
const FIRST = 'etnrasoilcdupmhfgvbykwjqxzETNRASOILCDUPMHFGVBYKWJQXZ_$';
const SECOND = 'tarneosilcdupm';
const KEYWORDS = new Set(['as', 'do', 'if', 'in', 'is', 'of']);
const SHORT_NAMES = [...SECOND].flatMap((second) => [...FIRST].map((first) => first + second)).filter((name) => !KEYWORDS.has(name));

/**
 * Gives what one file of the build exports the same name inside of every file: `import{at,bt}`, not `import{a as Wt,b as Jt}`,
 * which is 1 KB of all pages. Files are minified one after the other, each behind those that it imports from, so that
 * a file's names depend on nothing that its hash does not depend on. A name that is asked for by `import()` stays.
 */
export class SharedNames {
  /** By file: what others call its exports, and what it calls them itself. */
  readonly #exports = new Map<string, Map<string, string>>();
  /** By file: exports that another file names in its `import` declarations, with how often others use them. */
  readonly #wanted = new Map<string, Map<string, number>>();

  constructor(files: readonly File[]) {
    for (const { fileName, code } of files) {
      const words = new Map<string, number>();
      for (const [word] of code.matchAll(/[\w$]+/g)) words.set(word, (words.get(word) ?? 0) + 1);
      for (const [from, { local, imported }] of importsOf(fileName, code)) {
        const uses = this.#wanted.get(from) ?? new Map<string, number>();
        const name = imported?.name ?? '';
        this.#wanted.set(from, uses.set(name, (uses.get(name) ?? 0) + (words.get(local.name) ?? 0)));
      }
    }
  }

  before({ fileName, code }: File): Prepared {
    const names: Record<string, string> = {};
    const taken = new Set<string>();
    const edits: Edit[] = [];
    for (const [from, { start, end, local, imported }] of importsOf(fileName, code)) {
      const exported = this.#exports.get(from);
      const name = exported?.get(imported?.name ?? '');
      if (!exported || !name) continue;
      edits.push({ start, end, text: `${name} as ${local.name}` });
      // Two files may use one name for two things; a third that needs both has another one for the second.
      if (!taken.has(name)) names[local.name] = name;
      taken.add(name);
      // No name of its own is one that others may import beside it. No identifier has a space.
      for (const other of exported.values()) if (!taken.has(other)) names[`not ${other}`] = other;
    }
    const used = new Set(Object.values(names));
    const free = SHORT_NAMES.filter((name) => !used.has(name)).values();
    const renamed = new Map<string, string>();
    const uses = this.#wanted.get(fileName);
    const usesOf = ({ exported }: Specifier) => uses?.get(exported?.name ?? '') ?? 0;
    for (const { local, exported } of exportsOf(code).toSorted((a, b) => usesOf(b) - usesOf(a))) {
      if (!exported || !uses?.has(exported.name)) continue;
      const name = names[local.name] ?? free.next().value ?? local.name;
      names[local.name] = name;
      renamed.set(exported.name, name);
    }
    this.#exports.set(fileName, renamed);
    return { code: edited(code, edits), names };
  }

  /** The minified file, its exports by its own names. Lists of names are sorted, for gzip. */
  after({ fileName, code }: File): string {
    const renamed = this.#exports.get(fileName);
    const edits = bodyOf(code).flatMap(({ type, source, specifiers }): Edit[] => {
      if (type !== 'ImportDeclaration' && (type !== 'ExportNamedDeclaration' || source)) return [];
      const list = specifiers as Specifier[];
      const texts = list.map(({ start, end, local, exported }) => {
        const name = exported && renamed?.get(exported.name);
        if (name && name !== local.name) throw new Error(`${fileName} exports ${local.name}, and others know it as ${name}`);
        return name ?? code.slice(start, end);
      });
      const [first, last] = [list[0], list.at(-1)];
      return first && last ? [{ start: first.start, end: last.end, text: texts.toSorted().join(',') }] : [];
    });
    return edited(code, edits);
  }
}

/** Those that others import from come first. */
export function byImports<F extends File & { imports: readonly string[] }>(files: readonly F[]): F[] {
  const sorted = new Set<F>();
  const add = (file: F) => {
    for (const other of files) if (other !== file && file.imports.includes(other.fileName) && !sorted.has(other)) add(other);
    sorted.add(file);
  };
  files.forEach(add);
  return [...sorted];
}

interface Edit {
  start: number;
  end: number;
  text: string;
}

function edited(code: string, edits: readonly Edit[]): string {
  return edits.toSorted((a, b) => b.start - a.start).reduce((text, { start, end, text: instead }) => text.slice(0, start) + instead + text.slice(end), code);
}

function bodyOf(code: string): Node[] {
  return parseAst(code).body as unknown as Node[];
}

/** Each name that a file imports from another one of the build, with that file. */
function importsOf(fileName: string, code: string): [from: string, specifier: Specifier][] {
  return bodyOf(code)
    .filter(({ type }) => type === 'ImportDeclaration')
    .flatMap(({ source, specifiers }) => (specifiers as Specifier[]).map((one): [string, Specifier] => [posix.join(posix.dirname(fileName), (source as { value: string }).value), one]));
}

function exportsOf(code: string): Specifier[] {
  return bodyOf(code).flatMap(({ type, source, specifiers }) => (type === 'ExportNamedDeclaration' && !source ? (specifiers as Specifier[]) : []));
}
