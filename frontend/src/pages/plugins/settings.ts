import { isObject } from '../../api/merge-patch.ts';
import type { Json, JsonObject, PluginSettings } from '../../api/types.ts';

/** One setting as the table shows it. */
export interface Setting {
  name: string;
  title: string;
  description: string;
  /** As JSON; words where there is none to show. */
  value: string;
  /** Where the value comes from. */
  from: string;
}

/** The settings that the schema names, then those that it does not and somebody sets. */
export function settingsOf(shown: PluginSettings): Setting[] {
  const properties = isObject(shown.schema?.properties) ? shown.schema.properties : {};
  const names = new Set([...Object.keys(properties), ...Object.keys(shown.settings)]);
  return [...names].map((name) => {
    const property = isObject(properties[name]) ? properties[name] : {};
    const value = Object.hasOwn(shown.settings, name) ? shown.settings[name] : undefined;
    const secret = property.writeOnly === true || isMask(value);
    return {
      name,
      title: text(property.title),
      description: text(property.description),
      value: value === undefined ? 'not set' : secret ? 'set, and not shown' : JSON.stringify(value),
      from: value === undefined ? '' : layersOf(shown, name),
    };
  });
}

/** A secret that is set comes as this, and stays what it is when it is sent back so. */
function isMask(value: Json | undefined): boolean {
  return isObject(value) && Object.keys(value).length === 1 && value.set === true;
}

/** Objects are put together from all layers; of anything else the uppermost counts. */
function layersOf({ stored, environment, defaults }: PluginSettings, name: string): string {
  const layers = ([[stored, 'set here'], [environment, 'the environment'], [defaults, 'the plugin’s default']] as const).filter(([layer]) => Object.hasOwn(layer, name));
  const several = layers.length > 1 && layers.every(([layer]) => isObject(layer[name]) && !isMask(layer[name]));
  return (several ? layers : layers.slice(0, 1)).map(([, word]) => word).join(', ');
}

function text(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

/** What was typed, as the settings to store; or why it cannot be. */
export function parseSettings(typed: string): JsonObject | string {
  try {
    const value: unknown = JSON.parse(typed);
    return isObject(value) ? value : 'The settings must be an object, { … }.';
  } catch (thrown) {
    return `Not JSON: ${thrown instanceof Error ? thrown.message : thrown}`;
  }
}
