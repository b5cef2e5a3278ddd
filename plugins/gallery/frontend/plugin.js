// @ts-check
/**
 * The card tab of the plugin `gallery`: the pictures that sources have of this product, and which one is its main one.
 * Plain JavaScript, no build step. Texts of others are only ever put in as text.
 *
 * @typedef {import('../../../frontend/plugin-host.d.ts').PluginHost} PluginHost
 * @typedef {import('../../../frontend/plugin-host.d.ts').Card} Card
 *
 * @typedef {{ url: string, source_keys: string[], is_main: boolean }} Picture
 * @typedef {{ items: Picture[], main: { url: string, is_chosen: boolean, is_gone: boolean } | null }} Pictures
 * @typedef {{ data: string, width: number, height: number }} Thumbnail
 */

const TAB = 'gallery';
/** Thumbnails that are asked for at a time. */
const AT_ONCE = 4;

const ENGLISH = {
  noCard: 'There is no product to show: open a card first.',
  none: 'No source of this product has pictures yet.',
  pictures: 'Pictures',
  count: (/** @type {number} */ n) => (n === 1 ? '1 picture' : `${n} pictures`),
  picture: (/** @type {number} */ n, /** @type {number} */ all) => `Picture ${n} of ${all}`,
  show: 'Show larger',
  main: 'Main picture',
  mainByOrder: 'Main picture, as the first one',
  makeMain: 'Make main picture',
  forget: 'Forget the choice',
  gone: 'The picture that was chosen is no longer in any source.',
  open: 'Open the original',
  chosen: 'This is the main picture now.',
  forgotten: 'The choice is forgotten. The first picture stands for the product.',
  loading: 'Loading…',
  failed: 'The picture cannot be shown.',
};

/** @type {typeof ENGLISH} */
const RUSSIAN = {
  noCard: 'Нечего показать: сначала откройте карточку.',
  none: 'Ни в одном источнике этого товара пока нет изображений.',
  pictures: 'Изображения',
  count: (n) => `Изображений: ${n}`,
  picture: (n, all) => `Изображение ${n} из ${all}`,
  show: 'Показать крупнее',
  main: 'Главное изображение',
  mainByOrder: 'Главное изображение: первое по порядку',
  makeMain: 'Сделать главным',
  forget: 'Отменить выбор',
  gone: 'Выбранного изображения больше нет ни в одном источнике.',
  open: 'Открыть оригинал',
  chosen: 'Теперь это главное изображение.',
  forgotten: 'Выбор отменён. Товар представляет первое изображение.',
  loading: 'Загрузка…',
  failed: 'Изображение не удалось показать.',
};

/** @param {PluginHost} host */
export function activate(host) {
  host.css?.(STYLES);
  host.registerCardTabRenderer(TAB, async (container, { item }, { signal, onCardChanged }) => {
    const words = host.getState().locale.startsWith('ru') ? RUSSIAN : ENGLISH;
    if (!item) {
      container.replaceChildren(element('p', { className: 'empty', textContent: words.noCard }));
      return;
    }
    const tab = new GalleryTab(host, container, item.id, words, signal);
    onCardChanged?.(() => void tab.refresh());
    await tab.refresh();
  });
}

class GalleryTab {
  /**
   * @param {PluginHost} host
   * @param {HTMLElement} container
   * @param {string} cardId
   * @param {typeof ENGLISH} words
   * @param {AbortSignal} signal Aborted when the tab is left.
   */
  constructor(host, container, cardId, words, signal) {
    this.host = host;
    this.container = container;
    this.path = `/plugins/gallery/cards/${cardId}`;
    this.words = words;
    this.signal = signal;
    /** What is drawn, to draw again only what differs. */
    this.drawn = '';
    /** The address of the picture that is shown large. @type {string | null} */
    this.selected = null;
    /** Thumbnails by size and address, each asked for once. @type {Map<string, Promise<Thumbnail>>} */
    this.thumbnails = new Map();
    /** Number of the latest request for the pictures; an earlier one is out of date. */
    this.turn = 0;
    /** Who waits for a turn. @type {(() => void)[]} */
    this.waiting = [];
    this.running = 0;
  }

  async refresh() {
    const turn = ++this.turn;
    try {
      /** @type {Pictures} */
      const pictures = await this.host.apiRequest(this.path, { signal: this.signal });
      if (turn !== this.turn) return;
      const text = JSON.stringify(pictures);
      if (text === this.drawn) return;
      this.drawn = text;
      this.draw(pictures);
    } catch (error) {
      if (this.signal.aborted || turn !== this.turn) return;
      this.drawn = '';
      this.container.replaceChildren(element('p', { className: 'problem', role: 'alert', textContent: detailOf(error, this.words) }));
    }
  }

