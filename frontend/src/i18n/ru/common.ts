import type { texts } from '../common.ts';
import type { Translation } from '../catalogue.svelte.ts';

const common: Translation<typeof texts> = {
  askForScope: 'Попросите у администратора право',
  breadcrumb: 'Вы здесь',
  cancel: 'Отмена',
  close: 'Закрыть',
  copied: 'Скопировано: {what}',
  copy: 'Копировать',
  copyWhat: 'Копировать: {what}',
  dismiss: 'Скрыть',
  download: 'Скачать',
  hoursShort: '{n} ч',
  leaveDialog: 'Закрыть и потерять введённое?',
  loading: 'Загрузка: {what}…',
  justNow: 'только что',
  minutesShort: '{n} мин',
  noAccess: 'Нет доступа',
  noPicture: 'Нет изображения: {reason}',
  notAPicture: 'файл повреждён',
  notCopied: 'Браузер не разрешил копирование. Выделите текст и скопируйте вручную.',
  notUndone: 'Не отменено: {reason}',
  onlyBeginning: 'Показано только начало. В файле есть всё.',
  open: 'Открыть',
  removeFilter: 'Убрать фильтр {name}',
  requestId: 'Запрос',
  tryAgain: 'Повторить',
  tryAgainIn: 'Повторите через {wait}.',
  undo: 'Отменить',
  whatToDo: 'Что делать',
};
export default common;
