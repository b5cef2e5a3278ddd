//! Contract 4: what becomes of a card — its history, earlier versions, being deleted, coming back, going for good.

use cardinal_tests::{Host, Pages, User, eventually, unique};
use http::Method;
use serde_json::{Value, json};

const CARDS: &str = "/v1/admin/master-cards";

const PRODUCT: &str = r#"<html><head><script type="application/ld+json">{"@type": "Product", "name": "Oak chair"}</script>
</head><body></body></html>"#;

async fn shop() -> Pages {
    Pages::serve([("/chair", PRODUCT.to_owned())]).await
}

fn path(card: &Value) -> String {
    format!("{CARDS}/{}", card["id"].as_str().unwrap())
}

async fn history(owner: &User, card: &Value) -> Vec<Value> {
    let lines = owner.get(&format!("{}/history?limit=200", path(card))).await.expect(200);
    lines["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_card_goes_back_to_an_earlier_version_and_keeps_its_sources() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let wanted = json!({"title": "One", "sku": unique("SKU"), "attributes": {"a": {"b": null, "c": 1}}});
    let card = owner.post(CARDS, &wanted).await.expect(201)["item"].clone();
    owner
        .patch(&path(&card), &json!({"title": "Two", "attributes": {"a": {"c": null, "d": [1]}, "e": 2}}))
        .await
        .expect(200);
    owner.patch(&path(&card), &json!({"status": "archived", "attributes": {"a": null}})).await.expect(200);
    let shop = shop().await;
    let enriched = format!("/v1/admin/plugins/supplier/enrich/{}", card["id"].as_str().unwrap());
    owner.post(&enriched, &json!({"url": shop.url("/chair")})).await.expect(200);
    let before = owner.get(&path(&card)).await.expect(200)["item"].clone();
    assert_eq!(before["version"], 4, "{before}");

    let restore =
        async |version: i64| owner.post(&format!("{}/restore", path(&card)), &json!({"version": version})).await;
    let second = restore(2).await;
    assert_eq!(second.header("etag"), Some("\"5\""), "{second}");
    let second = second.expect(200)["item"].clone();
    assert_eq!((&second["title"], &second["status"]), (&json!("Two"), &json!("draft")));
    let mut attributes = second["attributes"].clone();
    assert_eq!(attributes["sources"], before["attributes"]["sources"], "sources stay as they are");
    attributes.as_object_mut().unwrap().remove("sources");
    assert_eq!(attributes, json!({"a": {"b": null, "d": [1]}, "e": 2}));
    // A restore is a version like others: what was before it is still there to go back to, and so is it.
    let first = restore(1).await.expect(200)["item"].clone();
    assert_eq!((&first["title"], &first["attributes"]["a"]), (&json!("One"), &json!({"b": null, "c": 1})));
    let third = restore(3).await.expect(200)["item"].clone();
    assert_eq!((&third["status"], third["attributes"].get("a")), (&json!("archived"), None), "{third}");
    assert_eq!(restore(5).await.expect(200)["item"]["attributes"]["a"], json!({"b": null, "d": [1]}));
    // Where nothing would change there is no new version.
    assert_eq!(restore(5).await.expect(200)["item"]["version"], 8);
    assert_eq!(restore(8).await.expect(200)["item"]["version"], 8);
    let lines = history(owner, &card).await;
    assert_eq!((&lines[0]["action"], &lines[0]["change"]["version"]), (&json!("restore"), &json!(5)), "{}", lines[0]);
    assert_eq!(
        lines.iter().map(|line| line["version"].as_i64().unwrap()).collect::<Vec<_>>(),
        [8, 7, 6, 5, 4, 3, 2, 1]
    );
}

#[tokio::test]
async fn a_version_that_cannot_be_had_is_refused_in_words() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let sku = unique("SKU");
    let card = owner.post(CARDS, &json!({"title": "Taken", "sku": sku})).await.expect(201)["item"].clone();
    owner.patch(&path(&card), &json!({"sku": unique("SKU")})).await.expect(200);
    owner.post(CARDS, &json!({"title": "Taker", "sku": sku})).await.expect(201);
    let restore = |body: Value| owner.call(Method::POST, &format!("{}/restore", path(&card))).json(&body);
    restore(json!({"version": 1})).send().await.refused(409, "sku-taken");
    for (body, pointer) in [
        (json!({"version": 3}), "/version"),
        (json!({"version": 0}), "/version"),
        (json!({"version": -1}), "/version"),
        (json!({"version": null}), "/version"),
        (json!({"version": "1"}), "/version"),
        (json!({"versoin": 1}), "/versoin"),
    ] {
        let refused = restore(body.clone()).send().await.refused(422, "validation-failed");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{body}: {refused}");
    }
    restore(json!({"version": 1})).header("if-match", "\"1\"").send().await.refused(412, "version-mismatch");
    owner
        .post(&format!("{CARDS}/{}/restore", uuid::Uuid::now_v7()), &json!({"version": 1}))
        .await
        .refused(404, "not-found");
    // What is deleted is hidden from this too, and has to be brought back first.
    owner.delete(&path(&card)).await.expect(204);
    restore(json!({"version": 1})).send().await.refused(404, "not-found");
}

#[tokio::test]
async fn the_history_of_a_deleted_card_is_read_until_it_is_purged() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.post(CARDS, &json!({"title": "Gone", "sku": unique("SKU")})).await.expect(201)["item"].clone();
    owner.delete(&path(&card)).await.expect(204);
    let lines = history(owner, &card).await;
    assert_eq!(lines.iter().map(|line| &line["action"]).collect::<Vec<_>>(), ["delete", "create"]);
    owner.delete(&format!("{}?purge=true", path(&card))).await.expect(204);
    owner.get(&format!("{}/history", path(&card))).await.refused(404, "not-found");
}

