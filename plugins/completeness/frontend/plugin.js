// @ts-check
/**
 * The card tab of the plugin `completeness`: the card's score, rule by rule, and which cards need work most.
 * Plain JavaScript, no build step. Texts of others are only ever put in as text.
 *
 * @typedef {import('../../../frontend/plugin-host.d.ts').PluginHost} PluginHost
 *
 * @typedef {{ rule: string, text: string, found: number, wanted: number, weight: number, is_met: boolean }} Check
 * @typedef {{ card_id: string, score: number, missing: string[], checks: Check[] }} CardScore
 * @typedef {{ card_id: string, title: string, sku: string, score: number, missing: string[] }} WorstCard
 * @typedef {{ cards: number, complete: number, average: number | null, tenths: number[],
 *   missing: { rule: string, cards: number }[],
 *   walk: { is_running: boolean, done: number, total: number | null } }} Summary
 */

const TAB = 'completeness';
/** Cards in a page of the list. */
const PAGE = 10;

const ENGLISH = {
  noCard: 'There is no product to show: open a card first.',
  score: 'Completeness',
  of100: 'of 100',
  complete: 'Nothing is missing.',
  lacking: (/** @type {number} */ n) => `${n} missing`,
  rules: 'What this card needs',
  met: 'Present',
  missing: 'Missing',
  rule: (/** @type {Check} */ { rule, found, wanted }) => {
    const [kind, name] = parts(rule);
    if (kind === 'attribute') return `Attribute “${name}”`;
    if (kind === 'kind') return `Data of kind “${name}”`;
    if (kind === 'description') return `Description: ${found > wanted ? found : `${found} of ${wanted}`} characters`;
    if (kind === 'pictures') return `Pictures: ${found > wanted ? found : `${found} of ${wanted}`}`;
    return rule;
  },
  lacks: (/** @type {string} */ rule) => {
    const [kind, name] = parts(rule);
    return kind === 'attribute' || kind === 'kind' ? name : kind;
  },
  catalogue: 'The whole catalogue',
  cards: 'Cards',
  average: 'Average',
  completeCards: 'Complete',
  mostly: 'Missing most often',
  worst: 'Cards that lack the most',
  title: 'Title',
  lacksHead: 'Lacks',
  scoreHead: 'Score',
  more: 'Show more',
  again: 'Look at all cards anew',
  begun: 'The cards are being looked at anew.',
  walking: (/** @type {string} */ done, /** @type {string | null} */ total) => `Looking at all cards: ${done}${total ? ` of ${total}` : ''}`,
  nothing: 'No card lacks anything.',
  failed: 'The answer did not come.',
};

/** @type {typeof ENGLISH} */
const RUSSIAN = {
  noCard: 'Нечего показать: сначала откройте карточку.',
  score: 'Полнота',
  of100: 'из 100',
  complete: 'Всё на месте.',
  lacking: (n) => `Не хватает: ${n}.`,
  rules: 'Что нужно этой карточке',
  met: 'Есть',
  missing: 'Нет',
  rule: ({ rule, found, wanted }) => {
    const [kind, name] = parts(rule);
    if (kind === 'attribute') return `Атрибут «${name}»`;
    if (kind === 'kind') return `Данные вида «${name}»`;
    if (kind === 'description') return `Описание: знаков ${found > wanted ? found : `${found} из ${wanted}`}`;
    if (kind === 'pictures') return `Изображения: ${found > wanted ? found : `${found} из ${wanted}`}`;
    return rule;
  },
  lacks: (rule) => {
    const [kind, name] = parts(rule);
    if (kind === 'description') return 'описание';
    if (kind === 'pictures') return 'изображения';
    return name || rule;
  },
  catalogue: 'Весь каталог',
  cards: 'Карточки',
  average: 'В среднем',
  completeCards: 'Полные',
  mostly: 'Чаще всего не хватает',
  worst: 'Самые неполные карточки',
  title: 'Название',
  lacksHead: 'Не хватает',
  scoreHead: 'Балл',
  more: 'Показать ещё',
  again: 'Проверить все карточки заново',
  begun: 'Карточки проверяются заново.',
  walking: (done, total) => `Проверка карточек: ${done}${total ? ` из ${total}` : ''}`,
  nothing: 'Все карточки полны.',
  failed: 'Ответ не пришёл.',
};

/** `attribute:brand` → `['attribute', 'brand']`. @param {string} rule */
function parts(rule) {
  const at = rule.indexOf(':');
  return at < 0 ? [rule, ''] : [rule.slice(0, at), rule.slice(at + 1)];
}

/** @param {PluginHost} host */
export function activate(host) {
  host.css?.(STYLES);
  host.registerCardTabRenderer(TAB, async (container, { item }, { signal, onCardChanged }) => {
    const words = host.getState().locale.startsWith('ru') ? RUSSIAN : ENGLISH;
    if (!item) {
      container.replaceChildren(element('p', { className: 'quiet', textContent: words.noCard }));
      return;
    }
    const tab = new CompletenessTab(host, container, item.id, words, signal);
    onCardChanged?.(() => void tab.refresh());
    await tab.refresh();
  });
}

