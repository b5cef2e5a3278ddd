/**
 * Plugins write `container.innerHTML = …` with `host.esc`. The page's policy demands Trusted Types, whose
 * `default` policy sees every such string: here it is made inert, so that a value somebody forgot to
 * escape shows up wrong instead of running. Must be loaded before anything else touches the DOM.
 */

import { setPicturesAside } from './pictures.ts';

interface TrustedTypesApi {
  createPolicy(name: string, rules: { createHTML(html: string): string }): { createHTML(html: string): string };
}

/** Of the platform, but not yet in TypeScript's DOM library. */
declare const Sanitizer: new (config: { removeElements: string[]; removeAttributes: string[] }) => object;
type ParseHtml = (html: string, options: { sanitizer: object }) => Document;

// `style` because the page's policy blocks it anyway, loudly; the rest because it loads or redirects.
const REMOVED_ELEMENTS = ['script', 'style', 'link', 'meta', 'base', 'iframe', 'frame', 'object', 'embed', 'template', 'noscript'];
const REMOVED_ATTRIBUTES = ['style'];
/** Where the browser has no sanitizer of its own: whole languages with their own parsing rules go too. */
const REMOVED_WITHOUT_SANITIZER = new Set([...REMOVED_ELEMENTS, 'svg', 'math', 'annotation-xml', 'xmp', 'noembed', 'noframes', 'plaintext']);
const URL_ATTRIBUTES = new Set(['href', 'src', 'action', 'formaction', 'poster', 'background', 'cite', 'data', 'ping', 'srcdoc', 'xlink:href']);

export function installTrustedTypes(): void {
  const trustedTypes = (globalThis as { trustedTypes?: TrustedTypesApi }).trustedTypes;
  if (!trustedTypes) return; // without them the content security policy alone keeps strings from running
  const inert = sanitizerOfBrowser() ?? sanitizerByHand(trustedTypes.createPolicy('plugin-html', { createHTML: (html) => html }));
  trustedTypes.createPolicy('default', { createHTML: inert });
}

function sanitizerOfBrowser(): ((html: string) => string) | null {
  const parse = (Document as unknown as { parseHTML?: ParseHtml }).parseHTML;
  if (!parse || typeof Sanitizer === 'undefined') return null;
  const sanitizer = new Sanitizer({ removeElements: REMOVED_ELEMENTS, removeAttributes: REMOVED_ATTRIBUTES });
  return (html) => {
    const { body } = parse.call(Document, html, { sanitizer });
    setPicturesAside(body);
    return body.innerHTML;
  };
}

/** `parse` marks a string as trusted for one use only: the parser of a document in which nothing runs. */
function sanitizerByHand(parse: { createHTML(html: string): string }): (html: string) => string {
  return (html) => {
    const parsed = new DOMParser().parseFromString(parse.createHTML(html), 'text/html');
    removeDangerous(parsed.body);
    setPicturesAside(parsed.body);
    return parsed.body.innerHTML;
  };
}

/** Exported for its test. */
export function removeDangerous(root: Element): void {
  for (const element of root.querySelectorAll('*')) {
    if (REMOVED_WITHOUT_SANITIZER.has(element.localName)) {
      element.remove();
      continue;
    }
    for (const { name, value } of Array.from(element.attributes)) {
      if (name.startsWith('on') || REMOVED_ATTRIBUTES.includes(name) || (URL_ATTRIBUTES.has(name) && !isHarmlessUrl(value))) {
        element.removeAttribute(name);
      }
    }
  }
}

function isHarmlessUrl(value: string): boolean {
  // Browsers skip spaces and control characters here, so "java\nscript:" counts as a scheme.
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(value.replace(/[\0-\x20\x7f-\x9f]/g, ''))?.[1]?.toLowerCase();
  return !scheme || ['http', 'https', 'mailto', 'tel'].includes(scheme) || /^data:image\/(png|jpeg|gif|webp|avif)[;,]/i.test(value.trim());
}
