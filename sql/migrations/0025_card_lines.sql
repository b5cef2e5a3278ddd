-- Searches of one or two characters find beginnings of lines. Most titles and SKUs are one line, which the indexes by
-- title and SKU find; those of several are looked up here.
--
-- Half a second for a million cards. Writers of cards wait for it, readers do not. `card_list_fill` leaves it in place.

CREATE INDEX card_list_index_lines ON public.card_list_index (card_group, card_id) INCLUDE (words)
  WHERE title LIKE E'%\n%' OR sku LIKE E'%\n%';
