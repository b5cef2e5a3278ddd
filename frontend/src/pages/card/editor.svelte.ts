import { TrackedMap } from '../../ui/tracked-map.svelte.ts';
import { getCard, listHistory, patchCard } from '../../api/cards.ts';
import { ApiError } from '../../api/error.ts';
import { sameJson } from '../../api/merge-patch.ts';
import { queryClient } from '../../api/query-client.ts';
import type { Card, Json, JsonObject } from '../../api/types.ts';
import { changes, draftOf, parseAttributes, rebase, withField, type Conflict, type Draft } from './draft.ts';

/** How often a save is sent anew because only others' fields moved in between: a plugin may write all the time. */
const MAX_TRIES = 4;

/** What somebody else did while the form was open. */
export interface Elsewhere {
  who: string;
  at: string;
  /** Names of fields. */
  changed: string[];
}

/** Text that is no value of its type yet, by member; `''` is the attribute itself. */
export type InvalidText = Record<string, string>;

/** The form of one card: what is being typed, on top of the card as it is saved. */
export class CardEditor {
  /** The card that changes are measured against. */
  base = $state.raw<Card>() as Card;
  draft = $state.raw<Draft>() as Draft;
  /** What was typed and is no value yet, by attribute. */
  readonly invalid = new TrackedMap<string, InvalidText>();
  /** The attributes as text, while they are edited as such. */
  json = $state<string | null>(null);
  busy = $state(false);
  error = $state.raw<unknown>(null);
  conflicts = $state.raw<Conflict[]>([]);
  elsewhere = $state.raw<Elsewhere | null>(null);

  constructor(card: Card) {
    this.base = card;
    this.draft = draftOf(card);
  }

  readonly outcome = $derived.by(() => changes(this.base, this.draft));
  readonly jsonProblem = $derived.by(() => {
    const parsed = this.json === null ? null : parseAttributes(this.json);
    return parsed && 'problem' in parsed ? parsed : null;
  });
  /** Names of what differs from the saved card, what cannot be saved yet with it. */
  readonly changed = $derived.by(() => [...new Set([...this.outcome.names, ...this.invalid.keys()])]);
  readonly dirty = $derived.by(() => this.outcome.patch !== undefined || this.invalid.size > 0 || this.jsonProblem !== null);

  /** Why it can't be saved as it is. */
  readonly blocked = $derived.by(() => this.invalid.size > 0 || this.jsonProblem !== null || this.outcome.unpatchable !== undefined || this.conflicts.length > 0);

  /** Of the saved card and of what is typed. */
  readonly attributeNames = $derived.by(() => [...new Set([...Object.keys(draftOf(this.base).attributes), ...Object.keys(this.draft.attributes)])]);

  setField(field: 'title' | 'sku' | 'status', value: string): void {
    this.draft = { ...this.draft, [field]: value };
  }

  /** With `member`, what was typed into the value's other members stays as it is. */
  setAttribute(name: string, value: Json, member?: string): void {
    this.#setAttributes({ ...this.draft.attributes, [name]: value });
    const { [member ?? '']: _, ...others } = this.invalid.get(name) ?? {};
    if (member !== undefined && Object.keys(others).length) this.invalid.set(name, others);
    else this.invalid.delete(name);
  }

  /** What was typed is no value of its type: the value before stays, and nothing is saved until it is one. */
  setInvalid(name: string, text: string, member = ''): void {
    this.invalid.set(name, { ...this.invalid.get(name), [member]: text });
  }

  removeAttribute(name: string): void {
    const { [name]: _, ...rest } = this.draft.attributes;
    this.#setAttributes(rest);
    this.invalid.delete(name);
  }

  renameAttribute(name: string, to: string): void {
    const { [name]: value, ...rest } = this.draft.attributes;
    if (value === undefined) return;
    this.#setAttributes({ ...rest, [to]: value });
    const typed = this.invalid.get(name);
    this.invalid.delete(name);
    if (typed) this.invalid.set(to, typed);
  }

  /** As the saved card has it. */
  undoAttribute(name: string): void {
    const before = draftOf(this.base).attributes[name];
    if (before === undefined) this.removeAttribute(name);
    else this.setAttribute(name, before);
  }

  setJson(text: string): void {
    this.json = text;
    const parsed = parseAttributes(text);
    if ('value' in parsed) this.draft = { ...this.draft, attributes: parsed.value };
  }

  /** Changes between form and JSON, unless what was typed has no place in the other; tells whether it did. */
  showJson(on: boolean): boolean {
    if (on ? this.invalid.size : this.jsonProblem) return false;
    this.json = on ? this.#jsonText() : null;
    return true;
  }

  discard(): void {
    this.draft = draftOf(this.base);
    this.invalid.clear();
    if (this.json !== null) this.json = this.#jsonText();
    this.#settle();
  }

  /** A newer card came: what was not touched follows it. */
  receive(card: Card): void {
    if (card.version <= this.base.version) return;
    const since = this.base.version;
    const { draft, conflicts, changed } = rebase(this.base, this.draft, card);
    const wasDirty = this.dirty;
    this.base = card;
    this.draft = draft;
    this.conflicts = conflicts;
    this.#followInJson();
    if (changed.length && wasDirty && !this.busy) void this.#sayWho(since, changed);
  }

