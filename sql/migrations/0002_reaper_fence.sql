-- Only the reaper may delete cards. A plugin's trigger on a table that cascades from a card runs, before
-- PostgreSQL 18, with the rights of whoever deleted the card. This fence lets the reaper's own statement through
-- and stops whatever such a trigger tries: it fires inside another trigger (depth above 1, deferred ones too).
-- The core's own tables cascade off a card without deleting cards, so they never meet it.
CREATE FUNCTION public.master_cards_fence_delete() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $fence$
BEGIN
  IF pg_trigger_depth() > 1 THEN
    RAISE EXCEPTION 'a card cannot be deleted from within a trigger' USING ERRCODE = 'insufficient_privilege';
  END IF;
  IF OLD.deleted_at IS NULL THEN
    RAISE EXCEPTION 'card % is not marked as deleted', OLD.id USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN OLD;
END
$fence$;
REVOKE ALL ON FUNCTION public.master_cards_fence_delete() FROM PUBLIC;

CREATE TRIGGER master_cards_fence_delete BEFORE DELETE ON public.master_cards
FOR EACH ROW EXECUTE FUNCTION public.master_cards_fence_delete();
-- Cannot be switched off by session_replication_role, which a superuser's restore sets.
ALTER TABLE public.master_cards ENABLE ALWAYS TRIGGER master_cards_fence_delete;
