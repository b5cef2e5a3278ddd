import { type Page } from '@playwright/test';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { addPlugins, asSignedIn, createCard, expect, expectAccessible, expectReflows, signIn, test, type TestPlugin } from './support.ts';

const register = (tab: string, renderer: string) => `export function activate(host) { globalThis.given = host; host.registerCardTabRenderer('${tab}', ${renderer}); }`;

/** What runs in the page when it first opens, and never ends on a click. */
const LOOP: TestPlugin = {
  name: 'e2e-loop', tab: 'loop',
  code: register('loop', `(box, { item }, context) => {
    box.innerHTML = '<p></p><button>Loop</button><input aria-label="Note"><p class="news"></p>';
    const apart = globalThis.parent !== globalThis;
    box.querySelector('p').textContent = (apart ? 'apart ' : 'in the page ') + item.title;
    box.querySelector('button').addEventListener('click', () => { for (;;); });
    context.onCardChanged((now) => { box.querySelector('.news').textContent = 'now ' + now.item.title; });
    globalThis.given.apiRequest('/auth/me').then((me) => { box.querySelector('p').textContent += ' for ' + me.user.username; });
  }`),
};

/** As a page leaves it that was ended while the tab was drawn in it. */
async function leaveMark(page: Page, place: 'page' | 'frame'): Promise<void> {
  await page.evaluate(([name, where]) => {
    const mark = JSON.stringify({ code: String(name), version: '1.0.0', place: where });
    localStorage.setItem('cardinal.tab-drawn.of-a-page-that-is-gone', mark);
  }, [await codeOf(page), place]);
}

async function codeOf(page: Page): Promise<string> {
  return page.evaluate(async () => {
    const response = await fetch('/v1/admin/plugins', { headers: { Authorization: `Bearer ${sessionStorage.getItem('cardinal.token')}` } });
    const { items } = (await response.json()) as { items: { name: string; frontend: { main_url: string } | null }[] };
    return items.find(({ name }) => name === 'e2e-loop')?.frontend?.main_url ?? '';
  });
}

const frame = (page: Page) => page.frameLocator('iframe[data-plugin="e2e-loop"]');

async function openStruck(page: Page, place: 'page' | 'frame'): Promise<string> {
  await addPlugins(page, [LOOP]);
  await signIn(page);
  const id = await createCard(page, 'Looped');
  await leaveMark(page, place);
  await page.goto(`/admin/cards/${id}?tab=e2e-loop/loop`);
  return id;
}

test('a tab that ended a page runs in a frame, and a loop without an end there ends with the frame', async ({ page }) => {
  test.slow();
  const reports: { phase?: string }[] = [];
  await page.route('**/plugin-registry/e2e-loop/client-errors', (route) => {
    reports.push(route.request().postDataJSON() as object);
    return route.fulfill({ status: 204 });
  });
  const id = await openStruck(page, 'page');
  await expect(frame(page).getByText('apart Looped for')).toBeVisible();
  await expect(page.getByText('This tab has frozen the page before')).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);

  const { item } = await asSignedIn<{ item: { version: number } }>(page, 'GET', `/master-cards/${id}`);
  expect(item.version).toBe(1);
  await asSignedIn(page, 'PATCH', `/master-cards/${id}`, { title: 'Looped again' });
  await expect(frame(page).getByText('now Looped again')).toBeVisible();

  await frame(page).getByRole('button', { name: 'Loop' }).evaluate((button: HTMLElement) => void setTimeout(() => button.click()));
  // The page goes on while the frame hangs.
  await page.getByRole('tab', { name: 'Overview' }).focus();
  await expect(page.getByRole('alert')).toContainText('didn’t respond for 5 seconds', { timeout: 20_000 });
  await expect(page.locator('iframe')).toHaveCount(0);
  await expect.poll(() => reports.map(({ phase }) => phase)).toEqual(['hang', 'hang']);
  await page.getByRole('button', { name: 'Retry' }).click();
  await expect(frame(page).getByText('apart Looped again for')).toBeVisible();
});

