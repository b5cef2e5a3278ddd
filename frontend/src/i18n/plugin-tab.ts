import { catalogue } from './catalogue.svelte.ts';

/** Plugins' tabs, pages and actions: what the host around them says. */
export const texts = {
  actionDone: '{action}: done',
  actions: 'Plugin actions',
  askedFirst: 'This tab has frozen the page even in its own frame: it opens only when you ask.',
  badAddress: 'The address of this plugin’s code is not allowed.',
  cannotShow: 'The tab of “{name}” can’t be shown',
  doesNotRun: 'This plugin’s code does not run in this browser.',
  drawingFailed: 'This plugin failed while drawing its tab.',
  failedLate: { one: 'Something in this tab failed ({n} time):', other: 'Something in this tab failed ({n} times):' },
  flooded: 'This tab sent too many messages and was closed.',
  forAuthor: 'For the plugin’s author',
  heldUp: 'The tab froze the page for {seconds} seconds. Next time it runs in its own frame.',
  newVersion: 'Version {version} is available. What you typed is kept until you reload the tab.',
  noActivate: 'This plugin’s code does not export a function "activate".',
  noCode: 'This plugin has tabs, but no code for them.',
  noRenderer: 'This plugin started, but registered no renderer for its tab "{tab}".',
  noPage: 'No active plugin has this page',
  notDrawn: 'Safe mode doesn’t open this by itself.',
  notFetched: 'This plugin’s code could not be fetched, or isn’t the file that was announced.',
  openAnyway: 'Open in the page',
  openApart: 'Open in its own frame',
  reloadTab: 'Reload tab',
  restUnaffected: 'The rest of the page is not affected.',
  runsApart: 'This tab has frozen the page before, so it runs in its own frame.',
  safeMode: 'Safe mode',
  silent: 'This tab didn’t respond for {seconds} seconds and was closed.',
  startFailed: 'This plugin failed while starting.',
  tabOf: 'the tab of {name}',
  tooSlowDrawing: 'This plugin took over {seconds} seconds to draw this tab and was stopped.',
  tooSlowLoading: 'This plugin took over {seconds} seconds to load and was stopped.',
  tooSlowStarting: 'This plugin took over {seconds} seconds to start and was stopped.',
} as const;

export const t = catalogue('plugin-tab', texts);
