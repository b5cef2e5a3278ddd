// @ts-check
/**
 * The page of the plugin `supplier`: begins its jobs, which go through feeds and sitemaps, and shows how far they are. Texts
 * of others are only ever put in as text.
 *
 * @typedef {import('../../../frontend/plugin-host.d.ts').PluginHost} PluginHost
 *
 * What `/v1/admin/jobs` says of a job; `errors` only of one by itself.
 * @typedef {{ entry?: string, detail: string }} Problem
 * @typedef {{ id: string, args: { url?: string }, state: string, total: number | null, done: number, failed: number,
 *   message: string | null, reason: string | null, started_by: { name: string | null }, created_at: string,
 *   finished_at: string | null, errors?: Problem[] }} Run
 * @typedef {{ items: Run[], next_cursor: string | null }} RunList
 */

const FEEDS = '/plugins/supplier/feeds';
const JOBS = '/jobs';
/** Jobs in a page of the list. */
const PAGE = 20;
/** Milliseconds between two looks: while a run is under way, and while none is, as others may begin one. */
const LOOK = 1_500;
const LOOK_IDLE = 15_000;

const ENGLISH = {
  address: 'Address of a feed or sitemap',
  hint: 'CSV, XML, JSON or a sitemap. Updates cards whose SKU is in the feed. Never creates cards.',
  start: 'Start',
  cancel: 'Cancel',
  cancelRun: (/** @type {string} */ url) => `Cancel ${url}`,
  noAddress: 'Enter the address of a feed first.',
  begun: 'The feed is being gone through.',
  runs: 'Runs',
  none: 'No runs yet.',
  more: 'Show older ones',
  progress: (/** @type {string} */ done, /** @type {string | null} */ total) =>
    total === null ? 'Reading…' : `${done} of ${total} entries`,
  failed: 'Failed',
  startedBy: 'Started by',
  startedAt: 'Started',
  finishedAt: 'Ended',
  problems: (/** @type {string} */ n) => (n === '1' ? '1 problem' : `${n} problems`),
  others: (/** @type {string} */ n) => `Further entries that failed and are not listed: ${n}`,
  states: /** @type {Record<string, string>} */ ({
    queued: 'Waiting',
    running: 'Running',
    done: 'Done',
    failed: 'Failed',
    cancelled: 'Cancelled',
    interrupted: 'Interrupted',
  }),
  noAnswer: 'The answer did not come.',
};

/** @type {typeof ENGLISH} */
const RUSSIAN = {
  address: 'Адрес фида или карты сайта',
  hint: 'CSV, XML, JSON или карта сайта. Обновляет карточки с теми же артикулами. Новых не создаёт.',
  start: 'Запустить',
  cancel: 'Остановить',
  cancelRun: (url) => `Остановить ${url}`,
  noAddress: 'Сначала введите адрес фида.',
  begun: 'Фид обрабатывается.',
  runs: 'Запуски',
  none: 'Фиды ещё не обрабатывались.',
  more: 'Показать более ранние',
  progress: (done, total) => (total === null ? 'Чтение…' : `Записей: ${done} из ${total}`),
  failed: 'С ошибкой',
  startedBy: 'Запустил',
  startedAt: 'Начало',
  finishedAt: 'Конец',
  problems: (n) => `Ошибки: ${n}`,
  others: (n) => `Ещё записей с ошибкой, которых нет в списке: ${n}`,
  states: {
    queued: 'В очереди',
    running: 'Выполняется',
    done: 'Готово',
    failed: 'Ошибка',
    cancelled: 'Остановлено',
    interrupted: 'Прервано',
  },
  noAnswer: 'Ответ не пришёл.',
};

/** @param {PluginHost} host @param {HTMLElement} container @param {AbortSignal} signal */
export function drawFeeds(host, container, signal) {
  const texts = host.getState().locale.startsWith('ru') ? RUSSIAN : ENGLISH;
  return new FeedsPage(host, container, texts, signal).begin();
}

class FeedsPage {
  /**
   * @param {PluginHost} host
   * @param {HTMLElement} container
   * @param {typeof ENGLISH} texts
   * @param {AbortSignal} signal Aborted when the page is left.
   */
  constructor(host, container, texts, signal) {
    this.host = host;
    this.texts = texts;
    const format = new Intl.NumberFormat(host.getState().locale);
    this.count = (/** @type {number} */ n) => format.format(n);
    this.signal = signal;
    /** @type {Map<string, RunItem>} */
    this.runs = new Map();
    /** @type {string | null} */
    this.cursor = null;
    this.field = element('input', { id: 'feed', name: 'url', type: 'url', placeholder: 'https://', maxLength: 2048, autocomplete: 'off', spellcheck: false });
    this.field.setAttribute('aria-describedby', 'hint problem');
    this.problem = element('p', { id: 'problem', className: 'problem', role: 'alert' });
    this.empty = element('p', { className: 'empty', textContent: texts.none, hidden: true });
    this.list = element('ul', { className: 'runs' });
    this.more = element('button', { type: 'button', textContent: texts.more, hidden: true });
    this.more.addEventListener('click', () => void this.attempt(() => this.showOlder()));
    container.replaceChildren(this.form(), element('h2', { textContent: texts.runs }), this.empty, this.list, this.more);
  }

