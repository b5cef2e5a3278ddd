import { catalogue } from './catalogue.svelte.ts';

/** Jobs: what they do and how far they are. */
export const texts = {
  activate: { one: 'Activate {n} card', other: 'Activate {n} cards' },
  archive: { one: 'Archive {n} card', other: 'Archive {n} cards' },
  called: '{n} called',
  cancel: 'Cancel',
  cancelled: 'Cancelled',
  cancelling: 'Cancelling…',
  changed: '{n} changed',
  check: 'Import dry run',
  created: '{n} created',
  delete: { one: 'Delete {n} card', other: 'Delete {n} cards' },
  done: 'Done',
  doneWithErrors: 'Done with errors',
  draft: { one: 'Make {n} card a draft', other: 'Make {n} cards drafts' },
  errors: 'Errors',
  failed: '{n} failed',
  import: 'Import',
  purge: 'Remove cards for good',
  interrupted: 'Interrupted',
  jobs: 'Jobs',
  left: '{wait} left',
  none: 'No jobs yet',
  notRead: 'The jobs could not be loaded',
  of: '{done} of {total}',
  queued: 'Queued',
  removeSource: { one: 'Remove {source} from {n} card', other: 'Remove {source} from {n} cards' },
  running: 'Running',
  runTool: { one: 'Run {tool} on {n} card', other: 'Run {tool} on {n} cards' },
  stateFailed: 'Failed',
  unchanged: '{n} unchanged',
  updated: '{n} updated',
} as const;

export const t = catalogue('jobs', texts);
