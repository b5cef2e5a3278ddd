/** What one types or chooses in, and what has keys of its own: a plugin's tab, an open menu. */
const TAKES_KEYS = 'input:not([type="checkbox"], [type="radio"]), textarea, select, [contenteditable], [data-plugin], [popover]';

/** Whether a key belongs to one of these or to an open dialog, and not to the page. */
export function isTaken(event: KeyboardEvent): boolean {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return true;
  // The whole path: what is inside a shadow root does not know what is around it.
  if (event.composedPath().some((node) => node instanceof Element && node.matches(TAKES_KEYS))) return true;
  return document.querySelector('dialog[open]') !== null;
}