  form() {
    const { texts } = this;
    const form = element('form', { className: 'ask', noValidate: true }, [
      element('label', { htmlFor: 'feed', textContent: texts.address }),
      element('div', { className: 'line' }, [this.field, element('button', { className: 'primary', textContent: texts.start })]),
      element('p', { id: 'hint', className: 'empty', textContent: texts.hint }),
      this.problem,
    ]);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.attempt(() => this.start());
    });
    return form;
  }

  /** Shows the newest runs, and keeps looking until the page is left. */
  async begin() {
    await this.attempt(async () => this.show(await this.read(), true));
    this.lookLater();
  }

  lookLater() {
    clearTimeout(this.timer);
    const isRunning = [...this.runs.values()].some(({ run }) => isUnderWay(run));
    const timer = setTimeout(() => void this.look(), isRunning ? LOOK : LOOK_IDLE);
    this.signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
    this.timer = timer;
  }

  async look() {
    try {
      this.show(await this.read());
    } catch {
      // The next look may succeed; what is shown stays until then.
    }
    if (!this.signal.aborted) this.lookLater();
  }

  lookNow() {
    clearTimeout(this.timer);
    return this.look();
  }

  /** @param {string} [query] @returns {Promise<RunList>} */
  read(query = '') {
    return this.host.apiRequest(`${JOBS}?plugin=supplier&limit=${PAGE}${query}`, { signal: this.signal });
  }

  async start() {
    const url = this.field.value.trim();
    if (!url) {
      this.showProblem(this.texts.noAddress);
      this.field.focus();
      return;
    }
    await this.host.apiRequest(FEEDS, { method: 'POST', body: { url }, signal: this.signal });
    // Another address may have been typed meanwhile.
    if (this.field.value.trim() === url) this.field.value = '';
    this.host.showToast(this.texts.begun);
    await this.lookNow();
  }

  /** @param {string} id */
  async cancel(id) {
    await this.host.apiRequest(`${JOBS}/${id}/cancel`, { method: 'POST', signal: this.signal });
    await this.lookNow();
  }

  /** The entries of a job that failed. @param {string} id @returns {Promise<Problem[]>} */
  async problems(id) {
    const { item } = await this.host.apiRequest(`${JOBS}/${id}`, { signal: this.signal });
    return item.errors ?? [];
  }

  async showOlder() {
    if (this.cursor) this.show(await this.read(`&cursor=${encodeURIComponent(this.cursor)}`), true);
  }

  /**
   * Adds runs, or says anew of those that are shown how far they are: what is open or has the focus stays.
   * @param {RunList} list
   * @param {boolean} [isLast] The oldest so far: older ones follow from here.
   */
  show({ items, next_cursor }, isLast = false) {
    for (const run of items) {
      const known = this.runs.get(run.id);
      if (known) known.update(run);
      else this.add(run);
    }
    if (isLast) {
      this.cursor = next_cursor;
      this.more.hidden = !next_cursor;
    }
    this.empty.hidden = this.runs.size > 0;
  }

  /** @param {Run} run */
  add(run) {
    const item = new RunItem(this, run);
    // Ids are in the order of their time.
    const older = [...this.runs.values()].filter((other) => other.run.id < run.id);
    older.sort((a, b) => (a.run.id < b.run.id ? 1 : -1));
    this.list.insertBefore(item.root, older[0]?.root ?? null);
    this.runs.set(run.id, item);
  }

  /** @param {() => Promise<void>} work */
  async attempt(work) {
    try {
      this.showProblem('');
      await work();
    } catch (error) {
      const { detail, message } = /** @type {{ detail?: string, message?: string }} */ (error ?? {});
      if (!this.signal.aborted) this.showProblem(detail || message || this.texts.noAnswer);
    }
  }

  /** @param {string} text */
  showProblem(text) {
    this.problem.textContent = text;
    this.field.setAttribute('aria-invalid', String(Boolean(text)));
  }
}

/** @param {Run} run */
const isUnderWay = (run) => run.state === 'running' || run.state === 'queued';

