/** One server-sent event. */
export interface ServerEvent {
  /** `card.updated`; `message` when the server named none. */
  type: string;
  data: string;
}

/** What a piece of a stream brought. */
export interface Portion {
  events: ServerEvent[];
  /** How long to wait before a broken stream is opened again, when the server said it. */
  retryMs?: number;
}

/** More text than this without an end of an event is not what our server sends. */
const LONGEST_EVENT = 1 << 20;

/**
 * Reads `text/event-stream` piece by piece, as the HTML standard has it. `EventSource` would do it for us,
 * but sends no `Authorization` header, and a token has no place in an address.
 */
export class EventStreamReader {
  /** Of the last event that was read: where a stream that is opened again goes on. */
  lastId = '';
  #decoder = new TextDecoder();
  #rest = '';
  #type = '';
  #data: string[] = [];
  #id = '';

  read(bytes: Uint8Array): Portion {
    this.#rest += this.#decoder.decode(bytes, { stream: true });
    const portion: Portion = { events: [] };
    // A carriage return at the very end may be half of a line's end.
    for (let end = lineEnd(this.#rest); end; end = lineEnd(this.#rest)) {
      const line = this.#rest.slice(0, end.at);
      this.#rest = this.#rest.slice(end.next);
      this.#line(line, portion);
    }
    if (this.#rest.length > LONGEST_EVENT) throw new Error('the stream of events is not one');
    return portion;
  }

  /** Forgets what was begun; the place to go on from stays. */
  restart(): void {
    this.#decoder = new TextDecoder();
    this.#rest = '';
    this.#type = '';
    this.#data = [];
    this.#id = this.lastId;
  }

  #line(line: string, portion: Portion): void {
    if (line === '') return this.#dispatch(portion);
    const colon = line.indexOf(':');
    if (colon === 0) return; // a comment: the server is there
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.#type = value;
    else if (field === 'data') this.#data.push(value);
    else if (field === 'id' && !value.includes('\0')) this.#id = value;
    else if (field === 'retry' && /^\d+$/.test(value)) portion.retryMs = Number(value);
  }

  #dispatch(portion: Portion): void {
    this.lastId = this.#id;
    if (this.#data.length) portion.events.push({ type: this.#type || 'message', data: this.#data.join('\n') });
    this.#type = '';
    this.#data = [];
  }
}

function lineEnd(text: string): { at: number; next: number } | null {
  const at = text.search(/[\r\n]/);
  if (at < 0) return null;
  if (text[at] === '\n') return { at, next: at + 1 };
  if (at === text.length - 1) return null;
  return { at, next: text[at + 1] === '\n' ? at + 2 : at + 1 };
}
