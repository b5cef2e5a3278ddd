//! A catalogue of a million cards: lists, searches and enrichments beside the SQL that one would write by hand.

use std::time::Instant;

use cardinal_tests::User;

use crate::subjects::{Ask, Bench, Subject};

/// Of these, asked for at random: more than a reader's cache holds by chance.
const ASKED_FOR: i64 = 1_000;
const LARGEST_PAGE: usize = 200;
const LIST: &str = "/v1/admin/master-cards";

/// What the names of all these subjects begin with.
pub(crate) const NAME: &str = "catalogue: ";

/// Sources of three kinds: most cards have `supplier`, a fifth `price`, one in 2,000 `rare`; one in a hundred thousand
/// has a rare word in its title; a few are deleted. Ids are those of cards made a second apart.
const CARDS: &str = r#"
INSERT INTO public.master_cards (id, title, sku, status, attributes, created_at, updated_at, deleted_at)
SELECT (lpad(to_hex(1600000000000 + n * 1000), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
       words[1 + (n * 7919) % 40] || ' ' || words[1 + (n / 40 * 31 + n) % 40] || CASE WHEN n % 100000 = 5 THEN ' zebra ' ELSE ' ' END
         || substr(md5((n * 7)::text), 1, 8),
       'M-' || lpad(n::text, 8, '0'),
       CASE WHEN n % 500 = 3 THEN 'archived' WHEN n % 10 < 6 THEN 'draft' ELSE 'active' END,
       jsonb_build_object('brand', 'Northwind', 'weight_grams', n, 'sources',
         CASE WHEN n % 10 < 6 THEN jsonb_build_object('supplier:shop.example', jsonb_build_object('kind', 'supplier', 'plugin', 'supplier',
           'data', jsonb_build_object('price', '12.50', 'description', repeat('as long as they are ', 15)))) ELSE '{}' END),
       to_timestamp(1600000000 + n), now() - random() * interval '365 days', CASE WHEN n % 500 = 13 THEN now() END
  FROM generate_series(1::bigint, $1::bigint) n, (SELECT string_to_array('garden,lamp,chair,table,hammer,drill,sofa,shelf,bench,mirror,carpet,kettle,toaster,mixer,blender,oven,fridge,heater,cooler,fan,cable,socket,switch,bulb,torch,ladder,bucket,spade,rake,hose,pump,valve,pipe,screw,bolt,nut,washer,saw,plane,chisel', ',') AS words) w"#;
const SOURCES: &str = "
INSERT INTO public.card_source_index (card_id, source_key, plugin, kind, bytes)
SELECT id, kind || ':x', kind, kind, 300 FROM public.master_cards c, unnest(ARRAY['supplier', 'price', 'rare']) kind
 WHERE c.sku LIKE 'M-%' AND CASE kind WHEN 'supplier' THEN c.attributes->'sources' <> '{}'
       WHEN 'price' THEN (c.attributes->>'weight_grams')::int % 5 = 0 ELSE (c.attributes->>'weight_grams')::int % 2000 = 1 END";

/// Fills the host's database, and says what is to be measured.
pub(crate) async fn subjects(bench: &Bench, cards: i64) -> Vec<Subject> {
    let ids = seed(bench, cards).await;
    let last = deep_page(&bench.key, usize::try_from(cards).unwrap() / 2 / LARGEST_PAGE).await;
    let plain = Ask::default;
    let many = |post| Ask { post, ids: &ids, ..Ask::default() };
    let post = Ask { post: true, ..Ask::default() };
    let list = |query: &str| bench.of_host(&format!("{LIST}?limit=50{query}"), plain());
    let store = |path: &str| bench.of_store(path, plain());
    let (select, update) = ("bare, the same select", "bare, the update alone");
    let enrich = "/v1/admin/plugins/quick/enrich/";
    let subject = |name, target, baseline_name, baseline| Subject { name, target, baseline_name, baseline };
    vec![
        subject(
            "catalogue: card by id",
            bench.of_host(&format!("{LIST}/"), many(false)),
            select,
            bench.of_store("/cards/", many(false)),
        ),
        subject("catalogue: first page", list(""), select, store("/cards")),
        subject(
            "catalogue: page 10,000",
            list(&format!("&cursor={}", last.cursor)),
            select,
            store(&format!("/deep/{}", last.id)),
        ),
        subject("catalogue: by status", list("&status=active"), select, store("/status")),
        subject("catalogue: by kind", list("&kind=price"), select, store("/kind")),
        subject("catalogue: missing a kind", list("&missing_kind=price"), select, store("/missing")),
        subject("catalogue: search", list("&q=zebra"), select, store("/search")),
        subject(
            "catalogue: enrich many cards",
            bench.of_host(enrich, many(true)),
            update,
            bench.of_store("/write/", many(true)),
        ),
        subject(
            "catalogue: enrich one hot card",
            bench.of_host(&format!("{enrich}{}", ids[0]), post),
            update,
            bench.of_store(&format!("/write/{}", ids[0]), post),
        ),
    ]
}

/// Makes the cards; the ids of some of them.
async fn seed(bench: &Bench, cards: i64) -> Vec<String> {
    let (database, begun) = (bench.host().database().await, Instant::now());
    // Filling the lists' tables card by card takes longer than all at once.
    let triggers = |what: &str| {
        format!(
            "SET synchronous_commit = off; ALTER TABLE public.master_cards {what} TRIGGER USER; \
             ALTER TABLE public.card_source_index {what} TRIGGER USER"
        )
    };
    database.batch_execute(&triggers("DISABLE")).await.unwrap();
    database.execute(CARDS, &[&cards]).await.unwrap();
    database.execute(SOURCES, &[]).await.unwrap();
    database.batch_execute(&triggers("ENABLE")).await.unwrap();
    database.execute("SELECT public.card_list_fill()", &[]).await.unwrap();
    database
        .batch_execute("VACUUM ANALYZE public.card_list_index, public.card_words, public.card_times")
        .await
        .unwrap();
    database.batch_execute("VACUUM ANALYZE public.master_cards").await.unwrap();
    database.batch_execute("VACUUM ANALYZE public.card_source_index").await.unwrap();
    database.batch_execute("CHECKPOINT").await.unwrap();
    eprintln!("    {cards} cards in {} s", begun.elapsed().as_secs());
    let some = "SELECT id::text FROM public.master_cards WHERE deleted_at IS NULL AND sku LIKE 'M-%' ORDER BY md5(id::text) LIMIT $1";
    database.query(some, &[&ASKED_FOR]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

struct Place {
    cursor: String,
    /// The last card before it.
    id: String,
}

/// The middle of the list, by paging there.
async fn deep_page(key: &User, pages: usize) -> Place {
    let mut query = format!("{LIST}?limit={LARGEST_PAGE}");
    let mut place = None;
    for _ in 0..pages.max(1) {
        let page = key.get(&query).await.expect(200);
        let cursor = page["next_cursor"].as_str().expect("there are more cards").to_owned();
        query = format!("{LIST}?limit={LARGEST_PAGE}&cursor={cursor}");
        let id =
            page["items"].as_array().and_then(|items| items.last()).map(|item| item["id"].as_str().unwrap().to_owned());
        place = id.map(|id| Place { cursor, id });
    }
    place.expect("a page was read")
}
