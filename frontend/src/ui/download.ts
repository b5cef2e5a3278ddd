/** Saves `blob` as a file, where the browser puts such files. */
export function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // Some browsers read it only after the click is over.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
