//! Contract 4: the reference plugin, from a page on the net to a source of a card.

use std::time::{Duration, Instant};

use cardinal_tests::{Host, Pages, eventually};
use http::Method;
use serde_json::{Value, json};

use super::mcp_confirmation::{approval_path, asked};

/// A shop's page with schema.org data, relative image included.
pub(super) const PAGE: &str = r#"<!doctype html><html><head><title>Shop</title>
<script type="application/ld+json">{"@context": "https://schema.org", "@graph": [{"@type": "WebSite", "name": "Shop"},
 {"@type": "Product", "name": "Oak chair", "sku": "OAK-1", "gtin13": "4006381333931", "description": "Four legs.",
  "brand": {"@type": "Brand", "name": "Woodworks"}, "image": ["/oak-1.jpg", "https://cdn.example/oak-2.jpg"],
  "offers": {"@type": "Offer", "price": "129.90", "priceCurrency": "EUR", "availability": "https://schema.org/InStock"}}]}
</script></head><body><h1>Oak chair</h1></body></html>"#;

const PREVIEW: &str = "/v1/admin/plugins/supplier/preview";

fn preview(page: &str) -> String {
    format!("{PREVIEW}?url={}", page.replace(':', "%3A").replace('/', "%2F"))
}

#[tokio::test]
async fn a_page_is_previewed_as_a_product() {
    let host = Host::shared().await;
    let pages = Pages::serve([("/chair", PAGE.to_owned())]).await;
    let answer = host.owner().await.get(&preview(&pages.url("/chair"))).await.expect(200);
    let product = &answer["product"];
    for (field, expected) in [
        ("title", "Oak chair"),
        ("brand", "Woodworks"),
        ("sku", "OAK-1"),
        ("gtin", "4006381333931"),
        ("description", "Four legs."),
        ("price", "129.90"),
        ("currency", "EUR"),
    ] {
        assert_eq!(product[field], expected, "{field}: {product}");
    }
    assert_eq!(product["images"], json!([pages.url("/oak-1.jpg"), "https://cdn.example/oak-2.jpg"]), "{product}");
    assert!(product["fetched_at"].is_string() && product["availability"].is_string(), "{product}");
}

#[tokio::test]
async fn who_confirms_the_tool_sees_what_it_would_write() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let pages = Pages::serve([("/chair", PAGE.to_owned())]).await;
    let card = owner.card("Chair").await;
    let agent = owner.key(&["mcp:use", "plugin:supplier:write"]).await;
    let arguments = json!({"card_id": card["id"], "url": pages.url("/chair")});
    let params = json!({"name": "plugin_supplier_enrich", "arguments": arguments});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let shown = async || {
        let item = asked(owner, &arguments, async { agent.mcp(&message).await.json() }).await;
        (item["difference"].clone(), approval_path(&item))
    };
    let (difference, approval) = shown().await;
    assert_eq!((&difference["card_id"], &difference["version"]), (&card["id"], &json!(1)), "{difference}");
    let change = &difference["changes"][0];
    assert_eq!(change["pointer"], "/attributes/sources/supplier:127.0.0.1", "{difference}");
    assert!(change["after"]["title"] == "Oak chair" && change.get("before").is_none(), "{difference}");
    assert_eq!(owner.read_card(card["id"].as_str().unwrap()).await["version"], 1, "nothing is written yet");
    owner.call(Method::POST, &format!("{approval}/approve")).send().await.expect(200);
    let ran = agent.mcp(&message).await.json();
    assert_ne!(ran["result"]["isError"], true, "{ran}");
    let written = owner.read_card(card["id"].as_str().unwrap()).await;
    assert_eq!(written["attributes"]["sources"]["supplier:127.0.0.1"]["data"], change["after"], "as it was shown");
    let (again, _) = shown().await;
    assert_eq!(again["changes"][0]["before"], change["after"], "{again}");
}

#[tokio::test]
async fn a_card_is_enriched_and_shows_who_did_it() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let pages = Pages::serve([("/chair", PAGE.to_owned())]).await;
    let card = owner.card("Chair").await;
    let id = card["id"].as_str().unwrap();
    let key = owner.key(&["plugin:supplier:write"]).await;
    let body = json!({"url": pages.url("/chair")});
    let done = key.post(&format!("/v1/admin/plugins/supplier/enrich/{id}"), &body).await.expect(200);
    assert_eq!((&done["source_key"], &done["version"]), (&json!("supplier:127.0.0.1"), &json!(2)), "{done}");
    let after = owner.read_card(id).await;
    let source = &after["attributes"]["sources"]["supplier:127.0.0.1"];
    assert_eq!(
        (&source["kind"], &source["plugin"], &source["plugin_version"]),
        (&json!("supplier"), &json!("supplier"), &json!("1.0.0"))
    );
    assert_eq!(
        (&source["updated_by"]["kind"], source["updated_by"]["id"].is_string()),
        (&json!("api_key"), true),
        "{source}"
    );
    assert!(source["updated_at"].is_string(), "{source}");
    assert_eq!(source["data"]["title"], "Oak chair", "{source}");
    assert_eq!((&after["version"], &after["title"]), (&json!(2), &card["title"]));
    // The frontend's call of the seed, and again: the same source, not a second one.
    let again = json!({"card_id": id, "url": pages.url("/chair")});
    key.post("/v1/admin/plugins/supplier/process", &again).await.expect(200);
    let sources = owner.read_card(id).await["attributes"]["sources"].clone();
    assert_eq!(sources.as_object().unwrap().len(), 1, "{sources}");
    let items = key.get("/v1/admin/plugins/supplier/items?limit=200").await.expect(200);
    let found = items["items"].as_array().unwrap().iter().any(|row| row.to_string().contains(&pages.url("/chair")));
    assert!(found, "its cache does not know the page: {items}");
}

