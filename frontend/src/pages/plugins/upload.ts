/** What can be said about a package before it is sent, and what the server's answer says about each check. */

export type Check = 'library' | 'signature' | 'allowed' | 'trusted' | 'package' | 'loaded';
export type Verdict = 'waiting' | 'good' | 'bad' | 'unknown';
export const CHECKS: readonly Check[] = ['library', 'signature', 'allowed', 'trusted', 'package', 'loaded'];

const ELF = [0x7f, 0x45, 0x4c, 0x46];
const MINISIGN = 'untrusted comment:';

export async function isLibrary(file: Blob): Promise<boolean> {
  const head = new Uint8Array(await file.slice(0, ELF.length).arrayBuffer());
  return ELF.every((byte, i) => head[i] === byte);
}

export async function isSignature(file: Blob): Promise<boolean> {
  return (await file.slice(0, MINISIGN.length).text()) === MINISIGN;
}

export async function base64Of(file: Blob): Promise<string> {
  return btoa(String.fromCharCode(...new Uint8Array(await file.arrayBuffer())));
}

/**
 * Which check of the server's an error is about; undefined when it proves nothing of them. Nothing of a package is read
 * before its signature is known to be a trusted key's, so what is said of its content proves that one, too.
 */
export function failedCheck(status: number, code: string, refusal: string | undefined): Check | undefined {
  if (code === 'forbidden') return 'allowed';
  if (refusal) return /signature|signer|unsigned|trust|hash/.test(refusal) ? 'trusted' : 'package';
  return status === 409 ? 'package' : undefined;
}

/** Those of the browser have passed when a package is sent; with `undefined` nothing is known of the others. */
export function verdicts(failed: Check | null | undefined): Record<Check, Verdict> {
  const at = failed === undefined ? CHECKS.indexOf('allowed') : failed ? CHECKS.indexOf(failed) : CHECKS.length;
  return Object.fromEntries(CHECKS.map((check, i) => [check, i < at ? 'good' : check === failed ? 'bad' : 'unknown'])) as Record<Check, Verdict>;
}
