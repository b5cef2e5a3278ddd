/** Calls foreign code so that a throw, too, arrives as a rejection. */
export async function invoke<T>(fn: () => T | Promise<T>): Promise<T> {
  return fn();
}

export function asFunction(fn: unknown, where: string): () => unknown {
  if (typeof fn !== 'function') throw new TypeError(`${where} needs a function.`);
  return fn as () => unknown;
}

/** Where an error comes from, whatever it is. */
export function stackOf(thrown: unknown): string {
  try {
    return String((thrown as { stack?: unknown } | null)?.stack ?? '');
  } catch {
    return '';
  }
}
