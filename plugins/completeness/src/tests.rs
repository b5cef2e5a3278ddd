//! The plugin as a host runs it, in this process. What needs tables is left out where there is no PostgreSQL.
//! The clock stands still, so that the plugin's own task does nothing that a test does not ask for.

use cardinal_plugin::serde_json::Value;
use cardinal_plugin::testing::{TestHost, TestReply, TestRequest, lacks_database, test_card, test_user};
use cardinal_plugin::{Uuid, block_on, json};

use crate::walk;

const MANIFEST: &str = include_str!("../manifest.json");
const SCHEMA: &str = include_str!("../schema.sql");

fn host(settings: Value) -> TestHost {
    TestHost::builder(MANIFEST).settings(settings).database(SCHEMA).paused().start(|ctx| {
        let _ = ctx; // the walk goes when a test goes it
        crate::routes::table()
    })
}

fn send(host: &TestHost, request: TestRequest) -> TestReply {
    block_on(host.send(request))
}

fn get(host: &TestHost, path: &str) -> Value {
    let reply = send(host, TestRequest::get(path));
    assert_eq!(reply.status(), 200, "{path}: {reply:?}");
    reply.json()
}

/// Goes the whole walk; gives the number of its pages.
fn walk_all(host: &TestHost) -> usize {
    let (ctx, holder) = (host.context(), Uuid::new_v4());
    let mut pages = 1;
    while block_on(walk::step(&ctx, holder)).unwrap() {
        pages += 1;
    }
    pages
}

fn add_cards(host: &TestHost, count: usize) -> Vec<Uuid> {
    let card = |n: usize| {
        let attributes = if n.is_multiple_of(2) { json!({ "brand": "Lumo", "price": "1.00" }) } else { json!({}) };
        host.add_card(test_card(&format!("Card {n}"), json!({ "attributes": attributes })))
    };
    (0..count).map(card).collect()
}

#[test]
fn limits_and_cursors_are_checked_before_the_database_is_asked() {
    let host = host(Value::Null);
    for path in ["/worst?limit=0", "/worst?limit=201", "/worst?max_score=101", "/worst?cursor=x"] {
        assert_eq!(send(&host, TestRequest::get(path)).status(), 400, "{path}");
    }
    assert_eq!(send(&host, TestRequest::get("/worst?other=1")).status(), 422);
    assert_eq!(host.journal(), [""; 0]);
}

#[test]
fn a_walk_scores_every_card_and_lists_the_worst_in_pages() {
    if lacks_database() {
        return;
    }
    let host = host(Value::Null);
    let cards = add_cards(&host, 450);
    assert_eq!(walk_all(&host), 3);
    let mut seen = Vec::new();
    let mut path = "/worst?limit=200".to_owned();
    loop {
        let page = get(&host, &path);
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|item| (item["score"].as_i64(), item["card_id"].clone())),
        );
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/worst?limit=200&cursor={cursor}");
    }
    assert_eq!(seen.len(), cards.len());
    assert!(seen.is_sorted_by_key(|(score, _)| *score) && seen[0].0 == Some(0) && seen[449].0 == Some(33), "{seen:?}");
    let lacking = get(&host, "/worst?missing=attribute:brand&limit=1");
    assert_eq!(lacking["items"][0]["score"], 0, "{lacking}");
    assert!(get(&host, "/worst?max_score=32&missing=pictures&limit=200")["next_cursor"].is_string());
    let summary = get(&host, "/summary");
    assert_eq!((&summary["cards"], &summary["complete"], &summary["average"]), (&json!(450), &json!(0), &json!(16.5)));
    assert_eq!(summary["tenths"], json!([225, 0, 0, 225, 0, 0, 0, 0, 0, 0]));
    assert_eq!(summary["missing"][0]["cards"], 450, "{summary}");
    assert_eq!((&summary["walk"]["is_running"], &summary["walk"]["done"]), (&json!(false), &json!(450)), "{summary}");
    assert!(host.journal().iter().all(|line| !line.starts_with("enrich")), "cards stay as they are");
}