#[tokio::test]
async fn a_deleted_card_is_hidden_everywhere_and_comes_back() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (prefix, sku) = (unique("Hidden"), unique("SKU"));
    let card = owner.post(CARDS, &json!({"title": prefix, "sku": sku})).await.expect(201)["item"].clone();
    let id = card["id"].as_str().unwrap();
    owner.call(Method::DELETE, &path(&card)).header("if-match", "\"7\"").send().await.refused(412, "version-mismatch");
    owner.delete(&path(&card)).await.expect(204);
    owner.get(&path(&card)).await.refused(404, "not-found");
    owner.patch(&path(&card), &json!({"title": "x"})).await.refused(404, "not-found");
    owner.delete(&path(&card)).await.refused(404, "not-found");
    let enrich = format!("/v1/admin/plugins/supplier/enrich/{id}");
    let shop = shop().await;
    owner.post(&enrich, &json!({"url": shop.url("/chair")})).await.refused(404, "not-found");
    let count = async |query: &str| {
        owner.get(&format!("{CARDS}?q={prefix}{query}")).await.expect(200)["items"].as_array().unwrap().len()
    };
    assert_eq!((count("").await, count("&deleted=true").await, count("&deleted=false").await), (0, 1, 0));
    // Its SKU is free, and whoever took it keeps it.
    let taker = owner.post(CARDS, &json!({"title": "Taker", "sku": sku})).await.expect(201)["item"].clone();
    let restore = format!("{}/restore", path(&card));
    owner.call(Method::POST, &restore).send().await.refused(409, "sku-taken");
    owner.delete(&path(&taker)).await.expect(204);
    owner.call(Method::POST, &restore).header("if-match", "\"1\"").send().await.refused(412, "version-mismatch");
    let back = owner.call(Method::POST, &restore).header("if-match", "\"2\"").send().await.expect(200)["item"].clone();
    assert_eq!((&back["version"], back.get("deleted_at")), (&json!(3), None), "{back}");
    owner.call(Method::POST, &restore).send().await.refused(404, "not-found");
    let actions: Vec<Value> = history(owner, &card).await.iter().map(|line| line["action"].clone()).collect();
    assert_eq!(actions, ["restore", "delete", "create"]);
}

#[tokio::test]
async fn a_purge_heeds_the_version_and_the_scope() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.card("Purged").await;
    let purge = format!("{}?purge=true", path(&card));
    owner.key(&["cards:write"]).await.delete(&purge).await.refused(403, "insufficient-scope");
    owner.get(&path(&card)).await.expect(200);
    owner.delete(&path(&card)).await.expect(204);
    // Of a card that is hidden already as well.
    owner.call(Method::DELETE, &purge).header("if-match", "\"1\"").send().await.refused(412, "version-mismatch");
    owner.call(Method::DELETE, &purge).header("if-match", "\"2\"").send().await.expect(204);
    owner.delete(&purge).await.refused(404, "not-found");
    owner.call(Method::POST, &format!("{}/restore", path(&card))).send().await.refused(404, "not-found");
    let other = owner.card("Purged at once").await;
    owner.delete(&format!("{}?purge=true", path(&other))).await.expect(204);
    owner.call(Method::POST, &format!("{}/restore", path(&other))).send().await.refused(404, "not-found");
}

#[tokio::test]
async fn deleted_cards_go_for_good_when_their_time_is_over() {
    let host = Host::settings().set("CARD_RETENTION_DAYS", "30").start().await;
    let (old, young) = (host.owner().await.card("Old").await, host.owner().await.card("Young").await);
    for card in [&old, &young] {
        host.owner().await.delete(&path(card)).await.expect(204);
    }
    let age = "UPDATE public.master_cards SET deleted_at = now() - interval '31 days' WHERE id = $1::text::uuid";
    assert_eq!(host.database().await.execute(age, &[&old["id"].as_str().unwrap()]).await.unwrap(), 1);
    let host = host.restart(|settings| settings).await; // it is looked at once an hour, and at every start
    let database = host.database().await;
    eventually("the old card is gone", async || {
        let left = database.query("SELECT title FROM public.master_cards", &[]).await.unwrap();
        (left.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>() == ["Young"]).then_some(())
    })
    .await;
    host.owner().await.call(Method::POST, &format!("{}/restore", path(&young))).send().await.expect(200);
}

#[tokio::test]
async fn what_changes_nothing_makes_no_version() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let wanted = json!({"title": "Same", "sku": unique("SKU"), "attributes": {"a": 1, "b": {"c": []}}});
    let card = owner.post(CARDS, &wanted).await.expect(201)["item"].clone();
    for patch in [
        json!({}),
        json!({"title": "Same"}),
        json!({"status": "draft", "attributes": {"a": 1, "x": null}}),
        json!({"attributes": {"b": {"c": []}}}),
    ] {
        let after = owner.patch(&path(&card), &patch).await.expect(200)["item"].clone();
        assert_eq!(after, card, "{patch}");
    }
    assert_eq!(history(owner, &card).await.len(), 1);
    let stale = owner.call(Method::PATCH, &path(&card)).json(&json!({})).header("if-match", "\"9\"").send().await;
    stale.refused(412, "version-mismatch");
}
