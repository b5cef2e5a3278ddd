/**
 * JSON as a person has to see it who answers for it: with every digit, and with nothing in it that is not seen, or that
 * makes what is beside it look like something else.
 */

/** As it was written, but that texts begin with `s`, and numbers, `true`, `false` and `null` are texts that begin with `n`. */
export type Exact = string | Exact[] | { [name: string]: Exact };

/** A piece of text on its way to the page; a text of the caller's stands in a `<bdi>` of its own. */
export interface Piece {
  text: string;
  theirs: boolean;
}

const TOKEN = /"((?:[^"\\]|\\.)*)"|[^\s{}[\],:"]+/g;
/** Controls, marks that turn the direction of a line, what has no shape or a blank one, ends of lines, and spaces but for the usual one. */
const UNSEEN = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/gu;

/** The answer's JSON, no number of which was rounded. */
export function parseExact(json: string): Exact {
  return JSON.parse(json.replace(TOKEN, (token, text: string | undefined) => (text === undefined ? `"n${token}"` : `"s${text}"`))) as Exact;
}

/** A member by its name; nothing where there is none. */
export function member(value: Exact | undefined, name: string): Exact | undefined {
  return typeof value === 'object' && !Array.isArray(value) && Object.hasOwn(value, `s${name}`) ? value[`s${name}`] : undefined;
}

/** The text with codes in the place of what cannot be seen: `\u202E`. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (char) => (char === ' ' ? char : [...char].map(codeOf).join('')));
}

function codeOf(char: string): string {
  const code = (char.codePointAt(0) ?? 0).toString(16).toUpperCase();
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`;
}

/** On several lines, two spaces a level. */
export function piecesOf(value: Exact, indent = '\n'): Piece[] {
  if (typeof value === 'string') {
    const isText = value.startsWith('s');
    return [{ text: isText ? visible(JSON.stringify(value.slice(1))) : value.slice(1), theirs: isText }];
  }
  const isList = Array.isArray(value);
  const inside = `${indent}  `;
  const items = isList
    ? value.map((item) => piecesOf(item, inside))
    : Object.entries(value).map(([name, item]) => [...piecesOf(name), { text: ': ', theirs: false }, ...piecesOf(item, inside)]);
  if (!items.length) return [{ text: isList ? '[]' : '{}', theirs: false }];
  const lines = items.flatMap((item, n) => [{ text: (n ? ',' : isList ? '[' : '{') + inside, theirs: false }, ...item]);
  return [...lines, { text: indent + (isList ? ']' : '}'), theirs: false }];
}
