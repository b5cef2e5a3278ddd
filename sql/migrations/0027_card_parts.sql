-- A search reads a part of a list by the index of its keys and one of the list's order together (`parts.rs`). Ids have
-- one, this is that of SKUs. Titles would have none of it: read in their order, cards lie all over the table, and to mark
-- each takes as long as a step along the list.
--
-- A second for a million cards. Writers of cards wait for it, readers do not. `card_list_fill` leaves it in place.

CREATE INDEX card_words_sku ON public.card_words (sku);
