import type { texts } from '../jobs.ts';
import type { Translation } from '../catalogue.svelte.ts';

const jobs: Translation<typeof texts> = {
  activate: { one: 'Активация {n} карточки', few: 'Активация {n} карточек', many: 'Активация {n} карточек', other: 'Активация {n} карточки' },
  archive: { one: 'В архив: {n} карточка', few: 'В архив: {n} карточки', many: 'В архив: {n} карточек', other: 'В архив: {n} карточки' },
  called: 'вызвано {n}',
  cancel: 'Остановить',
  cancelled: 'Остановлено',
  cancelling: 'Останавливается…',
  changed: 'изменено {n}',
  check: 'Проверка импорта',
  created: 'создано {n}',
  delete: { one: 'Удаление {n} карточки', few: 'Удаление {n} карточек', many: 'Удаление {n} карточек', other: 'Удаление {n} карточки' },
  done: 'Готово',
  errors: 'Ошибки',
  failed: 'ошибок {n}',
  import: 'Импорт',
  purge: 'Удаление навсегда',
  interrupted: 'Прервано',
  jobs: 'Задания',
  left: 'осталось {wait}',
  none: 'Заданий пока нет',
  notRead: 'Задания не прочитаны',
  of: '{done} из {total}',
  queued: 'В очереди',
  removeSource: { one: 'Убрать {source} из {n} карточки', few: 'Убрать {source} из {n} карточек', many: 'Убрать {source} из {n} карточек', other: 'Убрать {source} из {n} карточки' },
  running: 'Выполняется',
  runTool: { one: '{tool}: {n} карточка', few: '{tool}: {n} карточки', many: '{tool}: {n} карточек', other: '{tool}: {n} карточки' },
  stateFailed: 'Ошибка',
  unchanged: 'без изменений {n}',
  updated: 'изменено {n}',
};
export default jobs;