class CompletenessTab {
  /**
   * @param {PluginHost} host
   * @param {HTMLElement} container
   * @param {string} cardId
   * @param {typeof ENGLISH} words
   * @param {AbortSignal} signal Aborted when the tab is left.
   */
  constructor(host, container, cardId, words, signal) {
    this.host = host;
    this.words = words;
    this.cardId = cardId;
    this.signal = signal;
    /** Number of the latest request for the score; an earlier one is out of date. */
    this.turn = 0;
    const format = new Intl.NumberFormat(host.getState().locale);
    this.count = (/** @type {number} */ n) => format.format(n);
    this.problem = element('p', { className: 'problem', role: 'alert' });
    this.card = element('section', { ariaLabel: words.score });
    this.catalogue = element('div', { className: 'catalogue' });
    const details = element('details', {}, [element('summary', { textContent: words.catalogue }), this.catalogue]);
    details.addEventListener('toggle', () => details.open && void this.attempt(() => this.drawCatalogue()));
    container.replaceChildren(this.problem, this.card, details);
  }

  async refresh() {
    const turn = ++this.turn;
    const isLatest = () => turn === this.turn;
    await this.attempt(async () => {
      const score = await this.ask(`/cards/${this.cardId}`);
      if (isLatest()) this.drawCard(score);
    }, isLatest);
  }

  /** @param {string} path @param {string} [method] @returns {Promise<any>} */
  ask(path, method = 'GET') {
    return this.host.apiRequest(`/plugins/completeness${path}`, { method, signal: this.signal });
  }

  /** @param {() => Promise<unknown> | unknown} work @param {() => boolean} [isLatest] */
  async attempt(work, isLatest = () => true) {
    try {
      await work();
      if (isLatest()) this.problem.textContent = '';
    } catch (error) {
      const { detail, message } = /** @type {{ detail?: string, message?: string }} */ (error ?? {});
      if (!this.signal.aborted && isLatest()) this.problem.textContent = detail || message || this.words.failed;
    }
  }

  /** @param {CardScore} score */
  drawCard({ score, missing, checks }) {
    const { words } = this;
    const sorted = [...checks].sort((a, b) => Number(a.is_met) - Number(b.is_met) || b.weight - a.weight);
    this.card.replaceChildren(
      element('div', { className: 'score' }, [
        element('p', { className: 'figure' }, [element('strong', { textContent: String(score) }), ` ${words.of100}`]),
        meter(score, 100, words.score),
        element('p', { className: 'quiet', textContent: missing.length ? words.lacking(missing.length) : words.complete }),
      ]),
      element('h3', { textContent: words.rules }),
      element('ul', { className: 'rules' }, sorted.map((check) => this.ruleItem(check))),
    );
  }

  /** @param {Check} check */
  ruleItem(check) {
    const { words } = this;
    const state = check.is_met ? words.met : words.missing;
    return element('li', { className: check.is_met ? 'met' : 'missing' }, [
      element('span', { className: 'sign', textContent: check.is_met ? '✓' : '✗', ariaHidden: 'true' }),
      element('span', { className: 'rule', textContent: words.rule(check) }),
      ...(!check.is_met && check.wanted > 1 ? [meter(check.found, check.wanted, words.rule(check))] : []),
      element('span', { className: 'state', textContent: state }),
    ]);
  }

  async drawCatalogue() {
    const { count, words } = this;
    /** @type {[Summary, { items: WorstCard[], next_cursor: string | null }]} */
    const [summary, page] = await Promise.all([this.ask('/summary'), this.ask(`/worst?limit=${PAGE}`)]);
    const { is_running: isWalking, done, total } = summary.walk;
    const figures = [
      [words.cards, count(summary.cards)],
      [words.average, summary.average === null ? '–' : String(summary.average)],
      [words.completeCards, count(summary.complete)],
    ];
    const again = element('button', { type: 'button', textContent: words.again });
    again.addEventListener('click', () => void this.attempt(() => this.lookAgain()));
    this.catalogue.replaceChildren(
      element('dl', { className: 'figures' }, figures.map(([name, value]) =>
        element('div', {}, [element('dt', { textContent: name }), element('dd', { textContent: value })]))),
      ...(isWalking
        ? [element('p', { className: 'quiet', role: 'status', textContent: words.walking(count(done), total ? count(total) : null) })]
        : []),
      ...(summary.missing.length ? [element('h3', { textContent: words.mostly }), this.mostMissing(summary)] : []),
      element('h3', { textContent: words.worst }),
      ...this.worstTable(page),
      element('p', {}, [again]),
    );
  }

  /** @param {Summary} summary */
  mostMissing(summary) {
    const items = summary.missing.slice(0, 5).map(({ rule, cards }) =>
      element('li', {}, [
        element('span', { className: 'rule', textContent: this.words.lacks(rule) }),
        meter(cards, summary.cards, this.words.lacks(rule)),
        element('span', { className: 'number', textContent: this.count(cards) }),
      ]),
    );
    return element('ul', { className: 'most' }, items);
  }

