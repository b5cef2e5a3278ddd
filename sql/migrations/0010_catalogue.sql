-- What a million cards need. None of these indexes reads a column that an enrichment changes: enrichments stay HOT.

-- The words of a search are found by their trigrams. What PostgreSQL's own pg_trgm would do, but for every character
-- (SKUs are full of hyphens, and it sees letters and digits alone), without an extension that a server may not have or
-- its administrator not allow. A title and a SKU are lines of one text; their first two characters count as a key as
-- well, which is what a search for one or two characters looks for.
CREATE FUNCTION public.card_search_keys(lines text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 1000 AS $keys$
DECLARE
  keys text[] := '{}';
  three text;
BEGIN
  FOR at IN 1 .. length(lines) LOOP
    three := substr(lines, at, 3);
    IF length(three) = 3 THEN
      keys := array_append(keys, three);
    END IF;
    IF left(three, 1) = E'\n' AND length(three) > 1 THEN
      keys := array_append(keys, left(three, 2));
    END IF;
  END LOOP;
  RETURN keys;
END
$keys$;
REVOKE ALL ON FUNCTION public.card_search_keys(text) FROM PUBLIC;

CREATE INDEX master_cards_search ON public.master_cards
  USING gin (public.card_search_keys(lower((E'\n' || title || E'\n' || sku) COLLATE "default")))
  WHERE deleted_at IS NULL;

-- So that the planner knows a frequent word from a rare one.
CREATE STATISTICS public.master_cards_search_text
  ON (lower((E'\n' || title || E'\n' || sku) COLLATE "default")) FROM public.master_cards;

CREATE INDEX master_cards_status ON public.master_cards (status, id) WHERE deleted_at IS NULL;

-- What the retention removes, oldest first, and what `deleted=true` lists.
CREATE INDEX master_cards_deleted ON public.master_cards (deleted_at, id) WHERE deleted_at IS NOT NULL;

-- A card as it was at an earlier version is put together from the lines that say what its fields became; enrichments,
-- which are nearly all lines, are not among them.
CREATE INDEX card_history_fields ON public.card_history (card_id, version)
  WHERE action NOT IN ('enrich', 'remove_source');