  resolve(conflict: Conflict, take: 'mine' | 'theirs'): void {
    if (take === 'theirs') this.draft = withField(this.draft, conflict.field, conflict.theirs);
    this.conflicts = this.conflicts.filter((other) => other.field !== conflict.field);
    this.#followInJson();
  }

  /** Saves; resolves to whether it did. */
  async save(): Promise<boolean> {
    const { patch } = this.outcome;
    if (!patch || this.busy || this.blocked) return false;
    return (await this.#send(patch)) !== null;
  }

  /** Changes the card beside what is being typed; throws what the server says. */
  async apply(patch: JsonObject): Promise<Card> {
    for (let tries = 1; ; tries += 1) {
      try {
        const saved = await patchCard(this.base.id, patch, this.base.version);
        this.#took(saved);
        return saved;
      } catch (thrown) {
        if (!isOutdated(thrown) || tries === MAX_TRIES) throw thrown;
        this.receive(await getCard(this.base.id));
      }
    }
  }

  async #send(patch: JsonObject): Promise<Card | null> {
    this.busy = true;
    this.error = null;
    try {
      for (let tries = 1; ; tries += 1) {
        try {
          const saved = await patchCard(this.base.id, patch, this.base.version);
          this.#saved(saved, patch);
          return saved;
        } catch (thrown) {
          if (!isOutdated(thrown) || tries === MAX_TRIES) throw thrown;
          const since = this.base.version;
          const theirs = await getCard(this.base.id);
          const { changed } = rebase(this.base, this.draft, theirs);
          this.receive(theirs);
          // Only what both changed needs a decision; anything else is saved on top of it.
          if (this.conflicts.length) {
            await this.#sayWho(since, changed);
            return null;
          }
          const next = this.outcome.patch;
          if (!next) {
            this.#settle();
            return theirs;
          }
          patch = next;
        }
      }
    } catch (thrown) {
      this.error = thrown;
      return null;
    } finally {
      this.busy = false;
    }
  }

  /** What was typed while the request was under way stays. */
  #saved(saved: Card, patch: JsonObject): void {
    const left = this.outcome.patch;
    if (saved.version < this.base.version) {
      // A later version is shown already. It follows this one, not the one that the form began with.
      const { draft, conflicts } = rebase(saved, this.draft, this.base);
      this.draft = draft;
      if (this.outcome.patch) this.conflicts = conflicts;
      else this.#settle();
      return;
    }
    // Nothing is left when this version was heard of before its answer, and when the change was taken back meanwhile.
    const isAsSent = left ? sameJson(left, patch) : saved.version === this.base.version;
    this.base = saved;
    if (isAsSent) {
      this.draft = draftOf(saved);
      this.#settle();
    } else this.conflicts = [];
    this.#publish(saved);
  }

  #took(saved: Card): void {
    if (saved.version >= this.base.version) {
      const { draft } = rebase(this.base, this.draft, saved);
      this.base = saved;
      this.draft = draft;
      this.#publish(saved);
    }
    // The server is back: that it was away says nothing any more.
    if (this.error instanceof ApiError && this.error.code === 'network') this.error = null;
  }

  #publish(saved: Card): void {
    queryClient.setQueryData(['card', saved.id], saved);
    for (const key of [['cards'], ['card-history', saved.id]]) void queryClient.invalidateQueries({ queryKey: key });
  }

  /** What was saved had nothing wrong in it: what is wrong now was typed meanwhile, and stays. */
  #settle(): void {
    this.conflicts = [];
    this.elsewhere = null;
    this.error = null;
    this.#followInJson();
  }

  #setAttributes(attributes: JsonObject): void {
    this.draft = { ...this.draft, attributes };
    this.#followInJson();
  }

  /** Text that is no JSON yet stays as it was typed, and so does text that says what the draft does. */
  #followInJson(): void {
    const typed = this.json === null ? null : parseAttributes(this.json);
    if (typed && 'value' in typed && !sameJson(typed.value, this.draft.attributes)) this.json = this.#jsonText();
  }

  #jsonText(): string {
    return JSON.stringify(Object.fromEntries(Object.entries(this.draft.attributes).toSorted(([a], [b]) => a.localeCompare(b))), null, 2);
  }

  async #sayWho(since: number, changed: string[]): Promise<void> {
    const known = this.elsewhere?.changed ?? [];
    const all = [...new Set([...known, ...changed])];
    this.elsewhere = { who: this.elsewhere?.who ?? '', at: new Date().toISOString(), changed: all };
    try {
      const { items } = await listHistory(this.base.id, null, new AbortController().signal, 20);
      const line = items.find(({ version, action }) => version > since && action !== 'enrich' && action !== 'remove_source');
      if (line) this.elsewhere = { who: line.actor.name ?? line.actor.id, at: line.at, changed: all };
    } catch {
      // Without the history it is said that somebody did.
    }
  }
}

/** Where the server's problems name an attribute. */
export function pointerTo(attribute: string): string {
  return `/attributes/${attribute.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

function isOutdated(thrown: unknown): boolean {
  return thrown instanceof ApiError && thrown.status === 412;
}
