import type { Translation } from '../catalogue.svelte.ts';
import type { texts } from '../shared.ts';

const shared: Translation<typeof texts> = {
  showCall: 'Показать вызов API',
  copyCurl: 'Скопировать для curl',
};
export default shared;
