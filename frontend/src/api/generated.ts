/** Made by build/types.js from the host's description of its API (`GET /v1/admin/openapi.json`). Not written by hand. */

/** Any JSON. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [member: string]: Json;
}

/** Who did something. */
export type Actor = {
  id: string | null;
  /** `user`, `api_key`, `oidc`, `plugin`, `local`, `host`, `others`, or `client`: the user of an MCP client, as it says. */
  kind: string;
  name: string | null;
};

/** A key as it is shown: never the key itself. */
export type ApiKey = {
  created_at: string;
  expires_at: string | null;
  id: string;
  /** Its first and last characters. */
  key_hint: string;
  /** At most a minute late. */
  last_used_at: string | null;
  last_used_ip: string | null;
  /** The key that this one was made with, or its successor. This one holds no scope that its maker lacks, shares its rate, and goes when it is revoked. */
  made_by_key_id: string | null;
  /** Good at `/api` and `/api/mcp` alone. */
  mcp_only: boolean;
  name: string;
  owner_id: string;
  /** Null is no limit. */
  rate_limit: RateShown | null;
  /** The key that was rotated from this one and is not revoked. */
  replaced_by_id: string | null;
  /** The key that this one was rotated from. Both go when one of them is revoked. */
  replaces_id: string | null;
  revoked_at: string | null;
  revoked_reason: string | null;
  scopes: string[];
};

/** One object, alone in its reply. */
export type ApiKeyItem = {
  item: ApiKey;
};

/** A page of a list. */
export type ApiKeyPage = {
  items: ApiKey[];
  /** Where the next page begins; null is the end. */
  next_cursor: string | null;
};

/** A call that waits for a person, or waited, as the API shows it. */
export type Approval = {
  /** Exactly what the tool would get. */
  arguments: JsonObject;
  /** `client`: its own user is asked, too; `admin`: a person in the Admin UI alone. */
  asked: string;
  /** The key, or the user where no key was shown. */
  caller: Actor;
  /** As the client calls itself. */
  client: ApprovalClient | null;
  created_at: string;
  decided_at: string | null;
  decided_by: Actor | null;
  /** What the call would change of cards, by JSON pointer; absent where the host cannot know it. */
  difference?: Difference | null;
  /** Until then it can be decided, and an approval be used. */
  expires_at: string;
  id: string;
  /** Null is a tool of the core. */
  plugin: ConfirmedPlugin | null;
  /** Why a person has refused it, in that person's words. */
  reason: string | null;
  request_id: string;
  /** `pending`, `approved`, `denied`, `used`, `expired` or `void`: the plugin's package was replaced, or the cards are not those that were shown. */
  state: string;
  title: string | null;
  tool: string;
  /** When the call ran. */
  used_at: string | null;
  /** Whose rights the call has. */
  user: ApprovalUser;
};

export type ApprovalClient = {
  name: string;
  version: string | null;
};

/** One object, alone in its reply. */
export type ApprovalItem = {
  item: Approval;
};

/** A page of a list. */
export type ApprovalPage = {
  items: Approval[];
  /** Where the next page begins; null is the end. */
  next_cursor: string | null;
};

export type ApprovalUser = {
  id: string;
  username: string;
};

/** `attributes` of a card. */
export type Attributes = {
  /** What plugins know of the product, by source key (`<plugin>:<suffix>`). */
  sources: Record<string, Source>;
} & Record<string, unknown>;

/** A row as it is read. */
export type AuditLine = {
  action: string;
  actor: Actor;
  at: string;
  count: number;
  detail: Json;
  first_at: string;
  id: string;
  ip: string | null;
  outcome: string;
  request_id: string | null;
  target: string | null;
};

/** A page of a list. */
export type AuditLinePage = {
  items: AuditLine[];
  /** Where the next page begins; null is the end. */
  next_cursor: string | null;
};

