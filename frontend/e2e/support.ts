import { AxeBuilder } from '@axe-core/playwright';
import { test as base, expect, type Page, type Route } from '@playwright/test';
import { createHash } from 'node:crypto';

export { expect };

const WCAG = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

function fromEnvironment(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`set ${name} to what the host under test was started with`);
  return value;
}

/** Every test fails when the page broke its own security policy, or threw something that no plugin of the test threw. */
export const test = base.extend<{ watched: { allow: (text: RegExp) => void } }>({
  watched: [
    async ({ page }, use) => {
      const allowed: RegExp[] = [];
      const seen: string[] = [];
      page.on('console', (message) => {
        if (/Content[- ]Security[- ]Policy|Trusted ?(Types|HTML|Script)|violates/i.test(message.text())) seen.push(message.text());
      });
      page.on('pageerror', (error) => seen.push(`uncaught: ${error.message}`));
      await use({ allow: (text) => allowed.push(text) });
      // What the page still asks for at the end is nothing that fails the next test.
      await page.unrouteAll({ behavior: 'ignoreErrors' });
      expect(seen.filter((text) => !allowed.some((pattern) => pattern.test(text)))).toEqual([]);
    },
    { auto: true },
  ],
});

/**
 * `page.route` for a page that is open already: Chromium says that it intercepts a moment before it does, so a request
 * that a key press sends at once would pass by.
 */
export async function intercept(page: Page, url: string, handler: (route: Route) => unknown): Promise<void> {
  const probe = '/e2e-intercepted';
  await page.route(url, handler);
  await page.route(`**${probe}`, (route) => route.fulfill({ body: 'intercepted' }));
  await page.waitForFunction(async (address) => (await (await fetch(address)).text()) === 'intercepted', probe);
  await page.unroute(`**${probe}`);
}

export async function signIn(page: Page, path = '/admin/'): Promise<void> {
  await page.goto(path);
  await fillSignIn(page);
  await expect(page.getByRole('navigation', { name: 'Main' })).toBeVisible();
}

export async function fillSignIn(page: Page, password = fromEnvironment('CARDINAL_PASSWORD')): Promise<void> {
  await page.getByLabel('User name').fill(fromEnvironment('CARDINAL_USERNAME'));
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
}

/** Creates a card through the UI; its page is open afterwards. Returns its id. */
export async function createCard(page: Page, title: string, sku = uniqueSku()): Promise<string> {
  await page.goto('/admin/cards');
  await page.getByRole('button', { name: 'Create card' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Title').fill(title);
  await dialog.getByLabel('SKU').fill(sku);
  await dialog.getByRole('button', { name: 'Create card' }).click();
  await expect(page.getByRole('heading', { level: 1, name: title })).toBeVisible();
  return new URL(page.url()).pathname.split('/').at(-1) ?? '';
}

export function uniqueSku(): string {
  return `E2E-${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 8)}`;
}

/**
 * Colours as they stay: the page is styled anew, and no colour is on its way to another one. Waiting for frames or for
 * the ends of animations would hang on a machine that is too busy to draw.
 */
export function endAnimations(): void {
  for (const animation of document.getAnimations()) {
    const endless = animation.effect?.getComputedTiming().endTime === Infinity;
    if (endless) animation.cancel();
    else animation.finish();
  }
}

/** axe finds nothing, in light and in dark. */
export async function expectAccessible(page: Page): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.evaluate(endAnimations);
    const axe = new AxeBuilder({ page });
    // Of what the rules look at, the scheme changes colours alone: these two compare them.
    if (colorScheme === 'light') axe.withTags(WCAG);
    else axe.withRules(['color-contrast', 'link-in-text-block']);
    // Findings of several frames are put together in another page, which takes as long as looking for them.
    axe.setLegacyMode(page.frames().length === 1);
    const { violations } = await axe.analyze();
    const found = violations.flatMap((violation) => violation.nodes.map((node) => `${colorScheme}: ${violation.id}: ${node.target.join(' ')}: ${node.failureSummary}`));
    expect(found).toEqual([]);
  }
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
}

