//! Contract 3.1: API keys.

use cardinal_tests::{Host, eventually, unique};
use http::Method;
use serde_json::{Value, json};
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
    let supervisor = host.owner().await.key(&["keys:write", "cards:read"]).await;
    let ask = async |scope: &str| supervisor.post(KEYS, &json!({"name": unique("grant"), "scopes": [scope]})).await;
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
    let soon = (OffsetDateTime::now_utc() + Duration::seconds(10)).format(&Rfc3339).unwrap();
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

#[tokio::test]
async fn a_key_is_changed_field_by_field() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let made = owner.make_key(json!({"name": unique("patch"), "scopes": ["cards:read"], "expires_in_days": 5})).await;
    let path = format!("{KEYS}/{}", made["item"]["id"].as_str().unwrap());
    let patch = async |change: serde_json::Value| owner.patch(&path, &change).await;
    let item = patch(json!({"name": "renamed", "scopes": ["cards:write"]})).await.expect(200)["item"].clone();
    assert_eq!((&item["name"], &item["scopes"]), (&json!("renamed"), &json!(["cards:write"])), "{item}");
    assert_eq!(item["expires_at"], made["item"]["expires_at"], "what is not named stays: {item}");
    // null is no end and no limit; it is not "leave it".
    let item = patch(json!({"expires_at": null, "rate_limit": null})).await.expect(200)["item"].clone();
    assert_eq!((&item["expires_at"], &item["rate_limit"]), (&json!(null), &json!(null)), "{item}");
    let item = patch(json!({"rate_limit": {"per_minute": 50}})).await.expect(200)["item"].clone();
    assert_eq!(item["rate_limit"], json!({"per_minute": 50, "burst": 5}), "{item}");
    for (change, pointer) in [
        (json!({"name": null}), "/name"),
        (json!({"scopes": null}), "/scopes"),
        (json!({"scopes": ["nothing:fly"]}), "/scopes/0"),
        (json!({"expires_at": "2001-01-01T00:00:00Z"}), "/expires_at"),
        (json!({"rate_limit": {"per_minute": 0}}), "/rate_limit/per_minute"),
        (json!({"owner_id": owner.id}), "/owner_id"),
        (json!({"revoked_at": null}), "/revoked_at"),
    ] {
        let problem = patch(change.clone()).await.refused(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{change}: {problem}");
    }
    owner.delete(&path).await.expect(204);
    let item = owner.get(&path).await.expect(200)["item"].clone();
    assert_eq!(item["revoked_reason"], "revoked", "{item}");
    patch(json!({"name": "again"})).await.refused(409, "conflict");
}

#[tokio::test]
async fn a_rotated_key_lives_on_for_the_overlap_and_has_one_successor() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let made = owner.make_key(json!({"name": unique("rotate"), "scopes": ["cards:read"]})).await;
    let id = made["item"]["id"].as_str().unwrap();
    let rotate = async |id: &str, overlap: i64| {
        owner.post(&format!("{KEYS}/{id}/rotate"), &json!({"overlap_seconds": overlap})).await
    };
    let (old, now) = (host.client().bearer(made["key"].as_str().unwrap()), OffsetDateTime::now_utc());
    let next = rotate(id, 3600).await.expect(201);
    assert_eq!((&next["item"]["replaces_id"], &next["item"]["scopes"]), (&json!(id), &json!(["cards:read"])), "{next}");
    assert_ne!(next["key"], made["key"]);
    old.get(CARDS).await.expect(200);
    host.client().bearer(next["key"].as_str().unwrap()).get(CARDS).await.expect(200);
    let ends = owner.get(&format!("{KEYS}/{id}")).await.expect(200)["item"]["expires_at"].clone();
    let ends = OffsetDateTime::parse(ends.as_str().unwrap(), &Rfc3339).unwrap() - now;
    assert!(ends > Duration::seconds(3500) && ends < Duration::seconds(3700), "{ends}");
    rotate(id, 60).await.refused(409, "conflict");
    let end = async |at: Value| owner.patch(&format!("{KEYS}/{id}"), &json!({"expires_at": at})).await;
    for later in [json!(null), json!((now + Duration::hours(2)).format(&Rfc3339).unwrap())] {
        end(later).await.refused(409, "conflict");
    }
    end(json!((now + Duration::minutes(30)).format(&Rfc3339).unwrap())).await.expect(200);

    // Without an overlap the old one dies at once.
    let second = next["item"]["id"].as_str().unwrap();
    let third = rotate(second, 0).await.expect(201);
    host.client().bearer(next["key"].as_str().unwrap()).get(CARDS).await.refused(401, "revoked-token");
    assert_eq!(owner.get(&format!("{KEYS}/{second}")).await.expect(200)["item"]["revoked_reason"], "rotated");
    rotate(second, 60).await.refused(409, "conflict");
    let third = third["item"]["id"].as_str().unwrap();
    for overlap in [-1, 7 * 24 * 3600 + 1] {
        let problem = rotate(third, overlap).await.refused(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], "/overlap_seconds", "{problem}");
    }
    // Of rotations side by side one wins.
    let both = futures_util::future::join_all((0..4).map(|_| rotate(third, 60))).await;
    let won = both.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(won, 1, "{both:?}");
}

