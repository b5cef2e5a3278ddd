import { afterEach, expect, it } from 'vitest';
import { isTaken } from './keys.ts';

afterEach(() => document.body.replaceChildren());

/** Whether a key pressed at `selector` in `html` is the page's. */
function pressed(html: string, selector: string, init: KeyboardEventInit = {}): boolean {
  document.body.innerHTML = html;
  let taken: boolean | undefined;
  const listen = (event: Event) => (taken = isTaken(event as KeyboardEvent));
  addEventListener('keydown', listen);
  document.querySelector(selector)?.dispatchEvent(new KeyboardEvent('keydown', { key: 'j', bubbles: true, composed: true, ...init }));
  removeEventListener('keydown', listen);
  return taken ?? false;
}

it.each([
  ['<input>', 'input', true], ['<input type="checkbox">', 'input', false], ['<a href="/">x</a>', 'a', false], ['<div contenteditable><b>x</b></div>', 'b', true],
  ['<div data-plugin="p"><button>x</button></div>', 'button', true], ['<dialog open></dialog><a href="/">x</a>', 'a', true],
])('a key at %s', (html, selector, taken) => {
  expect(pressed(html, selector)).toBe(taken);
});

it('a key with Ctrl is somebody else’s', () => {
  expect(pressed('<a href="/">x</a>', 'a', { ctrlKey: true })).toBe(true);
});
