import { catalogue } from './catalogue.svelte.ts';

/** Words of parts that several operators' pages use. */
export const texts = {
  showCall: 'Show the API call',
  copyCurl: 'Copy as curl',
} as const;

export const t = catalogue('shared', texts);
