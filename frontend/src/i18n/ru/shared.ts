import type { Translation } from '../catalogue.svelte.ts';
import type { texts } from '../shared.ts';

const shared: Translation<typeof texts> = {
  showCall: 'Показать вызов API',
  copyCurl: 'Скопировать для curl',
  changes: { one: '{n} изменение', few: '{n} изменения', many: '{n} изменений', other: '{n} изменения' },
  discard: 'Сбросить',
  save: 'Сохранить',
  unsaved: 'Несохранённые изменения',
};
export default shared;