/** A card as the API shows it. */
export type Card = {
  /** As PostgreSQL wrote it: nobody on the way to the reader needs to know what is in it. */
  attributes: Attributes;
  created_at: string;
  deleted_at?: string | null;
  id: string;
  sku: string;
  status: Status;
  title: string;
  updated_at: string;
  version: number;
};

/** One object, alone in its reply. */
export type CardItem = {
  item: Card;
};

/** A page of cards as readers get it. */
export type CardPage = {
  items: Items;
  next_cursor: string | null;
  prev_cursor: string | null;
  /** Only when it was asked for; null when counting took too long. */
  total?: number | null;
  total_estimate: number;
};

/** A card with the members that were asked for. */
export type CardPart = {
  id: string;
} & Record<string, unknown>;

export type ChangedMember = {
  /** Absent where it is removed. */
  after: Json;
  /** Absent where there is none yet. */
  before: Json;
  pointer: string;
};

/** Which package would run. */
export type ConfirmedPlugin = {
  name: string;
  /** Of the package; another one voids the approval. */
  sha256: string;
  version: string;
};

/** What a card would become, or many. */
export type Difference = {
  /** Null is a new card, many, or whatever a plugin says that its tool would change. */
  card_id: string | null;
  changes: ChangedMember[];
  /** Of a bulk action: how many cards it is for. `changes` are those of the first of them, and each pointer begins with a card's SKU. */
  count?: number | null;
  /** Of a plugin's tool with a preview: why the plugin could not say what would change. */
  problem?: string | null;
  /** The card's version that was compared with. */
  version: number | null;
};

/** What an error code means. */
export type Explained = {
  code: string;
  /** Who answers with it, when it is not the host. */
  plugins?: string[] | null;
  /** Null for a plugin's own code. */
  status: number | null;
  title: string;
  type: string;
  what_to_do: string;
  when: string;
};

/** One thing that was looked at. `code` is stable: scripts know a finding by it. */
export type Finding = {
  /** Of a plugin that is refused: the reason's own code. */
  cause: string | null;
  code: string;
  expected: string | null;
  /** What to do about it. */
  fix: string | null;
  found: string | null;
  /** One plain sentence. */
  message: string;
  severity: Severity;
  /** What was looked at: a setting, a file, a role, a plugin. */
  subject: string;
};

/** How many findings there are of each severity. */
export type FindingCounts = {
  error: number;
  ok: number;
  warning: number;
};

/** One change of a card. */
export type HistoryLine = {
  action: string;
  actor: Actor;
  at: string;
  /** What was sent, as it was sent. */
  change: Json;
  id: string;
  version: number;
};

/** A page of a list. */
export type HistoryLinePage = {
  items: HistoryLine[];
  /** Where the next page begins; null is the end. */
  next_cursor: string | null;
};

export type Identity = {
  issuer: string;
  subject: string;
};

export type Items = Card[] | CardPart[];

/** A job as its readers see it. */
export type Job = {
  action: string;
  args: Json;
  cancel_asked_at: string | null;
  counts: Json;
  created_at: string;
  done: number;
  /** The first of them; not in lists. */
  errors?: Json[] | null;
  /** Where all of them are; not in lists. */
  errors_url?: string | null;
  failed: number;
  finished_at: string | null;
  host_id: string | null;
  id: string;
  message: string | null;
  name: string | null;
  notes: Json;
  /** Of a plugin's job: the plugin, the job's name in its manifest, and how far it is in the plugin's words. */
  plugin: string | null;
  rate_per_second: number;
  reason: string | null;
  request_id: string | null;
  started_at: string | null;
  started_by: Actor;
  /** `queued`, `running`, `done`, `failed`, `cancelled` or `interrupted`. */
  state: string;
  /** Null while it is not known. */
  total: number | null;
  user_id: string;
};

/** One object, alone in its reply. */
export type JobItem = {
  item: Job;
};

/** A page of a list. */
export type JobPage = {
  items: Job[];
  /** Where the next page begins; null is the end. */
  next_cursor: string | null;
};

