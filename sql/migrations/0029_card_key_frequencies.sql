-- A search asks its index for the rare ones of its keys, and so has to know how frequent they are: as the last ANALYZE
-- has found, whose view shows the core only tables that it reads, and no index. A host of the version before goes on
-- with `card_search_frequent_keys`.

CREATE FUNCTION public.card_search_key_frequencies() RETURNS TABLE (key text, frequency real)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $frequencies$
  SELECT e.key, e.frequency
    FROM pg_stats s, unnest(s.most_common_elems::text::text[], s.most_common_elem_freqs) e (key, frequency)
   WHERE s.schemaname = 'public' AND s.tablename = 'card_words_keys' AND e.key IS NOT NULL
$frequencies$;
REVOKE ALL ON FUNCTION public.card_search_key_frequencies() FROM PUBLIC;
