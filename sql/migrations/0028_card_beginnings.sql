-- Searches for words that titles or SKUs begin with. In the list's order these cards lie together and are read there,
-- as soon as few cards are known to have the text anywhere else (`first_words.rs`). So the first three characters of a
-- title and those of an SKU have keys of their own, and the same characters elsewhere have another.
--
-- A minute for a million cards. Writers of cards wait for it, readers only for the change of names at its end. A host
-- of the version before finds its function, but not its index any more: until it is gone, its searches for rare words
-- read all cards, half a second for a million.

-- The keys of a title and an SKU, each behind a line's end. Three characters are a key; the first three of the title
-- have a line's end before them, those of the SKU two, and no key without unless they stand elsewhere as well. Where
-- title or SKU has several lines, the SKU's beginning is not known and nothing special. One and two characters behind a
-- line's end are a key as well, which is what a search for so few looks for.
CREATE FUNCTION public.card_word_keys(lines text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 1000 AS $keys$
DECLARE
  sku CONSTANT integer := CASE WHEN length(lines) - length(replace(lines, E'\n', '')) = 2
                               THEN strpos(substr(lines, 2), E'\n') + 2 END;
  keys text[] := '{}';
  three text;
BEGIN
  FOR at IN 1 .. length(lines) LOOP
    three := substr(lines, at, 3);
    IF left(three, 1) = E'\n' THEN
      IF length(three) > 1 THEN
        keys := array_append(keys, left(three, 2));
      END IF;
      IF length(three) = 3 THEN
        keys := array_append(keys, three);
      END IF;
    ELSIF length(three) = 3 THEN
      keys := array_append(keys, CASE at WHEN 2 THEN E'\n' || three WHEN sku THEN E'\n\n' || three ELSE three END);
    END IF;
  END LOOP;
  RETURN keys;
END
$keys$;
REVOKE ALL ON FUNCTION public.card_word_keys(text) FROM PUBLIC;

SET LOCAL maintenance_work_mem = '128MB';
CREATE INDEX card_words_keys_by_place ON public.card_words USING gin (public.card_word_keys(words))
  WITH (gin_pending_list_limit = 256);
ANALYZE public.card_words;
DROP INDEX public.card_words_keys;
ALTER INDEX public.card_words_keys_by_place RENAME TO card_words_keys;

-- Fills the tables of lists from the cards: after a restore. Gives the number of cards.
CREATE OR REPLACE FUNCTION public.card_list_fill() RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog SET client_min_messages = warning SET maintenance_work_mem = '128MB'
AS $fill$
DECLARE
  most CONSTANT bigint := 2000;
  cards bigint;
BEGIN
  DROP INDEX IF EXISTS public.card_list_index_title, public.card_list_index_sku, public.card_list_index_id,
    public.card_words_keys, public.card_times_updated;
  ALTER TABLE public.card_list_index DROP CONSTRAINT IF EXISTS card_list_index_pkey;
  ALTER TABLE public.card_words DROP CONSTRAINT IF EXISTS card_words_pkey;
  ALTER TABLE public.card_times DROP CONSTRAINT IF EXISTS card_times_pkey;
  TRUNCATE public.card_list_index, public.card_words, public.card_times;
  CREATE UNLOGGED TABLE public.card_sets AS
    SELECT s.card_id, array_agg(DISTINCT s.kind COLLATE "C") AS kinds, array_agg(DISTINCT s.plugin COLLATE "C") AS plugins
      FROM public.card_source_index s GROUP BY s.card_id;
  ANALYZE public.card_sets;
  INSERT INTO public.card_groups (deleted, status, kinds, plugins)
  SELECT c.deleted_at IS NOT NULL, c.status, s.kinds, s.plugins
    FROM public.master_cards c JOIN public.card_sets s ON s.card_id = c.id
   GROUP BY 1, 2, 3, 4
  EXCEPT SELECT g.deleted, g.status, g.kinds, g.plugins FROM public.card_groups g
   LIMIT greatest(0, most - (SELECT count(*) FROM public.card_groups));
  INSERT INTO public.card_list_index (card_id, card_group, title, sku, words)
  SELECT c.id, CASE WHEN s.card_id IS NULL THEN public.card_group_bare(c.deleted_at IS NOT NULL, c.status)
                    ELSE coalesce(g.id, 10 + public.card_group_bare(c.deleted_at IS NOT NULL, c.status)) END,
         c.title, c.sku, public.card_search_words(c.title, c.sku)
    FROM public.master_cards c
    LEFT JOIN public.card_sets s ON s.card_id = c.id
    LEFT JOIN (SELECT deleted, status, kinds, plugins, min(id) AS id FROM public.card_groups GROUP BY 1, 2, 3, 4) g
      ON g.deleted = (c.deleted_at IS NOT NULL) AND g.status = c.status AND g.kinds = s.kinds AND g.plugins = s.plugins;
  GET DIAGNOSTICS cards = ROW_COUNT;
  DROP TABLE public.card_sets;
  ALTER TABLE public.card_list_index ADD CONSTRAINT card_list_index_pkey PRIMARY KEY (card_id);
  INSERT INTO public.card_words (card_id, card_group, title, sku, words)
  SELECT l.card_id, l.card_group, l.title, l.sku, l.words FROM public.card_list_index l;
  ALTER TABLE public.card_words ADD CONSTRAINT card_words_pkey PRIMARY KEY (card_id);
  INSERT INTO public.card_times (card_id, card_group, updated_at, title, sku, words)
  SELECT l.card_id, l.card_group, c.updated_at, l.title, l.sku, l.words
    FROM public.card_list_index l JOIN public.master_cards c ON c.id = l.card_id;
  ALTER TABLE public.card_times ADD CONSTRAINT card_times_pkey PRIMARY KEY (card_id) INCLUDE (updated_at);
  CREATE INDEX card_list_index_title ON public.card_list_index (card_group, title, card_id) INCLUDE (words);
  CREATE INDEX card_list_index_sku ON public.card_list_index (card_group, sku, card_id) INCLUDE (words);
  CREATE INDEX card_list_index_id ON public.card_list_index (card_group, card_id) INCLUDE (words);
  -- What was written last waits in a list that every search reads: a short one.
  CREATE INDEX card_words_keys ON public.card_words USING gin (public.card_word_keys(words))
    WITH (gin_pending_list_limit = 256);
  CREATE INDEX card_times_updated ON public.card_times (card_group, updated_at, card_id) INCLUDE (title, sku, words);
  ANALYZE public.card_list_index, public.card_words, public.card_times;
  RETURN cards;
END
$fill$;
