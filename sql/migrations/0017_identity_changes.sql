-- Whose rights have changed, so that every host forgets what it knows of them. Writers only add lines, so none waits for
-- another. A reader goes by `xid`, not by `number`: numbers are given before the commit, and a lower one can turn up late.
CREATE TABLE public.identity_changes (
  number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  xid     xid8 NOT NULL DEFAULT pg_current_xact_id(),
  at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  kind    text NOT NULL CHECK (kind IN ('user', 'key', 'session')),
  subject uuid NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX identity_changes_xid ON public.identity_changes (xid);

-- Fires for every statement that changes a row, whoever runs it. Runs as the owner: the core adds no line by itself.
CREATE FUNCTION public.identity_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $changed$
BEGIN
  INSERT INTO public.identity_changes (kind, subject) VALUES (TG_ARGV[0], OLD.id);
  RETURN NULL;
END
$changed$;
REVOKE ALL ON FUNCTION public.identity_changed() FROM PUBLIC;

-- The conditions name the columns that are no right, and are written every few seconds; a new column counts until it is
-- named here.
CREATE TRIGGER identity_changed AFTER UPDATE ON public.admin_users FOR EACH ROW
WHEN (to_jsonb(OLD) - 'updated_at' IS DISTINCT FROM to_jsonb(NEW) - 'updated_at')
EXECUTE FUNCTION public.identity_changed('user');

CREATE TRIGGER identity_changed AFTER UPDATE ON public.admin_sessions FOR EACH ROW
WHEN (to_jsonb(OLD) - 'last_seen_at' IS DISTINCT FROM to_jsonb(NEW) - 'last_seen_at')
EXECUTE FUNCTION public.identity_changed('session');

CREATE TRIGGER identity_changed AFTER UPDATE ON public.admin_api_keys FOR EACH ROW
WHEN (to_jsonb(OLD) - '{last_used_at,last_used_ip}'::text[]
      IS DISTINCT FROM to_jsonb(NEW) - '{last_used_at,last_used_ip}'::text[])
EXECUTE FUNCTION public.identity_changed('key');
