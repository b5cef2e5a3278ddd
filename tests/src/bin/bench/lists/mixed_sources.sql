-- Seven kinds, on 0.05 to 60 % of the $1 cards, each of a plugin of its own: some 150 sets of them.
INSERT INTO public.card_source_index (card_id, source_key, plugin, kind, bytes)
SELECT c.id, k.kind || ':x', k.kind, k.kind, 300
  FROM (SELECT id, substr(sku, 3)::bigint AS n FROM public.master_cards WHERE sku LIKE 'M-%') c,
       (VALUES ('supplier', 600000), ('price', 200000), ('stock', 100000), ('image', 50000), ('review', 10000),
               ('rare', 500), ('late', 0)) k (kind, share)
 WHERE CASE k.kind WHEN 'late' THEN c.n > $1::bigint / 20 * 19
       ELSE abs(hashint8extended(c.n, k.share + 1)) % 1000000 < k.share END
