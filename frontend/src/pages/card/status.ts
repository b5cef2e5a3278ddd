import { t } from '../../i18n/cards.ts';

/** A card's status in words; one that this UI does not know, as it is. */
export function statusWord(status: string): string {
  if (status === 'draft') return t('draft');
  if (status === 'active') return t('active');
  return status === 'archived' ? t('archived') : status;
}
