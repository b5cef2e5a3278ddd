-- Four kinds, on 5 to 60 % of the 1000000 cards.
INSERT INTO public.card_source_index (card_id, source_key, plugin, kind, bytes)
SELECT c.id, k.kind || ':x', k.kind, k.kind, 300
  FROM (SELECT id, right(sku, 7)::bigint AS n FROM public.master_cards WHERE sku ~ '-[0-9]{7}$') c,
       (VALUES ('supplier', 60), ('price', 40), ('image', 30), ('review', 5)) k (kind, share)
 WHERE c.n <= $1::bigint AND abs(hashint8extended(c.n, k.share + 1)) % 100 < k.share
