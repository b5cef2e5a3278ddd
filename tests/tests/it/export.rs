//! Contract 4: cards into a file. Every card once, as it is at one moment; an export that can't be finished breaks off;
//! what was exported comes back whole.

use std::time::Duration;

use cardinal_tests::{Host, Pages, PluginsFolder, User, eventually, unique};
use futures_util::future::join_all;
use http::Method;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::import::{CSV, NDJSON, ended, import};

const CARDS: &str = "/v1/admin/master-cards";
const EXPORT: &str = "/v1/admin/master-cards/export";

async fn exported(user: &User, query: &str) -> String {
    let answer = user.get(&format!("{EXPORT}?{query}")).await;
    assert_eq!(answer.status.as_u16(), 200, "{answer}");
    answer.text()
}

fn cards(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const STATUSES: [&str; 3] = ["draft", "active", "archived"];

/// Without what an import does not bring back.
fn whole(mut card: Value) -> Value {
    for name in ["version", "created_at", "updated_at"] {
        card.as_object_mut().unwrap().remove(name).unwrap();
    }
    card
}

/// Cards of every odd kind, with a source of a plugin; their SKUs begin with `word`.
async fn odd_cards(owner: &User, word: &str) {
    let page = r#"<html><head><script type="application/ld+json">{"@type": "Product", "name": "Öl, \"extra\""}</script></head></html>"#;
    let shop = Pages::serve([("/oil", page.to_owned())]).await;
    let texts = [
        "plain",
        "Ünï 家具 😀",
        "quote \" comma , semicolon ;",
        "two\nlines\r\nand\ttabs",
        "back\\slash \u{7f}\u{1}",
        "=1+1",
        "007",
        "null",
    ];
    for (n, text) in texts.iter().enumerate() {
        let attributes = json!({"text": text, "deep": {"a": [1, {"b": [[]]}], "": "empty name", "n": null, "dotted.name": 1},
            "big": 9_007_199_254_740_993_u64, "small": 1e-7, "flag": false, *text: n});
        let sku = format!("{word}-{n}-{}", text.trim().replace(['\r', '\n', '\t'], " "));
        let wanted = json!({"title": text, "sku": sku, "attributes": attributes, "status": STATUSES[n % 3]});
        let card = owner.post(CARDS, &wanted).await.expect(201)["item"].clone();
        let enrich = format!("/v1/admin/plugins/supplier/enrich/{}", card["id"].as_str().unwrap());
        owner.post(&enrich, &json!({"url": shop.url("/oil")})).await.expect(200);
    }
}

#[tokio::test]
async fn an_export_comes_back_whole_but_for_version_and_times() {
    let settings = json!({"allow_private_addresses": true}).to_string();
    let host =
        Host::settings().plugins(PluginsFolder::bundled()).set("PLUGIN_SETTINGS_SUPPLIER", settings).start().await;
    let owner = host.owner().await;
    odd_cards(owner, "odd").await;
    for (format, media_type) in [("ndjson", NDJSON), ("csv", CSV)] {
        let before: Vec<Value> = cards(&exported(owner, "").await).into_iter().map(whole).collect();
        assert_eq!(before.len(), 8);
        let file = exported(owner, &format!("format={format}")).await;
        // Onto the cards themselves: there is nothing to change.
        let job = import(owner, "mode=upsert&sources=keep", media_type, file.clone()).await;
        assert_eq!((ended(&job).as_str(), &job["counts"]["unchanged"]), ("done 8 0", &json!(8)), "{format}: {job}");
        // After some were changed and some deleted.
        for (n, card) in before.iter().enumerate() {
            let path = format!("{CARDS}/{}", card["id"].as_str().unwrap());
            match n % 3 {
                0 => owner
                    .patch(&path, &json!({"title": "x", "attributes": {"deep": null, "more": 1}}))
                    .await
                    .expect(200),
                1 => owner.delete(&path).await.expect(204),
                _ => {
                    let key = card["attributes"]["sources"].as_object().unwrap().keys().next().unwrap();
                    owner.delete(&format!("{path}/sources/{key}")).await.expect(204)
                }
            };
        }
        let job = import(owner, "mode=upsert&sources=keep", media_type, file.clone()).await;
        assert_eq!(ended(&job), "done 8 0", "{format}: {job}");
        let after: Vec<Value> = cards(&exported(owner, "").await).into_iter().map(whole).collect();
        assert_eq!(after, before, "{format}");
        // Into another database.
        let other = Host::settings().start().await;
        let job = import(other.owner().await, "sources=keep&atomic=true", media_type, file).await;
        assert_eq!((ended(&job).as_str(), &job["counts"]["created"]), ("done 8 0", &json!(8)), "{format}: {job}");
        let there: Vec<Value> = cards(&exported(other.owner().await, "").await).into_iter().map(whole).collect();
        assert_eq!(there, before, "{format}");
        // Sources are found there, too.
        assert_eq!(cards(&exported(other.owner().await, "kind=supplier").await).len(), 8);
    }
}

#[tokio::test]
async fn an_export_has_what_the_list_has() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let word = unique("filter");
    for (n, status) in ["draft", "active", "active"].iter().enumerate() {
        let wanted = json!({"title": format!("{word} {n}"), "sku": format!("{word}-{n}"), "status": status});
        owner.post(CARDS, &wanted).await.expect(201);
    }
    let answer = owner.get(&format!("{EXPORT}?q={word}&status=active")).await;
    assert_eq!(answer.header("content-type"), Some(NDJSON), "{answer}");
    assert!(answer.header("content-disposition").unwrap().starts_with("attachment; filename=\"cards-"), "{answer}");
    let list = owner.get(&format!("{CARDS}?q={word}&status=active&sort=created_at")).await.expect(200);
    assert_eq!(json!(cards(&answer.text())), list["items"], "oldest first");
    let csv = exported(owner, &format!("q={word}&format=csv&fields=sku,title")).await;
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "id,sku,title");
    assert!(lines.len() == 4 && lines[1].ends_with(&format!(",{word}-0,{word} 0")), "{csv}");
    let part = cards(&exported(owner, &format!("q={word}&fields=sku")).await);
    assert_eq!(part[0].as_object().unwrap().keys().collect::<Vec<_>>(), ["id", "sku"]);
    let id = part[0]["id"].as_str().unwrap();
    let picked = cards(&exported(owner, &format!("ids={id},{}", uuid::Uuid::now_v7())).await);
    assert_eq!((picked.len(), &picked[0]["id"]), (1, &json!(id)));
    assert_eq!(exported(owner, &format!("ids={id}&status=active")).await, "", "the filter holds as well");
    owner.delete(&format!("{CARDS}/{id}")).await.expect(204);
    let deleted = cards(&exported(owner, &format!("q={word}&deleted=true")).await);
    assert!(deleted.len() == 1 && deleted[0]["deleted_at"].is_string(), "{deleted:?}");
    assert_eq!(exported(owner, &format!("q={}", unique("nobody"))).await, "");
    for query in ["format=xml", "status=lost", "sort=title", "limit=1", "colour=red", "fields=colour", "ids=", "ids=x"]
    {
        owner.get(&format!("{EXPORT}?{query}")).await.refused(400, "invalid-request");
    }
    let head = owner.call(Method::HEAD, EXPORT).send().await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
}