/** A kind of data. */
export type Kind = {
  /** Cards with a source of this kind; deleted ones count until they are purged. */
  cards: number;
  /** Whether `cards` is the database's estimate. */
  cards_is_estimate: boolean;
  /** Plugins that would write or read it, and are disabled, refused or failed. */
  inactive: string[];
  kind: string;
  /** Cards have it, and no plugin that is installed writes it. */
  orphaned: boolean;
  /** Active plugins that write it. */
  provided_by: string[];
  /** Active plugins that read it. */
  read_by: string[];
  /** What an operator should look at. */
  warning: string | null;
};

export type Kinds = {
  /** In the order of their names. */
  items: Kind[];
};

export type LevelSet = {
  host_id: string;
  log: JsonObject;
};

/** Lines, the newest first. */
export type LinePage = {
  /** Each host keeps the lines of its own. */
  host_id: string;
  items: PluginLine[];
  /** Where the next page begins, of older lines; null is the end. */
  next_cursor: string | null;
};

export type ListedSource = {
  /** Of `data`, as JSON text. */
  bytes: number;
  kind: string | null;
  /** No plugin of this name is in this host's plugins folder, in whatever state. */
  orphaned: boolean;
  /** Who wrote it. */
  plugin: string;
  plugin_version: string | null;
  source_key: string;
  updated_at: string | null;
  /** For whom. */
  updated_by: Actor | null;
};

export type LoggedIn = {
  access_token: string;
  /** Seconds. */
  expires_in: number;
  token_type: string;
};

export type Me = {
  /** `hmac`, `api_key`, `jwt` or `local`. */
  auth: string;
  expires_at: string | null;
  scopes: string[];
  user: UserOfCall;
};

/** The one answer that shows a key. */
export type NewApiKey = {
  item: ApiKey;
  /** Shown here only. */
  key: string;
};

/** What a line says of itself. */
export type PluginLine = {
  at: string;
  fields: JsonObject | null;
  /** Grows with every line of the plugin. */
  id: number;
  /** `error`, `warn`, `info`, `debug` or `trace`. */
  level: string;
  message: string;
  request_id: string | null;
  /** `plugin`, `host` (what it says of the plugin) or `browser` (the plugin's frontend). */
  source: string;
  trace_id: string | null;
};

/** A plugin's settings. Secrets that are set are `{"set": true}`. */
export type PluginSettings = {
  /** What the schema says for what nobody sets. */
  defaults: Json;
  /** What the plugin's environment variable says on this host. */
  environment: Json;
  name: string;
  /** The plugin's `settings_schema`; null when it has no settings. */
  schema: Json;
  /** What the plugin gets. */
  settings: Json;
  /** What is stored: the uppermost layer, which PUT replaces. */
  stored: Json;
  /** JSON pointers to secrets that were stored with another key: they have to be given again. */
  unreadable: string[];
  /** Of what is stored; also in `ETag`. */
  version: number;
};

/** One pool of connections. */
export type PoolReport = {
  idle: number;
  max: number;
  plugin: string | null;
  /** `core`, `reaper` or `plugin`. */
  pool: string;
  size: number;
  waiting: number;
};

/** A problem document (RFC 9457). */
export type Problem = {
  /** Stable; what programs compare with. */
  code: string;
  /** On 412. */
  current_version?: number;
  /** Plain words for people. */
  detail: string;
  /** On 422: each field that is wrong. */
  errors?: {
    detail: string;
    pointer: string;
  }[];
  /** Under which the host's log has more. */
  request_id: string;
  /** On 403 `insufficient-scope`. */
  required_scope?: string;
  status: number;
  title: string;
  /** A page that explains the code. */
  type: string;
};

export type Problems = {
  items: Explained[];
};

export type ProxyRoute = {
  prefix: string;
  /** It stands in `PROXY_ROUTES` and is changed there. */
  read_only: boolean;
  /** `PROXY_ROUTES` of this host has its prefix, too, and that one counts. */
  shadowed: boolean;
  upstream: string;
};

