//! Contract 4: one card — create, read, change.

use cardinal_tests::{Host, unique};
use http::Method;
use serde_json::{Value, json};

const CARDS: &str = "/v1/admin/master-cards";

fn path(card: &Value) -> String {
    format!("{CARDS}/{}", card["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_created_card_is_complete_and_read_back_the_same() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let sku = unique("SKU");
    let wanted = json!({"title": "Chair Ω", "sku": sku, "attributes": {"colour": "red", "sizes": [1, 2.5]}});
    let answer = owner.post(CARDS, &wanted).await;
    let card = answer.expect(201)["item"].clone();
    assert_eq!(answer.header("location"), Some(path(&card).as_str()), "{answer}");
    assert_eq!((&card["title"], &card["sku"], &card["status"]), (&json!("Chair Ω"), &json!(sku), &json!("draft")));
    assert_eq!((&card["version"], &card["attributes"]["sources"]), (&json!(1), &json!({})), "{card}");
    assert_eq!((&card["attributes"]["colour"], &card["attributes"]["sizes"]), (&json!("red"), &json!([1, 2.5])));
    let mut fields: Vec<&String> = card.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(fields, ["attributes", "created_at", "id", "sku", "status", "title", "updated_at", "version"]);
    let read = owner.get(&path(&card)).await;
    assert_eq!(read.expect(200)["item"], card);
    assert_eq!(read.header("etag"), Some("\"1\""), "{read}");
}

#[tokio::test]
async fn a_sku_is_unique() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (first, second) = (owner.card("First").await, owner.card("Second").await);
    let again = json!({"title": "Again", "sku": first["sku"]});
    owner.post(CARDS, &again).await.refused(409, "sku-taken");
    owner.patch(&path(&second), &json!({"sku": first["sku"]})).await.refused(409, "sku-taken");
    // Its own SKU is no conflict.
    owner.patch(&path(&first), &json!({"sku": first["sku"], "title": "Renamed"})).await.expect(200);
}

#[tokio::test]
async fn what_is_wrong_with_a_card_is_named() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.card("Valid").await;
    for (change, pointer) in [
        (json!({"title": ""}), "/title"),
        (json!({"title": "x".repeat(501)}), "/title"),
        (json!({"title": null}), "/title"),
        (json!({"title": 7}), "/title"),
        (json!({"title": "nul \u{0}"}), "/title"),
        (json!({"sku": ""}), "/sku"),
        (json!({"sku": "x".repeat(121)}), "/sku"),
        (json!({"status": "gone"}), "/status"),
        (json!({"attributes": null}), "/attributes"),
        (json!({"attributes": []}), "/attributes"),
        (json!({"attributes": {"sources": {}}}), "/attributes/sources"),
        (json!({"attributes": {"sources": null}}), "/attributes/sources"),
        (json!({"version": 7}), "/version"),
        (json!({"id": card["id"]}), "/id"),
        (json!({"titel": "typo"}), "/titel"),
    ] {
        let refused = owner.patch(&path(&card), &change).await.refused(422, "validation-failed");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "PATCH {change}: {refused}");
        let mut wanted = json!({"title": "T", "sku": unique("SKU")});
        wanted.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let refused = owner.post(CARDS, &wanted).await.refused(422, "validation-failed");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "POST {wanted}: {refused}");
    }
    assert_eq!(owner.read_card(card["id"].as_str().unwrap()).await, card, "a refused change changed something");
}

#[tokio::test]
async fn what_postgresql_cannot_store_is_refused_and_no_failure() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.card("Storable").await;
    for attributes in [json!({"note": "nul \u{0}"}), json!({"nul \u{0}": 1}), json!({"deep": [{"x": "\u{0}"}]})] {
        let answer = owner.patch(&path(&card), &json!({"attributes": attributes})).await;
        answer.refused(422, "validation-failed");
    }
    let nested = format!("{{\"attributes\": {{\"a\": {}1{}}}}}", "[".repeat(5000), "]".repeat(5000));
    let answer = owner.call(Method::PATCH, &path(&card)).body("application/json", nested).send().await;
    assert!([400, 422].contains(&answer.status.as_u16()), "{answer}");
    answer.problem();
    let lone = r#"{"attributes": {"a": "\ud800"}}"#;
    let answer = owner.call(Method::PATCH, &path(&card)).body("application/json", lone).send().await;
    assert!([400, 422].contains(&answer.status.as_u16()), "{answer}");
}

