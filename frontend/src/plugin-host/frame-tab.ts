import type { CardDetail, CardListener } from '../../plugin-host.d.ts';
import { asApiError } from '../api/error.ts';
import type { ActivePlugin } from '../api/types.ts';
import { t } from '../i18n/plugin-tab.ts';
import { createFacade, type Page } from './facade.ts';
import { Cancelled, PluginFailure, type FailurePhase } from './failure.ts';
import { RateGate } from './flood.ts';
import { FRAME_PAGE, type FrameStart, type FrameView, type FromFrame, type ToFrame } from './frame-protocol.ts';
import type { MountedTab } from './host.ts';
import type { Detail } from './loaded.ts';
import { PAGE_SHEETS } from './page-sheets.ts';

const PING_EVERY_MS = 1_000;
/** So long without an answer and the frame hangs. It answers between any two of its tasks. */
export const SILENCE_LIMIT_MS = 5_000;
/** Code, activation and drawing have limits of their own in the frame; this is for a frame that never comes up. */
const START_LIMIT_MS = 30_000;
const MAX_HEIGHT = 20_000;
/** More messages than this in a second come from no tab that does its work. */
const MESSAGES_PER_SECOND = 1_000;

export interface FrameOptions {
  page: Page;
  view(): FrameView;
  late(message: string): void;
  touched(): void;
  report(phase: FailurePhase, message: string): void;
  /** The frame hung or flooded, and was closed. */
  closed(failure: PluginFailure): void;
}

export interface FramedTab extends MountedTab {
  cardChanged: CardListener;
  viewChanged(): void;
}

/**
 * Draws a tab in a frame with an origin of its own, in which it can reach nothing of the page. Browsers give such a frame
 * a process of its own where they can: then a loop without an end ends with the frame.
 */
export function mountFramed(slot: HTMLElement, plugin: ActivePlugin, tabId: string, detail: Detail, options: FrameOptions): FramedTab {
  return new Frame(slot, plugin, tabId, detail, options);
}

class Frame implements FramedTab {
  readonly done: Promise<void>;
  readonly #abort = new AbortController();
  readonly #element = document.createElement('iframe');
  readonly #channel = new MessageChannel();
  readonly #requests = new Map<number, AbortController>();
  readonly #messages = new RateGate(MESSAGES_PER_SECOND, 1_000);
  readonly #facade;
  readonly #settled = Promise.withResolvers<void>();
  #heard = performance.now();
  #pinged = performance.now();
  #timer: ReturnType<typeof setInterval> | undefined;
  #isDrawn = false;

  constructor(slot: HTMLElement, plugin: ActivePlugin, tabId: string, detail: Detail, private readonly options: FrameOptions) {
    // The same checks and limits as in the page: what the frame itself checked does not count here.
    this.#facade = createFacade(
      { name: plugin.name, plugin, signal: this.#abort.signal, addSheet() {}, onDispose() {}, onCardChanged: () => () => {}, register() {}, own() {} },
      options.page,
    );
    this.done = this.#settled.promise;
    this.#element.dataset.plugin = plugin.name;
    this.#element.title = plugin.title ?? plugin.name;
    this.#element.className = 'plugin-frame';
    this.#element.setAttribute('sandbox', 'allow-scripts');
    this.#element.addEventListener('load', () => this.#start({ plugin, tabId, detail, view: options.view(), sheets: PAGE_SHEETS }), { once: true });
    this.#element.src = FRAME_PAGE;
    slot.replaceChildren(this.#element);
    this.#timer = setInterval(() => this.#ping(), PING_EVERY_MS);
    this.#channel.port1.addEventListener('message', (event) => this.#take(event.data as FromFrame));
    this.#channel.port1.start();
  }

  dispose(): void {
    this.#close();
    this.#settled.reject(new Cancelled('cancelled'));
    this.#settled.promise.catch(() => {});
  }

  cardChanged(detail: CardDetail): void {
    this.#send({ kind: 'card', detail: structuredClone(detail) });
  }

  viewChanged(): void {
    this.#send({ kind: 'view', view: this.options.view() });
  }

  #start(start: FrameStart): void {
    this.#heard = performance.now();
    // Its origin is none, so none can be named; the port goes to the document that has just been loaded there.
    this.#element.contentWindow?.postMessage(start, '*', [this.#channel.port2]);
  }

  #send(message: ToFrame): void {
    if (!this.#abort.signal.aborted) this.#channel.port1.postMessage(message);
  }

  #ping(): void {
    const now = performance.now();
    // A page that was held up itself, asleep, or hidden, heard nothing either.
    this.#heard = document.hidden ? now : Math.min(now, this.#heard + Math.max(0, now - this.#pinged - PING_EVERY_MS));
    this.#pinged = now;
    const limit = this.#isDrawn ? SILENCE_LIMIT_MS : START_LIMIT_MS;
    if (now - this.#heard > limit) return this.#fail('hang', t('silent', { seconds: limit / 1000 }));
    this.#send({ kind: 'ping' });
  }

  #fail(phase: FailurePhase, message: string): void {
    const failure = new PluginFailure(phase, message);
    this.options.report(phase, message);
    this.#close();
    if (this.#isDrawn) this.options.closed(failure);
    else this.#settled.reject(failure);
  }

  #close(): void {
    clearInterval(this.#timer);
    this.#abort.abort();
    this.#channel.port1.close();
    this.#element.remove();
  }

  #take(message: FromFrame): void {
    if (this.#abort.signal.aborted) return;
    if (!this.#messages.admit(performance.now())) return this.#fail('late', t('flooded'));
    this.#heard = performance.now();
    switch (message.kind) {
      case 'drawn':
        this.#isDrawn = true;
        return this.#settled.resolve();
      case 'failed':
        this.#close();
        return this.#settled.reject(PluginFailure.received(message.phase, message.message, message.technical));
      case 'height':
        this.#element.style.height = `${Math.min(Math.max(Math.ceil(Number(message.pixels) || 0), 1), MAX_HEIGHT)}px`;
        return;
      case 'late':
        this.options.report('late', String(message.message));
        return this.options.late(String(message.message));
      case 'touched':
        return this.options.touched();
      case 'toast':
        return this.#facade.showToast(String(message.message));
      case 'request':
        return void this.#request(message.id, (signal) => this.#facade.apiRequest(message.path, { method: message.method, body: message.body, signal }));
      case 'picture':
        return void this.#request(message.id, () => this.options.page.picture(String(message.address)));
      case 'abort':
        return this.#requests.get(message.id)?.abort();
    }
  }

  async #request(id: number, work: (signal: AbortSignal) => Promise<unknown>): Promise<void> {
    const abort = new AbortController();
    this.#requests.set(id, abort);
    try {
      this.#send({ kind: 'answer', id, value: await work(abort.signal) });
    } catch (thrown) {
      const { message, status, code, detail, request_id } = asApiError(thrown);
      this.#send({ kind: 'refusal', id, error: { message, status, code, detail, request_id } });
    } finally {
      this.#requests.delete(id);
    }
  }
}
