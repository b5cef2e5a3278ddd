import type { FieldProblem } from '../../api/error.ts';

/** Within so many bytes the server looks for the line that names the columns. */
const LONGEST_HEAD = 256 << 10;
/** The last of them counts where several stand as often in the line, as for the server. */
const SEPARATORS = ['\t', ';', ','];
const PLAIN = ['title', 'sku', 'status'] as const;

/** The line of a CSV file that names its columns. */
export interface Head {
  names: string[];
  separator: string;
  /** Bytes of the line, without its end. */
  length: number;
}

/** What becomes of a column that cards do not have. */
export type Use = 'attribute' | 'ignored' | (typeof PLAIN)[number];

export interface UnknownColumn {
  at: number;
  name: string;
  /** What it can become, what it most likely is first. */
  uses: Use[];
}

export async function readHead(file: Blob): Promise<Head> {
  const bytes = new Uint8Array(await file.slice(0, LONGEST_HEAD).arrayBuffer());
  const at = bytes.findIndex((byte) => byte === 10 || byte === 13);
  const length = at < 0 ? bytes.length : at;
  const line = new TextDecoder().decode(bytes.subarray(0, length));
  const separator = SEPARATORS.reduce((best, one) => (line.split(one).length >= line.split(best).length ? one : best));
  const cell = new RegExp(`(?:"((?:[^"]|"")*)"|([^${separator}]*))(${separator}|$)`, 'y');
  const names: string[] = [];
  for (let more = true; more; ) {
    const [, quoted, bare = '', end] = cell.exec(line) ?? [];
    names.push((quoted?.replaceAll('""', '"') ?? bare).replace(/^ +| +$/g, ''));
    more = Boolean(end);
  }
  return { names, separator, length };
}

/** Whether the server refused a column for its name. */
export function isUnknown({ detail }: FieldProblem): boolean {
  return /^Unknown column|has no name/.test(detail);
}

/** The columns that the server refused for their names. */
export function unknownColumns({ names }: Head, refused: readonly FieldProblem[]): UnknownColumn[] {
  const pointers = new Set(refused.filter(isUnknown).map(({ pointer }) => pointer.slice(1).replaceAll('~1', '/').replaceAll('~0', '~')));
  const missing = PLAIN.filter((plain) => !names.some((name) => name.toLowerCase() === plain));
  return names.flatMap((name, at): UnknownColumn[] => {
    if (!pointers.has(name)) return [];
    const likely = missing.filter((plain) => plain === 'title' && /^(name|product)$/i.test(name));
    const canBeAttribute = name !== '' && !name.startsWith('attributes.') && name !== 'sources';
    return [{ at, name, uses: [...likely, ...(canBeAttribute ? ['attribute' as const] : []), 'ignored', ...missing.filter((plain) => !likely.includes(plain))] }];
  });
}

/** The file with other names for these columns; all else is as it was. */
export function renamed(file: File, head: Head, uses: ReadonlyMap<number, Use>): File {
  const names = head.names.map((name, at) => {
    const use = uses.get(at);
    return use === 'attribute' ? `attributes.${name}` : use === 'ignored' ? `ignored.${name || at + 1}` : (use ?? name);
  });
  const line = names.map((name) => `"${name.replaceAll('"', '""')}"`).join(head.separator);
  return new File([line, file.slice(head.length)], file.name, { type: file.type });
}
