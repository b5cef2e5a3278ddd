const [TAB, BREAK, RETURN, QUOTE, COMMA, SEMICOLON] = [9, 10, 13, 34, 44, 59];

/** Where a row lies in the file: its first byte, and the one behind its last. */
interface Place {
  line: number;
  from: number;
  to: number;
}

/**
 * The rows of a file that begin on `lines`, as they stand in it, below its header where it has one: a file that can be
 * corrected and sent again. Lines are counted as the server counts them. No more than their places is held in memory.
 */
export async function refusedRows(file: Blob, format: 'csv' | 'ndjson', lines: ReadonlySet<number>): Promise<Blob> {
  const rows = format === 'csv' ? new CsvRows() : new Rows();
  const reader = file.stream().getReader();
  const wanted: Place[] = [];
  const take = (place: Place) => lines.has(place.line) || (format === 'csv' && place.line === 1) ? wanted.push(place) : 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    rows.read(value, take);
  }
  rows.finish(take);
  return new Blob(wanted.flatMap(({ from, to }) => [file.slice(from, to), '\n']), { type: file.type });
}

/** One row a line. */
class Rows {
  protected at = 0;
  protected line = 1;
  protected from = 0;

  read(bytes: Uint8Array, give: (row: Place) => void): void {
    for (const byte of bytes) {
      this.next(byte, give);
      this.at += 1;
    }
  }

  finish(give: (row: Place) => void): void {
    if (this.at > this.from) give({ line: this.line, from: this.from, to: this.at });
  }

  protected next(byte: number, give: (row: Place) => void): void {
    if (byte !== BREAK) return;
    give({ line: this.line, from: this.from, to: this.at });
    this.line += 1;
    this.from = this.at + 1;
  }
}

/** A quoted field may have line breaks, and lines between rows may be empty. */
class CsvRows extends Rows {
  #state: 'between' | 'field' | 'text' | 'quoted' | 'quote' = 'between';
  #first = 1;
  #returned = false;
  /** What the header has of each mark that may separate fields. */
  #marks = new Map([[TAB, 0], [SEMICOLON, 0], [COMMA, 0]]);
  #separator = 0;

  protected override next(byte: number, give: (row: Place) => void): void {
    const ends = byte === BREAK || byte === RETURN;
    const inHead = this.#separator === 0;
    if (this.#state === 'between' && !ends) {
      [this.from, this.#first, this.#state] = [this.at, this.line, 'field'];
    }
    if (inHead) this.#readHead(byte, ends);
    if (this.#state !== 'between') this.#step(byte, ends && (inHead || this.#state !== 'quoted'), give);
    if (ends && !(byte === BREAK && this.#returned)) this.line += 1;
    this.#returned = byte === RETURN;
  }

  override finish(give: (row: Place) => void): void {
    if (this.#state !== 'between') give({ line: this.#first, from: this.from, to: this.at });
  }

  #step(byte: number, ends: boolean, give: (row: Place) => void): void {
    if (ends) {
      give({ line: this.#first, from: this.from, to: this.at });
      this.#state = 'between';
    } else if (this.#state === 'quoted') {
      if (byte === QUOTE) this.#state = 'quote';
    } else if (byte === QUOTE && this.#state !== 'text') {
      // At a field's beginning, or the second of two that stand for one.
      this.#state = 'quoted';
    } else {
      this.#state = byte === this.#separator ? 'field' : 'text';
    }
  }

  /** The mark that the header has most of separates fields. */
  #readHead(byte: number, ends: boolean): void {
    const count = this.#marks.get(byte);
    if (count !== undefined) this.#marks.set(byte, count + 1);
    if (ends) this.#separator = [...this.#marks].reduce((best, mark) => (mark[1] >= best[1] ? mark : best))[0];
  }
}
