import { requestBlob } from './api/client.ts';
import { ApiError, asApiError, networkError } from './api/error.ts';
import { Lane } from './plugin-host/flood.ts';

/**
 * Pictures of the web, as the host reads and checks them. The browser itself asks no foreign server: the page's policy
 * forbids it.
 */

/** Fewer than a browser's connections to one server: what somebody does next must not wait for pictures. */
const AT_ONCE = 4;
const WAITING = 2_000;
const LONGEST_WAIT_S = 10;

const lane = new Lane(AT_ONCE, WAITING, () => new ApiError(0, 'too-many-requests', networkError().detail));

/** The bytes of the picture at `address`. */
export function readPicture(address: string): Promise<Blob> {
  const path = `/pictures?url=${encodeURIComponent(address)}`;
  return lane.run(async () => {
    try {
      return await requestBlob(path);
    } catch (thrown) {
      const { status, retry_after_seconds: wait } = asApiError(thrown);
      if ((status !== 429 && status !== 503) || (wait ?? 0) > LONGEST_WAIT_S) throw thrown;
      await new Promise((resolve) => setTimeout(resolve, (wait ?? 1) * 1000));
      return requestBlob(path);
    }
  });
}

/** Addresses that stand in an `<img>` as they are: nobody is asked for them. */
export function isInline(address: string): boolean {
  return /^data:image\/(png|jpeg|gif|webp|avif)[;,]/i.test(address);
}

interface Shown {
  url: Promise<string>;
  users: number;
}

const MAX_UNUSED = 200;
const shown = new Map<string, Shown>();

/** A `blob:` address for the picture at `address`, good until `release`; kept for a while for whoever shows it next. */
export function holdPicture(address: string): { url: Promise<string>; release: () => void } {
  const known = shown.get(address);
  const entry = known ?? { url: readPicture(address).then((blob) => URL.createObjectURL(blob)), users: 0 };
  if (!known) {
    shown.set(address, entry);
    entry.url.catch(() => shown.get(address) === entry && shown.delete(address));
  }
  entry.users += 1;
  let released = false;
  const release = () => {
    if (released) return;
    released = true;
    entry.users -= 1;
    if (entry.users > 0 || shown.get(address) !== entry) return;
    // The last of the map is the one that was left last.
    shown.delete(address);
    shown.set(address, entry);
    forgetUnused();
  };
  return { url: entry.url, release };
}

function forgetUnused(): void {
  const unused = [...shown].filter(([, { users }]) => users === 0);
  for (const [address, { url }] of unused.slice(0, Math.max(0, unused.length - MAX_UNUSED))) {
    shown.delete(address);
    url.then((made) => URL.revokeObjectURL(made), () => {});
  }
}
