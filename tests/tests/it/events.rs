//! Contract 4: `GET /v1/admin/events`. What is told, in which order, and that nothing is missed.

use cardinal_tests::{EventStream, Host, Package, PluginsFolder, Sent, eventually, unique};
use http::Method;
use serde_json::{Value, json};

const CARDS: &str = "/v1/admin/master-cards";
/// Of hosts that accept each other's logins.
const ONE_SECRET: &str = "one secret for the logins on both hosts";

fn quick() -> PluginsFolder {
    PluginsFolder::default().with("quick", &Package::fixture("quick"))
}

async fn host() -> Host {
    Host::settings().plugins(quick()).start().await
}

fn kinds(events: &[Sent]) -> Vec<(&str, i64)> {
    events.iter().map(|event| (event.kind.as_str(), event.version())).collect()
}

/// As plugins, jobs and approvals do it, with what the host would put there.
async fn raise(database: &tokio_postgres::Client, topic: &str, kind: &str, data: &Value) {
    let sql = "INSERT INTO public.event_outbox (topic, type, data) VALUES ($1, $2, $3)";
    database.execute(sql, &[&topic, &kind, data]).await.unwrap();
}

#[tokio::test]
async fn whatever_happens_to_a_card_is_told_in_order() {
    let host = host().await;
    let owner = host.owner().await;
    let mut stream = EventStream::open(owner, "?topics=card", None).await.greeted().await;
    let header = |name: &str| stream.head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(header("content-type").as_deref(), Some("text/event-stream"));
    assert_eq!(header("cache-control").as_deref(), Some("no-store"));
    assert_eq!(header("x-accel-buffering").as_deref(), Some("no"));
    assert!(stream.last_id.is_some(), "it can come back before the first event");

    let card = owner.card("Told").await;
    let id = card["id"].as_str().unwrap();
    let path = format!("{CARDS}/{id}");
    owner.patch(&path, &json!({"title": "Told again"})).await.expect(200);
    owner.post(&format!("/v1/admin/plugins/quick/enrich/{id}"), &json!({})).await.expect(200);
    owner.delete(&format!("{path}/sources/quick:bench")).await.expect(204);
    owner.delete(&path).await.expect(204);
    owner.post(&format!("{path}/restore"), &json!({})).await.expect(200);
    owner.delete(&path).await.expect(204);
    owner.delete(&format!("{path}?purge=true")).await.expect(204);

    let events = stream.of_card(id, |event| event.kind == "card.purged").await;
    let expected = [
        ("card.created", 1),
        ("card.updated", 2),
        ("card.enriched", 3),
        ("card.source-removed", 4),
        ("card.deleted", 5),
        ("card.restored", 6),
        ("card.deleted", 7),
        ("card.purged", 7),
    ];
    assert_eq!(kinds(&events), expected);
    let update = &events[1].data;
    assert_eq!((update["type"].as_str(), update["topic"].as_str()), (Some("card.updated"), Some("card")));
    assert_eq!(update["actor"]["id"], owner.id.to_string());
    assert!(update["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{update}");
    let enriched = &events[2].data;
    assert_eq!((&enriched["source_key"], &enriched["kind"]), (&json!("quick:bench"), &json!("quick")));
}

#[tokio::test]
async fn who_comes_back_misses_nothing_on_whichever_host() {
    let one = Host::settings().plugins(quick()).set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let two = one.beside().set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let owner = one.owner().await;
    let there = two.client().bearer(owner.token.clone());
    let mut here = EventStream::open(owner, "", None).await.greeted().await;
    let mut other = EventStream::open(&there, "", None).await.greeted().await;

    let first = owner.card("One").await["id"].as_str().unwrap().to_owned();
    let last_id = here.of_card(&first, |_| true).await[0].id.unwrap();
    let path = format!("{CARDS}/{first}");
    assert_eq!(other.of_card(&first, |_| true).await[0].id, Some(last_id), "events have one number on every host");
    drop(here);
    for title in 0..30 {
        // Now here, now there.
        let client = if title % 2 == 0 { owner } else { &there };
        client.patch(&path, &json!({"title": title.to_string()})).await.expect(200);
    }
    let expected: Vec<(&str, i64)> = (2..=31).map(|version| ("card.updated", version)).collect();
    let mut resumed = EventStream::open(&there, "", Some(&last_id.to_string())).await;
    let events = resumed.of_card(&first, |event| event.version() == 31).await;
    assert_eq!(kinds(&events), expected);
    assert_eq!(other.of_card(&first, |event| event.version() == 31).await, events);
}

#[tokio::test]
async fn what_is_committed_late_is_told_late_and_not_lost() {
    let host = host().await;
    let owner = host.owner().await;
    let mut database = host.database().await;
    let others = host.database().await;
    let mut stream = EventStream::open(owner, "?topics=job", None).await.greeted().await;

    let slow = database.transaction().await.unwrap();
    let raise_slowly = "INSERT INTO public.event_outbox (topic, type, data) VALUES ('job', 'job.slow', '{}')";
    slow.execute(raise_slowly, &[]).await.unwrap();
    raise(&others, "job", "job.quick", &json!({"n": 1})).await;
    let quick = stream.next().await;
    assert_eq!(
        (quick.kind.as_str(), &quick.data["n"]),
        ("job.quick", &json!(1)),
        "nobody waits for an open transaction"
    );
    slow.commit().await.unwrap();
    let late = stream.next().await;
    assert_eq!((late.kind.as_str(), late.id), ("job.slow", Some(quick.id.unwrap() + 1)));

    let undone = database.transaction().await.unwrap();
    undone.execute(raise_slowly, &[]).await.unwrap();
    undone.rollback().await.unwrap();
    raise(&others, "job", "job.quick", &json!({"n": 2})).await;
    assert_eq!(stream.next().await.data["n"], 2, "what is undone is not told");
}

#[tokio::test]
async fn readers_get_the_topics_that_they_may_read() {
    let host = host().await;
    let owner = host.owner().await;
    let database = host.database().await;
    let reader = owner.key(&["cards:read", "jobs:read"]).await;
    let none = owner.key(&["proxy:read"]).await;
    let mut all = EventStream::open(owner, "", None).await.greeted().await;
    let mut some = EventStream::open(&reader, "", None).await.greeted().await;
    let mut jobs = EventStream::open(&reader, "?topics=job", None).await.greeted().await;
    let mut nothing = EventStream::open(&none, "", None).await.greeted().await;
    let mut named = EventStream::open(&reader, "?topics=card,plugin,approval", None).await.greeted().await;
    // Even a key of all scopes never answers confirmations.
    let all_scopes = owner.key(&["*"]).await;
    let mut key = EventStream::open(&all_scopes, "?topics=approval,job", None).await.greeted().await;
    for (n, topic) in ["plugin", "approval", "card", "job", "plugin", "job"].into_iter().enumerate() {
        raise(&database, topic, &format!("{topic}.tested"), &json!({"n": n})).await;
    }
    let numbers = async |stream: &mut EventStream, count: usize| {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            let sent = stream.next().await;
            numbers.extend(sent.data["n"].as_i64());
        }
        numbers
    };
    assert_eq!(numbers(&mut all, 6).await, [0, 1, 2, 3, 4, 5], "a login holds every topic");
    assert_eq!(numbers(&mut some, 3).await, [2, 3, 5]);
    assert_eq!(numbers(&mut jobs, 2).await, [3, 5]);
    assert_eq!(numbers(&mut named, 1).await, [2], "of what was named, what may be read");
    assert_eq!(numbers(&mut key, 2).await, [3, 5]);

    let events = |query: &str| format!("/v1/admin/events{query}");
    for bad in ["?topics=cards", "?topics=", "?topics=card,,job", "?topics=card&since=1", "?cursor=x"] {
        owner.get(&events(bad)).await.refused(400, "invalid-request");
    }
    for bad in ["x", "-1", "1.0", "99999999999999999999999"] {
        let call = owner.call(Method::GET, "/v1/admin/events").header("last-event-id", bad);
        call.send().await.refused(400, "invalid-request");
    }
    let head = owner.call(Method::HEAD, "/v1/admin/events").send().await;
    assert_eq!((head.status.as_u16(), head.header("content-type")), (200, Some("text/event-stream")));
    owner.post("/v1/admin/events", &json!({})).await.refused(405, "method-not-allowed");
    // Whoever may read nothing is kept company.
    eventually("a heartbeat", async || {
        let heard = tokio::time::timeout(std::time::Duration::from_millis(200), nothing.try_next()).await;
        assert!(heard.is_err(), "{heard:?}");
        (nothing.comments > 1).then_some(())
    })
    .await;
    let told = nothing.last_id.clone().unwrap().parse::<i64>().unwrap();
    assert!(told > all.last_id.unwrap().parse::<i64>().unwrap() - 6, "a heartbeat says how far it has come");
}

