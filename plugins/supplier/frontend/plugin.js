// @ts-check
/**
 * The card tab of the plugin `supplier`: what suppliers say about this product, and a form to ask another. Its page is in
 * feeds.js.
 * Plain JavaScript, no build step; the comments in JSDoc let an editor check it.
 *
 * @typedef {import('../../../frontend/plugin-host.d.ts').PluginHost} PluginHost
 * @typedef {import('../../../frontend/plugin-host.d.ts').Card} Card
 * @typedef {import('../../../frontend/plugin-host.d.ts').SourceEntry} SourceEntry
 *
 * @typedef {object} Product What the backend answers, and what a source of kind `supplier` holds.
 * @property {string | null} [title]
 * @property {string | null} [brand]
 * @property {string | null} [sku]
 * @property {string | null} [gtin]
 * @property {string | null} [description]
 * @property {string | null} [price] A decimal string.
 * @property {string | null} [currency]
 * @property {string | null} [availability] The schema.org name, `InStock`.
 * @property {string[]} [images]
 * @property {string} [url]
 * @property {string} [fetched_at]
 */

import { FEED_STYLES, drawFeeds } from './feeds.js';

const KIND = 'supplier';
const TAB = 'supplier';
const PAGE = 'supplier-feeds';

const ENGLISH = {
  noCard: 'There is no product to show: open a card first.',
  address: 'Address of a supplier’s product page',
  preview: 'Preview',
  enrich: 'Enrich',
  sources: 'What suppliers say',
  noAddress: 'Enter the address of a page first.',
  notKept: 'Preview, not kept yet',
  kept: 'The card now holds what this page says.',
  noSource: 'No supplier is known for this product yet.',
  brand: 'Brand',
  sku: 'SKU',
  availability: 'Availability',
  read: 'Read',
  noTitle: 'Without a title',
  description: 'Description',
  open: 'Open the supplier’s page',
  product: 'Product',
  image: (/** @type {string} */ name, /** @type {number} */ n, /** @type {number} */ of) => `${name}, image ${n} of ${of}`,
  reading: 'Reading the page…',
  failed: 'The page could not be read.',
  /** Of the names of schema.org; others are shown as they are. */
  availabilities: /** @type {Record<string, string>} */ ({}),
};

/** @type {typeof ENGLISH} */
const RUSSIAN = {
  noCard: 'Нечего показать: сначала откройте карточку.',
  address: 'Адрес страницы товара у поставщика',
  preview: 'Просмотр',
  enrich: 'Обогатить',
  sources: 'Что говорят поставщики',
  noAddress: 'Сначала введите адрес страницы.',
  notKept: 'Просмотр, ещё не сохранено',
  kept: 'Данные этой страницы сохранены в карточке.',
  noSource: 'Поставщики этого товара пока неизвестны.',
  brand: 'Бренд',
  sku: 'Артикул',
  availability: 'Наличие',
  read: 'Прочитано',
  noTitle: 'Без названия',
  description: 'Описание',
  open: 'Открыть страницу поставщика',
  product: 'Товар',
  image: (name, n, of) => `${name}, изображение ${n} из ${of}`,
  reading: 'Страница читается…',
  failed: 'Страницу не удалось прочитать.',
  availabilities: {
    BackOrder: 'Под заказ',
    Discontinued: 'Снято с производства',
    InStock: 'В наличии',
    InStoreOnly: 'Только в магазине',
    LimitedAvailability: 'Осталось мало',
    MadeToOrder: 'Изготавливается на заказ',
    OnlineOnly: 'Только онлайн',
    OutOfStock: 'Нет в наличии',
    PreOrder: 'Предзаказ',
    PreSale: 'Предпродажа',
    Reserved: 'Зарезервировано',
    SoldOut: 'Распродано',
  },
};

/** @param {PluginHost} host */
export function activate(host) {
  host.css?.(STYLES + FEED_STYLES);
  host.registerPageRenderer?.(PAGE, (container, _, { signal }) => drawFeeds(host, container, signal));
  const texts = host.getState().locale.startsWith('ru') ? RUSSIAN : ENGLISH;
  host.registerCardTabRenderer(TAB, (container, { item }, { signal, onCardChanged }) => {
    if (!item) {
      container.innerHTML = `<p class="empty">${texts.noCard}</p>`;
      return;
    }
    const tab = new SupplierTab(host, container, item, signal, texts);
    tab.draw();
    // Others enrich the card too. What is typed and previewed stays.
    onCardChanged?.(({ item: now }) => {
      if (!now) return;
      tab.card = now;
      tab.drawSources();
    });
  });
}

