//! Contract 4: lists where a plan matters — thirty thousand cards, filters that most fit and that hardly one fits, and
//! cards that lie all at one end. Every page is what plain SQL says, whichever way it was found.

use std::collections::BTreeSet;

use cardinal_tests::{Host, Package, PluginsFolder, User, unique};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio_postgres::Client;

const CARDS: &str = "/v1/admin/master-cards";
pub(super) const LIMIT: usize = 150;

/// Kinds: `most` on two thirds, `few` on one in 500, `late` on the last tenth by age and SKU, `w` by title, `nearly` on
/// all but 40. Titles repeat, so that ties are broken by the id, and some have two lines.
const SEED: &str = r#"
INSERT INTO public.master_cards (id, title, sku, status, attributes, created_at, updated_at, deleted_at)
SELECT (lpad(to_hex(1600000000000 + n * 1000), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
       (ARRAY['Garden', 'Lamp', 'Wardrobe', 'Ёлка', 'Стул', 'Chair'])[1 + n * 7 % 6] || ' ' || n % 977
         || CASE WHEN n % 700 = 5 THEN E'\nLast' ELSE '' END,
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

/// All that lists are planned by.
pub(super) const ANALYZE: &str = "ANALYZE public.master_cards, public.card_source_index, public.card_list_index, public.card_words, public.card_times";

const BEGINS_WITH_L: &str = r"title ~ '(^|\n)L'";

/// A host with these cards. Writing them takes longer than what is asked of them, so it is done once, and each test has a
/// copy.
pub(super) async fn seeded() -> (Host, Client) {
    static SEEDED: OnceCell<TempDir> = OnceCell::const_new();
    let seeded = SEEDED.get_or_init(|| async {
        let host = Host::settings().start().await;
        let database = host.database().await;
        database.execute(SEED, &[]).await.unwrap();
        database.execute(SOURCES, &[]).await.unwrap();
        database.batch_execute(ANALYZE).await.unwrap();
        host.stop().await
    });
    let host = Host::settings().copy_of(seeded.await).start().await;
    let database = host.database().await;
    (host, database)
}

pub(super) fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

pub(super) async fn page(owner: &User, query: &str, cursor: Option<&str>) -> Value {
    let cursor = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
    owner.get(&format!("{CARDS}?limit={LIMIT}{query}{cursor}")).await.expect(200)
}

/// A time so many minutes ago, as the seed has times.
pub(super) fn changed(minutes: i64) -> String {
    let at = time::OffsetDateTime::now_utc() - time::Duration::minutes(minutes);
    at.replace_nanosecond(0).unwrap().format(&time::format_description::well_known::Rfc3339).unwrap()
}

pub(super) fn has(kind: &str) -> String {
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
        // By SKU and age: parts of the list.
        ("&q=r%201".to_owned(), "title LIKE '%r 1%'".to_owned()),
        ("&q=r%201&status=active".to_owned(), "title LIKE '%r 1%' AND status = 'active'".to_owned()),
        (
            format!("&updated_since={}&q=r%201", changed(20_000)),
            format!("updated_at >= '{}' AND title LIKE '%r 1%'", changed(20_000)),
        ),
        ("&q=s_0".to_owned(), "starts_with(sku, 'S_0')".to_owned()),
        ("&q=-rare%5C".to_owned(), r"strpos(sku, '-RARE\') > 0".to_owned()),
        ("&q=%D1%91%D0%9B%D0%BA".to_owned(), "strpos(title, 'Ёлк') > 0".to_owned()),
        ("&q=l".to_owned(), BEGINS_WITH_L.to_owned()),
        ("&q=LA&status=archived".to_owned(), format!("{BEGINS_WITH_L} AND status = 'archived'")),
        ("&q=%D1%91".to_owned(), "starts_with(title, 'Ё')".to_owned()),
        ("&q=%D0%A1%D1%82&kind=most".to_owned(), format!("starts_with(title, 'Ст') AND {}", has("most"))),
        ("&q=wA".to_owned(), "starts_with(title, 'Wa')".to_owned()),
        ("&q=S_".to_owned(), "true".to_owned()),
        ("&q=%25%25%25".to_owned(), "false".to_owned()),
        ("&q=lamp&kind=most".to_owned(), format!("title ILIKE '%lamp%' AND {}", has("most"))),
        ("&q=S_&kind=late".to_owned(), has("late")),
        ("&q=lamp&missing_kind=nearly".to_owned(), format!("title ILIKE '%lamp%' AND NOT {}", has("nearly"))),
        ("&q=chair&status=archived".to_owned(), "title ILIKE '%chair%' AND status = 'archived'".to_owned()),
        (format!("&updated_since={}", changed(300)), format!("updated_at >= '{}'", changed(300))),
        (
            format!("&updated_since={}&q=lamp", changed(9_000)),
            format!("updated_at >= '{}' AND title ILIKE '%lamp%'", changed(9_000)),
        ),
        (
            format!("&updated_since={}&kind=few", changed(20_000)),
            format!("updated_at >= '{}' AND {}", changed(20_000), has("few")),
        ),
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

/// Lists are read from rows beside the cards: none is missing, too many, or says something else than its card.
const DIFFERENT: &str = "
SELECT coalesce(c.id, l.card_id, t.card_id)::text || ' ' || coalesce(c.sku, '') AS card
  FROM public.master_cards c
  FULL JOIN public.card_list_index l ON l.card_id = c.id
  FULL JOIN public.card_times t ON t.card_id = coalesce(c.id, l.card_id)
  FULL JOIN public.card_words w ON w.card_id = coalesce(c.id, l.card_id, t.card_id)
  LEFT JOIN public.card_groups g ON g.id = l.card_group
 WHERE (c.title, c.sku, lower((E'\n' || c.title || E'\n' || c.sku) COLLATE \"default\"), lower((E'\n' || c.title || E'\n' || c.sku) COLLATE \"default\"), c.updated_at, l.card_group, c.status, c.deleted_at IS NOT NULL)
       IS DISTINCT FROM (l.title, l.sku, l.words, w.words, t.updated_at, t.card_group, g.status, g.deleted)
    OR (w.card_group, w.title, w.sku) IS DISTINCT FROM (l.card_group, l.title, l.sku)
    OR (t.title, t.sku, t.words) IS DISTINCT FROM (l.title, l.sku, l.words)
    OR g.kinds IS DISTINCT FROM coalesce((SELECT array_agg(DISTINCT s.kind COLLATE \"C\") FROM public.card_source_index s WHERE s.card_id = c.id), '{}')
    OR g.plugins IS DISTINCT FROM coalesce((SELECT array_agg(DISTINCT s.plugin COLLATE \"C\") FROM public.card_source_index s WHERE s.card_id = c.id), '{}')";

async fn differences(database: &Client) -> Vec<String> {
    database.query(DIFFERENT, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn lists_follow_every_way_to_write_a_card() {
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    let (owner, database) = (host.owner().await, host.database().await);
    let check = async |after: &str| assert_eq!(differences(&database).await, Vec::<String>::new(), "after {after}");
    let id = owner.card("Одна лампа").await["id"].as_str().unwrap().to_owned();
    let path = format!("{CARDS}/{id}");
    check("a new card").await;
    owner.patch(&path, &json!({"title": "Two", "status": "active"})).await.expect(200);
    check("a change").await;
    owner.post(&format!("/v1/admin/plugins/echo/enrich/{id}"), &json!({"note": "a"})).await.expect(200);
    check("an enrichment").await;
    let found = owner.get(&format!("{CARDS}?kind=echo&sort=title")).await.expect(200);
    assert_eq!((ids(&found), &found["total_estimate"]), (vec![id.clone()], &json!(1)), "a group that is new is known");
    owner.post(&format!("/v1/admin/plugins/echo/enrich/{id}"), &json!({"note": "b"})).await.expect(200);
    check("an enrichment of the same kind").await;
    let key = owner.read_card(&id).await["attributes"]["sources"].as_object().unwrap().keys().next().unwrap().clone();
    let sku = unique("SKU");
    let source = json!({
        "kind": "other",
        "plugin": "gone",
        "data": {},
        "plugin_version": "1.0.0",
        "updated_at": "2026-01-01T00:00:00Z",
        "updated_by": {}
    });
    let row = json!({"title": "Kept", "sku": sku, "attributes": {"sources": {"gone:x": source}}});
    for mode in ["create", "upsert"] {
        let job = super::import::import(
            owner,
            &format!("mode={mode}&sources=keep"),
            super::import::NDJSON,
            super::import::lines(std::slice::from_ref(&row)),
        )
        .await;
        assert_eq!(job["state"], "done", "{job}");
        check("an import with sources").await;
    }
    assert_eq!(
        owner.get(&format!("{CARDS}?kind=other&q={sku}")).await.expect(200)["items"].as_array().unwrap().len(),
        1
    );
    owner.delete(&format!("{path}/sources/{key}")).await.expect(204);
    check("a source removed").await;
    assert_eq!(
        ids(&owner.get(&format!("{CARDS}?missing_kind=echo&q=two")).await.expect(200)),
        std::slice::from_ref(&id)
    );
    let job = json!({"action": "archive", "ids": [id]});
    owner.post("/v1/admin/jobs", &job).await.expect(202);
    let status = async || (owner.read_card(&id).await["status"] == "archived").then_some(());
    cardinal_tests::eventually("the card is archived", status).await;
    check("a job").await;
    owner.delete(&path).await.expect(204);
    check("a deletion").await;
    assert_eq!(
        ids(&owner.get(&format!("{CARDS}?deleted=true&status=archived")).await.expect(200)),
        std::slice::from_ref(&id)
    );
    owner.post(&format!("{path}/restore"), &json!({})).await.expect(200);
    check("a restoration").await;
    owner.delete(&format!("{path}?purge=true")).await.expect(204);
    check("a purge").await;
}

#[tokio::test]
async fn a_card_that_changes_its_group_on_the_way_is_neither_missed_nor_repeated() {
    let (host, database) = seeded().await;
    let owner = host.owner().await;
    let sql = "SELECT id FROM public.master_cards WHERE deleted_at IS NULL AND status = 'archived' ORDER BY title, id";
    let all: Vec<uuid::Uuid> = database.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let (mut seen, mut cursor) = (Vec::new(), None::<String>);
    for round in 0.. {
        let found = owner
            .get(&format!(
                "{CARDS}?limit=7&status=archived&sort=title{}",
                cursor.as_deref().map(|c| format!("&cursor={c}")).unwrap_or_default()
            ))
            .await
            .expect(200);
        seen.extend(ids(&found));
        let Some(next) = found["next_cursor"].as_str() else { break };
        cursor = Some(next.to_owned());
        // Each page meets groups that the host has not read yet.
        let insert = "INSERT INTO public.card_source_index (card_id, source_key, plugin, kind, bytes) \
             SELECT id, 'n:' || $2, 'n', 'new' || $2, 1 FROM unnest($1::uuid[]) id";
        database.execute(insert, &[&all, &round.to_string()]).await.unwrap();
    }
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(seen, all);
    assert_eq!(differences(&database).await, Vec::<String>::new());
}

/// Filters of all members at random, with their conditions.
fn filter_at_random(mut random: impl FnMut(usize) -> usize) -> (String, String) {
    let (mut query, mut conditions) = (String::new(), Vec::new());
    let words = [
        ("lamp", "title ILIKE '%lamp%'"),
        ("p 12", "title ILIKE '%p 12%'"),
        ("S_0012", "strpos(sku, 'S_0012') > 0"),
        ("l", BEGINS_WITH_L),
        ("-RARE", "strpos(sku, '-RARE') > 0"),
        ("Стул", "title LIKE 'Стул%'"),
    ];
    let mut add = |member: &str, value: &str, condition: String| {
        query.push_str(&format!("&{member}={}", value.replace(' ', "%20").replace("Стул", "%D0%A1%D1%82%D1%83%D0%BB")));
        conditions.push(condition);
    };
    if random(2) == 0 {
        let (word, condition) = words[random(words.len())];
        add("q", word, condition.to_owned());
    }
    if random(3) == 0 {
        let status = ["active", "draft", "archived"][random(3)];
        add("status", status, format!("status = '{status}'"));
    }
    for (member, not) in [("kind", ""), ("missing_kind", "NOT ")] {
        if random(3) == 0 {
            let kind = ["most", "few", "late", "bit0", "bit4", "nearly"][random(6)];
            add(member, kind, format!("{not}{}", has(kind)));
        }
    }
    if random(2) == 0 {
        let since = changed([50, 900, 5_000, 20_000][random(4)]);
        add("updated_since", &since, format!("updated_at >= '{since}'"));
    }
    let deleted = random(6) == 0;
    if deleted {
        query.push_str("&deleted=true");
    }
    conditions.push(format!("deleted_at IS {}NULL", if deleted { "NOT " } else { "" }));
    (query, conditions.join(" AND "))
}

#[tokio::test]
async fn hundreds_of_groups_and_filters_at_random_lose_and_repeat_nothing() {
    let (host, database) = seeded().await;
    let owner = host.owner().await;
    // Each kind is on about a third, so that groups are of very different sizes.
    let insert = "INSERT INTO public.card_source_index (card_id, source_key, plugin, kind, bytes) \
         SELECT c.id, 'n:' || bit, 'n', 'bit' || bit, 1 FROM public.master_cards c, generate_series(0, 5) bit \
          WHERE hashtext(c.sku || bit) % 3 = 0";
    database.execute(insert, &[]).await.unwrap();
    let groups: i64 = database.query_one("SELECT count(*) FROM public.card_groups", &[]).await.unwrap().get(0);
    assert!(groups > 300, "{groups}");
    let mut seed = 7_usize;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for round in 0..150 {
        // The first ones are asked before sizes of groups are known.
        if round == 30 {
            database
                .batch_execute("ANALYZE public.card_list_index, public.card_times, public.card_words")
                .await
                .unwrap();
            owner.post("/v1/admin/master-cards", &json!({"title": "One", "sku": unique("one")})).await.expect(201);
            let insert = "INSERT INTO public.card_source_index (card_id, source_key, plugin, kind, bytes) \
                 SELECT id, 'new:x', 'new', 'new', 1 FROM public.master_cards WHERE title = 'One'";
            database.execute(insert, &[]).await.unwrap();
        }
        let (query, condition) = filter_at_random(&mut random);
        let (sort, column) =
            [("created_at", "id"), ("title", "title, id"), ("sku", "sku, id"), ("updated_at", "updated_at, id")]
                [random(4)];
        let (minus, order) =
            if random(2) == 0 { ("", column.to_owned()) } else { ("-", column.replace(", ", " DESC, ") + " DESC") };
        let asked = format!("{query}&sort={minus}{sort}");
        let sql = format!("SELECT id::text FROM public.master_cards c WHERE {condition} ORDER BY {order}");
        let all: Vec<String> = database.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        let (mut seen, mut cursor) = (Vec::new(), None::<String>);
        for _ in 0..3 {
            let found = page(owner, &asked, cursor.as_deref()).await;
            seen.extend(ids(&found));
            cursor = found["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, all[..seen.len()], "{asked}");
        assert!(cursor.is_some() || seen.len() == all.len(), "{asked}: {} of {}", seen.len(), all.len());
    }
}

#[tokio::test]
async fn more_sets_of_kinds_than_there_are_groups_lose_no_card() {
    let (host, database) = seeded().await;
    let owner = host.owner().await;
    // Every card of these has a set of kinds of its own.
    let insert = "INSERT INTO public.card_source_index (card_id, source_key, plugin, kind, bytes) \
         SELECT c.id, 'n:' || bit, 'n', 'bit' || bit, 1 FROM (SELECT id, row_number() OVER (ORDER BY id) AS n \
           FROM public.master_cards) c, generate_series(0, 11) bit WHERE c.n <= 4000 AND (c.n >> bit) & 1 = 1";
    database.execute(insert, &[]).await.unwrap();
    let groups: i64 = database.query_one("SELECT count(*) FROM public.card_groups", &[]).await.unwrap().get(0);
    assert!(groups == 2_000, "{groups}");
    for (query, condition) in [
        ("&kind=bit3", has("bit3")),
        ("&missing_kind=bit11", format!("NOT {}", has("bit11"))),
        ("&kind=bit11&q=lamp", format!("{} AND title ILIKE '%lamp%'", has("bit11"))),
        ("&kind=bit0&status=archived", format!("{} AND status = 'archived'", has("bit0"))),
    ] {
        for (sort, order) in [("title", "title, id"), ("-created_at", "id DESC"), ("updated_at", "updated_at, id")] {
            let sql = format!(
                "SELECT id::text FROM public.master_cards c WHERE deleted_at IS NULL AND {condition} ORDER BY {order}"
            );
            let all: Vec<String> = database.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
            let first = page(owner, &format!("{query}&sort={sort}"), None).await;
            assert_eq!(ids(&first), all[..all.len().min(LIMIT)], "{query} {sort}");
            let counted = owner.get(&format!("{CARDS}?count=exact{query}")).await.expect(200);
            assert_eq!(counted["total"], all.len(), "{query}");
        }
    }
}
