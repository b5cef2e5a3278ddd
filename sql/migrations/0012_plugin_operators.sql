-- What operators decide about plugins beyond what 0001 has, and what of it must be known to act on it safely.

-- Settings that the plugin's schema marks `writeOnly`: JSON pointer to the value, encrypted with a key that is derived
-- from the secret of the role passwords. The rest of the settings stands in `settings`.
ALTER TABLE public.plugin_state ADD COLUMN sealed jsonb NOT NULL DEFAULT '{}';

-- An operator's word that this package may lose exactly this when its schema.sql is run. Good for one run.
CREATE TABLE public.plugin_confirmations (
  plugin  text NOT NULL,
  sha256  text NOT NULL,                  -- of the package
  losses  text[] NOT NULL,
  by      jsonb NOT NULL,                 -- {kind, id, name}
  at      timestamptz NOT NULL DEFAULT now(),
  used_at timestamptz,
  PRIMARY KEY (plugin, sha256)
);

-- What each step lost: a version from before such a step can't be gone back to.
ALTER TABLE public.plugin_schema_steps ADD COLUMN losses text[] NOT NULL DEFAULT '{}';

-- Which host has which plugin in service: whose data nobody may drop. A host that is not heard of any more (`hosts`)
-- does not count.
CREATE UNLOGGED TABLE public.plugin_service (
  host   uuid NOT NULL,
  plugin text NOT NULL,
  PRIMARY KEY (host, plugin)
);
