import { query, requestBlob } from './client.ts';
import { asApiError } from './error.ts';

/** Pictures on other servers come through the host, which checks them. `<img>` sends no token, hence the detour by blobs. */

/** Pictures that are fetched at a time: a list has 50. Fewer than a browser's connections to one server. */
const MAX_AT_ONCE = 4;
/** A host that is busy says when it isn't; longer than this nobody waits for a picture. */
const LONGEST_WAIT_S = 10;
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
  const fetched = readPicture(address).then((blob) => URL.createObjectURL(blob));
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

/** The bytes of the picture at `address`, checked by the host. */
export function readPicture(address: string): Promise<Blob> {
  return enqueue(() => fetchPicture(address));
}

async function fetchPicture(address: string): Promise<Blob> {
  const path = `/pictures${query({ url: address })}`;
  try {
    return await requestBlob(path);
  } catch (thrown) {
    const { status, retry_after_seconds: wait } = asApiError(thrown);
    if ((status !== 429 && status !== 503) || (wait ?? 0) > LONGEST_WAIT_S) throw thrown;
    await new Promise((resolve) => setTimeout(resolve, (wait ?? 1) * 1000));
    return requestBlob(path);
  }
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
