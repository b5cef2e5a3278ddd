//! Contract 4: a card is at most 8 MiB whichever way it is written, and a page of cards is bounded in bytes.

use cardinal_tests::{Host, Package, PluginsFolder, User, eventually, unique};
use http::Method;
use serde_json::{Value, json};

use super::import::{CSV, NDJSON, ended, import};

const CARDS: &str = "/v1/admin/master-cards";
const LIMIT: usize = 8 << 20;
const PAGE: usize = 16 << 20;
/// Bytes of memory that a worker may keep after work that took more than them.
const KEPT_MEMORY: u64 = 24 << 20;

/// Text that compresses well, as attackers prefer it.
fn text(mebibytes: f64) -> String {
    "x".repeat((mebibytes * f64::from(1 << 20)) as usize)
}

async fn card_with(owner: &User, title: &str, mebibytes: f64) -> Value {
    let wanted = json!({"title": title, "sku": unique("SKU"), "attributes": {"a": text(mebibytes)}});
    owner.post(CARDS, &wanted).await.expect(201)["item"].clone()
}

fn path(card: &Value) -> String {
    format!("{CARDS}/{}", card["id"].as_str().unwrap())
}

/// A card from before there was a limit.
async fn larger_one(host: &Host, mebibytes: i32) -> String {
    let database = host.database().await;
    let (id, sku) = (uuid::Uuid::now_v7(), unique("SKU"));
    let insert = format!(
        "BEGIN; SET LOCAL session_replication_role = replica; \
         INSERT INTO public.master_cards (id, title, sku, status, attributes) VALUES ('{id}', 'Old', '{sku}', 'draft', \
         jsonb_build_object('a', repeat('x', {mebibytes} * 1048576), 'sources', '{{}}'::jsonb)); COMMIT"
    );
    database.batch_execute(&insert).await.unwrap();
    format!("{CARDS}/{id}")
}

#[tokio::test]
async fn a_card_grows_to_its_limit_and_no_further() {
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await;
    let card = card_with(owner, "Grows", 4.0).await;
    let at = path(&card);
    owner.patch(&at, &json!({"attributes": {"b": text(3.95)}})).await.expect(200);
    let before = owner.get(&at).await;
    assert!(before.body.len() < LIMIT);
    let refused = owner.patch(&at, &json!({"attributes": {"c": text(0.1)}})).await.refused(422, "card-too-large");
    assert!(refused["detail"].as_str().unwrap().contains("a card may have 8388608"), "{refused}");
    assert_eq!(refused["errors"][0]["pointer"], "/attributes", "{refused}");
    // As JSON that grows when it is written out.
    let exponents = format!("[{}]", vec!["1e308"; 30_000].join(","));
    let wanted = format!(r#"{{"title":"Short","sku":"{}","attributes":{{"n":{exponents}}}}}"#, unique("SKU"));
    let post = owner.call(Method::POST, CARDS).body("application/json", wanted);
    post.send().await.refused(422, "card-too-large");
    let wanted = json!({"title": "Large", "sku": unique("SKU"), "attributes": {"a": text(8.1)}});
    owner.post(CARDS, &wanted).await.refused(422, "card-too-large");
    // By plugins.
    let enrich = format!("/v1/admin/plugins/echo/enrich/{}", card["id"].as_str().unwrap());
    owner.post(&enrich, &json!({"note": text(0.2)})).await.refused(422, "card-too-large");
    // By import, where good rows are kept.
    let sku = unique("SKU");
    let rows = [
        json!({"sku": card["sku"], "attributes": {"a": text(8.1)}}),
        json!({"sku": sku, "title": "Large", "attributes": {"a": text(8.1)}}),
        json!({"sku": sku, "title": "Small"}),
    ];
    let job = import(owner, "mode=upsert", NDJSON, super::import::lines(&rows)).await;
    assert_eq!(ended(&job), "done 1 2", "{}", job["state"]);
    for error in job["errors"].as_array().unwrap() {
        assert_eq!(error["code"], "card-too-large", "{error}");
    }
    assert!(owner.get(&at).await.body == before.body, "a refused write changed the card");
}

#[tokio::test]
async fn a_larger_card_from_before_can_be_read_shrunk_and_removed() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let at = larger_one(&host, 20).await;
    assert!(owner.get(&at).await.body.len() > 20 << 20);
    let listed = owner.get(CARDS).await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "every page has a card");
    owner.patch(&at, &json!({"status": "active"})).await.expect(200);
    owner.patch(&at, &json!({"attributes": {"b": 1}})).await.refused(422, "card-too-large");
    owner.patch(&at, &json!({"attributes": {"a": text(10.0)}})).await.expect(200);
    assert_eq!(owner.delete(&at).await.status, 204);
}