class SupplierTab {
  /**
   * @param {PluginHost} host
   * @param {HTMLElement} container
   * @param {Card} card
   * @param {AbortSignal} signal Aborted when the tab is left.
   * @param {typeof ENGLISH} texts
   */
  constructor(host, container, card, signal, texts) {
    this.host = host;
    this.container = container;
    this.card = card;
    this.signal = signal;
    this.texts = texts;
  }

  draw() {
    const { texts } = this;
    this.container.innerHTML = `
      <form class="ask" novalidate>
        <label for="url">${texts.address}</label>
        <div class="line">
          <input id="url" name="url" type="url" placeholder="https://" maxlength="2048" required
                 autocomplete="off" spellcheck="false" aria-describedby="problem">
          <button type="submit" value="preview">${texts.preview}</button>
          <button type="submit" value="enrich" class="primary">${texts.enrich}</button>
        </div>
        <p id="problem" class="problem" role="alert"></p>
      </form>
      <p class="progress" role="status"></p>
      <div class="preview"></div>
      <section class="sources" aria-label="${texts.sources}"></section>`;
    this.form = this.find('form', HTMLFormElement);
    this.field = this.find('input', HTMLInputElement);
    this.form.addEventListener('submit', (event) => {
      event.preventDefault();
      const button = /** @type {HTMLButtonElement | null} */ (event.submitter);
      void this.submit(button?.value === 'enrich' ? 'enrich' : 'preview');
    });
    // An image that its shop no longer has leaves no broken frame. (`error` does not bubble: hence capture.)
    this.container.addEventListener('error', hideBrokenImage, { capture: true, signal: this.signal });
    this.drawSources();
  }

  /** @param {'preview' | 'enrich'} action */
  async submit(action) {
    const url = this.field?.value.trim() ?? '';
    if (!url) return this.showProblem(this.texts.noAddress);
    this.showProblem('');
    this.setBusy(true);
    try {
      if (action === 'enrich') await this.enrich(url);
      else await this.preview(url);
    } catch (error) {
      if (!this.signal.aborted) this.showProblem(detailOf(error) ?? this.texts.failed);
    } finally {
      this.setBusy(false);
    }
  }

  /** @param {string} url */
  async preview(url) {
    const path = `/plugins/supplier/preview?url=${encodeURIComponent(url)}`;
    const { product } = await this.host.apiRequest(path, { signal: this.signal });
    this.find('.preview').innerHTML = this.productHtml(product, this.texts.notKept);
  }

  /** @param {string} url */
  async enrich(url) {
    const path = '/plugins/supplier/process';
    await this.host.apiRequest(path, { method: 'POST', body: { card_id: this.card.id, url }, signal: this.signal });
    this.host.showToast(this.texts.kept);
    this.find('.preview').replaceChildren();
    const { item } = await this.host.apiRequest(`/master-cards/${this.card.id}`, { signal: this.signal });
    this.card = item;
    this.drawSources();
  }

  /** Any plugin's sources of our kind: that is how plugins share data. */
  drawSources() {
    const sources = Object.entries(this.card.attributes?.sources ?? {}).filter(([, source]) => source.kind === KIND);
    sources.sort(([, a], [, b]) => (b.updated_at ?? '').localeCompare(a.updated_at ?? ''));
    this.find('.sources').innerHTML = sources.length
      ? sources.map(([key, source]) => this.productHtml(/** @type {Product} */ (source.data), supplierOf(key))).join('')
      : `<p class="empty">${this.texts.noSource}</p>`;
  }

  /**
   * @param {Product | null | undefined} data Of a page or of another plugin: nothing in it is to be trusted.
   * @param {string} heading
   */
  productHtml(data, heading) {
    const { esc, formatDate, formatMoney } = this.host;
    const { texts } = this;
    const product = data ?? {};
    const link = webAddress(product.url);
    const facts = [
      [texts.brand, product.brand],
      [texts.sku, product.sku],
      ['GTIN', product.gtin],
      [texts.availability, this.availability(product)],
      [texts.read, product.fetched_at && formatDate(product.fetched_at)],
    ];
    return `
      <article class="product">
        <header>
          <h3>${esc(heading)}</h3>
          ${product.price ? `<p class="price">${esc(formatMoney(product.price, product.currency))}</p>` : ''}
        </header>
        <p class="title">${esc(product.title ?? texts.noTitle)}</p>
        ${this.imagesHtml(product)}
        <dl>${facts
          .filter(([, value]) => value)
          .map(([name, value]) => `<div><dt>${name}</dt><dd>${esc(value)}</dd></div>`)
          .join('')}</dl>
        ${product.description ? `<details><summary>${texts.description}</summary><p>${esc(product.description)}</p></details>` : ''}
        ${link ? `<a href="${esc(link)}" target="_blank" rel="noopener noreferrer">${texts.open}</a>` : ''}
      </article>`;
  }

