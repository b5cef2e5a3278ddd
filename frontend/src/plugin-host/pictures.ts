/**
 * Pictures of the web in plugins' tabs. The page's policy lets no `<img>` ask a foreign server, so that no address of a
 * picture carries anything away; the host reads them instead, and the tab gets the bytes.
 */

/** Where an address waits that must not become a request of the browser's. */
const ASIDE = 'data-picture';
const PICTURE_ATTRIBUTES = ['src', ASIDE];
/** Values of one answer that are looked at for addresses. */
const MAX_VALUES = 50_000;
const MAX_ADDRESSES = 20_000;

/** Takes foreign addresses out of `src` before the element is one of a page. Called with parsed, inert HTML. */
export function setPicturesAside(root: ParentNode): void {
  for (const image of root.querySelectorAll('img')) {
    image.removeAttribute('srcset');
    const address = foreign(image.getAttribute('src'));
    if (!address) continue;
    image.setAttribute(ASIDE, address);
    image.removeAttribute('src');
  }
}

/** Shows the pictures below `root`, now and as they come. Returns how to stop. */
export function followPictures(root: ShadowRoot, read: (address: string) => Promise<Blob>): () => void {
  const shown = new Set<string>();
  let stopped = false;
  const show = async (image: HTMLImageElement) => {
    const address = foreign(image.getAttribute(ASIDE) ?? image.getAttribute('src'));
    if (!address) return;
    image.removeAttribute(ASIDE);
    if (image.hasAttribute('src')) image.removeAttribute('src');
    const blob = await read(address).catch(() => null);
    // Meanwhile the plugin may have given it another one.
    if (stopped || image.hasAttribute('src') || image.hasAttribute(ASIDE)) return;
    // As the browser does when a picture is not there: a plugin may wait for it.
    if (!blob) return void image.dispatchEvent(new Event('error'));
    const url = URL.createObjectURL(blob);
    shown.add(url);
    image.src = url;
  };
  const look = (node: Node) => {
    if (node instanceof HTMLImageElement) void show(node);
    else if (node instanceof Element) for (const image of node.querySelectorAll('img')) void show(image);
  };
  const observer = new MutationObserver((records) => {
    for (const record of records) {
      if (record.type === 'attributes') look(record.target);
      else record.addedNodes.forEach(look);
    }
  });
  observer.observe(root, { subtree: true, childList: true, attributes: true, attributeFilter: PICTURE_ATTRIBUTES });
  return () => {
    stopped = true;
    observer.disconnect();
    for (const url of shown) URL.revokeObjectURL(url);
  };
}

/**
 * The addresses that came from the server: in the card, or in what it answered. A picture that a tab wants to show must
 * be one of them; one that the tab has put together itself could carry what it has read.
 */
export class PictureAddresses {
  readonly #known = new Set<string>();

  learn(value: unknown): void {
    const waiting = [value];
    for (let seen = 0; waiting.length && seen < MAX_VALUES; seen += 1) {
      const next = waiting.pop();
      if (typeof next === 'string') this.#add(next);
      else if (typeof next === 'object' && next !== null) waiting.push(...Object.values(next).slice(0, MAX_VALUES));
    }
  }

  forget(): void {
    this.#known.clear();
  }

  has(address: string): boolean {
    return this.#known.has(address);
  }

  #add(text: string): void {
    const address = foreign(text);
    if (!address || this.#known.has(address)) return;
    // Of a set the first is the oldest.
    if (this.#known.size >= MAX_ADDRESSES) for (const oldest of this.#known.values()) {
      this.#known.delete(oldest);
      break;
    }
    this.#known.add(address);
  }
}

/** A web address of another origin, as browsers write it; null for anything else. */
function foreign(text: string | null): string | null {
  if (!text || !/^\s*(https?:)?\/\//i.test(text)) return null;
  try {
    const url = new URL(text.trim(), location.href);
    return url.origin === location.origin ? null : url.href;
  } catch {
    return null;
  }
}
