import { preferences } from '../ui/preferences.svelte.ts';

/** A tab runs in the page and may change how all of it looks. That ends with the tab. */

const PLUGIN_SHEETS = 'link[rel~="stylesheet"][href*="/admin/assets/plugins/"], style';
const KEPT = ['class', 'style', 'hidden', 'inert', 'dir', 'contenteditable', 'aria-hidden'];

/** Remembers how the page looks now. Returns how to make it so again. */
export function keepPageLooks(): () => void {
  const roots = [document.documentElement, document.body];
  const before = roots.map((root) => KEPT.map((name) => root.getAttribute(name)));
  const sheets = [...document.adoptedStyleSheets];
  const own = new Set(document.querySelectorAll(PLUGIN_SHEETS));
  return () => {
    roots.forEach((root, at) => KEPT.forEach((name, which) => restore(root, name, before[at]?.[which] ?? null)));
    // Theme, density and language are the user's, who may have chosen anew meanwhile.
    preferences.apply();
    document.adoptedStyleSheets = sheets;
    for (const sheet of document.querySelectorAll(PLUGIN_SHEETS)) if (!own.has(sheet)) sheet.remove();
  };
}

function restore(root: HTMLElement, name: string, value: string | null): void {
  if (root.getAttribute(name) === value) return;
  if (name === 'style') root.style.cssText = value ?? '';
  else if (value === null) root.removeAttribute(name);
  else root.setAttribute(name, value);
}