  /** @param {{ items: WorstCard[], next_cursor: string | null }} first */
  worstTable(first) {
    const { words } = this;
    if (!first.items.length) return [element('p', { className: 'quiet', textContent: words.nothing })];
    const heads = [words.title, words.lacksHead, words.scoreHead].map((text) => element('th', { scope: 'col', textContent: text }));
    const body = element('tbody');
    const more = element('button', { type: 'button', textContent: words.more });
    let cursor = /** @type {string | null} */ (null);
    const add = (/** @type {typeof first} */ page) => {
      body.append(...page.items.map((card) => this.worstRow(card)));
      cursor = page.next_cursor;
      more.hidden = !cursor;
    };
    more.addEventListener('click', () => void this.attempt(async () => {
      const rows = body.rows.length;
      add(await this.ask(`/worst?limit=${PAGE}&cursor=${encodeURIComponent(cursor ?? '')}`));
      // The button may be gone: who pressed it goes on at what is new.
      if (more.hidden) body.rows[rows]?.querySelector('a')?.focus();
    }));
    add(first);
    const table = element('table', {}, [element('thead', {}, [element('tr', {}, heads)]), body]);
    return [element('div', { className: 'scroll' }, [table]), element('p', {}, [more])];
  }

  /** @param {WorstCard} card */
  worstRow(card) {
    const link = element('a', { href: `/admin/cards/${card.card_id}`, textContent: card.title });
    return element('tr', {}, [
      element('td', {}, [link, element('span', { className: 'quiet sku', textContent: card.sku })]),
      element('td', { textContent: card.missing.map((rule) => this.words.lacks(rule)).join(', ') }),
      element('td', { className: 'number', textContent: String(card.score) }),
    ]);
  }

  async lookAgain() {
    await this.ask('/recompute', 'POST');
    this.host.showToast(this.words.begun);
    await this.drawCatalogue();
  }
}

/** A bar; its words stand beside it. @param {number} value @param {number} max @param {string} label */
function meter(value, max, label) {
  return element('meter', { min: 0, max: Math.max(max, 1), value: Math.min(value, max), ariaLabel: label });
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

const STYLES = `
  .quiet { color: var(--text-quiet); }
  .problem { color: var(--bad); }
  .problem:empty { display: none; }
  h3 { margin: var(--space-4) 0 var(--space-2); font-size: var(--size); }
  .score { display: grid; gap: var(--space-2); max-width: 30rem; }
  .figure { color: var(--text-quiet); }
  .figure strong { color: var(--text); font-size: 2rem; line-height: 1; font-variant-numeric: tabular-nums; }
  meter { appearance: none; display: block; width: 100%; height: 0.5rem; border: 0; border-radius: 0.25rem; background: none; }
  meter::-webkit-meter-inner-element { display: block; }
  meter::-webkit-meter-bar { height: 0.5rem; border: 0; border-radius: 0.25rem; background: var(--line); }
  meter::-webkit-meter-optimum-value { border-radius: 0.25rem; background: var(--accent-mark, var(--accent)); }
  meter::-moz-meter-bar { border-radius: 0.25rem; background: var(--accent-mark, var(--accent)); }
  .rules, .most { display: grid; max-width: 42rem; margin: 0; padding: 0; list-style: none; }
  .rules li, .most li { display: flex; align-items: center; gap: var(--space-3); padding: var(--space-2) 0; border-bottom: 1px solid var(--line); }
  .rules .rule, .most .rule { flex: 1 1 12rem; min-width: 0; overflow-wrap: anywhere; }
  .rules meter, .most meter { flex: 0 1 10rem; min-width: 3rem; }
  .sign { flex: none; width: 1rem; text-align: center; }
  .met .sign, .met .state { color: var(--good); }
  .missing .sign, .missing .state { color: var(--bad); }
  .state { flex: none; width: 4.5rem; text-align: end; font-size: var(--size-small); }
  details { margin-top: var(--space-5); }
  summary { cursor: pointer; font-weight: var(--strong, 600); }
  .figures { display: flex; flex-wrap: wrap; gap: var(--space-3) var(--space-6); margin-top: var(--space-3); }
  .figures dt { color: var(--text-quiet); font-size: var(--size-small); }
  .figures dd { margin: 0; font-size: var(--size-title, 1.25rem); font-variant-numeric: tabular-nums; }
  .number { min-width: 3.5rem; text-align: end; font-variant-numeric: tabular-nums; }
  .scroll { overflow-x: auto; }
  table { width: 100%; border-collapse: collapse; }
  th { color: var(--text-quiet); font-size: var(--size-small); font-weight: var(--regular, 400); text-align: start; }
  th, td { padding: var(--space-2) var(--space-3) var(--space-2) 0; border-bottom: 1px solid var(--line); vertical-align: top; }
  th:last-child { text-align: end; }
  .sku { display: block; font-size: var(--size-small); white-space: nowrap; }
`;
