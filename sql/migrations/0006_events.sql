-- Events that readers are sent. Writers add to `event_outbox` in their own transactions; one host at a time moves what
-- is there to `events` and numbers it. A number is given when the row can already be read, so that no row turns up below
-- one that a reader has seen, which a plain sequence lets happen: there the number is taken before the commit.

CREATE TABLE public.event_outbox (
  entry   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,     -- of one card in the order of its versions
  at      timestamptz NOT NULL DEFAULT now(),
  topic   text NOT NULL CHECK (topic IN ('card', 'plugin', 'job', 'approval')),
  type    text NOT NULL,                                       -- e.g. card.updated
  card_id uuid,
  version bigint,
  actor   jsonb,                                               -- {kind, id, name}
  data    jsonb                                                -- what else there is to say
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE TABLE public.events (
  id    bigint PRIMARY KEY,                                    -- without gaps
  at    timestamptz NOT NULL,
  topic text NOT NULL,
  type  text NOT NULL,
  data  jsonb NOT NULL
);

-- One row, whose lock is the turn of whoever numbers. The first number is the time in milliseconds: a database that was
-- made anew or restored goes on above the numbers of the one before it, and a reader of that one is told so.
CREATE TABLE public.event_numbers (
  one       boolean PRIMARY KEY DEFAULT true CHECK (one),
  last      bigint NOT NULL,                                   -- the number given last
  kept_from bigint NOT NULL                                    -- of `events` the oldest that is still there, or the next
) WITH (fillfactor = 10);
INSERT INTO public.event_numbers (last, kept_from)
SELECT now_ms, now_ms + 1 FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms) AS t;

-- Every line of a card's history is an event, whoever writes it. A statement that touches more cards than anybody reads
-- one by one is a single event. The trigger runs in every enrichment, so it does without SET search_path, which costs a
-- third of it: nobody may create anything in `public`, and what it calls are exact matches of pg_catalog.
CREATE FUNCTION public.card_history_tell() RETURNS trigger
LANGUAGE plpgsql AS $tell$
BEGIN
  IF EXISTS (SELECT FROM added OFFSET 500) THEN
    INSERT INTO public.event_outbox (topic, type, actor, data)
    SELECT 'card', 'card.bulk', actor, pg_catalog.jsonb_build_object('action', action, 'cards', pg_catalog.count(*))
      FROM added GROUP BY actor, action;
  ELSE
    INSERT INTO public.event_outbox (topic, type, card_id, version, actor, data)
    SELECT 'card',
           CASE action WHEN 'enrich' THEN 'card.enriched' WHEN 'create' THEN 'card.created' WHEN 'delete' THEN 'card.deleted'
                       WHEN 'restore' THEN 'card.restored' WHEN 'remove_source' THEN 'card.source-removed'
                       ELSE 'card.updated' END,
           card_id, version, actor, CASE WHEN action IN ('enrich', 'remove_source') THEN change END
      FROM added;
  END IF;
  RETURN NULL;
END
$tell$;
REVOKE ALL ON FUNCTION public.card_history_tell() FROM PUBLIC;

CREATE TRIGGER card_history_tell AFTER INSERT ON public.card_history
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.card_history_tell();

-- A card that is removed for good takes its history along. Runs as the owner: with a right to write events the reaper
-- could be made to forge them by a plugin's trigger.
CREATE FUNCTION public.master_cards_tell_purge() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $tell$
BEGIN
  IF EXISTS (SELECT FROM gone OFFSET 500) THEN
    INSERT INTO public.event_outbox (topic, type, data)
    SELECT 'card', 'card.bulk', jsonb_build_object('action', 'purge', 'cards', count(*)) FROM gone;
  ELSE
    INSERT INTO public.event_outbox (topic, type, card_id, version) SELECT 'card', 'card.purged', id, version FROM gone;
  END IF;
  RETURN NULL;
END
$tell$;
REVOKE ALL ON FUNCTION public.master_cards_tell_purge() FROM PUBLIC;

CREATE TRIGGER master_cards_tell_purge AFTER DELETE ON public.master_cards
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION public.master_cards_tell_purge();

-- Numbers what waits, unless another host is at it: then nothing is done. The lock comes before the look at the outbox, so
-- that a card's versions keep their order. One call, so that a host that is stopped in the middle holds nothing up.
CREATE FUNCTION public.number_events(at_most integer) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog AS $number$
DECLARE
  before bigint;
  given bigint;
BEGIN
  SELECT n.last INTO before FROM public.event_numbers n FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  WITH taken AS (
    DELETE FROM public.event_outbox WHERE entry IN (SELECT o.entry FROM public.event_outbox o ORDER BY o.entry LIMIT at_most)
    RETURNING *
  )
  INSERT INTO public.events (id, at, topic, type, data)
  SELECT before + row_number() OVER (ORDER BY t.entry), t.at, t.topic, t.type,
         jsonb_strip_nulls(jsonb_build_object('card_id', t.card_id, 'version', t.version, 'actor', t.actor))
         || coalesce(t.data, '{}')
    FROM taken t;
  GET DIAGNOSTICS given = ROW_COUNT;
  IF given > 0 THEN
    UPDATE public.event_numbers SET last = before + given;
  END IF;
  RETURN given;
END
$number$;
REVOKE ALL ON FUNCTION public.number_events(integer) FROM PUBLIC;

-- Forgets the oldest events that are over `age` or beyond the `most` that are kept; gives how many.
CREATE FUNCTION public.forget_events(at_most integer, most bigint, age interval) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog AS $forget$
DECLARE
  numbers public.event_numbers;
  upto bigint;
BEGIN
  SELECT * INTO numbers FROM public.event_numbers FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  SELECT max(o.id) INTO upto
    FROM (SELECT e.id, e.at FROM public.events e WHERE e.id >= numbers.kept_from ORDER BY e.id LIMIT at_most) AS o
   WHERE o.at < now() - age OR o.id <= numbers.last - most;
  IF upto IS NULL THEN
    RETURN 0;
  END IF;
  DELETE FROM public.events WHERE id <= upto;
  UPDATE public.event_numbers SET kept_from = upto + 1;
  RETURN upto + 1 - numbers.kept_from;
END
$forget$;
REVOKE ALL ON FUNCTION public.forget_events(integer, bigint, interval) FROM PUBLIC;
