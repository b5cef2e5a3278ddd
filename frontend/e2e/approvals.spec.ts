import type { APIRequestContext, Page } from '@playwright/test';
import { asSignedIn, expect, expectAccessible, expectReflows, intercept, signIn, test, uniqueSku } from './support.ts';

/** Calls that wait for a person are made here as an agent makes them: over MCP, with a key. */

interface Card { id: string; version: number; title: string }
interface Agent { call: (tool: string, args: string) => Promise<string>; key: string }

/** A key, and nothing that another test has left to decide. */
async function agent(page: Page, request: APIRequestContext): Promise<Agent> {
  const { items } = await asSignedIn<{ items: { id: string }[] }>(page, 'GET', '/approvals');
  for (const { id } of items) await asSignedIn(page, 'POST', `/approvals/${id}/deny`);
  await page.goto('/admin/approvals');
  const { item, key } = await asSignedIn<{ item: { name: string }; key: string }>(page, 'POST', '/api-keys', { name: `agent ${Date.now().toString(36)}`, scopes: ['mcp:use', 'cards:read', 'cards:write', 'jobs:write'] });
  return {
    key: item.name,
    // As text: JavaScript would round the numbers in it.
    async call(tool, args) {
      const data = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${tool}","arguments":${args}}}`;
      // A call waits some seconds for a person; an agent that was told so calls again, and slow machines need it.
      for (;;) {
        const answer = await request.post('/api', { headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' }, data: Buffer.from(data), timeout: 60_000 });
        const text = await answer.text();
        if (!text.includes('confirmation_required')) return text;
      }
    },
  };
}

async function makeCard(page: Page): Promise<Card> {
  return (await asSignedIn<{ item: Card }>(page, 'POST', '/master-cards', { sku: uniqueSku(), title: 'Lamp', attributes: { price: '10.00' } })).item;
}

const readCard = async (page: Page, { id }: Card) => (await asSignedIn<{ item: Card }>(page, 'GET', `/master-cards/${id}`)).item;
const update = ({ id, version }: Card, title: string, more = '') => `{"id":"${id}","version":${version},"title":${JSON.stringify(title)}${more}}`;
const queued = (page: Page) => page.getByRole('region', { name: 'Waiting' }).getByRole('button', { name: /cards_update/ });

test('a person sees what an agent would do, approves it, and it runs once', async ({ page, request }) => {
  await signIn(page, '/admin/approvals');
  const { call, key } = await agent(page, request);
  const card = await makeCard(page);
  const called = call('cards_update', update(card, 'Lamp 2'));
  const link = page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: /Approvals/ });
  await expect(link, 'the event says that a call waits').toContainText(/[1-9]/);
  await expect(page.getByRole('heading', { level: 2, name: 'cards_update' })).toBeVisible();
  const shown = page.getByRole('region', { name: 'cards_update' });
  await expect(shown).toContainText(key);
  await expect(shown).toContainText('left');
  await expect(shown.getByRole('link', { name: 'Lamp' }), 'the card that it changes').toHaveAttribute('href', `/admin/cards/${card.id}`);
  await expect(shown.getByRole('row', { name: /title/ })).toContainText('"Lamp"');
  await expect(shown.getByRole('row', { name: /title/ })).toContainText('"Lamp 2"');
  await expect(shown.locator('pre')).toContainText('"title": "Lamp 2"');
  const approve = shown.getByRole('button', { name: 'Approve once' });
  await expect(approve).toBeEnabled();
  await expect(approve, 'a press of Enter that was meant for something else approves nothing').not.toBeFocused();
  await expectAccessible(page);
  await expectReflows(page);
  await approve.click();
  await expect(shown).toContainText('Approved');
  await expect(approve).toBeHidden();
  expect(await called, 'the call that waited has run').toContain('Lamp 2');
  expect((await readCard(page, card)).title).toBe('Lamp 2');
  await expect(shown).toContainText('has run');
  await expect(page.getByRole('region', { name: 'Decided recently' })).toContainText('Approved, has run');
  await expectAccessible(page);
});