test('a tab that held up even its frame’s page is drawn only when somebody asks for it', async ({ page }) => {
  await openStruck(page, 'frame');
  await expect(page.getByText('it opens only when you ask')).toBeVisible();
  await expect(page.locator('[data-plugin="e2e-loop"]')).toHaveCount(0);
  await expectAccessible(page);
  await page.getByRole('button', { name: 'Open in the page' }).click();
  await expect(page.getByText('in the page Looped')).toBeVisible();
});

test('safe mode draws no tab by itself', async ({ page }) => {
  await addPlugins(page, [LOOP]);
  await signIn(page);
  const id = await createCard(page, 'Safe');
  await page.goto(`/admin/cards/${id}?tab=e2e-loop/loop&safe=1`);
  await expect(page.getByText('Safe mode doesn’t open this')).toBeVisible();
  await expect(page.locator('[data-plugin="e2e-loop"]')).toHaveCount(0);
  await page.getByRole('button', { name: 'Open in its own frame' }).click();
  await expect(frame(page).getByText('apart Safe')).toBeVisible();
  await expectAccessible(page);
  await expectReflows(page);
  // It stays as long as the page is open, whatever the address says, and ends on request.
  await page.getByRole('link', { name: 'Cards', exact: true }).first().click();
  await expect(page.getByText('Safe mode: plugins show nothing')).toBeVisible();
  await page.getByRole('button', { name: 'Leave safe mode' }).click();
  await expect(page.getByText('Safe mode')).toHaveCount(0);
  await page.goto(`/admin/cards/${id}?tab=e2e-loop/loop`);
  await expect(page.getByText('in the page Safe')).toBeVisible();
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox').fill('safe mode');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/tab=.*safe=1/);
});

