import { gzipSync } from 'node:zlib';
import { parseAst } from 'vite';

/** Texts of this length are what two functions have in common. */
const GRAM = 8;
/** So far back gzip looks. */
const REACH = 32_768;
/** As good as this many texts in common is it to be short: else the shortest functions come first. */
const SHORT = 60;
/** Functions that are moved elsewhere to see whether gzip writes less; more find little more. */
const MOVES = 5_000;
/** That are moved together, at most. */
const TOGETHER = 3;

/**
 * Puts functions that are alike beside one another, so that gzip finds what they have in common: it looks back 32 KB,
 * and a file of pages is five times as long. That is 3 KB of all pages. Declared functions are there before the first
 * statement runs, so their order means nothing.
 */
export function orderFunctions(code: string): string {
  const { functions, file } = partsOf(code);
  return file(moved(chain(functions), (ordered) => packedSize(file(ordered))));
}

/** Of several forms of a file the one that is the smallest once its functions are in order. */
export function smallestOf(forms: readonly string[]): string {
  const sizes = forms.map((code) => {
    const { functions, file } = partsOf(code);
    return packedSize(file(chain(functions)));
  });
  return forms[sizes.indexOf(Math.min(...sizes))] ?? '';
}

function packedSize(text: string): number {
  return gzipSync(text, { level: 9 }).length;
}

/** A file's declared functions, and the file with them in another order. */
function partsOf(code: string): { functions: string[]; file: (ordered: readonly string[]) => string } {
  const functions: string[] = [];
  const imports: string[] = [];
  const others: string[] = [];
  for (const { type, start, end } of parseAst(code).body) {
    const list = type === 'FunctionDeclaration' ? functions : type === 'ImportDeclaration' ? imports : others;
    list.push(code.slice(start, end));
  }
  return { functions, file: (ordered) => [...imports, ...ordered, ...others].join('') };
}

/** Each followed by the one that has most of its own text in those before it. */
function chain(functions: readonly string[]): string[] {
  const ids = new Map<string, number>();
  const left = functions.map((text) => ({ text, grams: gramsOf(text, ids) }));
  const chained: typeof left = [];
  /** How many functions within reach have each gram. */
  const near = new Int32Array(ids.size);
  let [first, length] = [0, 0];
  while (left.length) {
    const shares = left.map(({ grams }) => grams.reduce((sum, id) => (near[id] ? sum + 1 : sum), 0) / (grams.length + SHORT));
    const [next] = left.splice(shares.indexOf(Math.max(...shares)), 1);
    if (!next) break;
    chained.push(next);
    length += next.text.length;
    for (const id of next.grams) near[id] = (near[id] ?? 0) + 1;
    for (let gone = chained[first]; gone && gone !== next && length > REACH; gone = chained[++first]) {
      length -= gone.text.length;
      for (const id of gone.grams) near[id] = (near[id] ?? 0) - 1;
    }
  }
  return chained.map(({ text }) => text);
}

/** The texts of one length within a text, as numbers. */
function gramsOf(text: string, ids: Map<string, number>): number[] {
  const grams = new Set<number>();
  for (let at = 0; at + GRAM <= text.length; at++) {
    const gram = text.slice(at, at + GRAM);
    const id = ids.get(gram) ?? ids.size;
    ids.set(gram, id);
    grams.add(id);
  }
  return [...grams];
}

/** A few functions at a time at another place, wherever that makes the file smaller. The same for the same functions. */
function moved(functions: string[], sizeOf: (ordered: readonly string[]) => number): string[] {
  let best = functions;
  let smallest = sizeOf(best);
  const below = dice();
  for (let move = 0; move < MOVES && functions.length > TOGETHER; move++) {
    const tried = [...best];
    const together = tried.splice(below(tried.length - TOGETHER), 1 + below(TOGETHER));
    tried.splice(below(tried.length + 1), 0, ...together);
    const size = sizeOf(tried);
    if (size >= smallest) continue;
    smallest = size;
    best = tried;
  }
  return best;
}

/** Numbers below a bound, the same ones in every build. */
function dice(): (bound: number) => number {
  let state = 1;
  return (bound) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return Math.floor((state / 0x8000_0000) * bound);
  };
}
