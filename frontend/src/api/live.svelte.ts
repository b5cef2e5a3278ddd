import { openStream } from './client.ts';
import { connection } from './connection.svelte.ts';
import { Live, type LiveEvent } from './live.ts';
import { queryClient, refresh } from './query-client.ts';
import { session } from './session.svelte.ts';

/** Joins the server's events to what this page has fetched. */

export const live = new Live(openStream);

/** A hidden page lets go of its connection after this; the server has a number of places for each user. */
const HIDDEN_MS = 30_000;

live.on((event) => {
  if (event === 'reset') void refresh({ predicate: ({ queryKey }) => queryKey[0] !== 'cards' });
  else if (event.topic === 'plugin') pluginsChanged();
  else if (event.topic === 'card') cardChanged(event);
  else if (event.topic === 'approval') void refresh({ queryKey: ['approvals'] });
  else if (event.topic === 'job') void refresh({ queryKey: ['jobs'] });
});

function pluginsChanged(): void {
  for (const key of ['plugin-registry', 'plugin-settings', 'plugins', 'card-sources']) void refresh({ queryKey: [key] });
}

/** An event about many cards at once names none. The list on the page looks after itself: rows must not move under a pointer. */
function cardChanged({ card_id: id }: LiveEvent): void {
  const whose = typeof id === 'string' ? [id] : [];
  void refresh({ queryKey: ['card', ...whose] });
  void refresh({ queryKey: ['card-sources', ...whose] });
  void refresh({ queryKey: ['card-history', ...whose] });
  void queryClient.invalidateQueries({ queryKey: ['cards'], refetchType: 'none' });
}

$effect.root(() => {
  $effect(() => {
    queryClient.setOnline(!connection.offline);
    // It waits for up to a minute before it tries again.
    if (!connection.offline && session.phase === 'signed-in' && !document.hidden) live.retry();
  });
  $effect(() => {
    if (session.phase === 'signed-out') live.forget();
    if (session.phase !== 'signed-in') return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const follow = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => live.stop(), HIDDEN_MS);
      else live.start();
    };
    follow();
    document.addEventListener('visibilitychange', follow);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', follow);
      live.stop();
    };
  });
});
