import type { Approval } from '../../api/approvals.ts';
import { t } from '../../i18n/approvals.ts';
import type { IconName } from '../../ui/icons.ts';
import { visible } from './exact.ts';

/** Names are as long as their makers like. */
const LONGEST_NAME = 200;
const STATES = ['pending', 'approved', 'denied', 'used', 'expired', 'void'] as const;

export const nameOf = (name: string) => visible(name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}…` : name);

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

/** What the call is about, where its arguments name it. */
export function subjectOf({ title, client }: Pick<Approval, 'title' | 'client'>): string {
  return nameOf(client?.name ?? title ?? '');
}

export function secondsLeft(expiresAt: string, now: number): number {
  return Math.max(0, Math.ceil((Date.parse(expiresAt) - now) / 1_000));
}