#[tokio::test]
async fn a_page_ends_at_its_bytes_and_its_cursor_goes_on() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let memory = host.worker_memory("VmRSS");
    let mut made = Vec::new();
    for n in 0..7 {
        made.push(card_with(owner, &format!("Heavy {n}"), 5.0).await["id"].clone());
    }
    for list in ["sort=created_at", "sort=title&q=heavy", "sort=-updated_at&status=draft"] {
        let (mut seen, mut cursor) = (Vec::new(), None::<String>);
        let previous = loop {
            let at = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
            let answer = owner.get(&format!("{CARDS}?limit=200&{list}{at}")).await;
            assert!(answer.body.len() < PAGE + (1 << 20), "{} bytes", answer.body.len());
            let page = answer.expect(200);
            let items = page["items"].as_array().unwrap();
            assert_eq!(items.len(), 3.min(7 - seen.len()), "{list}");
            seen.extend(items.iter().map(|card| card["id"].clone()));
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break page["prev_cursor"].as_str().map(str::to_owned);
            }
        };
        let back = owner.get(&format!("{CARDS}?limit=200&{list}&cursor={}", previous.unwrap())).await.expect(200);
        let back: Vec<_> = back["items"].as_array().unwrap().iter().map(|card| card["id"].clone()).collect();
        assert_eq!(back, seen[3..6], "{list}");
        if list.contains("updated") {
            seen.reverse();
        }
        assert_eq!(seen, made, "{list}");
    }
    let at = format!("{CARDS}/{}", made[0].as_str().unwrap());
    for n in 0..5 {
        owner.patch(&at, &json!({"attributes": {"a": format!("{n}{}", text(5.0))}})).await.expect(200);
    }
    let (mut versions, mut cursor) = (Vec::new(), Some(String::new()));
    while let Some(at_cursor) = cursor {
        let answer = owner.get(&format!("{at}/history?limit=200{at_cursor}")).await;
        assert!(answer.body.len() < PAGE + (1 << 20), "{} bytes", answer.body.len());
        let page = answer.expect(200);
        versions.extend(page["items"].as_array().unwrap().iter().map(|line| line["version"].as_i64().unwrap()));
        cursor = page["next_cursor"].as_str().map(|cursor| format!("&cursor={cursor}"));
    }
    assert_eq!(versions, [6, 5, 4, 3, 2, 1]);
    let peak = host.worker_memory("VmHWM");
    assert!(peak > memory + 2 * KEPT_MEMORY, "so little that there is nothing to give back: {memory}, {peak}");
    eventually("memory goes back to the system", async || {
        (host.worker_memory("VmRSS") < memory + KEPT_MEMORY).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_is_exported_can_be_imported_again() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let card = card_with(owner, "Whole", 4.0).await;
    // Quotes are what grows in a cell of CSV.
    owner
        .patch(&path(&card), &json!({"attributes": {"b": "\"".repeat(1 << 20), "c": vec![""; 400_000]}}))
        .await
        .expect(200);
    for (format, media) in [("ndjson", NDJSON), ("csv", CSV)] {
        let file = owner.get(&format!("{CARDS}/export?format={format}")).await.body;
        assert!(file.len() > 7 << 20, "{format}: {}", file.len());
        for query in ["mode=upsert", "mode=upsert&sources=keep"] {
            let caller =
                if query.contains("keep") { owner.key(&["*"]).await } else { owner.key(&["cards:write"]).await };
            let job = import(&caller, query, media, file.clone()).await;
            assert_eq!(
                (ended(&job).as_str(), &job["counts"]["unchanged"]),
                ("done 1 0", &json!(1)),
                "{format} {query}"
            );
        }
    }
}
