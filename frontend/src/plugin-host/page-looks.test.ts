import { afterEach, expect, it } from 'vitest';
import { preferences } from '../ui/preferences.svelte.ts';
import { keepPageLooks } from './page-looks.ts';

const root = document.documentElement;
afterEach(() => {
  for (const element of [root, document.body]) for (const name of ['class', 'style', 'data-theme']) element.removeAttribute(name);
});

it('what was changed of the page is undone, what the page itself chose meanwhile stays', () => {
  document.body.className = 'own';
  const restore = keepPageLooks();
  document.body.className = 'theirs';
  document.body.style.background = 'red';
  root.style.fontSize = '40px';
  root.setAttribute('inert', '');
  preferences.theme = 'dark';
  root.dataset.theme = 'light';
  root.dataset.density = 'theirs';
  root.lang = 'de';
  const sheet = document.createElement('style');
  document.head.append(sheet);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, new CSSStyleSheet()];
  restore();
  expect([document.body.className, document.body.style.background, root.style.fontSize, root.hasAttribute('inert')]).toEqual(['own', '', '', false]);
  expect([root.dataset.theme, root.dataset.density, root.lang]).toEqual(['dark', 'comfortable', 'en']);
  expect([sheet.isConnected, document.adoptedStyleSheets.length]).toEqual([false, 0]);
});