#[tokio::test]
async fn anothers_key_is_seen_and_revoked_by_who_manages_users_and_rotated_by_nobody() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (admin, other) = (owner.make_user("admin").await, owner.make_user("admin").await);
    let made = other.make_key(json!({"name": unique("theirs"), "scopes": ["cards:read"]})).await;
    let path = format!("{KEYS}/{}", made["item"]["id"].as_str().unwrap());
    admin.get(&path).await.expect(200);
    admin.post(&format!("{path}/rotate"), &json!({"overlap_seconds": 0})).await.refused(403, "forbidden");
    // Without the right to see users there are only one's own keys.
    let narrow = admin.key(&["keys:write"]).await;
    narrow.get(&path).await.refused(404, "not-found");
    narrow.delete(&path).await.refused(404, "not-found");
    let reader = admin.key(&["keys:write", "users:read"]).await;
    reader.get(&path).await.expect(200);
    reader.delete(&path).await.refused(403, "insufficient-scope");
    reader.patch(&path, &json!({"name": "mine"})).await.refused(403, "insufficient-scope");
    assert_eq!(admin.delete(&path).await.status, 204);
    let item = admin.get(&path).await.expect(200)["item"].clone();
    assert_eq!(item["revoked_reason"], "revoked by an administrator", "{item}");
}

#[tokio::test]
async fn what_a_key_may_do_follows_its_owners_role() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let user = owner.make_user("admin").await;
    let key = user.key(&["cards:write", "keys:read"]).await;
    let wanted = || json!({"title": "By key", "sku": unique("SKU")});
    key.post(CARDS, &wanted()).await.expect(201);
    owner.patch(&format!("/v1/admin/users/{}", user.id), &json!({"role": "viewer"})).await.expect(200);
    key.post(CARDS, &wanted()).await.refused(403, "insufficient-scope");
    key.get(KEYS).await.refused(403, "insufficient-scope");
    key.get(CARDS).await.expect(200);
    assert_eq!(key.get(ME).await.expect(200)["scopes"], json!(["cards:read"]));
    owner.patch(&format!("/v1/admin/users/{}", user.id), &json!({"role": "editor"})).await.expect(200);
    key.post(CARDS, &wanted()).await.expect(201);
}