/** The page can be read at 320 pixels without scrolling sideways. */
export async function expectReflows(page: Page, width = 320): Promise<void> {
  const before = page.viewportSize();
  await page.setViewportSize({ width, height: 720 });
  // What is laid out by script follows the window a frame later.
  // How far it goes beyond the window, and what does: a pseudo-element is none of these.
  const tooWide = () => page.evaluate(() => {
    const overflow = document.documentElement.scrollWidth - window.innerWidth;
    if (overflow <= 0) return [];
    const beyond = [...document.body.querySelectorAll('*')].filter((element) => element.getBoundingClientRect().right > window.innerWidth);
    return [`${overflow} pixels`, ...beyond.map((element) => `${element.tagName} ${element.className}: ${element.textContent.trim().slice(0, 60)}`)];
  });
  await expect.poll(tooWide).toEqual([]);
  if (before) await page.setViewportSize(before);
}

export interface TestPlugin {
  name: string;
  /** The tab's id and label. */
  tab: string;
  code: string;
  version?: string;
  /** Announced in place of the code's own hash. */
  integrity?: string;
  /** Pages, list columns and card actions, as the server names them. */
  adds?: Record<string, unknown>;
}

/** Plugins that exist only in this browser. */
export interface AddedPlugins {
  /** Puts another version in the place of the plugin with its name, as the server announces an upgrade. */
  replace: (plugin: TestPlugin) => Promise<void>;
}

/**
 * Adds plugins that exist only in this browser to those of the host: the list of plugins is answered
 * with them, and their code is served from the addresses that the list announces.
 */
export async function addPlugins(page: Page, plugins: TestPlugin[]): Promise<AddedPlugins> {
  const there = new Map(plugins.map((plugin) => [plugin.name, plugin]));
  await page.route('**/v1/admin/plugins', async (route) => {
    const response = await route.fetch();
    const body = (await response.json()) as { items: unknown[] };
    const added = Array.from(there.values(), ({ name, tab, code, integrity, adds, version = '1.0.0' }) => ({
      name,
      version,
      title: name,
      api_prefix: name,
      tabs: [{ id: tab, label: tab }],
      pages: [],
      list_columns: [],
      card_actions: [],
      ...adds,
      frontend: { main_url: `/admin/assets/plugins/${name}/${hash(code).toString('hex').slice(0, 16)}/plugin.js`, integrity: integrity ?? `sha256-${hash(code).toString('base64')}` },
    }));
    await route.fulfill({ response, json: { ...body, items: [...body.items, ...added] } });
  });
  for (const { name } of plugins) {
    await page.route(`**/admin/assets/plugins/${name}/**`, (route) =>
      route.fulfill({ contentType: 'text/javascript; charset=utf-8', headers: { 'Access-Control-Allow-Origin': '*' }, body: there.get(name)?.code ?? '' }));
  }
  return {
    async replace(plugin) {
      there.set(plugin.name, plugin);
      // Any plugin's news make the page ask for all of them again.
      await asSignedIn(page, 'POST', '/plugin-registry/supplier/reload');
    },
  };
}

/** A request of the one who is signed in on this page; `path` is relative to `/v1/admin`. */
export async function asSignedIn<T = unknown>(page: Page, method: string, path: string, data?: unknown): Promise<T> {
  const token = await page.evaluate(() => sessionStorage.getItem('cardinal.token'));
  const response = await page.request.fetch(`/v1/admin${path}`, { method, headers: { Authorization: `Bearer ${token}` }, ...(data === undefined ? {} : { data }) });
  expect(response.ok(), `${method} ${path}: ${response.status()}`).toBe(true);
  return (response.status() === 204 ? null : await response.json()) as T;
}

function hash(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
