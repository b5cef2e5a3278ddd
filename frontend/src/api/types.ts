import type { Actor, Card as CardAsSent, CardPage as CardPageAsSent, JsonObject, PluginSettings as PluginSettingsAsSent, Source as SourceAsSent, Status } from './generated.ts';

/** What the server sends. `generated.ts` has all that its description of the API says; here is what that leaves open. */

export type {
  ActivePlugin,
  ApiKey,
  CardAction,
  Crash,
  Json,
  JsonObject,
  ListColumn,
  ListedSource,
  Me,
  PluginCounters,
  PluginReport as RegisteredPlugin,
  PluginRoute,
  PluginTool,
  PluginVersion,
  Refusal,
} from './generated.ts';

export type CardStatus = Status;
export const CARD_STATUSES: readonly CardStatus[] = ['draft', 'active', 'archived'];

/** Without its author where it is older than that. */
export type Source = Pick<SourceAsSent, 'kind' | 'data'> & { [K in 'plugin' | 'plugin_version' | 'updated_at']?: NonNullable<SourceAsSent[K]> } & {
  updated_by?: { kind: string; id: string; name?: string };
};

export type Card = Omit<CardAsSent, 'attributes' | 'deleted_at'> & { attributes: JsonObject & { sources?: Record<string, Source> } };

export type ListedCard = Omit<Card, 'attributes'> & { updated_by?: Actor };

/** The members that a list asks for. */
export type CardPage = Omit<CardPageAsSent, 'items'> & { items: ListedCard[] };

/** A plugin's settings; a secret that is set is `{"set": true}`. */
export type PluginSettings = Omit<PluginSettingsAsSent, 'settings' | 'stored' | 'environment' | 'defaults' | 'schema'> & {
  /** What the plugin gets: the three layers below put together. */
  settings: JsonObject;
  stored: JsonObject;
  environment: JsonObject;
  defaults: JsonObject;
  /** Null when the plugin has no settings. */
  schema: JsonObject | null;
};