#[tokio::test]
async fn a_change_is_a_merge_patch_and_raises_the_version() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let wanted = json!({"title": "Lamp", "sku": unique("SKU"), "attributes": {"a": {"b": 1, "c": 2}, "d": 3}});
    let card = owner.post(CARDS, &wanted).await.expect(201)["item"].clone();
    let patch = json!({"status": "active", "attributes": {"a": {"b": null, "e": [1]}, "d": "four"}});
    let call = owner.call(Method::PATCH, &path(&card)).body("application/merge-patch+json", patch.to_string());
    let answer = call.send().await;
    let changed = answer.expect(200)["item"].clone();
    assert_eq!(changed["attributes"], json!({"a": {"c": 2, "e": [1]}, "d": "four", "sources": {}}));
    assert_eq!(
        (&changed["version"], &changed["status"], &changed["title"]),
        (&json!(2), &json!("active"), &json!("Lamp"))
    );
    assert_eq!(owner.get(&path(&card)).await.expect(200)["item"], changed);
    for wrong in ["text/plain", "application/json-patch+json", "application/x-www-form-urlencoded"] {
        let answer = owner.call(Method::PATCH, &path(&card)).body(wrong, "{}").send().await;
        assert_eq!(answer.status, 415, "{wrong}: {answer}");
        answer.problem();
    }
}

#[tokio::test]
async fn a_change_made_for_another_version_is_refused() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.card("Versioned").await;
    let change = async |if_match: &str, title: &str| {
        let call = owner.call(Method::PATCH, &path(&card)).json(&json!({"title": title}));
        call.header("if-match", if_match).send().await
    };
    change("\"1\"", "second").await.expect(200);
    let refused = change("\"1\"", "third").await.refused(412, "version-mismatch");
    assert_eq!(refused["current_version"], 2, "{refused}");
    // Compared strongly: a weak tag never matches; a star does when the card exists.
    for other in ["W/\"2\"", "\"02\"", "\"+2\"", "\"2 \""] {
        change(other, "third").await.refused(412, "version-mismatch");
    }
    let lines = owner.call(Method::PATCH, &path(&card)).json(&json!({"title": "second"}));
    lines.header("if-match", "\"1\"").header_too("if-match", "\"2\"").send().await.expect(200);
    change("\"7\", \"2\"", "third").await.expect(200);
    change("*", "fourth").await.expect(200);
    assert_eq!(owner.read_card(card["id"].as_str().unwrap()).await["title"], "fourth");
}

#[tokio::test]
async fn an_unchanged_card_is_not_sent_again() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.card("Cached").await;
    let ask = async |tag: &str| owner.call(Method::GET, &path(&card)).header("if-none-match", tag).send().await;
    for tag in ["\"1\"", "W/\"1\"", "\"9\", \"1\"", "*"] {
        let answer = ask(tag).await;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (304, 0), "{tag}: {answer}");
        assert_eq!(answer.header("etag"), Some("\"1\""), "{answer}");
    }
    ask("\"2\"").await.expect(200);
}

#[tokio::test]
async fn changes_at_the_same_time_lose_nothing() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.card("Busy").await;
    let changes = (0..40).map(|n| {
        let (client, path) = (owner.call(Method::PATCH, &path(&card)), n);
        client.json(&json!({"attributes": {format!("k{path}"): n}})).send()
    });
    for answer in futures_util::future::join_all(changes).await {
        answer.expect(200);
    }
    let after = owner.read_card(card["id"].as_str().unwrap()).await;
    assert_eq!((after["version"].as_u64(), after["attributes"].as_object().unwrap().len()), (Some(41), 41), "{after}");
}

#[tokio::test]
async fn a_card_has_one_address() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.card("Once").await;
    let id = card["id"].as_str().unwrap();
    for other in [format!("%7B{id}%7D"), format!("urn:uuid:{id}"), id.replace('-', ""), format!("{id}%20")] {
        owner.get(&format!("{CARDS}/{other}")).await.refused(404, "not-found");
        owner.delete(&format!("{CARDS}/{other}")).await.refused(404, "not-found");
    }
    assert_eq!(owner.read_card(id).await, card);
}

#[tokio::test]
async fn an_empty_change_changes_nothing() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.card("Still").await;
    let after = owner.patch(&path(&card), &json!({})).await.expect(200)["item"].clone();
    assert_eq!(after["title"], card["title"]);
    assert_eq!(owner.patch(&format!("{CARDS}/{}", uuid::Uuid::now_v7()), &json!({})).await.status, 404);
}
