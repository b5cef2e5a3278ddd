import { openStream, query } from './client.ts';

/** Pictures on other servers come through the host, which checks them. `<img>` sends no token, hence the detour by blobs. */

/** Pictures that are fetched at a time: a list has 50. */
const MAX_AT_ONCE = 6;
/** Decoded pictures that are kept for the next look. */
const MAX_KEPT = 200;

const kept = new Map<string, Promise<string>>();
const waiting: (() => void)[] = [];
let running = 0;

/** An address that `<img>` can show, of the picture at `address`. Rejects with the reason why there is none. */
export function showablePicture(address: string): Promise<string> {
  if (/^data:image\//i.test(address)) return Promise.resolve(address);
  const known = kept.get(address);
  if (known) {
    // The last used is the last to go.
    kept.delete(address);
    kept.set(address, known);
    return known;
  }
  const fetched = enqueue(() => fetchPicture(address));
  kept.set(address, fetched);
  fetched.catch(() => kept.delete(address));
  forgetOldest();
  return fetched;
}

/** What one user saw is not the next one's. */
export function forgetPictures(): void {
  for (const picture of kept.values()) picture.then(URL.revokeObjectURL, () => {});
  kept.clear();
}

async function fetchPicture(address: string): Promise<string> {
  const response = await openStream(`/pictures${query({ url: address })}`, { Accept: 'image/*' }, new AbortController().signal);
  return URL.createObjectURL(await response.blob());
}

async function enqueue<T>(work: () => Promise<T>): Promise<T> {
  if (running >= MAX_AT_ONCE) await new Promise<void>((start) => waiting.push(start));
  running += 1;
  try {
    return await work();
  } finally {
    running -= 1;
    waiting.shift()?.();
  }
}

function forgetOldest(): void {
  for (const [address, picture] of kept) {
    if (kept.size <= MAX_KEPT) return;
    kept.delete(address);
    picture.then(URL.revokeObjectURL, () => {});
  }
}
