/** Whether a key belongs to what one types or chooses in, to an open dialog or to a plugin's tab, and not to the page. */
export function isTaken(event: KeyboardEvent): boolean {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return true;
  const [target] = event.composedPath();
  if (!(target instanceof Element)) return false;
  return target.closest('input:not([type="checkbox"], [type="radio"]), textarea, select, [contenteditable], [data-plugin], [popover]') !== null || document.querySelector('dialog[open]') !== null;
}