#[tokio::test]
async fn a_source_survives_changes_to_the_card_and_a_change_cannot_touch_it() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let pages = Pages::serve([("/chair", PAGE.to_owned())]).await;
    let card = owner.card("Kept").await;
    let id = card["id"].as_str().unwrap();
    let body = json!({"url": pages.url("/chair")});
    owner.post(&format!("/v1/admin/plugins/supplier/enrich/{id}"), &body).await.expect(200);
    let before = owner.read_card(id).await["attributes"]["sources"].clone();
    let path = format!("/v1/admin/master-cards/{id}");
    owner.patch(&path, &json!({"attributes": {"colour": "oak"}})).await.expect(200);
    owner.patch(&path, &json!({"attributes": {"sources": {}}})).await.refused(422, "validation-failed");
    assert_eq!(owner.read_card(id).await["attributes"]["sources"], before);
}

#[tokio::test]
async fn what_it_cannot_do_is_said_plainly() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let pages = Pages::serve([("/empty", "<html><body>nothing here</body></html>".to_owned())]).await;
    let ask = async |url: String| owner.get(&preview(&url)).await;
    for (answer, about) in [
        (owner.get(PREVIEW).await, "no url"),
        (ask("not a url".replace(' ', "+")).await, "no url at all"),
        (ask("ftp://127.0.0.1/x".to_owned()).await, "another scheme"),
        (ask(pages.url("/missing")).await, "a page that is not there"),
        (ask(pages.url("/empty")).await, "a page without a product"),
        (ask("http://127.0.0.1:1/".to_owned()).await, "nobody listens"),
    ] {
        assert!((400..=504).contains(&answer.status.as_u16()) && answer.status != 500, "{about}: {answer}");
        answer.problem();
    }
    let nobody = uuid::Uuid::now_v7();
    let body = json!({"url": pages.url("/empty")});
    let unknown = owner.post(&format!("/v1/admin/plugins/supplier/enrich/{nobody}"), &body).await;
    assert!([404, 422].contains(&unknown.status.as_u16()), "{unknown}");
}

#[tokio::test]
async fn its_routes_ask_for_its_scopes_before_it_runs() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let pages = Pages::serve([("/chair", PAGE.to_owned())]).await;
    let card = owner.card("Scoped").await;
    let enrich = format!("/v1/admin/plugins/supplier/enrich/{}", card["id"].as_str().unwrap());
    let body = json!({"url": pages.url("/chair")});
    let stranger = owner.key(&["cards:write", "plugin:other:write"]).await;
    let refused = stranger.get(&preview(&pages.url("/chair"))).await.refused(403, "insufficient-scope");
    assert_eq!(refused["required_scope"], "plugin:supplier:read", "{refused}");
    let reader = owner.key(&["plugin:supplier:read"]).await;
    let refused = reader.post(&enrich, &body).await.refused(403, "insufficient-scope");
    assert_eq!(refused["required_scope"], "plugin:supplier:write", "{refused}");
    assert_eq!(pages.served(), 0, "a refused call reached the page");
    reader.get(&preview(&pages.url("/chair"))).await.expect(200);
    let anyone = owner.key(&["plugin:*:write"]).await;
    anyone.post(&enrich, &body).await.expect(200);
    let wrong = owner.call(Method::DELETE, PREVIEW).send().await;
    assert_eq!((wrong.status.as_u16(), wrong.header("allow").is_some()), (405, true), "{wrong}");
    wrong.problem();
    owner.get("/v1/admin/plugins/supplier/nothing").await.refused(404, "not-found");
}

#[tokio::test]
async fn private_addresses_are_refused_unless_its_setting_allows_them() {
    let settings = Host::settings().plugins(cardinal_tests::PluginsFolder::bundled());
    let host = settings.start().await;
    let pages = Pages::serve([("/chair", PAGE.to_owned())]).await;
    let answer = host.owner().await.get(&preview(&pages.url("/chair"))).await;
    assert!((400..500).contains(&answer.status.as_u16()), "{answer}");
    answer.problem();
    for odd in ["http://localhost/", "http://[::1]/", "http://0x7f000001/", "http://169.254.169.254/latest/meta-data"] {
        let answer = host.owner().await.get(&preview(odd)).await;
        assert!((400..500).contains(&answer.status.as_u16()), "{odd}: {answer}");
    }
    assert_eq!(pages.served(), 0);
}

