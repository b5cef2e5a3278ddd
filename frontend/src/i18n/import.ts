import { catalogue } from './catalogue.svelte.ts';

/** Importing cards from a file. */
export const texts = {
  another: 'Choose another file',
  atomic: 'All rows or none',
  cancel: 'Cancel',
  cancelled: 'Cancelled. Rows written before that stay.',
  changed: 'Changed',
  checking: 'Checking {name}…',
  choose: 'Choose a file',
  created: 'New',
  done: '{name} has been imported.',
  drop: 'Drop a CSV or NDJSON file here',
  dropText: 'CSV needs title and sku; status and attributes.<name> are optional. NDJSON has one card per line, as exports do.',
  errorsFile: 'Download errors',
  existing: 'If the SKU exists',
  existingRefuse: 'Refuse the row',
  existingUpdate: 'Update the card',
  field: 'Field',
  firstErrors: 'The first {n} are shown. Download the file for all of them.',
  ignored: 'Columns that are not imported: {names}',
  line: 'Line',
  notChecked: 'The file could not be checked',
  notImported: 'The file was not imported',
  nothingToDo: 'No row can be imported',
  problem: 'Problem',
  progress: 'Progress of the import',
  refused: 'Refused',
  run: { one: 'Import {n} row', other: 'Import {n} rows' },
  rowsFile: 'Download refused rows',
  running: 'Importing {name}… You can leave this page.',
  same: 'Unchanged',
  showCards: 'Show cards',
  sku: 'SKU',
  title: 'Import',
} as const;

export const t = catalogue('import', texts);
