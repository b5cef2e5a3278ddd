import { catalogue } from './catalogue.svelte.ts';

/** Words that parts of every page use. */
export const texts = {
  askForScope: 'Ask an administrator for',
  breadcrumb: 'Where you are',
  cancel: 'Cancel',
  close: 'Close',
  copied: '{what} copied',
  copy: 'Copy',
  copyWhat: 'Copy {what}',
  dismiss: 'Dismiss',
  download: 'Download',
  hoursShort: '{n} h',
  leaveDialog: 'Close this and lose what you typed?',
  loading: 'Loading {what}…',
  minutesShort: '{n} min',
  noAccess: 'You don’t have access',
  noPicture: 'No picture: {reason}',
  notAPicture: 'the file is damaged',
  notCopied: 'The browser did not allow copying. Select the text and copy it by hand.',
  notUndone: 'Not undone: {reason}',
  onlyBeginning: 'Only the beginning is shown. The download has all of it.',
  open: 'Open',
  removeFilter: 'Remove filter {name}',
  requestId: 'Request',
  tryAgain: 'Retry',
  tryAgainIn: 'Try again in {wait}.',
  undo: 'Undo',
  whatToDo: 'What to do',
} as const;

export const t = catalogue('common', texts);
