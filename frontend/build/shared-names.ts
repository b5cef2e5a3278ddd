import { posix } from 'node:path';
import { parseAst } from 'vite';

/** A file of the build, with those that it needs and those that it fetches as it runs. */
export interface Chunk {
  fileName: string;
  code: string;
  imports: readonly string[];
  dynamicImports: readonly string[];
}
/** What a file's own names are to become, by the name that they have now. */
export type Names = ReadonlyMap<string, string>;
/** The names that a file takes from others, with the file and the name there, and those that it gives, by the name for others. */
interface Traffic {
  imports: Map<string, [fileName: string, name: string]>;
  exports: Map<string, string>;
}

const CAPITALS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
/** Short, and unlike those of a minifier, which begins with small letters. */
const NAMES = [...CAPITALS, ...[...CAPITALS].flatMap((first) => [...CAPITALS.toLowerCase()].map((second) => first + second))];
const FETCHED = /\bimport\(["'`]([^"'`]+)["'`]\)\.then\((\w+)=>\2\.([\w$]+)/g;

/**
 * One name in all files for whatever one of them takes from another, by file: the shortest for what is named most. So
 * `import{qe as t,We as n}` becomes `import{A,B}`, and what is called everywhere has one letter everywhere: 1.4 KB of all pages.
 * Files keep their addresses while they are the same, and the names depend on all files that are counted: those that lead
 * to one another, so that each of them has another address when one of them has changed.
 */
export function sharedNames(chunks: readonly Chunk[]): Map<string, Names> {
  const traffic = new Map(chunks.map(({ fileName, code }) => [fileName, trafficOf(fileName, code)]));
  /** Where a name comes from that may have gone through several files. */
  const originOf = (fileName: string, name: string): string => {
    const { imports, exports } = traffic.get(fileName) ?? {};
    const local = exports?.get(name) ?? name;
    const from = imports?.get(local);
    return from ? originOf(...from) : `${fileName} ${local}`;
  };
  const together = leadingToOneAnother(chunks);
  const uses = new Map<string, number>();
  for (const { fileName, code } of chunks) {
    const words = countOf(code.match(/[\w$]+/g) ?? []);
    for (const [local, from] of traffic.get(fileName)?.imports ?? []) {
      if (!together.has(from[0])) continue;
      const origin = originOf(...from);
      uses.set(origin, (uses.get(origin) ?? 0) + (together.has(fileName) ? (words.get(local) ?? 0) : 0));
    }
  }
  const ordered = [...uses].toSorted(([one, a], [other, b]) => b - a || (one < other ? -1 : 1));
  const named = new Map(ordered.slice(0, NAMES.length).map(([origin], at) => [origin, NAMES[at] ?? '']));
  return new Map([...traffic].map(([fileName, { imports, exports }]) => {
    const locals = [...[...imports].map(([local, from]) => [local, originOf(...from)]), ...[...exports].map(([name, local]) => [local, originOf(fileName, name)])];
    return [fileName, new Map(locals.flatMap(([local = '', origin = '']) => (named.has(origin) ? [[local, named.get(origin) ?? '']] : [])))];
  }));
}

/** What each file gives to those that are fetched as the page runs: these ask for it by the name that the bundler chose. */
export function fetchedNames(chunks: readonly Chunk[]): Set<string> {
  return new Set(chunks.flatMap(({ fileName, code }) => [...code.matchAll(FETCHED)].map(([, path = '', , name]) => `${within(fileName, path)} ${name}`)));
}

/** What a file takes from another one that does not give it. */
export function missingNames(chunks: readonly Chunk[]): string[] {
  const traffic = new Map(chunks.map(({ fileName, code }) => [fileName, trafficOf(fileName, code)]));
  const wanted = [...[...traffic.values()].flatMap(({ imports }) => [...imports.values()].map((from) => from.join(' '))), ...fetchedNames(chunks)];
  const given = new Set([...traffic].flatMap(([fileName, { exports }]) => [...exports.keys()].map((name) => `${fileName} ${name}`)));
  return wanted.filter((name) => !given.has(name));
}

/** The file with its names changed already: its lists of names name each once, in their order. */
export function withSharedLists({ fileName, code }: Pick<Chunk, 'fileName' | 'code'>, names: Names, fetched: ReadonlySet<string>): string {
  const shared = new Set(names.values());
  let written = code;
  for (const node of parseAst(code).body.toReversed()) {
    let list: string[];
    if (node.type === 'ImportDeclaration') {
      if (!node.specifiers.length || node.specifiers.some(({ type }) => type !== 'ImportSpecifier')) continue;
      list = node.specifiers.map((specifier) => (shared.has(specifier.local.name) || !('imported' in specifier) ? specifier.local.name : `${nameOf(specifier.imported)} as ${specifier.local.name}`));
    } else if (node.type === 'ExportNamedDeclaration' && !node.declaration && !node.source) {
      list = node.specifiers.flatMap(({ local, exported }) => {
        const [mine, other] = [nameOf(local), nameOf(exported)];
        return [...(shared.has(mine) ? [mine] : []), ...(shared.has(mine) && !fetched.has(`${fileName} ${other}`) ? [] : [`${mine} as ${other}`])];
      });
    } else continue;
    const statement = node.type === 'ImportDeclaration' ? `import{${list.toSorted().join()}}from${JSON.stringify(node.source.value)};` : `export{${list.toSorted().join()}};`;
    written = written.slice(0, node.start) + statement + written.slice(node.end);
  }
  return written;
}

/** The most files of which each leads to each other one. */
function leadingToOneAnother(chunks: readonly Chunk[]): Set<string> {
  const next = new Map(chunks.map(({ fileName, imports, dynamicImports }) => [fileName, [...imports, ...dynamicImports]]));
  const reached = new Map([...next.keys()].map((fileName) => {
    const seen = new Set(next.get(fileName));
    // Grows while it is read.
    for (const other of seen) for (const further of next.get(other) ?? []) seen.add(further);
    return [fileName, seen] as const;
  }));
  const groups = [...reached].map(([fileName, seen]) => new Set([...seen].filter((other) => reached.get(other)?.has(fileName))));
  return groups.toSorted((a, b) => b.size - a.size)[0] ?? new Set();
}

function trafficOf(fileName: string, code: string): Traffic {
  const imports: Traffic['imports'] = new Map();
  const exports: Traffic['exports'] = new Map();
  for (const node of parseAst(code).body) {
    if (node.type === 'ImportDeclaration') {
      for (const specifier of node.specifiers) {
        if (specifier.type === 'ImportSpecifier') imports.set(specifier.local.name, [within(fileName, node.source.value), nameOf(specifier.imported)]);
      }
    } else if (node.type === 'ExportNamedDeclaration') for (const { local, exported } of node.specifiers) exports.set(nameOf(exported), nameOf(local));
  }
  return { imports, exports };
}

/** The file at `path`, as `fileName` calls it. */
function within(fileName: string, path: string): string {
  return posix.join(posix.dirname(fileName), path);
}

function nameOf(node: { type: string; name?: string; value?: unknown }): string {
  return node.name ?? String(node.value);
}

function countOf(words: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