test('a refused call does not run, by keys alone', async ({ page, request }) => {
  await signIn(page, '/admin/approvals');
  const { call } = await agent(page, request);
  const [first, second] = [await makeCard(page), await makeCard(page)];
  const calls = [call('cards_update', update(first, 'One'))];
  await expect(queued(page).first()).toContainText('cards_update');
  calls.push(call('cards_update', update(second, 'Two')));
  await expect(page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: /Approvals/ })).toContainText('2');
  await expect(page.getByRole('heading', { level: 1 })).toContainText('2');
  const pre = page.locator('pre');
  await expect(pre, 'a call that comes does not take the place of the one that is read').toContainText(first.id);
  const refuse = page.getByRole('button', { name: 'Refuse', exact: true });
  await expect(refuse).toBeEnabled();
  // Pressed by the page itself: nobody else is sure to be that quick.
  const tooSoon = page.evaluate(() => new Promise<void>((resolve) => {
    const observer = new MutationObserver(() => {
      if (!document.querySelector('.detail footer button:disabled')) return;
      observer.disconnect();
      document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'd', bubbles: true }));
      resolve();
    });
    observer.observe(document.body, { childList: true, subtree: true });
  }));
  await page.keyboard.press('j');
  await tooSoon;
  await expect(refuse, 'within the first second a key decides nothing').toBeEnabled();
  await expect(pre).toContainText(second.id);
  await page.keyboard.press('d');
  await expect(page.getByRole('region', { name: 'cards_update' })).toContainText('Refused');
  await page.keyboard.press('k');
  await expect(pre).toContainText(first.id);
  await expect(refuse).toBeEnabled();
  await page.keyboard.press('d');
  for (const answer of await Promise.all(calls)) expect(answer).toContain('confirmation_denied');
  expect((await readCard(page, first)).title).toBe('Lamp');
  await expect(page.getByText('Nothing waits.').or(page.getByRole('region', { name: 'cards_update' }))).toBeVisible();
});

test('keys go on from a call that was just decided, before the lists are there again', async ({ page, request }) => {
  await signIn(page, '/admin/approvals');
  const { call } = await agent(page, request);
  const cards = [await makeCard(page), await makeCard(page), await makeCard(page)];
  const calls: Promise<string>[] = [];
  for (const [n, card] of cards.entries()) {
    calls.push(call('cards_update', update(card, 'Not this')));
    await expect(queued(page)).toHaveCount(n + 1);
  }
  const [first, second, third] = cards.map(({ id }) => id) as [string, string, string];
  const pre = page.locator('pre');
  await expect(pre).toContainText(first);
  await queued(page).nth(1).click();
  await expect(pre).toContainText(second);
  await intercept(page, '**/v1/admin/approvals?*state=any*', () => undefined);
  await page.getByRole('button', { name: 'Refuse', exact: true }).click();
  await expect(queued(page), 'it waits no more, and is not among the decided ones yet').toHaveCount(2);
  await page.keyboard.press('k');
  await expect(pre).toContainText(first);
  await page.keyboard.press('j');
  await expect(pre).toContainText(third);
  await page.unrouteAll();
  for (const { id } of (await asSignedIn<{ items: { id: string }[] }>(page, 'GET', '/approvals')).items) await asSignedIn(page, 'POST', `/approvals/${id}/deny`);
  await Promise.all(calls);
});