#[tokio::test]
async fn a_key_makes_no_key_that_can_do_more_live_longer_or_go_faster() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let wanted = json!({"name": unique("parent"), "scopes": ["keys:write", "cards:read"], "expires_in_days": 1,
        "rate_limit": {"per_minute": 1000, "burst": 100}});
    let made = owner.make_key(wanted).await;
    let (item, key) = (&made["item"], host.client().bearer(made["key"].as_str().unwrap()));
    let own = format!("{KEYS}/{}", item["id"].as_str().unwrap());
    let ask = async |extra: serde_json::Value| {
        let mut wanted = json!({"name": unique("child"), "scopes": ["cards:read"]});
        wanted.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        key.post(KEYS, &wanted).await
    };
    let child = ask(json!({})).await.expect(201)["item"].clone();
    assert_eq!((&child["expires_at"], &child["rate_limit"]), (&item["expires_at"], &item["rate_limit"]), "{child}");
    for more in [
        json!({"expires_in_days": 2}),
        json!({"rate_limit": null}),
        json!({"rate_limit": {"per_minute": 1001}}),
        json!({"rate_limit": {"per_minute": 1000, "burst": 101}}),
    ] {
        ask(more).await.refused(403, "forbidden");
    }
    for more in [json!({"scopes": ["*"]}), json!({"scopes": ["cards:write"]}), json!({"scopes": ["mcp:unattended"]})] {
        ask(more).await.refused(403, "insufficient-scope");
    }
    // Nor does it widen itself.
    for more in
        [json!({"expires_at": null}), json!({"expires_at": "2099-01-01T00:00:00Z"}), json!({"rate_limit": null})]
    {
        key.patch(&own, &more).await.refused(403, "forbidden");
    }
    key.patch(&own, &json!({"scopes": ["*"]})).await.refused(403, "insufficient-scope");
    // Nor by way of its owner's stronger keys.
    let strong = owner.make_key(json!({"name": unique("strong"), "scopes": ["*"]})).await;
    let strong = format!("{KEYS}/{}", strong["item"]["id"].as_str().unwrap());
    key.post(&format!("{strong}/rotate"), &json!({"overlap_seconds": 60})).await.refused(403, "insufficient-scope");
    key.patch(&strong, &json!({"expires_at": null})).await.refused(403, "insufficient-scope");
    // Nor does anything of it answer confirmations, or change settings or plugins.
    for (scopes, pointer) in
        [(json!(["mcp:approve"]), "/scopes/0"), (json!(["cards:read", "mcp:approve"]), "/scopes/1")]
    {
        let problem = owner.post(KEYS, &json!({"name": "a", "scopes": scopes})).await.refused(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    let all = owner.key(&["*"]).await;
    for path in ["/v1/admin/approvals", &format!("/v1/admin/approvals/{}/approve", owner.id)] {
        let status = all.call(Method::POST, path).send().await.status.as_u16();
        assert!([403, 404, 405].contains(&status), "{path}: {status}");
    }
    for path in ["rescan", "supplier/disable", "supplier/enable"] {
        let path = format!("/v1/admin/plugin-registry/{path}");
        key.call(Method::POST, &path).send().await.refused(403, "insufficient-scope");
    }
}

#[tokio::test]
async fn when_and_from_where_a_key_was_used_is_written_down_even_as_the_host_ends() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let made = owner.make_key(json!({"name": unique("used"), "scopes": ["cards:read"]})).await;
    let path = format!("{KEYS}/{}", made["item"]["id"].as_str().unwrap());
    assert_eq!(made["item"]["last_used_at"], json!(null));
    let key = host.client().from_address([127, 0, 7, 1]).bearer(made["key"].as_str().unwrap());
    let begun = OffsetDateTime::now_utc() - Duration::SECOND;
    key.get(CARDS).await.expect(200);
    let token = owner.token.clone();
    let host = host.restart(|settings| settings).await;
    let item = host.client().bearer(token).get(&path).await.expect(200)["item"].clone();
    let used = OffsetDateTime::parse(item["last_used_at"].as_str().unwrap(), &Rfc3339).unwrap();
    assert!(used > begun, "{item}");
    assert_eq!(item["last_used_ip"], "127.0.7.1", "{item}");
}

#[tokio::test]
async fn keys_come_page_by_page_newest_first() {
    let host = Host::shared().await;
    let user = host.owner().await.make_user("admin").await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(user.make_key(json!({"name": unique("page"), "scopes": ["cards:read"]})).await["item"].clone());
    }
    made.reverse();
    // A key that sees its owner's keys alone.
    let own = user.key(&["keys:read"]).await;
    let first = own.get(&format!("{KEYS}?limit=2")).await.expect(200);
    let next = first["next_cursor"].as_str().unwrap();
    let second = own.get(&format!("{KEYS}?limit=2&cursor={next}")).await.expect(200);
    let all = [&first, &second].map(|page| page["items"].as_array().unwrap().clone()).concat();
    let ids = |items: &[serde_json::Value]| items.iter().map(|item| item["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&all)[1..], ids(&made));
    // What others see is another list.
    user.get(&format!("{KEYS}?limit=2&cursor={next}")).await.refused(400, "invalid-cursor");
    user.get(&format!("{KEYS}?cursor=AAAA")).await.refused(400, "invalid-cursor");
}
