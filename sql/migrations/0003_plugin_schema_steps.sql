-- Every schema.sql of a plugin that was run here, in order: a restore runs them again, and so makes the plugin's tables
-- as they were, whatever version of PostgreSQL it restores to.
CREATE TABLE public.plugin_schema_steps (
  plugin         text NOT NULL,
  number         integer NOT NULL,
  sha256         bytea NOT NULL,
  plugin_version text NOT NULL,
  schema_sql     text NOT NULL,
  applied_at     timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (plugin, number)
);
