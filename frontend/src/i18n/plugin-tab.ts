import { catalogue } from './catalogue.svelte.ts';

/** Plugins' tabs, pages and actions: what the host around them says. */
export const texts = {
  actionDone: '{action}: done',
  actions: 'Plugin actions',
  askedFirst: 'This tab has held up the page even in a frame of its own, so it waits for you.',
  badAddress: 'The address of this plugin’s code is not one that the server may name.',
  cannotShow: 'The tab of “{name}” cannot be shown',
  doesNotRun: 'This plugin’s code does not run in this browser.',
  drawingFailed: 'This plugin failed while it drew its tab.',
  failedLate: { one: 'Something in this tab failed ({n} time):', other: 'Something in this tab failed ({n} times):' },
  flooded: 'This tab sent the page more messages than it takes, and was closed.',
  forAuthor: 'For the plugin’s author',
  heldUp: 'The tab held up the page for {seconds} seconds. The next time it runs apart from it.',
  newVersion: 'Version {version} of this plugin is here. What you typed stays until you reload the tab.',
  noActivate: 'This plugin’s code does not export a function "activate".',
  noCode: 'This plugin has tabs, but no code for them.',
  noRenderer: 'This plugin started, but registered no renderer for its tab "{tab}".',
  noPage: 'No active plugin has this page',
  notDrawn: 'Safe mode does not draw this by itself.',
  notFetched: 'This plugin’s code could not be fetched, or is not the announced file.',
  openAnyway: 'Open in the page',
  openApart: 'Open apart from the page',
  reloadTab: 'Reload tab',
  restUnaffected: 'The rest of the page is not affected.',
  runsApart: 'This tab has held up the page before, so it runs apart from it.',
  safeMode: 'Safe mode',
  silent: 'This tab did not answer for {seconds} seconds, and was closed.',
  startFailed: 'This plugin failed while it started.',
  tabOf: 'the tab of {name}',
  tooSlowDrawing: 'This plugin took over {seconds} seconds to draw this tab and was stopped.',
  tooSlowLoading: 'This plugin took over {seconds} seconds to load and was stopped.',
  tooSlowStarting: 'This plugin took over {seconds} seconds to start and was stopped.',
} as const;

export const t = catalogue('plugin-tab', texts);
