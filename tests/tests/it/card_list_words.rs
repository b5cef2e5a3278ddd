//! Contract 4: searches for words that lie together in the list's order, since titles or SKUs begin with them. Every
//! page, forwards and back, is what plain SQL says, whatever spelling a title has and wherever else the word stands.

use serde_json::Value;
use tokio_postgres::Client;

use super::card_list_many::{ANALYZE, LIMIT, has, ids, page, seeded};
use cardinal_tests::{Host, User};

/// In the middle of the other cards by title and by SKU: 900 cards that begin with the words `Mandrel` and `S_015zq`, in
/// some spellings, with ties and several lines; a tenth of them each is deleted or archived.
const BEGIN: &str = r#"
INSERT INTO public.master_cards (id, title, sku, status, attributes, created_at, updated_at, deleted_at)
SELECT gen_random_uuid(),
       (ARRAY['Mandrel', 'MANDREL', 'mandrel', 'MaNdReL'])[1 + n % 4]
         || CASE n % 9 WHEN 0 THEN '' WHEN 1 THEN E'\nOak' WHEN 2 THEN 's' WHEN 3 THEN ' mandrel' ELSE ' ' || n / 7 END,
       (ARRAY['S_015zq', 'S_015ZQ', 's_015zq'])[1 + n % 3] || n
         || CASE n % 10 WHEN 0 THEN E'\n2' WHEN 1 THEN '-s_015zq' ELSE '' END,
       CASE WHEN n % 10 = 3 THEN 'archived' WHEN n % 3 = 0 THEN 'draft' ELSE 'active' END,
       '{"sources": {}}', now(), now(), CASE WHEN n % 10 = 7 THEN now() END
  FROM generate_series(1, 900) n"#;
/// Both words elsewhere: behind other words, on another line, in the other column, as a part of a word; and what only
/// looks like them.
const ELSEWHERE: &str = r#"
INSERT INTO public.master_cards (id, title, sku, status, attributes, created_at, updated_at, deleted_at)
SELECT gen_random_uuid(), t.title, t.sku || '.' || n, CASE WHEN n % 4 = 1 THEN 'archived' ELSE 'active' END,
       '{"sources": {}}', now(), now(), CASE WHEN n % 10 = 7 THEN now() END
  FROM generate_series(1, 20) n,
       (VALUES ('Oak mandrel', 'E1'), (E'Oak\nMandrel', 'E2'), ('Oak', 'MANDREL-'), ('Wardrobe', 'X-mandrel'),
               ('Oakmandrels', 'E3'), ('Mandre', 'E4'), ('Man_rel', 'E5'), ('M%drel', 'E6'), (E'Mandre\nl', 'E7'),
               ('Oak', E'E8\nMandrel'), ('S_015zq', 'E9'), ('Oak', 'XS_015ZQ'), ('Oak', E'E10\nS_015zq'),
               ('Lamp s_015zq', 'E11'), ('Ma', 'ndrel'), ('Anvil MANDREL', 'S_015zq'), ('Mandrel S_015zq', 'A'),
               (E'Oak\nM', E'S_015z\nq'), (E'Ma\u0307', 'E12')) t (title, sku)"#;
/// More deleted cards than are walked to the end, on both sides of these.
const DELETED: &str = r#"
INSERT INTO public.master_cards (id, title, sku, status, attributes, created_at, updated_at, deleted_at)
SELECT gen_random_uuid(), t.title, t.sku || n, 'active', '{"sources": {}}', now(), now(), now()
  FROM generate_series(1, 4200) n, (VALUES ('Anvil', 'A-'), ('Zither', 'Z-')) t (title, sku)"#;
const ALL_DELETED: &str = "
UPDATE public.master_cards SET deleted_at = now()
 WHERE deleted_at IS NULL AND (title ILIKE '%mandrel%' OR sku ILIKE '%015zq%')";
const SOURCES: &str = "
INSERT INTO public.card_source_index (card_id, source_key, plugin, kind, bytes)
SELECT id, 'm:' || kind, 'm', kind, 1 FROM public.master_cards, (VALUES ('odd', 2), ('rarely', 50)) k (kind, one_in)
 WHERE (title ILIKE '%mandrel%' OR sku ILIKE '%015zq%') AND abs(hashtext(sku || kind)) % one_in = 0";

