-- The core's tables. Runs once, as the owner role, in one transaction (host/src/db/migrate.rs).
-- Grants stand in sql/grants.sql, which runs after every migration and is idempotent.

CREATE TABLE public.admin_users (
  id                   uuid PRIMARY KEY,
  username             text NOT NULL CHECK (length(username) BETWEEN 1 AND 120),
  kind                 text NOT NULL DEFAULT 'user' CHECK (kind IN ('user', 'oidc', 'plugin')),
  password_hash        text,                                   -- PHC string, argon2id; NULL = cannot log in by password
  role                 text CHECK (role IN ('owner', 'admin', 'editor', 'viewer')),
  token_epoch          integer NOT NULL DEFAULT 0,             -- raised by password change, disable, role change: ends all sessions
  oidc_iss             text,
  oidc_sub             text,
  must_change_password boolean NOT NULL DEFAULT false,
  disabled_at          timestamptz,
  created_at           timestamptz NOT NULL DEFAULT now(),
  updated_at           timestamptz NOT NULL DEFAULT now(),
  UNIQUE (oidc_iss, oidc_sub)
);
CREATE UNIQUE INDEX admin_users_username ON public.admin_users (kind, lower(username)) WHERE kind <> 'oidc';

CREATE TABLE public.admin_sessions (
  id             uuid PRIMARY KEY,
  user_id        uuid NOT NULL REFERENCES public.admin_users,
  created_at     timestamptz NOT NULL DEFAULT now(),
  expires_at     timestamptz NOT NULL,
  last_seen_at   timestamptz,
  revoked_at     timestamptz,
  revoked_reason text,
  ip             inet,
  user_agent     text
);
CREATE INDEX admin_sessions_user ON public.admin_sessions (user_id) WHERE revoked_at IS NULL;
CREATE INDEX admin_sessions_expiry ON public.admin_sessions (expires_at);

CREATE TABLE public.admin_api_keys (
  id              uuid PRIMARY KEY,
  name            text NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
  key_hash        bytea NOT NULL UNIQUE CHECK (length(key_hash) = 32),
  key_hint        text NOT NULL,
  owner_id        uuid NOT NULL REFERENCES public.admin_users,
  scopes          text[] NOT NULL CHECK (cardinality(scopes) BETWEEN 1 AND 64),
  rate_per_minute integer CHECK (rate_per_minute BETWEEN 1 AND 100000000),  -- NULL = no limit
  rate_burst      integer CHECK (rate_burst BETWEEN 1 AND 100000000),
  expires_at      timestamptz,
  created_at      timestamptz NOT NULL DEFAULT now(),
  last_used_at    timestamptz,
  last_used_ip    inet,
  revoked_at      timestamptz,
  revoked_reason  text,
  replaces_id     uuid REFERENCES public.admin_api_keys
);
CREATE INDEX admin_api_keys_owner ON public.admin_api_keys (owner_id) WHERE revoked_at IS NULL;

-- Append-only: the core's run-time role may INSERT and SELECT, never UPDATE or DELETE.
CREATE TABLE public.admin_audit_log (
  seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at         timestamptz NOT NULL DEFAULT now(),
  actor      jsonb NOT NULL,                                   -- {kind, id, name}
  action     text NOT NULL,                                    -- e.g. api_key.create
  target     text,
  outcome    text NOT NULL CHECK (outcome IN ('ok', 'refused', 'failed')),
  ip         inet,
  request_id text,
  detail     jsonb
);
CREATE INDEX admin_audit_log_at ON public.admin_audit_log (at);

CREATE TABLE public.master_cards (
  id         uuid PRIMARY KEY,                                 -- UUIDv7 from the host: key order is creation order
  title      text COLLATE "C" NOT NULL CHECK (length(title) BETWEEN 1 AND 500),
  sku        text COLLATE "C" NOT NULL CHECK (length(sku) BETWEEN 1 AND 120),
  status     text NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'active', 'archived')),
  -- The coalesce matters: without it a missing `sources` makes the check NULL, which passes.
  attributes jsonb NOT NULL DEFAULT '{"sources":{}}'
             CHECK (coalesce(jsonb_typeof(attributes->'sources'), '') = 'object'),
  version    bigint NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  deleted_at timestamptz
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02);
CREATE UNIQUE INDEX master_cards_sku ON public.master_cards (sku) WHERE deleted_at IS NULL;
CREATE INDEX master_cards_title ON public.master_cards (title, id) WHERE deleted_at IS NULL;
-- No index on updated_at or attributes: it would end HOT updates and triple the cost of an enrichment.

-- One row per source, written in the card's own transaction: filters by kind and plugin, limits, orphans.
CREATE TABLE public.card_source_index (
  card_id    uuid NOT NULL REFERENCES public.master_cards ON DELETE CASCADE,
  source_key text COLLATE "C" NOT NULL,
  plugin     text NOT NULL,
  kind       text NOT NULL,
  bytes      integer NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (card_id, source_key)
);
CREATE INDEX card_source_index_kind ON public.card_source_index (kind, card_id);
CREATE INDEX card_source_index_plugin ON public.card_source_index (plugin, card_id);

CREATE TABLE public.card_history (
  id      uuid PRIMARY KEY,                                    -- UUIDv7: newest last
  card_id uuid NOT NULL REFERENCES public.master_cards ON DELETE CASCADE,
  version bigint NOT NULL,
  at      timestamptz NOT NULL DEFAULT now(),
  actor   jsonb NOT NULL,                                      -- {kind, id, name}
  action  text NOT NULL,                                       -- create, update, delete, restore, enrich, remove_source
  change  jsonb NOT NULL                                       -- what was sent: a merge patch, or {source_key, kind}
);
CREATE INDEX card_history_card ON public.card_history (card_id, id DESC);

-- One row per plugin and database: locked while its schema.sql runs, so that hosts side by side run it once.
CREATE TABLE public.plugin_schema_state (
  plugin         text PRIMARY KEY,
  schema_sha256  bytea,
  plugin_version text,
  applied_at     timestamptz,
  duration_ms    integer
);

-- What an operator decided about a plugin; per database, so that it reaches every host.
CREATE TABLE public.plugin_state (
  plugin        text PRIMARY KEY,
  disabled_at   timestamptz,
  disabled_by   jsonb,
  settings      jsonb NOT NULL DEFAULT '{}',
  settings_version bigint NOT NULL DEFAULT 0,
  updated_at    timestamptz NOT NULL DEFAULT now()
);