export type ProxyRoutes = {
  /** Those of `PROXY_ROUTES` first. */
  items: ProxyRoute[];
  /** Of the routes that are set here; also in `ETag`. */
  version: number;
  /** What an operator should look at. */
  warnings: string[];
};

export type RateShown = {
  burst: number | null;
  per_minute: number;
};

/** A login that has not ended. */
export type Session = {
  created_at: string;
  /** The call is made with it. */
  current: boolean;
  expires_at: string;
  id: string;
  ip: string | null;
  last_seen_at: string | null;
  user_agent: string | null;
  user_id: string;
  username: string;
};

/** A page of a list. */
export type SessionPage = {
  items: Session[];
  /** Where the next page begins; null is the end. */
  next_cursor: string | null;
};

/** How bad it is. Errors alone make the command fail. */
export type Severity = "ok" | "warning" | "error";

/** A source of a card. */
export type Source = {
  data: Json;
  /** What `data` is of. */
  kind: string;
  plugin: string | null;
  plugin_version: string | null;
  updated_at: string | null;
  updated_by: Actor | null;
};

export type Sources = {
  /** In the order of their keys. */
  items: ListedSource[];
};

/** Where a card stands in its life. */
export type Status = "draft" | "active" | "archived";

/** What `show` puts together. */
export type System = {
  health: JsonObject;
  host_id: string;
  log: JsonObject;
  /** How many plugins there are in each state. */
  plugins: Record<string, number>;
  pools: PoolReport[];
  process: JsonObject;
  requests: JsonObject;
  /** By name, secrets masked. */
  settings: Json;
  started_at: string;
  /** Ends of this host's workers that no plugin is known to have caused, of the last 200 ends: `count`, and the `last` one with what ran and had calls under way. */
  unattributed_crashes: JsonObject;
  /** Addresses that sent `X-Forwarded-For` and are not in TRUSTED_PROXIES, the first eight. */
  undeclared_proxies: string[];
  uptime_seconds: number;
  version: string;
  worker_restarts: number;
};

/** What a worker has found of its own host. */
export type SystemCheck = {
  checked_at: string;
  counts: FindingCounts;
  findings: Finding[];
  host_id: string;
  /** No finding is an error. */
  ok: boolean;
};

/** The last hour of this host. */
export type Traffic = {
  /** Those of them that were answered with a status of 5xx. */
  failed: number;
  from: string;
  host_id: string;
  /** 99 of 100 requests were answered within so many milliseconds; what took longer than 10,000 counts as that. Null without requests. */
  p99_ms: number | null;
  requests: number;
  /** The same hour in parts of half a minute, the oldest first. */
  spans: TrafficSpan[];
  to: string;
};

export type TrafficSpan = {
  failed: number;
  from: string;
  requests: number;
  to: string;
};

/** An account as administrators see it. */
export type User = {
  created_at: string;
  disabled: boolean;
  disabled_at: string | null;
  has_password: boolean;
  id: string;
  /** Of a user of an identity provider. */
  identity: Identity | null;
  /** `user`, `oidc` or `plugin`. */
  kind: string;
  role: string | null;
  updated_at: string;
  username: string;
};

/** One object, alone in its reply. */
export type UserItem = {
  item: User;
};

export type UserOfCall = {
  id: string;
  /** `user`, `oidc` or `plugin`. */
  kind: string;
  username: string;
};

/** A page of a list. */
export type UserPage = {
  items: User[];
  /** Where the next page begins; null is the end. */
  next_cursor: string | null;
};

/** A view as its owner sees it. */
export type View = {
  /** Columns to show, in order; null is the usual ones. */
  columns: string[] | null;
  created_at: string;
  /** Query parameters of the list of cards. */
  filter: JsonObject;
  id: string;
  name: string;
  /** As the list takes it; null is the list's own order. */
  sort: string | null;
  updated_at: string;
  version: number;
};

/** One object, alone in its reply. */
export type ViewItem = {
  item: View;
};

export type Views = {
  items: View[];
};