/** A job in the list. */
class RunItem {
  /** @param {FeedsPage} page @param {Run} run */
  constructor(page, run) {
    this.page = page;
    this.run = run;
    const { texts } = page;
    const url = run.args.url ?? '';
    this.state = element('span', { className: 'state', role: 'status' });
    this.progress = element('progress', { ariaLabel: url });
    this.reached = element('p', { className: 'reached' });
    this.cancel = element('button', { type: 'button', textContent: texts.cancel, ariaLabel: texts.cancelRun(url) });
    this.cancel.addEventListener('click', () => void page.attempt(() => page.cancel(run.id)));
    this.underWay = element('div', { className: 'under-way' }, [this.progress, this.reached, this.cancel]);
    this.message = element('p');
    this.reason = element('p', { className: 'problem' });
    this.facts = element('dl');
    this.problemCount = element('summary');
    this.problems = element('ul', { className: 'problems' });
    this.details = element('details', {}, [this.problemCount, this.problems]);
    this.details.addEventListener('toggle', () => void page.attempt(() => this.drawProblems()));
    this.root = element('li', { className: 'run' }, [
      element('div', { className: 'head' }, [element('span', { className: 'url', textContent: url }), this.state]),
      this.underWay,
      this.message,
      this.reason,
      this.facts,
      this.details,
    ]);
    this.draw();
  }

  /** @param {Run} run */
  update(run) {
    const isSame = JSON.stringify(run) === JSON.stringify(this.run);
    this.run = run;
    if (isSame) return;
    this.draw();
    void this.page.attempt(() => this.drawProblems());
  }

  draw() {
    const { run } = this;
    const { count, texts } = this.page;
    // Only a change is read out.
    const state = texts.states[run.state] ?? run.state;
    if (this.state.textContent !== state) this.state.textContent = state;
    this.root.dataset.state = run.state;
    this.progress.hidden = !isUnderWay(run);
    if (run.total === null) this.progress.removeAttribute('value');
    else Object.assign(this.progress, { max: Math.max(run.total, 1), value: run.done });
    const total = run.total === null ? null : count(run.total);
    this.reached.textContent = isUnderWay(run) || total !== null ? texts.progress(count(run.done), total) : '';
    this.cancel.hidden = !isUnderWay(run);
    this.underWay.hidden = !isUnderWay(run) && run.total === null;
    this.message.textContent = run.message;
    this.message.hidden = run.total === null || !run.message;
    this.reason.textContent = run.reason;
    this.reason.hidden = !run.reason;
    this.drawFacts();
    this.details.hidden = !run.failed;
    this.problemCount.textContent = texts.problems(count(run.failed));
  }

  drawFacts() {
    const { run } = this;
    const { count, host, texts } = this.page;
    const facts = [
      [texts.failed, count(run.failed)],
      [texts.startedBy, run.started_by.name],
      [texts.startedAt, host.formatDate(run.created_at)],
      [texts.finishedAt, run.finished_at && host.formatDate(run.finished_at)],
    ];
    this.facts.replaceChildren(
      ...facts.flatMap(([name, value]) =>
        value ? [element('div', {}, [element('dt', { textContent: name ?? '' }), element('dd', { textContent: value })])] : [],
      ),
    );
  }

  /** Read when somebody wants to see them. */
  async drawProblems() {
    if (!this.details.open) return;
    const problems = await this.page.problems(this.run.id);
    const items = problems.map(({ entry, detail }) =>
      element('li', {}, [element('span', { className: 'entry', textContent: entry ?? '' }), ` ${detail}`]),
    );
    const others = this.run.failed - problems.length;
    if (others > 0) items.push(element('li', { textContent: this.page.texts.others(this.page.count(others)) }));
    this.problems.replaceChildren(...items);
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

export const FEED_STYLES = `
  [hidden] { display: none; }
  .ask label { display: block; }
  .ask #hint { margin-top: var(--space-2); }
  .ask + h2 { margin: var(--space-5) 0 var(--space-3); }
  .runs { display: grid; gap: var(--space-3); margin: 0 0 var(--space-4); padding: 0; list-style: none; }
  .run { display: grid; gap: var(--space-3); min-width: 0; padding: var(--space-4); border: 1px solid var(--line); border-radius: var(--radius); }
  .run .head { display: flex; flex-wrap: wrap; justify-content: space-between; gap: var(--space-1) var(--space-3); }
  .run .url { min-width: 0; font-weight: 550; overflow-wrap: anywhere; }
  .run .state { color: var(--text-quiet); }
  .run[data-state='done'] .state { color: var(--good); }
  .run[data-state='failed'] .state, .run[data-state='interrupted'] .state { color: var(--bad); }
  .run .under-way { display: flex; flex-wrap: wrap; align-items: center; gap: var(--space-2) var(--space-3); }
  .run progress { flex: 1 1 12rem; min-width: 0; accent-color: var(--accent); }
  .run [hidden] { display: none; }
  .run .reached { color: var(--text-quiet); font-variant-numeric: tabular-nums; }
  .run dl { display: flex; flex-wrap: wrap; gap: var(--space-2) var(--space-5); }
  .run dt { color: var(--text-quiet); font-size: var(--size-small); }
  .run dd { margin: 0; font-variant-numeric: tabular-nums; }
  .run summary { cursor: pointer; }
  .problems { display: grid; gap: var(--space-1); margin: var(--space-2) 0 0; padding-inline-start: var(--space-5); overflow-wrap: anywhere; }
  .problems .entry { font-weight: 550; }
`;
