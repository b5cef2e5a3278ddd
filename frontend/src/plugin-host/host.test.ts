import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { PluginHost } from '../../plugin-host.d.ts';
import { ApiError } from '../api/error.ts';
import { activePlugin } from '../api/fixtures.ts';
import type { ActivePlugin } from '../api/types.ts';
import { PluginFailure } from './failure.ts';
import { PluginHostRuntime, type Report } from './host.ts';
import { actionKey, pageKey } from './loaded.ts';
import { pluginInStack, type PluginModule } from './load.ts';

const CARD = { id: '1', title: 'Lamp', sku: 'L-1', status: 'draft' as const, attributes: {}, version: 1, created_at: '', updated_at: '' };

function plugin(name = 'demo', rest: Partial<ActivePlugin> = {}): ActivePlugin {
  return activePlugin(name, {
    api_prefix: name,
    tabs: [{ id: 'main', label: 'Main', icon: null, frame: false }],
    frontend: { main_url: `/admin/assets/plugins/${name}/aa/plugin.js`, integrity: 'sha256-x' },
    ...rest,
  });
}

function setUp(module: PluginModule | ((attempt: number) => Promise<PluginModule>)) {
  const load = vi.fn((_url: string, _integrity: string, attempt: number) => (typeof module === 'function' ? module(attempt) : Promise.resolve(module)));
  const reports: Report[] = [];
  const toasts: string[] = [];
  const request = vi.fn((): Promise<unknown> => Promise.resolve({ ok: true }));
  const host = new PluginHostRuntime({
    load,
    baseSheet: new CSSStyleSheet(),
    report: (report) => reports.push(report),
    page: {
      request,
      picture: () => Promise.resolve(new Blob()),
      toast: (_, message) => toasts.push(message),
      state: () => ({ user: { id: 'u', username: 'ann' }, locale: 'en', theme: 'light', scopes: ['cards:read'], route: '/cards' }),
      cardDetail: () => ({ item: CARD }),
    },
  });
  const slot = document.createElement('div');
  document.body.append(slot);
  const open = (which = plugin(), tab = 'main') => host.mount(slot, which, tab, { item: CARD });
  const text = () => slot.firstElementChild?.shadowRoot?.textContent;
  return { host, load, reports, toasts, request, slot, open, text };
}

/** A plugin whose one tab is drawn by `render`. */
const drawing = (render: Parameters<PluginHost['registerCardTabRenderer']>[1]): PluginModule => ({
  activate: (host: PluginHost) => host.registerCardTabRenderer('main', render),
});

/** The frozen host that a plugin is given. */
async function facade() {
  let given: PluginHost | undefined;
  const module: PluginModule = { activate: (host: PluginHost) => { given = host; host.registerCardTabRenderer('main', () => {}); } };
  const env = setUp(module);
  await env.open().done;
  if (!given) throw new Error('activate was not called');
  return { ...env, given };
}

async function failure(promise: Promise<void>): Promise<PluginFailure> {
  const thrown = await promise.then(() => null, (error: unknown) => error);
  expect(thrown).toBeInstanceOf(PluginFailure);
  return thrown as PluginFailure;
}

beforeEach(() => vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  document.body.replaceChildren();
});