async fn seed(host: &Host, count: i32) {
    let sql = "INSERT INTO public.master_cards (id, title, sku, attributes) \
               SELECT gen_random_uuid(), 'T ' || n, 'S-' || n, jsonb_build_object('text', repeat('x', 1000), 'sources', '{}'::jsonb) \
               FROM generate_series(1, $1) AS n";
    host.database().await.execute(sql, &[&count]).await.unwrap();
}

#[tokio::test]
async fn cards_that_change_meanwhile_are_as_they_were() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    seed(&host, 20_000).await;
    let mut body = owner.call(Method::GET, EXPORT).open(Some(16 << 10)).await.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    let database = host.database().await;
    database.batch_execute("UPDATE public.master_cards SET title = 'changed', version = 2; UPDATE public.master_cards SET deleted_at = now() WHERE sku LIKE 'S-1%'").await.unwrap();
    let mut text = first.to_vec();
    while let Some(frame) = body.frame().await {
        text.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    let cards = cards(std::str::from_utf8(&text).unwrap());
    assert_eq!(cards.len(), 20_000);
    assert!(cards.iter().all(|card| card["version"] == 1), "as they were when it began");
}

#[tokio::test]
async fn an_export_that_can_not_be_finished_breaks_off() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    seed(&host, 20_000).await;
    let mut body = owner.call(Method::GET, EXPORT).open(Some(16 << 10)).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%ORDER BY c.id' AND pid <> pg_backend_pid()";
    assert_eq!(host.database().await.query(cut, &[]).await.unwrap().len(), 1);
    let mut end = None;
    while let Some(frame) = body.frame().await {
        end = Some(frame);
    }
    assert!(end.is_some_and(|end| end.is_err()), "it must not pass for whole");
    // The host is none the worse for it.
    assert_eq!(cards(&exported(owner, "").await).len(), 20_000);
}

