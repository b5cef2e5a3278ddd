import { onReach } from './client.ts';

/** Whether the server answers, as far as this page can know. */
class Connection {
  offline = $state(typeof navigator !== 'undefined' && navigator.onLine === false);

  constructor() {
    addEventListener('offline', () => (this.offline = true));
    addEventListener('online', () => (this.offline = false));
    onReach((reached) => (this.offline = !reached));
  }
}

export const connection = new Connection();