  /** @param {Pictures} pictures */
  draw({ items, main }) {
    const { words } = this;
    if (!items.length && !main) {
      this.container.replaceChildren(element('p', { className: 'empty', textContent: words.none }));
      return;
    }
    const focused = this.focusedName();
    const urls = items.map(({ url }) => url);
    if (!this.selected || !urls.includes(this.selected)) this.selected = main && !main.is_gone ? main.url : (urls[0] ?? null);
    const stage = element('div', { className: 'stage' });
    const notice = main?.is_gone
      ? [element('p', { className: 'notice' }, [`${words.gone} `, this.button('forget', words.forget, () => this.forget())])]
      : [];
    const tiles = items.map((picture, n) => this.tile(picture, n, items.length, stage, items));
    this.container.replaceChildren(
      ...notice,
      element('div', { className: 'gallery' }, [
        stage,
        element('section', { className: 'side', ariaLabel: words.pictures }, [
          element('p', { className: 'count', textContent: words.count(items.length) }),
          element('ul', { className: 'wall' }, tiles),
        ]),
      ]),
    );
    this.drawStage(stage, items, main);
    if (focused) this.focus(focused);
  }

  /**
   * @param {Picture} picture
   * @param {number} n
   * @param {number} all
   * @param {HTMLElement} stage
   * @param {Picture[]} items
   */
  tile(picture, n, all, stage, items) {
    const { words } = this;
    const image = this.image(picture.url, 160, '');
    const label = `${words.show}: ${words.picture(n + 1, all)}${picture.is_main ? `, ${words.main}` : ''}`;
    const button = this.button(`show:${picture.url}`, '', () => {
      this.selected = picture.url;
      for (const other of this.container.querySelectorAll('.wall button')) other.setAttribute('aria-pressed', String(other === button));
      const main = items.find((item) => item.is_main);
      this.drawStage(stage, items, this.main ?? (main ? { url: main.url, is_chosen: false, is_gone: false } : null));
    });
    button.setAttribute('aria-label', label);
    button.setAttribute('aria-pressed', String(picture.url === this.selected));
    button.append(image);
    if (picture.is_main) button.append(element('span', { className: 'badge', textContent: '★', ariaHidden: 'true' }));
    return element('li', {}, [button]);
  }

  /**
   * The large picture, where it is from, and what can be done with it.
   *
   * @param {HTMLElement} stage
   * @param {Picture[]} items
   * @param {Pictures['main']} main
   */
  drawStage(stage, items, main) {
    const { words } = this;
    this.main = main;
    const n = items.findIndex(({ url }) => url === this.selected);
    const picture = items[n];
    if (!picture) return stage.replaceChildren();
    const size = element('span', { className: 'size' });
    const image = this.image(picture.url, 640, words.picture(n + 1, items.length), ({ width, height }) => {
      size.textContent = `${width} × ${height}`;
    });
    const isChosen = picture.is_main && Boolean(main?.is_chosen);
    const actions = isChosen
      ? [element('span', { className: 'chosen', textContent: `★ ${words.main}` }), this.button('forget', words.forget, () => this.forget())]
      : [
          ...(picture.is_main ? [element('span', { className: 'chosen', textContent: `★ ${words.mainByOrder}` })] : []),
          this.button('choose', words.makeMain, () => this.choose(picture.url), 'primary'),
        ];
    const link = element('a', { href: picture.url, target: '_blank', rel: 'noopener noreferrer', textContent: words.open });
    stage.replaceChildren(
      element('figure', {}, [
        image,
        element('figcaption', {}, [element('span', { textContent: picture.source_keys.map(sourceOf).join(', ') }), size, link]),
      ]),
      element('div', { className: 'actions' }, actions),
      element('p', { className: 'problem', role: 'alert' }),
    );
  }

  /**
   * A frame that the picture comes into.
   *
   * @param {string} url
   * @param {number} size
   * @param {string} alt
   * @param {(thumbnail: Thumbnail) => void} [shown]
   */
  image(url, size, alt, shown) {
    const frame = element('span', { className: 'frame loading' });
    const show = async () => {
      try {
        const thumbnail = await this.thumbnail(url, size);
        const image = element('img', { src: thumbnail.data, alt, width: thumbnail.width, height: thumbnail.height });
        frame.replaceChildren(image);
        shown?.(thumbnail);
      } catch (error) {
        if (this.signal.aborted) return;
        frame.classList.add('failed');
        frame.title = detailOf(error, this.words);
        frame.textContent = size > 160 ? frame.title : '×';
      } finally {
        frame.classList.remove('loading');
      }
    };
    void show();
    return frame;
  }

  /** @param {string} url @param {number} size */
  thumbnail(url, size) {
    const key = `${size} ${url}`;
    const known = this.thumbnails.get(key);
    if (known) return known;
    const asked = this.inTurn(() =>
      this.host.apiRequest(`${this.path}/thumbnail?as=data&size=${size}&url=${encodeURIComponent(url)}`, { signal: this.signal }),
    );
    this.thumbnails.set(key, asked);
    // A failure may pass: the next look asks again.
    asked.catch(() => this.thumbnails.delete(key));
    return asked;
  }

