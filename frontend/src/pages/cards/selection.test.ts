import { expect, it } from 'vitest';
import type { CardStatus } from '../../api/types.ts';
import { Selection } from './selection.svelte.ts';
import { jobsBack } from './undo.ts';

const page = (['draft', 'active', 'draft', 'archived'] as CardStatus[]).map((status, n) => ({ id: `${n}`, status }));

it('a range is ticked from the last card, and each keeps the status that it had', () => {
  const selection = new Selection();
  selection.toggle(page[0]!);
  selection.extendTo(page[2]!, page);
  expect([...selection.ids.entries()]).toEqual([['0', 'draft'], ['1', 'active'], ['2', 'draft']]);
  selection.toggle(page[1]!);
  expect(selection.ids.keys()).toEqual(['0', '2']);
});

it('a changed status is taken back to what each card had, by a job for each', () => {
  const before = new Map(page.map(({ id, status }) => [id, status]));
  expect(jobsBack('archive', before)).toEqual([{ action: 'draft', ids: ['0', '2'] }, { action: 'activate', ids: ['1'] }]);
  expect(jobsBack('archive', new Map([['3', 'archived']]))).toEqual([]);
  expect(jobsBack('set_attribute', before), 'what gives no status takes none back').toEqual([]);
});