#[tokio::test]
async fn a_statement_on_very_many_cards_is_one_event() {
    let host = host().await;
    let mut stream = EventStream::open(host.owner().await, "?topics=card", None).await.greeted().await;
    let database = host.database().await;
    let make = |count: i32, prefix: String| {
        let sql = "WITH c AS (INSERT INTO public.master_cards (id, title, sku)
              SELECT gen_random_uuid(), 't', $2 || i FROM generate_series(1, $1) i RETURNING id)
            INSERT INTO public.card_history (id, card_id, version, actor, action, change)
            SELECT gen_random_uuid(), id, 1, '{\"kind\": \"user\"}', 'create', '{}' FROM c";
        let database = &database;
        async move { database.execute(sql, &[&count, &prefix]).await.unwrap() }
    };
    make(501, unique("many")).await;
    let bulk = stream.next().await;
    assert_eq!(
        (bulk.kind.as_str(), &bulk.data["action"], &bulk.data["cards"]),
        ("card.bulk", &json!("create"), &json!(501))
    );
    make(500, unique("some")).await;
    for _ in 0..500 {
        assert_eq!(stream.next().await.kind, "card.created");
    }
}

/// While nobody reads, events get their numbers, so that they neither pile up nor come late.
#[tokio::test]
async fn events_are_numbered_while_nobody_reads() {
    let host = host().await;
    let owner = host.owner().await;
    let stream = EventStream::open(owner, "", None).await.greeted().await;
    let last_id = stream.last_id.clone().unwrap();
    drop(stream);
    let card = owner.card("Alone").await;
    let database = host.database().await;
    eventually("the outbox is empty", async || {
        let row = database.query_one("SELECT count(*) FROM public.event_outbox", &[]).await.unwrap();
        (row.get::<_, i64>(0) == 0).then_some(())
    })
    .await;
    let mut stream = EventStream::open(owner, "?topics=card", Some(&last_id)).await;
    assert_eq!(stream.next().await.card(), card["id"].as_str());
}
