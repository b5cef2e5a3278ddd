import { catalogue } from './catalogue.svelte.ts';

/** Words of parts that several operators' pages use. */
export const texts = {
  showCall: 'Show the API call',
  copyCurl: 'Copy as curl',
  changes: { one: '{n} change', other: '{n} changes' },
  discard: 'Discard',
  save: 'Save',
  unsaved: 'Unsaved changes',
} as const;

export const t = catalogue('shared', texts);
