-- $1 cards: titles of two frequent words each, some with words that are rarer, at random; `zither` and `anvil` lie
-- together by title, `bosch` by age and SKU. A twentieth of them, which lie together as well, changed within the last
-- hour, the others within a year.
INSERT INTO public.master_cards (id, title, sku, status, attributes, created_at, updated_at, deleted_at)
SELECT (lpad(to_hex(1600000000000 + n * 1000), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8'
         || substr(md5(n::text), 4, 15))::uuid,
       CASE r[1] % 200 WHEN 0 THEN 'Zither' WHEN 1 THEN 'Anvil' ELSE initcap(words[1 + r[1] / 200 % 40]) END
         || ' ' || words[1 + r[2] % 40]
         || coalesce((SELECT string_agg(' ' || rare.word, '')
                        FROM (VALUES ('zebra', 150000), ('quokka', 20000), ('walnut', 3333), ('copper', 1000),
                                     ('velvet', 500), ('marble', 333), ('bamboo', 200), ('silver', 100),
                                     ('cotton', 50), ('leather', 20)) rare (word, one_in)
                       WHERE abs(hashint8extended(n, rare.one_in)) % rare.one_in = 0), '')
         || CASE WHEN r[3] % 100 < 18 THEN ' garden' ELSE '' END
         || CASE WHEN n BETWEEN $1 / 5 * 3 + 1 AND $1 / 50 * 31 AND n % 4 = 0 THEN ' bosch ' ELSE ' ' END
         || substr(md5((n * 7)::text), 1, 8),
       'M-' || lpad(n::text, 8, '0'),
       CASE WHEN n % 500 = 3 THEN 'archived' WHEN r[4] % 10 < 6 THEN 'draft' ELSE 'active' END,
       jsonb_build_object('brand', 'Northwind', 'weight_grams', n, 'text', repeat('as long as they are ', 15),
                          'sources', '{}'::jsonb),
       to_timestamp(1600000000 + n),
       now() - CASE WHEN n BETWEEN $1 / 5 * 2 + 1 AND $1 / 20 * 9 THEN r[5] % 3600000 * interval '1 millisecond'
                    ELSE interval '61 minutes' + r[5] % 31536000 * interval '1 second' END,
       CASE WHEN n % 500 = 13 THEN now() END
  FROM generate_series(1::bigint, $1::bigint) n,
       LATERAL (SELECT ARRAY(SELECT (hashint8extended(n, seed) & 2147483647)::integer
                               FROM generate_series(1, 5) seed) AS r) h,
       (SELECT string_to_array('garden,lamp,chair,table,hammer,drill,sofa,shelf,bench,mirror,carpet,kettle,toaster,mixer,'
          'blender,oven,fridge,heater,cooler,fan,cable,socket,switch,bulb,torch,ladder,bucket,spade,rake,hose,pump,valve,'
          'pipe,screw,bolt,nut,washer,saw,plane,chisel', ',') AS words) w