#[test]
fn other_rules_begin_another_walk_and_two_hosts_do_not_go_it_together() {
    if lacks_database() {
        return;
    }
    let host = host(Value::Null);
    add_cards(&host, 250);
    let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
    assert!(block_on(walk::step(&host.context(), first)).unwrap());
    assert!(!block_on(walk::step(&host.context(), second)).unwrap(), "the first goes it");
    assert_eq!(get(&host, "/summary")["cards"], 200);
    assert!(!block_on(walk::step(&host.context(), first)).unwrap(), "that was the last page");
    assert!(!block_on(walk::step(&host.context(), second)).unwrap(), "nothing is due");
    host.change_settings(&json!({ "required_attributes": [] }));
    assert_eq!(get(&host, "/summary")["walk"]["is_running"], true);
    assert!(block_on(walk::step(&host.context(), second)).unwrap(), "the rules are others");
    assert_eq!(send(&host, TestRequest::post("/recompute")).status(), 202);
    assert!(block_on(walk::step(&host.context(), second)).unwrap());
    assert_eq!(get(&host, "/summary")["walk"]["done"], 200, "begun anew");
}

#[test]
fn a_card_is_scored_as_it_is_now() {
    if lacks_database() {
        return;
    }
    let host = host(json!({ "required_attributes": ["brand"], "min_pictures": 0, "min_description": 0 }));
    let card = host.add_card(test_card("Lamp", json!({})));
    let reader = test_user("Ada", &["plugin:completeness:read"]);
    let reply = send(&host, TestRequest::get(&format!("/cards/{card}")).user(reader));
    assert_eq!((&reply.json()["score"], &reply.json()["missing"]), (&json!(0), &json!(["attribute:brand"])));
    assert_eq!(reply.json()["checks"][0]["text"], "The attribute brand has a value.");
    let changed = json!({ "id": card, "version": 2, "attributes": { "brand": "Lumo" } });
    host.add_card(test_card("Lamp", changed));
    let tool = TestRequest::tool("plugin_completeness_card", &json!({ "card_id": card }));
    assert_eq!(send(&host, tool).json()["score"], 100);
    assert_eq!(send(&host, TestRequest::get(&format!("/cards/{}", Uuid::nil()))).status(), 404);
}

#[test]
fn the_lists_column_has_the_scores_of_the_cards_in_sight() {
    let host = host(Value::Null);
    let scores = |ids: &[Uuid]| {
        let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
        format!("/scores?card_ids={}", ids.join(","))
    };
    for path in ["/scores?card_ids=", "/scores?card_ids=x", &scores(&[Uuid::nil(); 51])] {
        assert_eq!(send(&host, TestRequest::get(path)).status(), 400, "{path}");
    }
    if lacks_database() {
        return;
    }
    let cards = add_cards(&host, 2);
    walk_all(&host);
    let expected = json!({ "values": { cards[0].to_string(): 33, cards[1].to_string(): 0 } });
    assert_eq!(get(&host, &scores(&[cards[0], cards[1], Uuid::nil()])), expected);
}

#[test]
fn scores_are_kept_in_the_cards_on_demand_written_once_and_removed_again() {
    if lacks_database() {
        return;
    }
    let host = host(json!({ "write_to_cards": true }));
    let card = add_cards(&host, 1)[0];
    walk_all(&host);
    let source = &host.card(card).sources()["completeness:score"];
    assert_eq!((&*source.kind, &source.data["score"]), ("completeness", &json!(33)));
    send(&host, TestRequest::post("/recompute"));
    walk_all(&host);
    assert_eq!(host.card(card).version, 2, "the same score is not written again");
    host.change_settings(&json!({ "write_to_cards": false }));
    walk_all(&host);
    assert!(host.card(card).sources().is_empty());
}

#[test]
fn what_happens_to_cards_is_scored_once_and_a_bulk_action_begins_a_walk() {
    if lacks_database() {
        return;
    }
    let host = host(json!({ "write_to_cards": true }));
    let ctx = host.context();
    add_cards(&host, 3);
    walk_all(&host);
    let events = |after: i64| block_on(ctx.card_events(Some(after), 200)).unwrap();
    let known = block_on(ctx.card_events(None, 200)).unwrap();
    assert!(known.restart);
    let card = add_cards(&host, 1)[0];
    block_on(walk::deal_with(ctx.clone(), events(known.cursor))).unwrap();
    assert_eq!(get(&host, "/summary")["cards"], 4);
    assert_eq!(host.card(card).sources()["completeness:score"].data["score"], 33);
    let journal = host.journal().len();
    block_on(walk::deal_with(ctx.clone(), events(known.cursor))).unwrap();
    let after = &host.journal()[journal..];
    assert!(after.iter().all(|line| !line.starts_with("read_card") && !line.starts_with("enrich")), "{after:?}");
    assert_eq!(get(&host, "/summary")["walk"]["is_running"], false);
    host.raise_bulk_event("archive", 600);
    block_on(walk::deal_with(ctx.clone(), events(known.cursor))).unwrap();
    assert_eq!(get(&host, "/summary")["walk"]["is_running"], true);
}