  /** @param {Product} product */
  availability({ availability }) {
    const name = String(availability ?? '');
    return Object.hasOwn(this.texts.availabilities, name) ? this.texts.availabilities[name] : words(name);
  }

  /** @param {Product} product */
  imagesHtml(product) {
    const images = (Array.isArray(product.images) ? product.images : []).map(webAddress).filter(Boolean);
    if (!images.length) return '';
    const { esc } = this.host;
    const name = product.title ?? this.texts.product;
    const items = images.map(
      (image, n) => `
        <li><a href="${esc(image)}" target="_blank" rel="noopener noreferrer"><img src="${esc(image)}"
          alt="${esc(this.texts.image(name, n + 1, images.length))}" loading="lazy" referrerpolicy="no-referrer"></a></li>`,
    );
    return `<ul class="images">${items.join('')}</ul>`;
  }

  /** @param {string} text */
  showProblem(text) {
    this.find('.problem').textContent = text;
    this.field?.setAttribute('aria-invalid', String(Boolean(text)));
    if (text) this.field?.focus();
  }

  /** @param {boolean} busy */
  setBusy(busy) {
    this.form?.querySelectorAll('button').forEach((button) => (button.disabled = busy));
    this.find('.progress').textContent = busy ? this.texts.reading : '';
  }

  /**
   * @template {HTMLElement} [E=HTMLElement]
   * @param {string} selector
   * @param {new () => E} [type]
   * @returns {E}
   */
  find(selector, type) {
    const element = this.container.querySelector(selector);
    if (!(element instanceof (type ?? HTMLElement))) throw new Error(`the tab has no ${selector}`);
    return /** @type {E} */ (element);
  }
}

/** @param {unknown} error @returns {string | undefined} */
function detailOf(error) {
  const { detail, message } = /** @type {{ detail?: string, message?: string }} */ (error ?? {});
  return detail || message || undefined;
}

/** `supplier:shop.example` → `shop.example`. @param {string} sourceKey */
function supplierOf(sourceKey) {
  return sourceKey.slice(sourceKey.indexOf(':') + 1);
}

/** `LimitedAvailability` → `Limited availability`. @param {string} name */
function words(name) {
  return name.replace(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

/** The address, when it is one of the web: `javascript:` must never become a link. @param {unknown} address */
function webAddress(address) {
  const text = String(address ?? '');
  return /^https?:\/\//i.test(text) ? text : null;
}

/** @param {Event} event */
function hideBrokenImage(event) {
  if (event.target instanceof HTMLImageElement) event.target.closest('li')?.setAttribute('hidden', '');
}

const STYLES = `
  .ask { margin-bottom: var(--space-4); }
  .ask .line { display: flex; flex-wrap: wrap; gap: var(--space-2); margin-top: var(--space-1); }
  .ask input { flex: 1 1 18rem; }
  .problem { color: var(--bad); }
  .problem:not(:empty), .progress:not(:empty) { margin: var(--space-2) 0; }
  .progress, .empty { color: var(--text-quiet); }
  .preview .product { border-style: dashed; background: var(--surface-sunken); }
  .product {
    display: grid; gap: var(--space-3); min-width: 0; margin-bottom: var(--space-4); padding: var(--space-4);
    border: 1px solid var(--line); border-radius: var(--radius);
  }
  .product header { display: flex; flex-wrap: wrap; justify-content: space-between; gap: var(--space-2); }
  .product .price { font-size: var(--size-large); font-weight: 650; font-variant-numeric: tabular-nums; }
  .product .title { font-weight: 550; }
  .product dl { display: flex; flex-wrap: wrap; gap: var(--space-2) var(--space-5); }
  .product summary { cursor: pointer; }
  .product details p { margin-top: var(--space-2); white-space: pre-line; }
  .images { display: grid; grid-template-columns: repeat(auto-fill, minmax(7rem, 1fr)); gap: var(--space-2); margin: 0; padding: 0; list-style: none; }
  .images a { display: block; border-radius: var(--radius-small); }
  .images img {
    display: block; width: 100%; aspect-ratio: 1; object-fit: contain;
    border: 1px solid var(--line); border-radius: var(--radius-small); background: #fff;
  }
`;
