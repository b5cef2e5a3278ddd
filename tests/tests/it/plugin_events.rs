//! What happens to cards, as a plugin reads it: by pages, from where it left off, over restarts, with the rights of who asks.
//! The plugin is `echo`.

use cardinal_tests::{Host, Package, PluginsFolder, User, eventually};
use serde_json::{Value, json};

const EVENTS: &str = "/v1/admin/plugins/echo/events";

async fn host() -> Host {
    Host::settings().plugins(PluginsFolder::default().with("echo", &Package::fixture("echo"))).start().await
}

async fn page(user: &User, query: &str) -> Value {
    user.get(&format!("{EVENTS}?{query}")).await.expect(200)
}

fn kinds<'p>(pages: impl IntoIterator<Item = &'p Value>, card: &str) -> Vec<(String, i64)> {
    let items = pages.into_iter().flat_map(|page| page["items"].as_array().unwrap());
    let own = items.filter(|event| event["card_id"] == card);
    own.map(|event| (event["type"].as_str().unwrap().to_owned(), event["version"].as_i64().unwrap())).collect()
}

/// Reads on until the card's event of this kind, in pages of `limit`; gives all pages.
async fn read_until(user: &User, mut after: i64, limit: u32, card: &str, last: &str) -> Vec<Value> {
    let mut pages = Vec::new();
    eventually("the events of the card", async || {
        let next = page(user, &format!("after={after}&limit={limit}&own=true")).await;
        after = next["cursor"].as_i64().unwrap();
        pages.push(next);
        kinds(&pages, card).iter().any(|(kind, _)| kind == last).then_some(())
    })
    .await;
    pages
}

#[tokio::test]
async fn a_plugin_reads_what_happened_from_where_it_left_off() {
    let host = host().await;
    let owner = host.owner().await;
    let begin = page(owner, "").await;
    assert_eq!((&begin["restart"], &begin["items"]), (&json!(true), &json!([])), "it knows nothing yet: {begin}");
    let begin = begin["cursor"].as_i64().unwrap();

    let card = owner.card("Followed").await["id"].as_str().unwrap().to_owned();
    owner.post(&format!("/v1/admin/plugins/echo/enrich/{card}"), &json!({"note": "x"})).await.expect(200);
    owner.delete(&format!("/v1/admin/master-cards/{card}")).await.expect(204);
    let expected = [("card.created", 1), ("card.enriched", 2), ("card.deleted", 3)];
    let expected = expected.map(|(kind, version)| (kind.to_owned(), version));
    for limit in [1, 2, 500] {
        let pages = read_until(owner, begin, limit, &card, "card.deleted").await;
        assert_eq!(kinds(&pages, &card), expected, "in pages of {limit}");
        assert!(pages.iter().all(|page| page["items"].as_array().unwrap().len() <= limit as usize), "{pages:?}");
    }
    let enriched = page(owner, &format!("after={begin}")).await["items"][1].clone();
    assert_eq!((&enriched["source_key"], &enriched["kind"]), (&json!("echo:note"), &json!("echo")), "{enriched}");
    assert_eq!(enriched["actor"]["name"], owner.username);

    // A new process, and what happens meanwhile.
    let host = host.restart(|settings| settings).await;
    let owner = host.owner().await;
    owner.post(&format!("/v1/admin/master-cards/{card}/restore"), &json!({})).await.expect(200);
    let pages = read_until(owner, begin, 500, &card, "card.restored").await;
    assert_eq!(kinds(&pages, &card).len(), 4);
}

#[tokio::test]
async fn the_next_event_is_waited_for() {
    let host = host().await;
    let owner = host.owner().await;
    let begin = page(owner, "").await["cursor"].as_i64().unwrap();
    let waiting = format!("after={begin}&wait=true&own=true");
    let (page, card) = tokio::join!(page(owner, &waiting), owner.card("Awaited"));
    assert_eq!(kinds([&page], card["id"].as_str().unwrap()), [("card.created".to_owned(), 1)], "{page}");
    let past = page["cursor"].as_i64().unwrap();
    assert!(past > begin);
}

#[tokio::test]
async fn what_is_not_kept_is_a_reason_to_look_at_all_cards() {
    let host = host().await;
    let owner = host.owner().await;
    let begin = page(owner, "").await["cursor"].as_i64().unwrap();
    let card = owner.card("Forgotten").await["id"].as_str().unwrap().to_owned();
    read_until(owner, begin, 500, &card, "card.created").await;
    let sql = "SELECT public.forget_events(1000, 0, interval '0')";
    host.database().await.execute(sql, &[]).await.unwrap();
    for after in [begin, begin - 1_000, i64::MAX] {
        let page = page(owner, &format!("after={after}")).await;
        assert_eq!((&page["restart"], &page["items"]), (&json!(true), &json!([])), "after {after}: {page}");
        assert!(page["cursor"].as_i64().unwrap() > begin, "{page}");
    }
}

#[tokio::test]
async fn only_who_may_read_cards_is_told_of_them() {
    let host = host().await;
    let owner = host.owner().await;
    for scopes in [&["plugin:echo:read"][..], &["plugin:echo:read", "cards:read"]] {
        page(&owner.key(scopes).await, "").await;
    }
    owner.key(&["cards:read"]).await.get(EVENTS).await.refused(403, "insufficient-scope");
}
