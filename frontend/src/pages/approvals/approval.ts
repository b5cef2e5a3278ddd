import type { Approval } from '../../api/approvals.ts';
import { t } from '../../i18n/approvals.ts';
import type { IconName } from '../../ui/icons.ts';
import { visible, type Exact } from './exact.ts';

/** Names are as long as their makers like. */
const LONGEST_NAME = 200;
const STATES = ['pending', 'approved', 'denied', 'used', 'expired', 'void'] as const;

export const nameOf = (name: string) => visible(name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}…` : name);

/** `attributes/price`, of the text of a JSON pointer. */
export const fieldOf = (pointer: Exact | undefined) => (typeof pointer === 'string' ? visible(pointer.slice(2)) : '');

/** "Refused · mara" */
export function outcomeOf({ state, decided_by: by }: Pick<Approval, 'state' | 'decided_by'>): string {
  const known = STATES.find((one) => one === state);
  const word = known ? t(`state_${known}`) : state;
  if (!by) return word;
  return t('by', { word, who: by.kind === 'client' ? t('byClient') : nameOf(by.name ?? by.kind) });
}

export function iconOf(state: string): { icon: IconName; tone: 'good' | 'bad' | 'quiet' } {
  if (state === 'approved' || state === 'used') return { icon: 'check', tone: 'good' };
  return state === 'denied' ? { icon: 'x', tone: 'bad' } : { icon: 'clock', tone: 'quiet' };
}

/** Who asks: the client by the name that it gives, else the key or the user. */
export function askerOf({ caller, client }: Pick<Approval, 'caller' | 'client'>): string {
  return nameOf(client?.name ?? caller.name ?? caller.id ?? '');
}

export function secondsLeft(expiresAt: string, now: number): number {
  return Math.max(0, Math.ceil((Date.parse(expiresAt) - now) / 1_000));
}
