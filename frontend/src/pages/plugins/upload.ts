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

/** Which check an error of the upload is about; those before it have passed, those behind were not reached. */
export function failedCheck(status: number, code: string, refusal: string): Check {
  if (status === 403) return 'allowed';
  if (status === 400) return 'signature';
  if (/signature|signer|unsigned|trust|hash/.test(`${code} ${refusal}`)) return 'trusted';
  return 'package';
}

export function verdicts(failed: Check | null): Record<Check, Verdict> {
  const at = failed ? CHECKS.indexOf(failed) : CHECKS.length;
  return Object.fromEntries(CHECKS.map((check, i) => [check, i < at ? 'good' : i === at ? 'bad' : 'unknown'])) as Record<Check, Verdict>;
}