describe('drawing a tab', () => {
  it('happens in a shadow root, with a copy of the card and its own signal', async () => {
    let seen: unknown;
    const env = setUp(drawing((container, detail, context) => {
      container.textContent = `SKU ${detail.item?.sku}`;
      detail.item!.sku = 'changed';
      seen = context;
    }));
    await env.open().done;
    expect(env.text()).toBe('SKU L-1');
    expect(CARD.sku).toBe('L-1');
    expect(Object.isFrozen(seen)).toBe(true);
    expect(env.slot.textContent).toBe('');
  });

  it('loads the code once for all of a plugin’s tabs, and only when one is opened', async () => {
    const env = setUp(drawing((container) => container.append('drawn')));
    expect(env.load).not.toHaveBeenCalled();
    await env.open().done;
    await env.open().done;
    expect(env.load).toHaveBeenCalledTimes(1);
  });

  it('waits for a renderer that is registered after activate has returned', async () => {
    const env = setUp({ activate: (host: PluginHost) => void setTimeout(() => host.registerCardTabRenderer('main', (box) => box.append('late')), 1000) });
    const mounted = env.open();
    await vi.advanceTimersByTimeAsync(1000);
    await mounted.done;
    expect(env.text()).toBe('late');
  });

  it('adds a plugin’s styles to its tabs, also those that come later', async () => {
    let host: PluginHost | undefined;
    const env = setUp({ activate: (given: PluginHost) => { host = given; given.css?.('p { margin: 0 }'); given.registerCardTabRenderer('main', () => {}); } });
    await env.open().done;
    const root = env.slot.firstElementChild?.shadowRoot;
    expect(root?.adoptedStyleSheets).toHaveLength(2);
    host?.css?.('b { margin: 0 }');
    expect(root?.adoptedStyleSheets).toHaveLength(3);
  });

  it('runs disposers, aborts and removes the container when the tab is left; one that throws stops no other', async () => {
    const ran: string[] = [];
    let signal: AbortSignal | undefined;
    const env = setUp(drawing((_, __, context) => {
      signal = context.signal;
      context.onDispose(() => { throw new Error('broken disposer'); });
      context.onDispose(() => void ran.push('onDispose'));
      return () => void ran.push('returned');
    }));
    const mounted = env.open();
    await mounted.done;
    mounted.dispose();
    await vi.advanceTimersByTimeAsync(0);
    expect(ran).toEqual(['onDispose', 'returned']);
    expect(signal?.aborted).toBe(true);
    expect(env.slot.children).toHaveLength(0);
    expect(env.reports).toMatchObject([{ plugin: 'demo', phase: 'late', message: 'Error: broken disposer' }]);
  });

  it('keeps a renderer that ends after the tab was left from leaving anything behind', async () => {
    const ran: string[] = [];
    let finish = () => {};
    const env = setUp(drawing(() => new Promise((resolve) => { finish = () => resolve(() => void ran.push('disposed')); })));
    const mounted = env.open();
    await vi.advanceTimersByTimeAsync(0);
    mounted.dispose();
    await expect(mounted.done).rejects.toMatchObject({ name: 'AbortError' });
    finish();
    await vi.advanceTimersByTimeAsync(0);
    expect(ran).toEqual(['disposed']);
  });
});

describe('a plugin that fails gets a message of its own', () => {
  const never = () => new Promise<never>(() => {});

  it.each([
    ['code that cannot be loaded', () => Promise.reject(new PluginFailure('load', 'Not fetched.')), 0, 'load', /Not fetched/],
    ['code that never comes', never, 5000, 'load', /over 5 seconds to load/],
    ['no activate', () => Promise.resolve({}), 0, 'load', /does not export a function "activate"/],
    ['activate throws', () => Promise.resolve({ activate: () => { throw new Error('boom'); } }), 0, 'activate', /failed while starting/],
    ['activate rejects', () => Promise.resolve({ activate: () => Promise.reject(new Error('boom')) }), 0, 'activate', /failed while starting/],
    ['activate hangs', () => Promise.resolve({ activate: never }), 5000, 'activate', /over 5 seconds to start/],
    ['no renderer', () => Promise.resolve({ activate: () => {} }), 5000, 'register', /no renderer for its tab "main"/],
    ['renderer throws', () => Promise.resolve(drawing(() => { throw new Error('boom'); })), 0, 'render', /failed while drawing/],
    ['renderer throws what has no text', () => Promise.resolve(drawing(() => { throw Object.create(null); })), 0, 'render', /failed while drawing/],
    ['renderer hangs', () => Promise.resolve(drawing(never)), 10000, 'render', /over 10 seconds to draw this tab/],
  ])('%s', async (_, module, ms, phase, message) => {
    const env = setUp(module as () => Promise<PluginModule>);
    const mounted = env.open();
    const failed = failure(mounted.done);
    if (ms) await vi.advanceTimersByTimeAsync(ms - 1);
    await vi.advanceTimersByTimeAsync(2);
    const thrown = await failed;
    expect(thrown.phase).toBe(phase);
    expect(thrown.message).toMatch(message);
    expect(env.slot.children).toHaveLength(0);
    expect(env.reports).toHaveLength(1);
    expect(env.reports[0]).toMatchObject({ plugin: 'demo', version: '1.0.0', phase });
  });

  it('and can be tried again: failed code is loaded anew, a failed tab is only drawn anew', async () => {
    let renders = 0;
    const env = setUp((attempt) => attempt === 0
      ? Promise.reject(new PluginFailure('load', 'Not fetched.'))
      : Promise.resolve(drawing((box) => { renders += 1; if (renders === 1) throw new Error('once'); box.append('drawn'); })));
    await failure(env.open().done);
    expect((await failure(env.open().done)).phase).toBe('render');
    await env.open().done;
    expect(env.text()).toBe('drawn');
    expect(env.load.mock.calls.map(([, , attempt]) => attempt)).toEqual([0, 1]);
  });

  it('a plugin without code says so', async () => {
    const env = setUp({});
    expect((await failure(env.open(plugin('demo', { frontend: null })).done)).message).toMatch(/no code/);
  });

  it('and the others go on', async () => {
    const env = setUp(drawing((box) => box.append('fine')));
    env.load.mockImplementationOnce(() => Promise.resolve({ activate: () => { throw new Error('boom'); } }));
    await failure(env.open(plugin('rude')).done);
    await env.open(plugin('polite')).done;
    expect(env.text()).toBe('fine');
  });
});

