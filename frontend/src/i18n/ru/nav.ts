import type { texts } from '../nav.ts';
import type { Translation } from '../catalogue.svelte.ts';

const nav: Translation<typeof texts> = {
  approvals: 'Одобрения',
  audit: 'Аудит',
  cards: 'Карточки',
  home: 'Главная',
  import: 'Импорт',
  keys: 'MCP и ключи',
  kinds: 'Виды данных',
  plugins: 'Плагины',
  proxyRoutes: 'Маршруты прокси',
  system: 'Система',
  users: 'Пользователи',
};
export default nav;
