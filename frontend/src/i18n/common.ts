import { catalogue } from './catalogue.svelte.ts';

/** Words that parts of every page use. */
export const texts = {
  about: 'about {n}',
  askForScope: 'Ask an administrator for',
  breadcrumb: 'Breadcrumb',
  cancel: 'Cancel',
  close: 'Close',
  copied: '{what} copied',
  copy: 'Copy',
  copyWhat: 'Copy {what}',
  dismiss: 'Dismiss',
  discard: 'Discard',
  download: 'Download',
  hoursShort: '{n} h',
  leave: 'Leave',
  leaveDialog: 'Close and discard what you typed?',
  loading: 'Loading {what}…',
  inServersWords: '{detail}',
  justNow: 'just now',
  minutesShort: '{n} min',
  noAccess: 'You don’t have access',
  noPicture: 'No picture: {reason}',
  notAPicture: 'the file is damaged',
  notCopied: 'The browser did not allow copying. Copy the text by hand.',
  notUndone: 'Not undone: {reason}',
  ofField: '{name}: {words}',
  onlyBeginning: 'Only the beginning is shown. Download it to see the rest.',
  open: 'Open',
  removeFilter: 'Remove filter {name}',
  requestId: 'Request',
  tryAgain: 'Retry',
  tryAgainIn: 'Try again in {wait}.',
  undo: 'Undo',
  whatToDo: 'What to do',
} as const;

export const t = catalogue('common', texts);