#[tokio::test]
async fn who_stops_reading_leaves_nothing_behind_and_more_than_a_few_wait() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    seed(&host, 20_000).await;
    let open = || async { owner.call(Method::GET, EXPORT).open(Some(16 << 10)).await.unwrap() };
    let four = join_all((0..4).map(|_| open())).await;
    assert!(four.iter().all(|answer| answer.status() == 200));
    owner.get(EXPORT).await.refused(503, "overloaded");
    drop(four);
    let begun = std::time::Instant::now();
    eventually("there is room again", async || (owner.get(EXPORT).await.status == 200).then_some(())).await;
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let reading = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%ORDER BY c.id' AND pid <> pg_backend_pid()";
    let database = host.database().await;
    eventually("nobody reads for the gone", async || {
        (database.query_one(reading, &[]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_spreadsheet_computes_nothing_of_an_export_that_is_made_for_it() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let word = unique("sheet");
    let titles = [
        ("=HYPERLINK(\"http://evil.example\")", true),
        ("@SUM(1)", true),
        ("-5", false),
        ("+A1", true),
        ("plain", false),
        ("a;=1+1", true),
    ];
    for (n, (title, _)) in titles.iter().enumerate() {
        owner.post(CARDS, &json!({"title": title, "sku": format!("{word}-{n}")})).await.expect(201);
    }
    let export = async |more: &str| exported(owner, &format!("format=csv&q={word}&fields=sku,title{more}")).await;
    let (exact, safe) = (export("").await, export("&spreadsheet=true").await);
    assert_eq!(export("&spreadsheet=false").await, exact, "the default is exact");
    for (n, (title, is_computed)) in titles.iter().enumerate() {
        let line = |file: &str| {
            let sku = format!("{word}-{n}");
            file.lines().find(|line| line.split(',').any(|cell| cell.trim_matches('"') == sku)).unwrap().to_owned()
        };
        let cell = |title: &str| {
            if title.contains('"') { format!("\"{}\"", title.replace('"', "\"\"")) } else { title.to_owned() }
        };
        assert!(line(&exact).ends_with(&format!(",{}", cell(title))), "{}", line(&exact));
        let shown = match title.split_once(';') {
            Some((before, after)) => format!("{before};'{after}"),
            None if *is_computed => format!("'{title}"),
            None => (*title).to_owned(),
        };
        assert!(line(&safe).ends_with(&format!(",\"{}\"", shown.replace('"', "\"\""))), "{}", line(&safe));
    }
    // Nothing of the attributes is another text for it.
    let card = owner.card("Guarded").await;
    let attributes = json!({"a": ";=1", "b": -5, "c": ["+x;-y"]});
    let path = format!("{CARDS}/{}", card["id"].as_str().unwrap());
    owner.patch(&path, &json!({"attributes": attributes})).await.expect(200);
    let safe = exported(owner, &format!("format=csv&q={}&spreadsheet=true", card["sku"].as_str().unwrap())).await;
    assert!(!safe.contains(';'), "{safe}");
    let done = import(owner, "mode=upsert", CSV, safe).await;
    assert_eq!(done["counts"]["unchanged"], 1, "it imports back as the same card: {done}");
    let answer = owner.get(&format!("{EXPORT}?format=csv&spreadsheet=true&q={word}")).await;
    assert!(answer.header("content-disposition").unwrap().ends_with("-spreadsheet.csv\""), "{answer}");
    for query in ["spreadsheet=true", "format=ndjson&spreadsheet=true", "format=csv&spreadsheet=yes"] {
        owner.get(&format!("{EXPORT}?{query}")).await.refused(400, "invalid-request");
    }
}
