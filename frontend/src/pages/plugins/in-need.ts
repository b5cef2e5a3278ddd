import type { RegisteredPlugin } from '../../api/types.ts';
import { traffic } from '../../api/traffic.svelte.ts';
import { ofPlugins, type Attention } from '../home/attention.ts';

/** Begins to gather the figures by which it is known how many of a plugin's calls fail. */
export const beginFigures = () => traffic.begin();

/** The plugins that need attention, by the rule of the first page. */
export function inNeed(plugins: readonly RegisteredPlugin[]): Attention[] {
  return ofPlugins(plugins, traffic.samples);
}
