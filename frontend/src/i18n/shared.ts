import { catalogue } from './catalogue.svelte.ts';

/** Words of parts that several operators' pages use. */
export const english = {
  showCall: 'Show the API call',
  copyCurl: 'Copy as curl',
  perMinute: '/min',
};

export const t = catalogue('shared', english);