  /**
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  async inTurn(work) {
    if (this.running >= AT_ONCE) await new Promise((resolve) => this.waiting.push(() => resolve(undefined)));
    this.running += 1;
    try {
      return await work();
    } finally {
      this.running -= 1;
      this.waiting.shift()?.();
    }
  }

  /** @param {string} url */
  async choose(url) {
    await this.change({ method: 'PUT', body: { url } }, this.words.chosen);
  }

  async forget() {
    await this.change({ method: 'DELETE' }, this.words.forgotten);
  }

  /** @param {{ method: string, body?: unknown }} request @param {string} done */
  async change(request, done) {
    try {
      await this.host.apiRequest(`${this.path}/main`, { ...request, signal: this.signal });
      this.host.showToast(done);
      await this.refresh();
    } catch (error) {
      if (this.signal.aborted) return;
      const problem = this.container.querySelector('.problem');
      if (problem) problem.textContent = detailOf(error, this.words);
    }
  }

  /** @param {string} name @param {string} label @param {() => unknown} act @param {string} [className] */
  button(name, label, act, className = '') {
    const button = element('button', { type: 'button', className, textContent: label });
    button.dataset.name = name;
    button.addEventListener('click', () => void act());
    return button;
  }

  /** The button that has the focus, so that drawing again takes it from nobody. */
  focusedName() {
    const root = this.container.getRootNode();
    const active = root instanceof ShadowRoot || root instanceof Document ? root.activeElement : null;
    return active instanceof HTMLElement && this.container.contains(active) ? (active.dataset.name ?? '') : '';
  }

  /** @param {string} name */
  focus(name) {
    // A choice that was made has its other button in the same place.
    const names = [name, name === 'choose' ? 'forget' : 'choose'];
    const buttons = [...this.container.querySelectorAll('button')];
    names.map((wanted) => buttons.find((button) => button.dataset.name === wanted)).find(Boolean)?.focus();
  }
}

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Partial<HTMLElementTagNameMap[T]>} [properties]
 * @param {(Node | string)[]} [children]
 * @returns {HTMLElementTagNameMap[T]}
 */
function element(tag, properties = {}, children = []) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** `supplier:shop.example` → `shop.example`. @param {string} sourceKey */
function sourceOf(sourceKey) {
  return sourceKey.slice(sourceKey.indexOf(':') + 1);
}

/** @param {unknown} error @param {typeof ENGLISH} words */
function detailOf(error, words) {
  const { detail, message } = /** @type {{ detail?: string, message?: string }} */ (error ?? {});
  return detail || message || words.failed;
}

const STYLES = `
  .empty, .count, .size { color: var(--text-quiet); }
  .problem { color: var(--bad); }
  .problem:empty { display: none; }
  .notice { margin-bottom: var(--space-3); padding: var(--space-2) var(--space-3); border-radius: var(--radius-small); background: var(--warn-soft); color: var(--warn); }
  .gallery { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: var(--space-5); align-items: start; }
  @media (max-width: 48rem) { .gallery { grid-template-columns: minmax(0, 1fr); } }
  figure { margin: 0; }
  figcaption { display: flex; flex-wrap: wrap; gap: var(--space-1) var(--space-4); margin-top: var(--space-2); font-size: var(--size-small); }
  figcaption > :first-child { overflow-wrap: anywhere; }
  .frame {
    display: grid; place-items: center; overflow: hidden; aspect-ratio: 1; width: 100%;
    border: 1px solid var(--line); border-radius: var(--radius-small); background: #fff; color: var(--text-quiet);
  }
  .stage .frame { aspect-ratio: 4 / 3; border-radius: var(--radius); }
  .frame.loading, .frame.failed { background: var(--surface-sunken); }
  .frame.failed { padding: var(--space-3); text-align: center; }
  .frame img { display: block; width: 100%; height: 100%; object-fit: contain; }
  .actions { display: flex; flex-wrap: wrap; align-items: center; gap: var(--space-2) var(--space-3); margin-top: var(--space-3); }
  .chosen { font-weight: var(--strong, 600); }
  .count { margin-bottom: var(--space-2); font-size: var(--size-small); }
  .wall { display: grid; grid-template-columns: repeat(auto-fill, minmax(6rem, 1fr)); gap: var(--space-2); margin: 0; padding: 0; list-style: none; }
  .wall button { position: relative; display: block; width: 100%; height: auto; padding: 0; border: 0; border-radius: var(--radius-small); background: none; }
  .wall button[aria-pressed='true'] { outline: 2px solid var(--accent-mark, var(--accent)); outline-offset: 1px; }
  .wall button:focus-visible { outline: 2px solid var(--focus); outline-offset: 3px; }
  .badge {
    position: absolute; top: var(--space-1); right: var(--space-1); padding: 0 var(--space-1);
    border-radius: var(--radius-tiny, 4px); background: var(--accent); color: var(--on-accent); font-size: var(--size-tiny, 0.75rem);
  }
`;
