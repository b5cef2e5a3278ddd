import type { Translation } from '../catalogue.svelte.ts';
import type { english } from '../shared.ts';

export const shared: Translation<typeof english> = {
  showCall: 'Показать вызов API',
  copyCurl: 'Скопировать для curl',
  perMinute: '/мин',
};
