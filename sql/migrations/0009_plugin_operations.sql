-- What operators decide about plugins, and what was recorded of them.

-- Every package of a plugin that was in service on a host of this database, and what was decided about it. Decisions
-- hold on every host; which packages a host has is the host's own matter.
CREATE TABLE public.plugin_versions (
  plugin           text NOT NULL,
  sha256           text NOT NULL,        -- of the package's content, in hex
  version          text NOT NULL,
  activated_at     timestamptz,          -- when it was first in service; null: not yet
  -- It was rolled back, and is not put into service again by itself.
  set_aside_at     timestamptz,
  set_aside_by     jsonb,                -- {kind, id, name}; kind `host` when the error rate did it
  set_aside_reason text,
  -- An operator confirmed that its schema.sql loses data; what was lost stands in plugin_schema_steps.
  destructive_confirmed_at timestamptz,
  destructive_confirmed_by jsonb,
  PRIMARY KEY (plugin, sha256)
);
