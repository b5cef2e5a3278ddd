import type { CardDetail } from '../../plugin-host.d.ts';
import { ApiError } from '../api/error.ts';
import type { RequestOptions } from '../api/client.ts';
import { loadLanguage } from '../i18n/catalogue.svelte.ts';
import { preferences } from '../ui/preferences.svelte.ts';
import { describe, PluginFailure } from './failure.ts';
import type { Detail } from './loaded.ts';
import type { FrameStart, FrameView, FromFrame, ToFrame } from './frame-protocol.ts';
import { PluginHostRuntime } from './host.ts';
import { loadModule } from './load.ts';
import { TAB_SHEET } from './tab-sheet.ts';

/** Room around the tab, so that the outline of a focused element is not cut off. */
const FRAME_SHEET = 'body { margin: 0; background: var(--surface); color: var(--text); font: 400 var(--size)/1.5 var(--font); } .slot { padding: 4px; }';
/** How long a call of the page may take is for the page to say; a message is never lost. */
type Waiting = Map<number, { resolve: (value: never) => void; reject: (why: Error) => void }>;

/** Runs one tab with a host that is the page's, a message away. */
export function runFrame({ plugin, tabId, detail, view: first, sheets }: FrameStart, port: MessagePort): void {
  const send = (message: FromFrame) => port.postMessage(message);
  const waiting: Waiting = new Map();
  let [view, lastId] = [first, 0];
  let card: CardDetail = 'card_ids' in detail ? {} : detail;

  const ask = <T>(message: (id: number) => FromFrame, signal?: AbortSignal): Promise<T> =>
    new Promise<T>((resolve, reject) => {
      lastId += 1;
      const id = lastId;
      waiting.set(id, { resolve, reject });
      signal?.addEventListener('abort', () => {
        if (!waiting.delete(id)) return;
        send({ kind: 'abort', id });
        reject(signal.reason as Error);
      });
      send(message(id));
    });

  const runtime = new PluginHostRuntime({
    page: {
      request: (path, { method = 'GET', body, signal }: RequestOptions) => ask((id) => ({ kind: 'request', id, path, method, body }), signal),
      picture: (address) => ask((id) => ({ kind: 'picture', id, address })),
      state: () => view.state,
      cardDetail: () => card,
      toast: (_, message) => send({ kind: 'toast', message }),
    },
    load: loadModule,
    baseSheet: sheet(sheets.elements + TAB_SHEET),
    // What fails before the tab is drawn is told once, by `failed`.
    report: ({ phase, message }) => phase === 'late' && send({ kind: 'late', message }),
  });
  runtime.watchLateErrors(window);

  port.addEventListener('message', ({ data }: MessageEvent<ToFrame>) => {
    if (data.kind === 'ping') return send({ kind: 'pong' });
    if (data.kind === 'view') return look((view = data.view));
    if (data.kind === 'card') return runtime.cardChanged((card = data.detail));
    const call = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.kind === 'answer') call?.resolve(data.value as never);
    else call?.reject(new ApiError(data.error.status, data.error.code, data.error.detail, data.error));
  });
  port.start();

  document.adoptedStyleSheets = [sheet(sheets.tokens + FRAME_SHEET)];
  look(view);
  const slot = document.createElement('div');
  slot.className = 'slot';
  document.body.replaceChildren(slot);
  new ResizeObserver(() => send({ kind: 'height', pixels: slot.scrollHeight })).observe(slot);
  addEventListener('input', () => send({ kind: 'touched' }), { capture: true, once: true });

  draw(runtime, slot, { plugin, tabId, detail }).then(
    () => send({ kind: 'drawn' }),
    (thrown: unknown) => {
      const failure = thrown instanceof PluginFailure ? thrown : new PluginFailure('render', describe(thrown));
      send({ kind: 'failed', phase: failure.phase, message: failure.message, technical: failure.technical });
    },
  );
}

function draw(runtime: PluginHostRuntime, slot: HTMLElement, { plugin, tabId, detail }: { plugin: FrameStart['plugin']; tabId: string; detail: Detail }): Promise<void> {
  return runtime.mount(slot, plugin, tabId, detail).done;
}

function look({ theme, density, language }: FrameView): void {
  Object.assign(preferences, { theme, density, language });
  void loadLanguage();
}

function sheet(text: string): CSSStyleSheet {
  const made = new CSSStyleSheet();
  made.replaceSync(text);
  return made;
}
