import { connection } from './api/connection.svelte.ts';

/** The server has another UI than this page: what this page still needs of its own is gone. */
export class Outdated extends Error {
  override name = 'Outdated';
}

interface Server {
  probe(): Promise<'same' | 'newer' | 'away'>;
  back(): Promise<void>;
}

/**
 * Fetches code that is needed later than the page itself. A browser remembers for as long as the page lives that a
 * module could not be fetched, so the server is asked first whether it is there and still has it.
 */
export async function loadChunk<T>(load: () => Promise<T>, server: Server = connection): Promise<T> {
  for (;;) {
    const served = await server.probe();
    if (served === 'newer') throw new Outdated();
    if (served === 'away') {
      await server.back();
      continue;
    }
    try {
      return await load();
    } catch (thrown) {
      // It went away, or was exchanged, in between; else the fault is not the network's.
      const now = await server.probe();
      if (now === 'newer') throw new Outdated();
      if (now === 'same') {
        await mendStyles();
        return await load().catch(() => {
          throw thrown;
        });
      }
      await server.back();
    }
  }
}

/** A style sheet that could not be fetched stays in the page without its rules, and counts as loaded. */
async function mendStyles(): Promise<void> {
  const broken = Array.from(document.querySelectorAll<HTMLLinkElement>('link[rel="stylesheet"]')).filter((link) => !link.sheet);
  await Promise.all(broken.map((link) => new Promise<void>((resolve) => {
    const again = link.cloneNode() as HTMLLinkElement;
    again.addEventListener('load', () => resolve());
    again.addEventListener('error', () => resolve());
    link.replaceWith(again);
  })));
}
