/** Made by build/types.js from the host's description of its API (`GET /v1/admin/openapi.json`). Not written by hand. */

/** Any JSON. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [member: string]: Json;
}

export type ActionPlace = "card" | "selection";

/** Below the plugin's prefix. */
export type ActionRoute = {
  method: string;
  path: string;
};

/** An active plugin, as the Admin UI draws it. */
export type ActivePlugin = {
  api_prefix: string | null;
  card_actions: CardAction[];
  description: string | null;
  /** None where it brings no files of its own. */
  frontend: PluginFrontend | null;
  list_columns: ListColumn[];
  name: string;
  pages: PluginPage[];
  provides_kinds: string[];
  reads_kinds: string[];
  tabs: CardTab[];
  title: string;
  version: string;
};

/** The active plugins that the caller may read. */
export type ActivePlugins = {
  items: ActivePlugin[];
};

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

export type BlockingHandler = {
  handler: string;
  longest_ms: number;
};

/** What becomes of a plugin whose calls go wrong again and again. */
export type BreakerMode = "on" | "observe";

export type BudgetShare = {
  most: number;
  used: number;
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

/** A button on a card's page, for the cards that are selected in the list, or both. */
export type CardAction = {
  /** What the user is asked before the route is called. */
  confirm: string | null;
  icon: string | null;
  id: string;
  label: string;
  on: ActionPlace[];
  /** What the Admin UI sends; without it the plugin's frontend draws a dialog. */
  route: ActionRoute | null;
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

export type CardTab = {
  /** Drawn in a sandboxed frame of its own, apart from the page. */
  frame: boolean;
  icon: string | null;
  id: string;
  label: string;
};

export type ChangedMember = {
  /** Absent where it is removed. */
  after: Json;
  /** Absent where there is none yet. */
  before: Json;
  pointer: string;
};

export type ColumnFormat = "text" | "number" | "date" | "percent";

/** Which package would run. */
export type ConfirmedPlugin = {
  name: string;
  /** Of the package; another one voids the approval. */
  sha256: string;
  version: string;
};

/** A worker that ended on its own. */
export type Crash = {
  at: string;
  cause: CrashCause;
  /** As a shell would say it. */
  ended: string;
  in_flight: PluginAtCrash[];
  /** Whose code ended it, when that is known. */
  plugin: CrashCulprit | null;
  /** Whose code ran at that moment, and on how many threads (`calls`). Of a standstill, on the host's own threads. */
  running: PluginAtCrash[];
  /** The thread that ended it. */
  thread: string | null;
  uptime_ms: number;
};

export type CrashCause = "segfault" | "stack-overflow" | "abort" | "fault" | "exit" | "hang" | "killed" | "stopped" | "descriptors" | "blocked";

/** The plugin that did it. */
export type CrashCulprit = {
  /** The route or handler that was at work; none in a thread of its own and while the plugin was loaded. */
  handler: string | null;
  name: string;
  /** Where in its library, for addr2line. */
  offset: string | null;
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

/** Where a plugin's calls run. */
export type ExecutionMode = "auto" | "inline" | "lane";

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
  /** The first of them: 100, and 5 in lists. */
  errors: Json[];
  /** Where all of them are. */
  errors_url: string;
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

/** A column of the card list. */
export type ListColumn = {
  format: ColumnFormat;
  id: string;
  label: string;
} & ({
  /** One of the plugin's own; of several sources of it, the one written last counts. */
  kind: string;
  /** A JSON pointer into the source's data. */
  value: string;
} | {
  /** Below the plugin's prefix. */
  route: string;
});

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

/** A package that does not get into service. */
export type PendingPackage = {
  sha256: string | null;
  signed_by: string | null;
  version: string | null;
};

/** What a plugin had under way. */
export type PluginAtCrash = {
  calls: number;
  plugin: string;
  sha256: string;
  version: string;
};

/** What an operator sees. */
export type PluginBreaker = {
  /** Of the last minute. */
  faults: number;
  mode: BreakerMode;
  /** How often it has opened. */
  opened: number;
  retry_after_seconds: number | null;
  /** `closed`, `open` or `half-open`. */
  state: string;
};

/** A call over one of the first two waits or gets 503, over the times 504, over the size 502; no other call does. */
export type PluginBudgets = {
  calls: BudgetShare;
  /** Of its own pool; none when it has no database. */
  connections: BudgetShare | null;
  /** Open files and sockets that it alone can have opened; those opened while others had calls, too, count for none. Not limited. */
  descriptors: number;
  library_bytes: number;
  /** Bytes that its code holds, if its library counts them, and that the library takes by itself. Not limited. */
  memory_bytes: number | null;
  /** Of a reply that is not streamed. */
  reply_bytes: number;
  statement_timeout_ms: number;
  timeout_ms: number;
};

/** What the guard has seen. */
export type PluginCounters = {
  breaker: PluginBreaker;
  calls: number;
  /** Calls that went wrong, by whose fault it was. */
  causes: Record<string, number>;
  /** Failures of its frontend that browsers have reported. */
  client_errors: number;
  /** Those among them in which it held up the page, or its frame, for seconds. */
  client_hangs: number;
  errors: number;
  /** Where its handlers run, and which of them have blocked a thread. */
  execution: PluginExecution | null;
  in_flight: number;
  /** Lines that it has written, and lines too many that were dropped. */
  log_lines: number;
  log_lines_dropped: number;
  panics: number;
  /** The last ones, the newest first. */
  recent_faults: PluginFault[];
  refused: number;
  timeouts: number;
};

/** What operators see of it. */
export type PluginExecution = {
  /** Polls that did not return in time: on the core's threads, and on the lane's. */
  blocked_core: number;
  blocked_lane: number;
  /** Handlers that have blocked a thread, and for how long at most; a poll that goes on counts with what it took so far. */
  blocking: BlockingHandler[];
  execution: ExecutionMode;
  handlers: number;
  /** Threads of its own that polls hold right now which do not return, and the most that it may have. */
  held_threads: BlockingHandler[];
  /** Handlers whose polls run on the core's threads. */
  inline: number;
  lane_threads: number;
  most_threads: number;
};

/** A call that went wrong. */
export type PluginFault = {
  at: string;
  cause: string;
  /** The route, or a tool's handler. */
  handler: string;
  kind: string;
  ms: number;
  request_id: string;
};

/** What the Admin UI loads a plugin by. */
export type PluginFrontend = {
  /** For `integrity`: `sha384-…` of the entry point. */
  integrity: string;
  main_url: string;
};

/** One instance, as operators see it. */
export type PluginGeneration = {
  /** Its memory is given back but for the library, which stays. */
  freed: boolean;
  generation: number;
  in_flight: number;
  /** Bytes that the library takes, shared by all generations of the same content. */
  library_bytes: number;
  /** Bytes that the library's code holds, if it counts them. */
  memory_bytes: number | null;
  retired_at: string | null;
  sha256: string;
  since: string;
  state: PluginState;
  /** Threads of its lane. */
  threads: number;
  version: string;
};

/** A job of `backend.jobs`. */
export type PluginJob = {
  name: string;
  resumable: boolean;
  /** When the host starts it by itself. */
  schedule: PluginSchedule | null;
  scope: string;
  timeout_minutes: number;
  title: string | null;
};

/** What the library was made with. */
export type PluginLibrary = {
  rustc: string;
  sdk: string;
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

/** A page in the navigation, drawn by the plugin's frontend. */
export type PluginPage = {
  icon: string | null;
  id: string;
  label: string;
};

/** Everything that an operator may want to know of a plugin that was found. */
export type PluginReport = {
  api_prefix: string | null;
  author: string | null;
  /** Of a plugin in service: what it may use, and uses. */
  budgets: PluginBudgets | null;
  card_actions: CardAction[];
  core_version: string | null;
  counters: PluginCounters | null;
  /** The last time that it ended the worker of this host. */
  crash: Crash | null;
  description: string | null;
  generation: number | null;
  /** The instances of this worker, the newest first; old ones are inert and stay until the worker ends. */
  generations: PluginGeneration[];
  jobs: PluginJob[];
  library: PluginLibrary | null;
  list_columns: ListColumn[];
  name: string;
  /** The name of its folder or file in the plugins folder. */
  package: string;
  pages: PluginPage[];
  /** The files that lie there now, when what was loaded before serves in their place; `refusal` is theirs. */
  pending: PendingPackage | null;
  plugin_api_version: string | null;
  provides_kinds: string[];
  /** Why it was set aside, and the crash that did it. */
  quarantine: QuarantinedPackage | null;
  reads_kinds: string[];
  /** In one sentence, whatever keeps the plugin from serving. */
  reason: string | null;
  /** Of a plugin in service: why the files that lie there now do not replace what serves. */
  refusal: Refusal | null;
  /** Of a plugin in service: what its library exports. */
  routes: PluginRoute[];
  sha256: string | null;
  /** The number of the key that signed it, when that is one of the operator's. */
  signed_by: string | null;
  state: PluginState;
  tabs: CardTab[];
  /** Threads of all its generations. */
  threads: number;
  title: string | null;
  tools: PluginTool[];
  version: string | null;
  /** What this host can go back to and what was rolled back, the one that was put into service last first. */
  versions: PluginVersion[];
  warnings: string[];
};

export type PluginRoute = {
  max_body_bytes: number;
  method: string;
  path: string;
  scope: string;
  timeout_ms: number;
};

/** The times of a job. What is not declared is the same for all hosts of the database; the registry does not know it. */
export type PluginSchedule = {
  cron: string;
  jitter_seconds: number;
  last_at: string | null;
  /** The job of that time, and how far it is or how it ended. */
  last_job: string | null;
  last_state: string | null;
  next_at: string | null;
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

/** The states of a plugin (contract 5.3). */
export type PluginState = "discovered" | "checked" | "loaded" | "migrated" | "active" | "draining" | "retired" | "disabled" | "refused" | "failed" | "quarantined";

export type PluginTool = {
  description: string;
  handler: string;
  name: string;
  requires_confirmation: boolean;
  scope: string;
  title: string | null;
};

/** A package of a plugin. */
export type PluginVersion = {
  activated_at: string | null;
  can_roll_back: boolean;
  /** It was rolled back: when, by whom, why. */
  set_aside: SetAside | null;
  sha256: string;
  /** `active`, `kept`, or `absent` from this host. */
  state: string;
  version: string;
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

/** A package that is not loaded until an operator releases it. Another package of the same plugin is. */
export type QuarantinedPackage = {
  /** The crash that did it. */
  crash: Crash;
  plugin: string;
  sha256: string;
  since: string;
  /** Nobody saw it do anything: it alone had code running, or calls under way, at each of several unattributed crashes. */
  suspected: boolean;
  version: string;
};

export type RateShown = {
  burst: number | null;
  per_minute: number;
};

/** A plugin turned away: what for, both values, and what to do about it. */
export type Refusal = {
  code: RefusalCode;
  expected?: string | null;
  fix: string;
  found?: string | null;
  /** What would be lost: an operator may agree to exactly this. */
  losses?: string[];
  /** One plain sentence. */
  reason: string;
};

/** Why a plugin was refused. Stable: tests, scripts and the Admin UI know them by name. */
export type RefusalCode = "bad-manifest" | "bad-name" | "reserved-name" | "bad-tool-name" | "unsupported-api-version" | "core-out-of-range" | "duplicate-name" | "duplicate-prefix" | "duplicate-tool" | "duplicate-tab" | "duplicate-contribution" | "manifest-mismatch" | "library-missing" | "several-libraries" | "wrong-platform" | "wrong-architecture" | "not-a-plugin" | "truncated" | "panic-abort" | "layout-mismatch" | "not-loadable" | "constructor-panicked" | "probe-failed" | "create-panicked" | "create-failed" | "route-not-declared" | "route-missing" | "route-invalid" | "tool-handler-missing" | "job-handler-missing" | "frontend-invalid" | "too-large" | "unreadable" | "link-refused" | "world-writable" | "untrusted-owner" | "hash-not-trusted" | "signature-missing" | "signature-invalid" | "signer-changed" | "schema-failed" | "schema-unsafe" | "schema-taken" | "package-changed" | "destructive-migration" | "settings-invalid" | "feature-missing" | "rolled-back" | "lower-version";

/** Every plugin that was found, as this host sees it. */
export type Registry = {
  host_id: string;
  items: PluginReport[];
};

/** One plugin, as this host sees it. */
export type RegistryItem = {
  host_id: string;
  item: PluginReport;
  /** Once it is disabled: what other plugins lack without it. */
  warnings?: string[] | null;
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

/** Why a package is not put into service again by itself. */
export type SetAside = {
  at: string;
  /** `{kind, id, name}`. */
  by: Actor;
  reason: string;
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
