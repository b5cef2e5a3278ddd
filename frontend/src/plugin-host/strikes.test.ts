import { describe, expect, it } from 'vitest';
import { Strikes, type Locks, type Mark, type Place } from './strikes.ts';

const mark = (code: string, place: Place): Mark => ({ code, place, version: '1.0.0' });

/** A browser: one storage and the locks of all its pages. */
class Browser implements Locks {
  readonly values = new Map<string, string>();
  readonly names = new Set<string>();
  readonly storage = {
    getItem: (name: string) => this.values.get(name) ?? null,
    setItem: (name: string, value: string) => void this.values.set(name, value),
    removeItem: (name: string) => void this.values.delete(name),
    key: (index: number) => [...this.values.keys()][index] ?? null,
    length: 0,
  };

  constructor() {
    Object.defineProperty(this.storage, 'length', { get: () => this.values.size });
  }

  hold(name: string) {
    this.names.add(name);
  }

  async held() {
    return this.names;
  }

  /** What the page found that was opened last. */
  gone: Mark[] = [];

  async page(): Promise<Strikes> {
    const page = new Strikes(this.storage, this);
    this.gone = await page.start();
    return page;
  }

  endAllPages() {
    this.names.clear();
  }
}

describe('strikes', () => {
  it('a page that ended with a tab drawn is a strike against the tab’s code, where it was drawn', async () => {
    const browser = new Browser();
    (await browser.page()).begin(mark('/a.js', 'page'));
    browser.endAllPages();
    const next = await browser.page();
    expect([next.of('/a.js'), next.of('/b.js')]).toEqual(['page', null]);
    next.begin(mark('/a.js', 'frame'));
    browser.endAllPages();
    expect((await browser.page()).of('/a.js')).toBe('frame');
    expect(browser.gone, 'for the server to hear of').toEqual([mark('/a.js', 'frame')]);
    await browser.page();
    expect(browser.gone, 'once').toEqual([]);
  });

  it('a page that lives is none, nor is a tab that was left or a page that nobody looked at', async () => {
    const browser = new Browser();
    (await browser.page()).begin(mark('/lives.js', 'page'));
    const left = await browser.page();
    left.begin(mark('/left.js', 'page'));
    left.end('/left.js');
    const hidden = await browser.page();
    hidden.begin(mark('/hidden.js', 'page'));
    hidden.hidden(true);
    const other = await browser.page();
    expect(['/lives.js', '/left.js', '/hidden.js'].map((code) => other.of(code))).toEqual([null, null, null]);
    hidden.hidden(false);
    browser.endAllPages();
    const after = await browser.page();
    expect(['/lives.js', '/left.js', '/hidden.js'].map((code) => after.of(code))).toEqual(['page', null, 'page']);
  });

  it('an action above a tab leaves the tab’s mark when it is closed', async () => {
    const browser = new Browser();
    const page = await browser.page();
    page.begin(mark('/tab.js', 'page'));
    page.begin(mark('/action.js', 'frame'));
    page.end('/action.js');
    browser.endAllPages();
    const next = await browser.page();
    expect([next.of('/tab.js'), next.of('/action.js')]).toEqual(['page', null]);
  });

  it('a strike can be forgiven, and the oldest are forgotten', async () => {
    const page = await new Browser().page();
    for (let n = 0; n < 120; n += 1) page.strike(`/${n}.js`, 'page');
    expect([page.of('/0.js'), page.of('/119.js')]).toEqual([null, 'page']);
    page.forgive('/119.js');
    expect(page.of('/119.js')).toBe(null);
  });

  it('does without storage, and with one that holds something else', async () => {
    const none = new Strikes(null, null);
    await none.start();
    none.begin(mark('/a.js', 'page'));
    expect(none.of('/a.js')).toBe(null);
    const browser = new Browser();
    browser.values.set('cardinal.tab-strikes', 'null');
    browser.values.set('cardinal.tab-drawn.x', '{');
    expect((await browser.page()).of('/a.js')).toBe(null);
  });
});
