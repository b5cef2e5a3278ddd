import { ROLES, type Role, type User } from '../../api/users.ts';
import { t } from '../../i18n/users.ts';

export const roleWord = (role: Role) => t(`role_${role}`);
/** What a role may do, in words. */
export const mayOf = (role: Role) => t(`may_${role}`);

/** Letters and digits that nobody takes for one another when they read them out. */
const ALPHABET = 'abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789';
const LENGTH = 20;

/** A password to be used once: 20 characters, about 115 random bits. */
export function oneTimePassword(random: (bytes: Uint8Array<ArrayBuffer>) => void = (bytes) => void crypto.getRandomValues(bytes)): string {
  let password = '';
  // Bytes beyond the last whole multiple would make the first letters more likely.
  const limit = 256 - (256 % ALPHABET.length);
  while (password.length < LENGTH) {
    const bytes = new Uint8Array(LENGTH);
    random(bytes);
    for (const byte of bytes) if (byte < limit && password.length < LENGTH) password += ALPHABET[byte % ALPHABET.length];
  }
  return password;
}

/** Whether this is the only owner who can sign in; the server refuses to take that one away. */
export function isLastOwner(user: User, all: readonly User[]): boolean {
  return user.role === 'owner' && !user.disabled && !all.some((other) => other.id !== user.id && other.role === 'owner' && !other.disabled && other.kind === 'user');
}

/** The roles that somebody of a role may give: admins make no owners; others hold too few scopes to make more than their own. */
export function rolesToGive(own: Role | null): readonly Role[] {
  return own === null || own === 'owner' ? ROLES : ROLES.slice(ROLES.indexOf(own));
}

/** Browser and system out of a User-Agent header, as one would say it; the header's beginning where it is another program's. */
export function browserOf(agent: string | null): string {
  if (!agent) return '';
  const browser = /(Firefox|Chrome|Safari)\//.exec(agent)?.[1];
  const system = /\b(Windows|Macintosh|Android|iPhone|iPad|Linux)\b/.exec(agent)?.[1];
  const NAMES: Record<string, string> = { Edg: 'Edge', OPR: 'Opera', Macintosh: 'macOS' };
  // Edge and Opera name themselves behind Chrome.
  const named = /\b(Edg|OPR)\//.exec(agent)?.[1] ?? browser;
  if (!agent.startsWith('Mozilla/') || !named) return agent.split(' ', 1)[0] ?? '';
  return [NAMES[named] ?? named, system && (NAMES[system] ?? system)].filter(Boolean).join(', ');
}
