//! Contract 3.1: API keys.

use cardinal_tests::{Host, eventually, unique};
use http::Method;
use serde_json::json;
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

const KEYS: &str = "/v1/admin/api-keys";
const CARDS: &str = "/v1/admin/master-cards";
const ME: &str = "/v1/admin/auth/me";

#[tokio::test]
async fn a_key_is_shown_once_and_has_a_form_that_scanners_know() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let made = owner.make_key(json!({"name": unique("form"), "scopes": ["cards:read"]})).await;
    let key = made["key"].as_str().unwrap();
    assert_eq!(key.len(), 50, "{key}");
    assert!(key.starts_with("mpk_") && key[4..].chars().all(|c| c.is_ascii_alphanumeric()), "{key}");
    let item = &made["item"];
    let hint = item["key_hint"].as_str().unwrap();
    assert!(hint.starts_with(&key[..8]) && hint.ends_with(&key[47..]) && hint.len() < 20, "{hint}");
    assert_eq!(item["scopes"], json!(["cards:read"]), "{item}");
    assert_eq!(item["owner_id"], json!(owner.id), "{item}");
    for path in [KEYS.to_owned(), format!("{KEYS}/{}", item["id"].as_str().unwrap())] {
        let answer = owner.get(&path).await;
        answer.expect(200);
        assert!(!answer.text().contains(key) && !answer.text().contains("key_hash"), "{answer}");
    }
    assert!(!host.log().contains(key), "the key is in the log");
}

#[tokio::test]
async fn a_mistyped_key_is_refused() {
    let host = Host::shared().await;
    let key = host.owner().await.key(&["cards:read"]).await.token;
    for at in [4, 20, 43, 44, 49] {
        let mut typo = key.clone().into_bytes();
        typo[at] = if typo[at] == b'a' { b'b' } else { b'a' };
        host.client().bearer(String::from_utf8(typo).unwrap()).get(ME).await.refused(401, "invalid-token");
    }
    for wrong in [&key[..49], &format!("{key}a"), "mpk_", &key.to_uppercase()] {
        let answer = host.client().bearer(wrong).get(ME).await;
        answer.refused(401, "invalid-token");
    }
}

#[tokio::test]
async fn a_key_may_do_what_its_scopes_say_and_no_more() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let wanted = json!({"title": "By key", "sku": unique("SKU")});
    let reader = owner.key(&["cards:read"]).await;
    reader.get(CARDS).await.expect(200);
    let refused = reader.post(CARDS, &wanted).await.refused(403, "insufficient-scope");
    assert_eq!(refused["required_scope"], "cards:write", "{refused}");
    reader.get(KEYS).await.refused(403, "insufficient-scope");
    // Write implies read.
    let writer = owner.key(&["cards:write"]).await;
    let card = writer.post(CARDS, &wanted).await.expect(201)["item"].clone();
    writer.get(&format!("{CARDS}/{}", card["id"].as_str().unwrap())).await.expect(200);
    let me = reader.get(ME).await.expect(200);
    assert_eq!((&me["auth"], &me["scopes"]), (&json!("api_key"), &json!(["cards:read"])), "{me}");
    assert_eq!(me["user"]["id"], json!(owner.id), "the user of a key is its owner: {me}");
}

#[tokio::test]
async fn a_caller_grants_only_what_it_holds() {
    let host = Host::shared().await;
    let keeper = host.owner().await.key(&["keys:write", "cards:read"]).await;
    let ask = async |scope: &str| keeper.post(KEYS, &json!({"name": unique("grant"), "scopes": [scope]})).await;
    ask("cards:read").await.expect(201);
    for more in ["cards:write", "cards:*", "*", "users:read", "plugin:*:read"] {
        ask(more).await.refused(403, "insufficient-scope");
    }
}

#[tokio::test]
async fn a_revoked_key_is_dead_at_once() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let made = owner.make_key(json!({"name": unique("revoke"), "scopes": ["cards:read"]})).await;
    let path = format!("{KEYS}/{}", made["item"]["id"].as_str().unwrap());
    let key = host.client().bearer(made["key"].as_str().unwrap());
    key.get(CARDS).await.expect(200);
    assert_eq!(owner.delete(&path).await.status, 204);
    key.get(CARDS).await.refused(401, "revoked-token");
    assert!(owner.get(&path).await.expect(200)["item"]["revoked_at"].is_string());
}

#[tokio::test]
async fn a_key_dies_when_it_expires() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let soon = (OffsetDateTime::now_utc() + Duration::seconds(2)).format(&Rfc3339).unwrap();
    let wanted = json!({"name": unique("expiry"), "scopes": ["cards:read"], "expires_at": soon});
    let made = owner.make_key(wanted).await;
    let key = host.client().bearer(made["key"].as_str().unwrap());
    let refused = eventually("the key expires", async || {
        let answer = key.get(CARDS).await;
        (answer.status != 200).then_some(answer)
    });
    refused.await.refused(401, "expired-token");
}

#[tokio::test]
async fn what_is_wrong_with_a_wanted_key_is_named() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for (wanted, pointer) in [
        (json!({"scopes": ["cards:read"]}), "/name"),
        (json!({"name": "", "scopes": ["cards:read"]}), "/name"),
        (json!({"name": "a", "scopes": []}), "/scopes"),
        (json!({"name": "a", "scopes": ["cards:read", "Cards Read"]}), "/scopes/1"),
        (json!({"name": "a", "scopes": ["cards:read"], "colour": "red"}), "/colour"),
        (json!({"name": "a", "scopes": ["cards:read"], "expires_at": "2001-01-01T00:00:00Z"}), "/expires_at"),
        (json!({"name": "a", "scopes": ["cards:read"], "expires_at": "tomorrow"}), "/expires_at"),
        (json!({"name": "a", "scopes": ["cards:read"], "rate_limit": {"per_minute": 0}}), "/rate_limit/per_minute"),
    ] {
        let refused = owner.post(KEYS, &wanted).await.refused(422, "validation-failed");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{wanted}: {refused}");
    }
}

#[tokio::test]
async fn keys_are_listed_by_who_may_see_them() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let made = owner.make_key(json!({"name": unique("listed"), "scopes": ["keys:read"]})).await;
    let reader = host.client().bearer(made["key"].as_str().unwrap());
    let listed = reader.get(KEYS).await.expect(200);
    let ids: Vec<_> = listed["items"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
    assert!(ids.contains(&&made["item"]["id"]), "{listed}");
    reader.post(KEYS, &json!({"name": "a", "scopes": ["keys:read"]})).await.refused(403, "insufficient-scope");
    assert_eq!(
        reader.call(Method::DELETE, &format!("{KEYS}/{}", made["item"]["id"].as_str().unwrap())).send().await.status,
        403
    );
}
