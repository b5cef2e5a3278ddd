//! Contract 4: lists where a plan matters — thirty thousand cards, filters that most fit and that hardly one fits, and
//! cards that lie all at one end. Every page is what plain SQL says, whichever way it was found.

use std::collections::BTreeSet;

use cardinal_tests::{Host, User};
use serde_json::Value;
use tokio_postgres::Client;

const CARDS: &str = "/v1/admin/master-cards";
const LIMIT: usize = 150;

/// Kinds: `most` on two thirds, `few` on one in 500, `late` on the last tenth by age and SKU, `w` by title, `nearly` on
/// all but 40. Titles repeat, so that ties are broken by the id.
const SEED: &str = r#"
INSERT INTO public.master_cards (id, title, sku, status, attributes, created_at, updated_at, deleted_at)
SELECT (lpad(to_hex(1600000000000 + n * 1000), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
       (ARRAY['Garden', 'Lamp', 'Wardrobe', 'Ёлка', 'Стул', 'Chair'])[1 + n * 7 % 6] || ' ' || n % 977,
       'S_' || lpad(n::text, 6, '0') || CASE WHEN n % 1000 = 1 THEN '-RARE\x' ELSE '' END,
       CASE WHEN n % 300 = 3 THEN 'archived' WHEN n % 3 = 0 THEN 'draft' ELSE 'active' END,
       '{"sources": {}}', to_timestamp(1600000000 + n), now() - (n * 7919 % 30011) * interval '1 minute',
       CASE WHEN n % 400 = 13 THEN now() END
  FROM generate_series(1, 30000) n"#;
const SOURCES: &str = "
INSERT INTO public.card_source_index (card_id, source_key, plugin, kind, bytes)
SELECT c.id, 'p:' || k.kind || k.again, 'p' || CASE k.kind WHEN 'few' THEN 'f' ELSE '' END, k.kind, 1
  FROM (SELECT id, title, sku, substr(sku, 3, 6)::int AS n FROM public.master_cards) c,
       (VALUES ('most', 1), ('most', 2), ('few', 1), ('late', 1), ('w', 1), ('nearly', 1)) k (kind, again)
 WHERE CASE k.kind WHEN 'most' THEN n % 3 > 0 WHEN 'few' THEN n % 500 = 7 WHEN 'late' THEN n > 27000
       WHEN 'w' THEN c.title LIKE 'W%' ELSE n % 750 <> 4 END";

async fn seeded() -> (Host, Client) {
    let host = Host::settings().start().await;
    let database = host.database().await;
    database.execute(SEED, &[]).await.unwrap();
    database.execute(SOURCES, &[]).await.unwrap();
    database.batch_execute("ANALYZE public.master_cards, public.card_source_index").await.unwrap();
    (host, database)
}

fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

async fn page(owner: &User, query: &str, cursor: Option<&str>) -> Value {
    let cursor = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
    owner.get(&format!("{CARDS}?limit={LIMIT}{query}{cursor}")).await.expect(200)
}

fn has(kind: &str) -> String {
    format!("EXISTS (SELECT FROM public.card_source_index s WHERE s.card_id = c.id AND s.kind = '{kind}')")
}

#[tokio::test]
async fn every_page_is_what_plain_sql_says() {
    let (host, database) = seeded().await;
    let owner = host.owner().await;
    let filters = [
        (String::new(), "true".to_owned()),
        ("&status=active".to_owned(), "status = 'active'".to_owned()),
        ("&status=archived".to_owned(), "status = 'archived'".to_owned()),
        ("&kind=most".to_owned(), has("most")),
        ("&kind=few".to_owned(), has("few")),
        ("&kind=late".to_owned(), has("late")),
        ("&kind=w".to_owned(), has("w")),
        ("&kind=none".to_owned(), "false".to_owned()),
        ("&plugin=pf".to_owned(), has("few")),
        ("&missing_kind=most".to_owned(), format!("NOT {}", has("most"))),
        ("&missing_kind=nearly".to_owned(), format!("NOT {}", has("nearly"))),
        ("&kind=late&status=archived".to_owned(), format!("status = 'archived' AND {}", has("late"))),
        ("&kind=most&missing_kind=late".to_owned(), format!("{} AND NOT {}", has("most"), has("late"))),
        ("&q=lamp".to_owned(), "title ILIKE '%lamp%'".to_owned()),
        ("&q=amp%2012".to_owned(), "title ILIKE '%amp 12%'".to_owned()),
        ("&q=s_0".to_owned(), "starts_with(sku, 'S_0')".to_owned()),
        ("&q=-rare%5C".to_owned(), r"strpos(sku, '-RARE\') > 0".to_owned()),
        ("&q=%D1%91%D0%9B%D0%BA".to_owned(), "strpos(title, 'Ёлк') > 0".to_owned()),
        ("&q=l".to_owned(), "starts_with(title, 'L')".to_owned()),
        ("&q=wA".to_owned(), "starts_with(title, 'Wa')".to_owned()),
        ("&q=S_".to_owned(), "true".to_owned()),
        ("&q=%25%25%25".to_owned(), "false".to_owned()),
    ];
    for (query, condition) in &filters {
        for (sort, column) in
            [("created_at", "id"), ("title", "title, id"), ("sku", "sku, id"), ("updated_at", "updated_at, id")]
        {
            for minus in ["-", ""] {
                let order =
                    if minus.is_empty() { column.to_owned() } else { column.replace(", ", " DESC, ") + " DESC" };
                let sql = format!(
                    "SELECT id::text FROM public.master_cards c WHERE deleted_at IS NULL AND {condition} ORDER BY {order}"
                );
                let all: Vec<String> = database.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
                let asked = format!("{query}&sort={minus}{sort}");
                let first = page(owner, &asked, None).await;
                assert_eq!(ids(&first), all[..all.len().min(LIMIT)], "{asked}");
                assert_eq!(first["next_cursor"].is_null(), all.len() <= LIMIT, "{asked}");
                let Some(next) = first["next_cursor"].as_str() else { continue };
                let second = page(owner, &asked, Some(next)).await;
                assert_eq!(ids(&second), all[LIMIT..all.len().min(2 * LIMIT)], "{asked}, second page");
                let back = page(owner, &asked, second["prev_cursor"].as_str()).await;
                assert_eq!(ids(&back), ids(&first), "{asked}, back again");
                assert_eq!(back["prev_cursor"], Value::Null, "{asked}");
            }
        }
        let count: i64 = {
            let sql = format!("SELECT count(*) FROM public.master_cards c WHERE deleted_at IS NULL AND {condition}");
            database.query_one(&sql, &[]).await.unwrap().get(0)
        };
        let counted = owner.get(&format!("{CARDS}?count=exact{query}")).await.expect(200);
        assert_eq!(counted["total"], count, "{query}");
        let estimate = counted["total_estimate"].as_i64().unwrap();
        assert!(estimate >= count / 4 && estimate <= count * 4 + 100, "{query}: {estimate} for {count}");
    }
}

#[tokio::test]
async fn paging_misses_and_repeats_nothing_while_cards_come_and_go() {
    let (host, database) = seeded().await;
    let owner = host.owner().await;
    for (query, condition) in [("&kind=most", has("most")), ("&status=archived", "status = 'archived'".to_owned())] {
        let sql = format!("SELECT id::text FROM public.master_cards c WHERE deleted_at IS NULL AND {condition}");
        let all: BTreeSet<String> = database.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        let (mut seen, mut gone, mut cursor) = (Vec::new(), BTreeSet::new(), None::<String>);
        for round in 0.. {
            let found = page(owner, &format!("{query}&sort=title"), cursor.as_deref()).await;
            seen.extend(ids(&found));
            let Some(next) = found["next_cursor"].as_str() else { break };
            cursor = Some(next.to_owned());
            if round < 5 {
                // New ones all over the list, and some that were not reached yet go.
                owner.card(&format!("{} new", ["A", "Lamp", "Ω"][round % 3])).await;
                let ahead = all.iter().find(|id| !seen.contains(id) && !gone.contains(*id));
                if let Some(id) = ahead {
                    owner.delete(&format!("{CARDS}/{id}")).await.expect(204);
                    gone.insert(id.clone());
                }
            }
        }
        let distinct: BTreeSet<String> = seen.iter().cloned().collect();
        assert_eq!(distinct.len(), seen.len(), "{query}: a card came twice");
        assert!(all.difference(&distinct).all(|id| gone.contains(id)), "{query}: a card was missed");
        assert!(distinct.is_disjoint(&gone), "{query}: a deleted card came");
    }
}
