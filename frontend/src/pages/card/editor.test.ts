import { expect, it, vi } from 'vitest';
import type { Card } from '../../api/types.ts';
import { CardEditor } from './editor.svelte.ts';

// The client takes `fetch` while it is loaded, so that it has to be there before.
const fetchMock = vi.hoisted(() => {
  const mock = vi.fn<() => Promise<Response>>();
  vi.stubGlobal('fetch', mock);
  return mock;
});

const card = { id: '1', version: 1, title: 'Chair', sku: 'C-1', status: 'draft', attributes: { height: 41, size: { w: 1, d: 2 } } } as unknown as Card;

it('what is no value yet blocks the save, by member, and goes along with a new name', () => {
  const editor = new CardEditor(card);
  editor.setInvalid('size', 'wide', 'w');
  editor.setInvalid('size', '', 'd');
  editor.setAttribute('size', { w: 3, d: 2 }, 'w');
  expect([editor.invalid.get('size'), editor.blocked, editor.draft.attributes.size]).toEqual([{ d: '' }, true, { w: 3, d: 2 }]);
  editor.renameAttribute('size', 'extent');
  expect([editor.invalid.keys(), editor.changed]).toEqual([['extent'], ['size', 'extent']]);
  editor.setAttribute('extent', { w: 3, d: 4 }, 'd');
  expect([editor.invalid.size, editor.blocked]).toEqual([0, false]);
});

it('what one view cannot show keeps the other from being opened', () => {
  const editor = new CardEditor(card);
  editor.setInvalid('height', 'many');
  expect([editor.showJson(true), editor.json]).toEqual([false, null]);
  editor.setAttribute('height', 42);
  expect(editor.showJson(true)).toBe(true);
  editor.setJson('{"height": 43');
  expect([editor.showJson(false), editor.json, editor.blocked]).toEqual([false, '{"height": 43', true]);
  // Nor does what happens elsewhere on the page replace it.
  editor.setAttribute('brand', 'Mirel');
  editor.receive({ ...card, version: 2, title: 'Bench' });
  expect(editor.json).toBe('{"height": 43');
  editor.setJson('{"height": 43}');
  expect([editor.showJson(false), editor.draft.attributes, editor.blocked]).toEqual([true, { height: 43 }, false]);
});

it('text that says what the draft says stays as it was typed', () => {
  const editor = new CardEditor(card);
  editor.showJson(true);
  editor.setJson('{"height":43,  "size":{"w":1,"d":2}}');
  editor.receive({ ...card, version: 2, title: 'Bench' });
  expect(editor.json).toBe('{"height":43,  "size":{"w":1,"d":2}}');
});

/** A form whose new title is saved as version 2, and what came between the request and its answer. */
async function saveBeside(meanwhile: (editor: CardEditor) => void): Promise<CardEditor> {
  const editor = new CardEditor(card);
  let answer: (saved: Response) => void = () => {};
  fetchMock.mockImplementationOnce(() => new Promise((resolve) => (answer = resolve)));
  editor.setField('title', 'Bench');
  const saved = editor.save();
  meanwhile(editor);
  answer(Response.json({ item: { ...card, version: 2, title: 'Bench' } }));
  expect(await saved).toBe(true);
  return editor;
}

it('a save that is answered after a later version came leaves that one', async () => {
  const editor = await saveBeside((form) => form.receive({ ...card, version: 3, title: 'Bench', sku: 'C-2' }));
  expect([editor.base.version, editor.draft.sku, editor.dirty, editor.elsewhere]).toEqual([3, 'C-2', false, null]);
});

it('a save that was heard of before it is answered is over', async () => {
  const editor = await saveBeside((form) => {
    form.elsewhere = { who: 'mara', at: '', changed: ['sku'] };
    form.receive({ ...card, version: 2, title: 'Bench' });
  });
  expect([editor.dirty, editor.elsewhere]).toEqual([false, null]);
});

it('a change that is taken back while it is saved is a change of what was saved', async () => {
  const editor = await saveBeside((form) => form.setField('title', 'Chair'));
  expect([editor.base.title, editor.draft.title, editor.changed]).toEqual(['Bench', 'Chair', ['title']]);
});

it('one’s own words are no conflict, whatever comes before the answer', async () => {
  const editor = await saveBeside((form) => {
    form.setField('title', 'Bench 2');
    form.receive({ ...card, version: 3, title: 'Bench', sku: 'C-2' });
  });
  expect([editor.conflicts, editor.changed, editor.draft.sku]).toEqual([[], ['title'], 'C-2']);
});

it('what somebody else makes of what was saved is theirs', async () => {
  const editor = await saveBeside((form) => form.receive({ ...card, version: 3, title: 'Stool' }));
  expect([editor.draft.title, editor.dirty, editor.conflicts]).toEqual(['Stool', false, []]);
});
