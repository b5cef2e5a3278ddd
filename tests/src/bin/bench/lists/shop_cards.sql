-- 1000000 cards as shops have them: brands and colours, 40 product names, models. They came in 40 imports over three
-- years, each of a few of the names, whose SKUs begin with them. 3 % were touched by last night's sync, 10 % within three
-- months, one in a thousand within the hour.
INSERT INTO public.master_cards (id, title, sku, status, attributes, created_at, updated_at, deleted_at)
SELECT (lpad(to_hex((extract(epoch FROM made) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8'
         || substr(md5(n::text), 4, 15))::uuid,
       brand || ' ' || product || ' ' || chr(65 + r[3] % 26) || chr(65 + r[4] % 26) || ' ' || 10 + r[5] % 990
         || CASE WHEN r[6] % 10 < 6 THEN ' ' || colours[1 + r[7] % 12] ELSE '' END
         || CASE WHEN r[6] % 100 < 5 THEN ' refurbished' ELSE '' END,
       upper(left(product, 3)) || '-' || lpad(n::text, 7, '0'),
       CASE WHEN r[8] % 100 < 5 THEN 'archived' WHEN r[8] % 100 < 20 THEN 'draft' ELSE 'active' END,
       jsonb_build_object('brand', brand, 'weight_grams', n, 'text', repeat('as long as they are ', 15),
                          'sources', '{}'::jsonb),
       made,
       CASE WHEN r[9] % 1000 = 0 THEN now() - r[10] % 3600 * interval '1 second'
            WHEN r[9] % 1000 < 31 THEN now() - interval '9 hours' - r[10] % 1200 * interval '1 second'
            WHEN r[9] % 1000 < 131 THEN now() - r[10] % 7776000 * interval '1 second'
            ELSE made END,
       CASE WHEN r[2] % 300 = 7 THEN now() END
  FROM generate_series(1::bigint, $1::bigint) n,
       LATERAL (SELECT ARRAY(SELECT (hashint8extended(n, seed) & 2147483647)::integer
                               FROM generate_series(1, 11) seed) AS r) h,
       (SELECT string_to_array('Bosch,Makita,Einhell,DeWalt,Metabo,Ryobi,Stanley,Gardena,Kärcher,Philips,Siemens,Osram,'
          'Ikea,Fischer,Hilti,Festool,Wera,Knipex,Würth,Stihl,Husqvarna,Miele,AEG,Braun,Tefal,Grundig,Sony,Samsung,LG,Skil,'
          'Black & Decker,Worx,Dremel,Proxxon,Güde,Scheppach,Alpina,Fiskars,Wolf,Tesa,Uhu,Pattex,Molto,Schöner Wohnen,Grohe,'
          'Alpinaweiß,Hansgrohe,Geberit,Viega,Kludi,Duravit,Villeroy,Roca,Ideal,Hewi,Keuco,Emco,Zack,Blomus', ',') AS brands,
        string_to_array('Hammer Drill,Cordless Drill,Jigsaw,Circular Saw,Angle Grinder,Sander,Router,Planer,Screwdriver Set,'
          'Wrench,Pliers,Hammer,Tape Measure,Level,Work Light,LED Bulb,Extension Cord,Socket,Switch,Cable,Garden Hose,Rake,'
          'Sprinkler,Spade,Lawn Mower,Hedge Trimmer,Pressure Washer,Vacuum Cleaner,Steam Iron,Toaster,Kettle,Blender,'
          'Mixer Tap,Shower Head,Washbasin,Toilet Seat,Towel Rail,Mirror Cabinet,Door Handle,Shelf Bracket', ',') AS products,
        string_to_array('black,white,red,blue,green,silver,grey,yellow,brown,orange,beige,anthracite', ',') AS colours) w,
       LATERAL (SELECT n * 40 / ($1::bigint + 1) AS import) i,
       -- The first brand is on a sixth of the cards, the last on few.
       LATERAL (SELECT now() - interval '3 years' + import * interval '27 days' + n % 25000 * interval '3 milliseconds' AS made,
                       brands[floor(power(60, r[11] / 2147483648.0))::integer] AS brand,
                       products[1 + ((import * 7 + r[1] % 5 * (1 + r[1] % 3)) % 40)::integer] AS product) p