describe('the host object', () => {
  it('is frozen and has the eight members', async () => {
    const { given } = await facade();
    expect(Object.isFrozen(given)).toBe(true);
    const members = ['apiRequest', 'esc', 'formatMoney', 'formatDate', 'showToast', 'getState', 'getCardDetail', 'registerCardTabRenderer'] as const;
    for (const member of members) expect(given[member], member).toBeTypeOf('function');
    expect(Object.keys(given).filter((key) => !(members as readonly string[]).includes(key))).toEqual(['registerPageRenderer', 'registerCardActionRenderer', 'css', 'onCardChanged', 'onDispose', 'signal']);
  });

  it('draws pages and actions beside tabs, each by its own id and with its own detail', async () => {
    const drawn: unknown[] = [];
    const keep = (what: string) => (_: HTMLElement, detail: unknown) => void drawn.push([what, detail]);
    const which = plugin('demo', { pages: [{ id: 'main', label: 'P', icon: null }], card_actions: [{ id: 'main', label: 'A', icon: null, on: ['card'], route: null, confirm: null }] });
    const env = setUp({
      activate: (host: PluginHost) => {
        host.registerCardTabRenderer('main', keep('tab'));
        host.registerPageRenderer?.('main', keep('page'));
        host.registerCardActionRenderer?.('main', keep('action'));
        expect(() => host.registerPageRenderer?.('other', keep('x'))).toThrow('Page "other" is not in the manifest\'s contributes.pages (declared: main).');
        expect(() => host.registerCardActionRenderer?.('main', 'x' as never)).toThrow('The renderer of action "main" is not a function.');
      },
    });
    await env.open(which).done;
    await env.host.mount(env.slot, which, pageKey('main'), {}).done;
    await env.host.mount(env.slot, which, actionKey('main'), { card_ids: ['1', '2'] }).done;
    expect(drawn).toEqual([['tab', { item: CARD }], ['page', {}], ['action', { card_ids: ['1', '2'] }]]);
    expect((await failure(env.host.mount(env.slot, plugin('none'), pageKey('main'), {}).done)).phase).toBe('activate');
  });

  it('sends requests with method and body, and passes on what they reject with', async () => {
    const { given, request } = await facade();
    await expect(given.apiRequest('/plugins/demo/process', { method: 'post', body: { a: 1 } })).resolves.toEqual({ ok: true });
    expect(request).toHaveBeenCalledWith('/plugins/demo/process', expect.objectContaining({ method: 'POST', body: { a: 1 } }));
    request.mockRejectedValueOnce(new ApiError(404, 'not-found', 'No such card.', { request_id: 'r1' }));
    await expect(given.apiRequest('/x')).rejects.toMatchObject({ status: 404, code: 'not-found', detail: 'No such card.', request_id: 'r1' });
  });

  it('sends nothing for a path that leaves the admin API', async () => {
    const { given, request } = await facade();
    await expect(given.apiRequest('/../../api')).rejects.toMatchObject({ code: 'invalid-path' });
    await expect(given.apiRequest('master-cards')).rejects.toBeInstanceOf(Error);
    expect(request).not.toHaveBeenCalled();
  });

  it('bounds how many requests and toasts one plugin has at once', async () => {
    const { given, request, toasts } = await facade();
    request.mockImplementation(() => new Promise(() => {}));
    const calls = Array.from({ length: 300 }, () => given.apiRequest('/x'));
    const refused = calls.slice(206).map((call) => expect(call).rejects.toMatchObject({ code: 'too-many-requests' }));
    await Promise.all(refused);
    expect(request).toHaveBeenCalledTimes(6);
    for (let i = 0; i < 100; i += 1) given.showToast(`toast ${i}`);
    expect(toasts).toHaveLength(5);
  });

  it('shows state that cannot be changed and holds no token, and a copy of the card', async () => {
    const { given } = await facade();
    const state = given.getState();
    expect(Object.keys(state)).toEqual(['user', 'locale', 'theme', 'scopes', 'route']);
    expect(Object.isFrozen(state) && Object.isFrozen(state.user) && Object.isFrozen(state.scopes)).toBe(true);
    given.getCardDetail().item!.title = 'changed';
    expect(given.getCardDetail().item?.title).toBe('Lamp');
  });

  it('refuses a tab that the manifest does not declare', async () => {
    const { given } = await facade();
    expect(() => given.registerCardTabRenderer('other', () => {})).toThrow(/"other" is not in the manifest.*declared: main/);
    expect(() => given.registerCardTabRenderer('main', 'text' as never)).toThrow(TypeError);
  });
});

