-- Accounts that were removed, keys with one successor, and an audit log that is fenced and counts what is repeated.

-- A removed account stays as a row, since sessions, keys and the audit log refer to it; its name is free again.
ALTER TABLE public.admin_users ADD COLUMN deleted_at timestamptz;
DROP INDEX public.admin_users_username;
CREATE UNIQUE INDEX admin_users_username ON public.admin_users (kind, lower(username))
  WHERE kind <> 'oidc' AND deleted_at IS NULL;

-- A key has one living successor: two rotations side by side must not leave two keys, of which one is forgotten.
CREATE UNIQUE INDEX admin_api_keys_successor ON public.admin_api_keys (replaces_id) WHERE revoked_at IS NULL;

ALTER TABLE public.admin_audit_log
  ADD COLUMN id       uuid NOT NULL DEFAULT gen_random_uuid(),
  ADD COLUMN count    integer NOT NULL DEFAULT 1 CHECK (count >= 1),   -- refusals of one minute that the row stands for
  ADD COLUMN first_at timestamptz;                                     -- of these the first; NULL = `at`, which is the last
CREATE INDEX admin_audit_log_actor  ON public.admin_audit_log ((actor ->> 'id'), seq);
CREATE INDEX admin_audit_log_action ON public.admin_audit_log (action, seq);
CREATE INDEX admin_audit_log_target ON public.admin_audit_log (target, seq) WHERE target IS NOT NULL;

-- The reaper removes what is older than the retention. Whoever got hold of its login must not be able to remove what
-- they have just done: nothing younger than a day goes, which is the shortest retention that can be set.
CREATE FUNCTION public.admin_audit_log_fence_delete() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $fence$
BEGIN
  IF OLD.at > clock_timestamp() - interval '1 day' THEN
    RAISE EXCEPTION 'the audit log keeps every line for a day at least' USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN OLD;
END
$fence$;
REVOKE ALL ON FUNCTION public.admin_audit_log_fence_delete() FROM PUBLIC;

CREATE TRIGGER admin_audit_log_fence_delete BEFORE DELETE ON public.admin_audit_log
FOR EACH ROW EXECUTE FUNCTION public.admin_audit_log_fence_delete();
ALTER TABLE public.admin_audit_log ENABLE ALWAYS TRIGGER admin_audit_log_fence_delete;
