import { catalogue } from './catalogue.svelte.ts';

/** Importing cards from a file. */
export const texts = {
  another: 'Choose another file',
  atomic: 'All rows or none',
  cancel: 'Cancel',
  cancelled: 'Cancelled. What was written before stays.',
  changed: 'Changed',
  checking: 'Checking {name}…',
  choose: 'Choose a file',
  created: 'New',
  done: '{name} is imported.',
  drop: 'Drop a CSV or NDJSON file here',
  dropText: 'CSV has columns title, sku, status and attributes.<name>. NDJSON has one card a line, as an export writes it.',
  errorsFile: 'Errors as a file',
  existing: 'A SKU that exists',
  existingRefuse: 'Refuse the row',
  existingUpdate: 'Update the card',
  field: 'Field',
  firstErrors: 'The first {n} are shown. The file has all of them.',
  ignored: 'Columns that are not imported: {names}',
  line: 'Line',
  notChecked: 'The file could not be checked',
  notImported: 'The file was not imported',
  nothingToDo: 'No row can be imported',
  problem: 'Problem',
  progress: 'Progress of the import',
  refused: 'Refused',
  run: { one: 'Import {n} row', other: 'Import {n} rows' },
  rowsFile: 'Refused rows as a file',
  running: 'Importing {name}… You can leave this page.',
  same: 'Unchanged',
  showCards: 'Show the cards',
  sku: 'SKU',
  title: 'Import',
} as const;

export const t = catalogue('import', texts);
