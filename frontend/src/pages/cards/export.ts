import { exportCards, type CardFilter } from '../../api/cards.ts';
import { download } from '../../ui/download.ts';

/** What Chromium has for writing a file as it comes; others keep the whole in memory first. */
interface SavePicker {
  showSaveFilePicker?: (options: { suggestedName: string }) => Promise<{ createWritable(): Promise<WritableStream<Uint8Array>> }>;
}

/** Saves the cards of the filter, or those of `ids` among them, as a file. Resolves to false when the person chose no place for it. */
export async function saveExport(filter: CardFilter & { ids?: string | undefined }, format: 'csv' | 'ndjson', signal: AbortSignal): Promise<boolean> {
  const name = `cards-${new Date().toISOString().slice(0, 10)}.${format}`;
  const { showSaveFilePicker } = window as SavePicker;
  let target: WritableStream<Uint8Array> | null = null;
  if (showSaveFilePicker) {
    try {
      target = await (await showSaveFilePicker({ suggestedName: name })).createWritable();
    } catch (thrown) {
      if (thrown instanceof DOMException && thrown.name === 'AbortError') return false;
      // Not allowed here: a download works everywhere.
    }
  }
  const response = await exportCards(filter, format, signal);
  if (target && response.body) await response.body.pipeTo(target, { signal });
  else download(await response.blob(), name);
  return true;
}