test('a tab that asks for a frame has one from the first time on', async ({ page }) => {
  await addPlugins(page, [{ ...LOOP, adds: { tabs: [{ id: 'loop', label: 'loop', frame: true }] } }]);
  await signIn(page);
  const id = await createCard(page, 'Framed');
  await page.goto(`/admin/cards/${id}?tab=e2e-loop/loop`);
  await expect(frame(page).getByText('apart Framed for')).toBeVisible();
  await expect(page.getByText('has frozen the page before')).toHaveCount(0);
  await leaveMark(page, 'frame');
  await page.reload();
  await expect(page.getByText('it opens only when you ask')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Open in the page' })).toHaveCount(0);
});

test('a script that holds up the page for seconds is remembered', async ({ page }) => {
  test.slow();
  const slow = register('loop', `(box) => { box.innerHTML = '<button>Slow</button>'; box.querySelector('button').addEventListener('click', () => { const end = performance.now() + 6000; while (performance.now() < end); }); }`);
  await addPlugins(page, [{ ...LOOP, code: slow }]);
  await signIn(page);
  const id = await createCard(page, 'Slow');
  await page.getByRole('tab', { name: 'loop' }).click();
  await page.getByRole('button', { name: 'Slow' }).click();
  await expect(page.getByText('The tab froze the page for 6 seconds')).toBeVisible({ timeout: 20_000 });
  await page.goto(`/admin/cards/${id}?tab=e2e-loop/loop`);
  await expect(frame(page).getByRole('button', { name: 'Slow' })).toBeVisible();
});

test('a frame reaches nothing of the page and sends nothing elsewhere', async ({ page, watched }) => {
  watched.allow(/./); // each attempt is refused aloud
  const probe = register('loop', `async (box) => {
    const tried = async (what) => { try { await what(); return 'done'; } catch { return 'refused'; } };
    box.textContent = JSON.stringify({
      parent: await tried(() => parent.document.title),
      storage: await tried(() => localStorage.length),
      api: await tried(() => fetch('/v1/admin/plugins')),
      elsewhere: await tried(() => fetch('https://leak.example/')),
      plugin: await globalThis.given.apiRequest('/../../healthz').catch((error) => error.code),
      pictures: await globalThis.given.apiRequest('/pictures?url=https://leak.example/').catch((error) => error.code),
    });
    new Image().src = 'https://leak.example/pixel';
    location.href = 'https://leak.example/';
  }`);
  const outside: string[] = [];
  page.on('request', (request) => { if (request.url().includes('leak.example')) outside.push(request.url()); });
  await addPlugins(page, [{ ...LOOP, code: probe }]);
  await signIn(page);
  const id = await createCard(page, 'Walled');
  await page.goto(`/admin/cards/${id}?tab=e2e-loop/loop&safe=1`);
  const answers = page.waitForEvent('console', { predicate: (message) => /leak\.example/.test(message.text()) });
  await page.getByRole('button', { name: 'Open in its own frame' }).click();
  await answers;
  const alone = await page.request.get('/admin/frame.html');
  expect(alone.headers()['content-security-policy']).toContain('sandbox allow-scripts;');
  expect(outside).toEqual([]);
});

test('what a tab does to the whole page ends with the tab', async ({ page }) => {
  const rude = register('loop', `(box) => {
    document.body.style.background = 'rgb(1, 2, 3)'; document.body.className = 'mine'; document.documentElement.style.fontSize = '40px';
    const sheet = new CSSStyleSheet(); sheet.replaceSync('nav { display: none }'); document.adoptedStyleSheets.push(sheet);
    box.textContent = 'restyled';
  }`);
  await addPlugins(page, [{ ...LOOP, code: rude }]);
  await signIn(page);
  await createCard(page, 'Restyled');
  await page.getByRole('tab', { name: 'loop' }).click();
  await expect(page.getByText('restyled', { exact: true })).toBeVisible();
  await expect(page.locator('body')).toHaveCSS('background-color', 'rgb(1, 2, 3)');
  await page.getByRole('tab', { name: 'Overview' }).click();
  await expect(page.locator('body')).not.toHaveCSS('background-color', 'rgb(1, 2, 3)');
  await expect(page.locator('body')).not.toHaveClass(/mine/);
  await expect(page.locator('html')).not.toHaveCSS('font-size', '40px');
  await expect(page.getByRole('navigation', { name: 'Main' })).toBeVisible();
});

const PIXEL = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');

test('pictures of the card come through the host, others not at all', async ({ page }) => {
  test.skip(!process.env.CARDINAL_PRIVATE_PAGES, 'needs a host that reads pictures of this machine');
  const asked: string[] = [];
  const site = createServer((request, response) => {
    asked.push(`${request.url} ${request.headers['user-agent']?.split('/')[0]}`);
    response.setHeader('Content-Type', 'image/png');
    response.end(PIXEL);
  });
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
  const at = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
  const code = register('loop', `async (box, { item }) => {
    const sent = await globalThis.given.apiRequest('/master-cards/' + item.id);
    box.innerHTML = '<img alt="known" src="' + sent.item.attributes.photo + '"><img alt="made up" src="' + sent.item.attributes.photo + '?secret">';
  }`);
  try {
    await addPlugins(page, [{ ...LOOP, code }]);
    await signIn(page);
    const id = await createCard(page, 'Pictured');
    // The card's page would ask for the picture as it hears of it, and be left while it does.
    await page.goto('/admin/kinds');
    await asSignedIn(page, 'PATCH', `/master-cards/${id}`, { attributes: { photo: `${at}/photo.png` } });
    for (const where of ['', '&safe=1']) {
      await page.goto(`/admin/cards/${id}?tab=e2e-loop/loop${where}`);
      if (where) await page.getByRole('button', { name: 'Open in its own frame' }).click();
      const tab = where ? frame(page) : page;
      await expect(tab.getByRole('img', { name: 'known' })).toHaveAttribute('src', /^blob:/);
      await expect.poll(() => tab.getByRole('img', { name: 'known' }).evaluate((image: HTMLImageElement) => image.naturalWidth)).toBe(1);
      await expect(tab.locator('img[alt="made up"]')).not.toHaveAttribute('src', /./);
    }
    expect(asked).toEqual(['/photo.png cardinal']);
  } finally {
    site.close();
  }
});