test('a person says why, and the agent hears it', async ({ page, request }) => {
  await signIn(page, '/admin/approvals');
  const { call } = await agent(page, request);
  const card = await makeCard(page);
  const called = call('cards_update', update(card, 'Wrong'));
  const shown = page.getByRole('region', { name: 'cards_update' });
  const reason = shown.getByRole('textbox', { name: 'Reason for refusing' });
  await reason.fill('add a draft \u202Efirst');
  await expect(shown.getByRole('button', { name: 'Refuse', exact: true })).toBeEnabled();
  await expect(reason, 'what is typed decides nothing').toHaveValue('add a draft \u202Efirst');
  await expectAccessible(page);
  await expectReflows(page);
  await shown.getByRole('button', { name: 'Refuse', exact: true }).click();
  expect(await called).toContain('add a draft');
  await expect(shown).toContainText(String.raw`add a draft \u202Efirst`);
  await expect(reason).toBeHidden();
});

test('a change of many cards shows how many, and some of them', async ({ page, request }) => {
  await signIn(page, '/admin/approvals');
  const { call } = await agent(page, request);
  const { id, sku } = (await asSignedIn<{ item: Card & { sku: string } }>(page, 'POST', '/master-cards', { sku: uniqueSku(), title: 'Many' })).item;
  const called = call('cards_bulk_update', `{"action":"archive","ids":["${id}"],"dry_run":false,"expected_count":1}`);
  const shown = page.getByRole('region', { name: 'cards_bulk_update' });
  await expect(shown).toContainText('Cards: 1. The first of them:');
  await expect(shown.getByRole('row', { name: new RegExp(sku) })).toContainText('"archived"');
  await shown.getByRole('button', { name: 'Approve once' }).click();
  expect(await called).toContain('"action":"archive"');
});

test('nothing in the arguments can pass for words of the page', async ({ page, request }) => {
  await signIn(page, '/admin/approvals');
  const { call } = await agent(page, request);
  const card = await makeCard(page);
  const title = 'safe\u202Eevil\u2066\n\nApproved by admin\u200B\u00A0';
  const called = call('cards_update', update(card, title, `,"attributes":{"long":"${'x'.repeat(4_000)}","weight":12345678901234567890.10,"<b>bold</b>":"<img src=x onerror=alert(1)>"}`));
  const pre = page.locator('pre');
  await expect(pre).toContainText(String.raw`safe\u202Eevil\u2066\n\nApproved by admin\u200B\u00A0`);
  await expect(pre).toContainText('"<b>bold</b>": "<img src=x onerror=alert(1)>"');
  await expect(pre, 'every digit').toContainText('"weight": 12345678901234567890.10');
  const text = await page.locator('main').innerText();
  expect(text).not.toMatch(/[\u202E\u2066\u200B]/);
  expect(text.split('\n')).not.toContain('Approved by admin');
  await expectReflows(page);
  await page.getByRole('button', { name: 'Refuse', exact: true }).click();
  expect(await called).toContain('confirmation_denied');
});

test('a call that was decided elsewhere, or has expired, says so and cannot be decided', async ({ page, request }) => {
  await signIn(page, '/admin/approvals');
  const { call } = await agent(page, request);
  const card = await makeCard(page);
  const called = call('cards_update', update(card, 'Elsewhere'));
  await expect(page.locator('pre')).toContainText(card.id);
  const id = new URL(page.url()).searchParams.get('call') ?? '';
  await asSignedIn(page, 'POST', `/approvals/${id}/deny`);
  await expect(page.getByRole('region', { name: 'cards_update' })).toContainText('Refused');
  await expect(page.getByRole('button', { name: 'Approve once' })).toBeHidden();
  await called;

  await intercept(page, `**/v1/admin/approvals/${id}`, async (route) => {
    const response = await route.fetch();
    const { item } = (await response.json()) as { item: object };
    await route.fulfill({ response, json: { item: { ...item, state: 'expired', decided_by: null, decided_at: null } } });
  });
  await page.reload();
  await expect(page.getByRole('region', { name: 'cards_update' })).toContainText('Expired');
  await expect(page.getByRole('button', { name: 'Approve once' })).toBeHidden();
  await expect(page.locator('pre')).toContainText(card.id);
});
