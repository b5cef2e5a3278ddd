import { expect, it } from 'vitest';
// @ts-expect-error Plugins have no types.
import { activate } from '../../../plugins/completeness/frontend/plugin.js';
// @ts-expect-error Plugins have no types.
import { drawFeeds } from '../../../plugins/supplier/frontend/feeds.js';
import type { CardTabRenderer, PluginHost } from '../../plugin-host.d.ts';

const { signal } = new AbortController();
const hostOf = (locale: string, answers: Record<string, unknown>): Partial<PluginHost> => ({
  getState: () => ({ user: null, locale, theme: 'light', scopes: [], route: '' }),
  formatDate: String,
  apiRequest: async <T>(path: string) => answers[path.replace(/\?.*/, '')] as T,
});
const RUN = { id: '1', args: { url: 'https://shop.example/feed' }, state: 'done', total: 8000, done: 8000, failed: 1200, message: null, reason: null, started_by: { name: 'admin' }, created_at: '', finished_at: null };

it.each([['en-GB', ['8,000 of 8,000 entries', '1,200', '1,200 problems']], ['ru-RU', ['Записей: 8\u00A0000 из 8\u00A0000', '1\u00A0200', 'Ошибки: 1\u00A0200']]])('the supplier counts entries as people of %s write numbers', async (locale, words) => {
  const page = document.createElement('div');
  await drawFeeds(hostOf(locale, { '/jobs': { items: [RUN], next_cursor: null } }), page, signal);
  for (const text of words) expect(page.textContent).toContain(text);
  const one = document.createElement('div');
  await drawFeeds(hostOf('en', { '/jobs': { items: [{ ...RUN, failed: 1 }], next_cursor: null } }), one, signal);
  expect(one.querySelector('summary')?.textContent).toBe('1 problem');
});

it('completeness counts cards so, too', async () => {
  let draw: CardTabRenderer | undefined;
  const summary = { cards: 28_000, average: 50, complete: 1_000, walk: { is_running: true, done: 2_500, total: 28_000 }, missing: [{ rule: 'attribute:brand', cards: 27_000 }] };
  const answers = { '/plugins/completeness/cards/1': { score: 50, checks: [] }, '/plugins/completeness/summary': summary, '/plugins/completeness/worst': { items: [], next_cursor: null } };
  activate({ ...hostOf('en-GB', answers), registerCardTabRenderer: (_: string, renderer: CardTabRenderer) => (draw = renderer) });
  const tab = document.createElement('div');
  await draw?.(tab, { item: { id: '1' } } as never, { signal, onDispose: () => {} });
  const details = tab.querySelector('details');
  if (details) details.open = true;
  details?.dispatchEvent(new Event('toggle'));
  await expect.poll(() => tab.querySelector('[role="status"]')?.textContent).toBe('Looking at all cards: 2,500 of 28,000');
  expect([...tab.querySelectorAll('dd, .number')].map((cell) => cell.textContent)).toEqual(['28,000', '50', '1,000', '27,000']);
});