/// All pages of a list, forwards and back again.
pub(super) async fn every_page_fits(owner: &User, database: &Client, asked: &str, sql: &str) {
    let all: Vec<String> = database.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let (mut pages, mut cursor) = (Vec::<Value>::new(), None::<String>);
    for expected in all.chunks(LIMIT) {
        let found = page(owner, asked, cursor.as_deref()).await;
        assert_eq!(ids(&found), expected, "{asked}, page {}", pages.len() + 1);
        cursor = found["next_cursor"].as_str().map(str::to_owned);
        pages.push(found);
    }
    assert_eq!(cursor, None, "{asked}: there is no more");
    let estimate = pages.first().and_then(|first| first["total_estimate"].as_u64()).unwrap_or_default();
    let count = all.len() as u64;
    assert!((count / 4..=count * 4 + 100).contains(&estimate), "{asked}: {estimate} for {count}");
    for pair in pages.windows(2).rev() {
        let back = page(owner, asked, pair[1]["prev_cursor"].as_str()).await;
        assert_eq!(ids(&back), ids(&pair[0]), "{asked}, back again");
    }
}

async fn every_list_fits(owner: &User, database: &Client, filters: &[(&str, String)]) {
    let words = [
        ("mandrel", "mandrel"),
        ("MANDRELs", "mandrels"),
        ("man", "man"),
        ("Man_rel", "man_rel"),
        ("m%25d", "m%d"),
        ("S_015Zq", "s_015zq"),
        ("%E2%84%AAiln", "kiln"),
        // A dot above may be nothing in small letters.
        ("Ma%CC%87", "ma\u{307}"),
    ];
    let text = r#"lower((E'\n' || title || E'\n' || sku) COLLATE "default")"#;
    // A walk from this end meets some at once; what it finds out about their number is kept for a few seconds.
    let orders =
        [("-sku", "sku DESC, id DESC"), ("sku", "sku, id"), ("title", "title, id"), ("-title", "title DESC, id DESC")];
    for (filter, condition) in filters {
        for (word, small) in words {
            for (sort, order) in orders {
                let sql = format!(
                    "SELECT id::text FROM public.master_cards c WHERE strpos({text}, '{small}') > 0 AND {condition} \
                     ORDER BY {order}"
                );
                page(owner, &format!("&q={word}{filter}&sort=-sku"), None).await;
                every_page_fits(owner, database, &format!("&q={word}{filter}&sort={sort}"), &sql).await;
            }
        }
    }
}

#[tokio::test]
async fn words_that_titles_and_skus_begin_with_are_found_wherever_else_they_stand() {
    let (host, database) = seeded().await;
    // A letter that is a `k` in small letters.
    let kiln =
        BEGIN.replace("'MANDREL'", "'\u{212a}iln'").replace("'Mandrel'", "'KILN'").replace("'mandrel'", "'kiln'");
    let kiln = kiln.replace("015zq", "015kk").replace("015ZQ", "015KK");
    for sql in [BEGIN, ELSEWHERE, SOURCES, &kiln, ANALYZE] {
        database.batch_execute(sql).await.unwrap();
    }
    let is_there = |condition: &str| format!("deleted_at IS NULL AND {condition}");
    let filters = [
        ("", is_there("true")),
        ("&status=archived", is_there("status = 'archived'")),
        ("&kind=odd", is_there(&has("odd"))),
        ("&missing_kind=odd", is_there(&format!("NOT {}", has("odd")))),
        ("&kind=rarely&status=active", is_there(&format!("status = 'active' AND {}", has("rarely")))),
        ("&deleted=true", "deleted_at IS NOT NULL".to_owned()),
    ];
    every_list_fits(host.owner().await, &database, &filters).await;
    for sql in [ALL_DELETED, DELETED, ANALYZE] {
        database.batch_execute(sql).await.unwrap();
    }
    // Sizes of groups are read once in ten minutes.
    let host = Host::settings().copy_of(&host.stop().await).start().await;
    let database = host.database().await;
    let filters = [
        ("&deleted=true", "deleted_at IS NOT NULL".to_owned()),
        ("&deleted=true&status=active", "deleted_at IS NOT NULL AND status = 'active'".to_owned()),
    ];
    every_list_fits(host.owner().await, &database, &filters).await;
}