describe('unloading', () => {
  it('runs the plugin’s disposers, aborts its signal and forgets its renderers', async () => {
    const ran: string[] = [];
    let host: PluginHost | undefined;
    const env = setUp({
      activate: (given: PluginHost) => { host = given; given.onDispose?.(() => void ran.push('onDispose')); given.registerCardTabRenderer('main', () => {}); },
      deactivate: () => void ran.push('deactivate'),
    });
    await env.open().done;
    env.host.unload('demo');
    await vi.advanceTimersByTimeAsync(0);
    expect(ran).toEqual(['onDispose', 'deactivate']);
    expect(host?.signal?.aborted).toBe(true);
    await env.open().done;
    expect(env.load).toHaveBeenCalledTimes(2);
  });

  it('happens when the code has another address', async () => {
    const env = setUp(drawing((box) => box.append('drawn')));
    await env.open().done;
    await env.open(plugin('demo', { frontend: { main_url: '/admin/assets/plugins/demo/bb/plugin.js', integrity: 'sha256-y' } })).done;
    expect(env.load.mock.calls.map(([url]) => url)).toEqual(['/admin/assets/plugins/demo/aa/plugin.js', '/admin/assets/plugins/demo/bb/plugin.js']);
  });
});

describe('errors that nobody caught', () => {
  it('are blamed on the plugin whose code is in the stack', async () => {
    const env = setUp({});
    const seen: string[] = [];
    env.host.onLateError((name, message) => seen.push(`${name}: ${message}`));
    const stop = env.host.watchLateErrors(window);
    const error = Object.assign(new Error('late'), { stack: 'Error: late\n at f (https://x/admin/assets/plugins/demo/aa/plugin.js:1:1)' });
    window.dispatchEvent(new ErrorEvent('error', { error, message: 'late', filename: '' }));
    window.dispatchEvent(new ErrorEvent('error', { error: new Error('ours'), message: 'ours', filename: 'https://x/admin/assets/index.js' }));
    stop();
    expect(seen).toEqual(['demo: late']);
    expect(env.reports).toMatchObject([{ plugin: 'demo', phase: 'late' }]);
  });

  it('are reported a few times a minute, not each time', () => {
    const env = setUp({});
    const stop = env.host.watchLateErrors(window);
    for (let i = 0; i < 50; i += 1) {
      window.dispatchEvent(new ErrorEvent('error', { error: null, message: 'again', filename: '/admin/assets/plugins/demo/aa/plugin.js' }));
    }
    stop();
    expect(env.reports).toHaveLength(10);
  });

  it('find the plugin by its address', () => {
    expect(pluginInStack('at https://x/admin/assets/plugins/price-watch/ab12/plugin.js:3:9')).toBe('price-watch');
    expect(pluginInStack('at https://x/admin/assets/index-abc.js:3:9')).toBeNull();
  });
});
