//! What a plugin may do to cards, and what it may not.

use std::sync::Arc;

use cardinal_plugin_host::{
    context::{PluginContext, Source},
    fault::Fault,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Echo, caller, identity};

async fn card(echo: &Echo) -> Uuid {
    echo.database.card(&Uuid::now_v7().to_string()).await
}

async fn sources(echo: &Echo, card: Uuid) -> Value {
    let sql = "SELECT attributes->'sources' FROM public.master_cards WHERE id = $1";
    echo.database.core().await.query_one(sql, &[&card]).await.unwrap().get(0)
}

async fn count(echo: &Echo, sql: &str, card: Uuid) -> i64 {
    echo.database.core().await.query_one(sql, &[&card]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enrichment_is_what_the_plugin_said_and_what_the_host_knows() {
    let echo = Echo::new().await;
    let card = card(&echo).await;
    let answer = echo.call("enrich").param("card_id", card).json(&json!({"note": "hi", "key": "a"})).ok().await;
    assert_eq!(answer, json!({"source_key": "echo:a", "version": 2}));
    let entry = &sources(&echo, card).await["echo:a"];
    assert_eq!((&entry["kind"], &entry["data"]), (&json!("echo"), &json!({"note": "hi"})));
    assert_eq!((&entry["plugin"], &entry["plugin_version"]), (&json!("echo"), &json!("1.0.0")));
    assert_eq!(entry["updated_by"], json!({"kind": "user", "id": echo.caller.user_id, "name": "ada"}));
    assert!(entry["updated_at"].as_str().unwrap().ends_with('Z'));

    let index =
        "SELECT count(*) FROM public.card_source_index WHERE card_id = $1 AND plugin = 'echo' AND kind = 'echo'";
    assert_eq!(count(&echo, index, card).await, 1);
    let history = "SELECT count(*) FROM public.card_history WHERE card_id = $1 AND action = 'enrich' AND version = 2";
    assert_eq!(count(&echo, history, card).await, 1);

    let removed = echo.call("forget").param("card_id", card).query("key=a").ok().await;
    assert_eq!(removed["version"], 3);
    assert_eq!(sources(&echo, card).await, json!({}));
    assert_eq!(count(&echo, index, card).await, 0);
    assert_eq!(echo.call("forget").param("card_id", card).query("key=a").error().await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_enrichments_lose_nothing() {
    let echo = Arc::new(Echo::new().await);
    let card = card(&echo).await;
    let writers = (0..8).map(|writer| {
        let echo = echo.clone();
        tokio::spawn(async move {
            for n in 0..100 {
                // 25 keys a writer, each written four times: new ones and changed ones race alike.
                let body = json!({"note": format!("{writer}/{n}"), "key": format!("{writer}-{}", n % 25)});
                echo.call("enrich").param("card_id", card).json(&body).ok().await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let sources = sources(&echo, card).await;
    assert_eq!(sources.as_object().unwrap().len(), 200);
    for writer in 0..8 {
        for n in 75..100 {
            assert_eq!(sources[format!("echo:{writer}-{}", n % 25)]["data"]["note"], format!("{writer}/{n}"));
        }
    }
    assert_eq!(count(&echo, "SELECT version FROM public.master_cards WHERE id = $1", card).await, 801);
    assert_eq!(count(&echo, "SELECT count(*) FROM public.card_history WHERE card_id = $1", card).await, 800);
    assert_eq!(count(&echo, "SELECT count(*) FROM public.card_source_index WHERE card_id = $1", card).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_place_of_a_card_goes_to_one() {
    let echo = Arc::new(Echo::new().await);
    let card = card(&echo).await;
    let fill = "UPDATE public.master_cards SET attributes = jsonb_build_object('sources',
                  (SELECT jsonb_object_agg('x:' || n, '{}'::jsonb) FROM generate_series(1, 255) n)) WHERE id = $1";
    echo.database.core().await.execute(fill, &[&card]).await.unwrap();
    let tries = (0..10).map(|n| {
        let echo = echo.clone();
        tokio::spawn(async move {
            let call = echo.call("enrich").param("card_id", card).json(&json!({"note": "", "key": n.to_string()}));
            call.send().await.is_ok()
        })
    });
    let mut written = 0;
    for attempt in tries.collect::<Vec<_>>() {
        written += usize::from(attempt.await.unwrap());
    }
    assert_eq!(written, 1);
    let refused = echo.call("enrich").param("card_id", card).json(&json!({"note": "", "key": "more"})).error().await;
    assert_eq!((refused.status, refused.code.as_str()), (422, "source-limit-exceeded"));
    let keys = sources(&echo, card).await;
    let own = keys.as_object().unwrap().keys().find(|key| key.starts_with("echo:")).unwrap()[5..].to_owned();
    echo.call("enrich").param("card_id", card).json(&json!({"note": "again", "key": own})).ok().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_a_rule_is_refused_by_its_code() {
    let echo = Echo::new().await;
    let card = card(&echo).await;
    let enrich = |body: Value| echo.call("enrich").param("card_id", card).json(&body);
    let refused = enrich(json!({"note": "", "key": ""})).error().await;
    assert_eq!((refused.status, refused.code.as_str(), refused.public), (422, "source-key-invalid", true));
    let refused = enrich(json!({"note": "", "kind": "price"})).error().await;
    assert_eq!((refused.status, refused.code.as_str()), (422, "kind-not-declared"));
    let refused = enrich(json!({"note": "x".repeat(256 << 10)})).error().await;
    assert_eq!((refused.status, refused.code.as_str()), (422, "source-limit-exceeded"));
    let refused = enrich(json!({"note": "a\0b"})).error().await;
    assert_eq!((refused.status, refused.code.as_str()), (422, "validation-failed"));
    let unknown = echo.call("enrich").param("card_id", Uuid::now_v7()).json(&json!({"note": ""})).error().await;
    assert_eq!((unknown.status, unknown.code.as_str()), (404, "not-found"));
    assert_eq!(sources(&echo, card).await, json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_come_from_the_call() {
    let echo = Echo::new().await;
    let card = card(&echo).await;
    let enrich = || echo.call("enrich").param("card_id", card).json(&json!({"note": ""}));
    for scopes in [&["plugin:echo:read"][..], &["cards:read"], &["plugin:other:write"], &[]] {
        let refused = enrich().by(&caller(scopes)).error().await;
        assert_eq!((refused.status, refused.code.as_str()), (403, "insufficient-scope"), "{scopes:?}");
        assert_eq!(refused.details["required_scope"], "plugin:echo:write");
    }
    for scopes in ["plugin:echo:write", "plugin:*:write", "cards:write", "*"] {
        enrich().by(&caller(&[scopes])).ok().await;
    }
    let read = |scopes: &[&str]| echo.call("card").param("card_id", card).by(&caller(scopes));
    assert_eq!(read(&["cards:read"]).ok().await["card"]["id"], card.to_string());
    assert_eq!(read(&["cards:purge"]).error().await.status, 403);
    assert!(echo.call("cards").by(&caller(&["plugin:echo:read"])).ok().await["items"].is_array());
    assert_eq!(echo.call("cards").by(&caller(&[])).error().await.status, 403);
    assert_eq!(echo.call("cards").query("cursor=nonsense").error().await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_acts_for_its_caller_or_as_itself() {
    let echo = Echo::new().await;
    let card = card(&echo).await;
    let context = PluginContext::new(echo.services.clone(), identity("echo", json!({}), None));
    let source = |key| Source { card, key, kind: "echo", data: "{}" };
    let everything = caller(&["*"]);
    let own = context.service_user().await.unwrap();
    assert_eq!(context.enrich_card(None, source("echo:x")).await.unwrap(), 2);
    assert!(matches!(context.enrich_card(None, source("other:x")).await, Err(Fault::Refused(_))));
    assert!(context.read_card(None, card).await.unwrap().contains("echo:x"));
    assert_eq!(context.enrich_card(Some(&everything), source("echo:y")).await.unwrap(), 3);
    let by = &sources(&echo, card).await["echo:y"]["updated_by"];
    assert_eq!(by["id"], everything.user_id.to_string());
    let by = &sources(&echo, card).await["echo:x"]["updated_by"];
    assert_eq!(*by, json!({"kind": "plugin", "id": own, "name": "echo"}));
    assert_eq!(echo.call("user").ok().await["service_user"]["id"], own.to_string(), "one user for all instances");
}