#[tokio::test]
async fn a_name_of_the_network_behind_the_host_is_refused_like_one_that_is_not_there() {
    let host = Host::settings().plugins(cardinal_tests::PluginsFolder::bundled()).start().await;
    let owner = host.owner().await;
    // `localhost` stands for an internal name: it resolves, and to an address that is not on the internet.
    let names = ["http://localhost/page", "http://no-such-name.invalid/page"];
    let mut answers = Vec::new();
    for name in names {
        let begun = Instant::now();
        let mut problem = owner.get(&preview(name)).await.refused(422, "address-refused");
        assert!(begun.elapsed() >= Duration::from_millis(500), "{name} is refused faster: {:?}", begun.elapsed());
        problem.as_object_mut().unwrap().remove("request_id");
        answers.push(problem);
    }
    assert_eq!(answers[0], answers[1]);
    let log = "/v1/admin/plugin-registry/supplier/logs";
    for (name, cause) in [(names[0], "this machine itself"), (names[1], "lookup")] {
        eventually("the operator's log has the cause", async || {
            let lines = owner.get(log).await.expect(200);
            let of_name = |line: &&Value| line["fields"]["url"] == json!(name);
            let line = lines["items"].as_array().unwrap().iter().find(of_name)?.clone();
            line["fields"]["reason"].as_str().unwrap().contains(cause).then_some(())
        })
        .await;
    }
    // Whoever may preview may not read that log for it.
    let key = owner.key(&["plugin:supplier:*"]).await;
    key.get(&preview(names[0])).await.refused(422, "address-refused");
    key.get(log).await.refused(403, "insufficient-scope");
}

#[tokio::test]
async fn many_enrichments_at_the_same_time_lose_nothing() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let pages = Pages::serve([("/chair", PAGE.to_owned())]).await;
    let card = owner.card("Busy").await;
    let id = card["id"].as_str().unwrap();
    let enrich = format!("/v1/admin/plugins/supplier/enrich/{id}");
    // Each loopback address is another shop, so each is another source of the card.
    let shops: Vec<String> = (1..=12).map(|shop| pages.url_at(shop, "/chair")).collect();
    let calls = shops.iter().map(|url| owner.call(Method::POST, &enrich).json(&json!({"url": url})).send());
    for answer in futures_util::future::join_all(calls).await {
        answer.expect(200);
    }
    let after: Value = owner.read_card(id).await;
    assert_eq!(after["attributes"]["sources"].as_object().unwrap().len(), shops.len(), "{after}");
    assert_eq!(after["version"].as_u64(), Some(1 + shops.len() as u64));
}

#[tokio::test]
async fn a_feed_enriches_the_cards_with_its_skus_as_a_job() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let cards: Vec<Value> =
        futures_util::future::join_all((0..20).map(|n| owner.card(if n == 0 { "First" } else { "Other" }))).await;
    let row = |card: &Value| format!("{};Chair;129,90 EUR;/oak.jpg\n", card["sku"].as_str().unwrap());
    let feed = format!("sku;title;price;image_link\n{}unknown;Chair;1;\n", cards.iter().map(row).collect::<String>());
    let pages = Pages::serve([("/feed.csv", feed)]).await;
    let reader = owner.key(&["plugin:supplier:read"]).await;
    let body = json!({"url": pages.url("/feed.csv")});
    reader.post("/v1/admin/plugins/supplier/feeds", &body).await.refused(403, "insufficient-scope");
    let begun = owner.post("/v1/admin/plugins/supplier/feeds", &body).await.expect(202);
    let path = format!("/v1/admin/jobs/{}", begun["job"].as_str().unwrap());
    let job = eventually("the feed is gone through", async || {
        let job = owner.get(&path).await.expect(200)["item"].clone();
        job["finished_at"].is_string().then_some(job)
    })
    .await;
    let counts = ["state", "total", "done", "failed", "message"].map(|name| job[name].clone());
    let message = json!("Enriched: 20. Without a card: 1.");
    assert_eq!(counts, [json!("done"), json!(21), json!(21), json!(0), message], "{job}");
    let listed = |query: &str| format!("/v1/admin/jobs?limit=200&{query}");
    let ids = async |query: &str| -> Vec<Value> {
        let list = owner.get(&listed(query)).await.expect(200);
        list["items"].as_array().unwrap().iter().map(|job| job["id"].clone()).collect()
    };
    assert!(ids("plugin=supplier").await.contains(&begun["job"]));
    assert!(!ids("plugin=gallery").await.contains(&begun["job"]));
    let source =
        owner.read_card(cards[0]["id"].as_str().unwrap()).await["attributes"]["sources"]["supplier:127.0.0.1:feed"]
            .clone();
    assert_eq!(
        (&source["data"]["price"], &source["updated_by"]["kind"]),
        (&json!("129.90"), &json!("user")),
        "{source}"
    );
}
