//! Contract 3.2: accounts, roles, and that nobody reaches above their own.

use cardinal_tests::{Federated, Host, OWNER, OWNER_PASSWORD, PASSWORD, User, unique};
use futures_util::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

const USERS: &str = "/v1/admin/users";
const ME: &str = "/v1/admin/auth/me";
const LOGIN: &str = "/v1/admin/auth/login";

fn at(id: impl std::fmt::Display) -> String {
    format!("{USERS}/{id}")
}

#[tokio::test]
async fn a_user_is_made_read_changed_and_removed() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let name = unique("Alice");
    let answer = owner.post(USERS, &json!({"username": name, "password": PASSWORD, "role": "editor"})).await;
    let made = answer.expect(201)["item"].clone();
    let path = at(made["id"].as_str().unwrap());
    assert_eq!(answer.header("location"), Some(path.as_str()), "{answer}");
    for (field, value) in [
        ("username", json!(name)),
        ("role", json!("editor")),
        ("kind", json!("user")),
        ("disabled", json!(false)),
        ("disabled_at", json!(null)),
        ("has_password", json!(true)),
    ] {
        assert_eq!(made[field], value, "{field} of {made}");
    }
    assert!(!answer.text().contains("argon2") && !answer.text().contains(PASSWORD), "{answer}");
    assert_eq!(owner.get(&path).await.expect(200)["item"], made);

    let changed = owner.patch(&path, &json!({"role": "viewer", "username": format!("{name}2")})).await.expect(200);
    assert_eq!(
        (&changed["item"]["role"], &changed["item"]["username"]),
        (&json!("viewer"), &json!(format!("{name}2"))),
        "{changed}"
    );
    assert_eq!(owner.delete(&path).await.status, 204);
    owner.get(&path).await.refused(404, "not-found");
    owner.delete(&path).await.refused(404, "not-found");
    let gone = host.client().from_address([127, 0, 3, 1]);
    let login = json!({"username": format!("{name}2"), "password": PASSWORD});
    gone.post(LOGIN, &login).await.refused(401, "invalid-credentials");
    // The name is free again.
    owner.post(USERS, &json!({"username": format!("{name}2"), "role": "viewer"})).await.expect(201);
}

#[tokio::test]
async fn a_user_without_a_password_cannot_log_in_until_one_is_set() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let name = unique("later");
    let made = owner.post(USERS, &json!({"username": name})).await.expect(201)["item"].clone();
    assert_eq!((&made["role"], &made["has_password"]), (&json!("viewer"), &json!(false)), "{made}");
    let stranger = host.client().from_address([127, 0, 3, 2]);
    for guess in ["", "password", "null"] {
        let answer = stranger.post(LOGIN, &json!({"username": name, "password": guess})).await;
        answer.refused(401, "invalid-credentials");
    }
    owner.patch(&at(made["id"].as_str().unwrap()), &json!({"password": PASSWORD})).await.expect(200);
    User::log_in(&host.client(), &name, PASSWORD).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_wanted_user_is_named() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for (wanted, pointer) in [
        (json!({}), "/username"),
        (json!({"username": ""}), "/username"),
        (json!({"username": "x".repeat(121)}), "/username"),
        (json!({"username": "a\u{7}b"}), "/username"),
        (json!({"username": "a\u{200b}b"}), "/username"),
        (json!({"username": "mpk_pasted"}), "/username"),
        (json!({"username": 7}), "/username"),
        (json!({"username": unique("u"), "role": "root"}), "/role"),
        (json!({"username": unique("u"), "role": null, "password": "short"}), "/password"),
        (json!({"username": unique("u"), "password": "x".repeat(257)}), "/password"),
        (json!({"username": unique("u"), "kind": "plugin"}), "/kind"),
        (json!({"username": unique("u"), "scopes": ["*"]}), "/scopes"),
    ] {
        let problem = owner.post(USERS, &wanted).await.refused(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{wanted}: {problem}");
    }
    let user = owner.make_user("viewer").await;
    for (patch, pointer) in [
        (json!({"username": null}), "/username"),
        (json!({"role": null}), "/role"),
        (json!({"disabled": null}), "/disabled"),
        (json!({"disabled": "yes"}), "/disabled"),
        (json!({"password": null}), "/password"),
        (json!({"password": "short"}), "/password"),
        (json!({"id": Uuid::nil()}), "/id"),
    ] {
        let problem = owner.patch(&at(user.id), &patch).await.refused(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{patch}: {problem}");
    }
    owner.get(&at("not-a-uuid")).await.refused(404, "not-found");
    owner.get(&at(Uuid::now_v7())).await.refused(404, "not-found");
    owner.patch(&at(Uuid::now_v7()), &json!({"role": "viewer"})).await.refused(404, "not-found");
    for query in ["colour=red", "limit=0", "limit=201", "kind=robot", "role=root", "disabled=maybe"] {
        owner.get(&format!("{USERS}?{query}")).await.refused(400, "invalid-request");
    }
    owner.get(&format!("{USERS}?cursor=AAAA")).await.refused(400, "invalid-cursor");
}

#[tokio::test]
async fn a_name_is_taken_whatever_its_case() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (first, second) = (owner.make_user("viewer").await, owner.make_user("viewer").await);
    let taken = first.username.to_uppercase();
    owner.post(USERS, &json!({"username": taken})).await.refused(409, "name-taken");
    owner.patch(&at(second.id), &json!({"username": taken})).await.refused(409, "name-taken");
    // One's own name in another case is one's own name.
    owner.patch(&at(first.id), &json!({"username": taken})).await.expect(200);
    User::log_in(&host.client(), &first.username, PASSWORD).await;
}

#[tokio::test]
async fn users_are_listed_newest_first_page_by_page_and_by_filter() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let prefix = unique("Listed_%");
    let mut made = Vec::new();
    for i in 0..5 {
        let wanted = json!({"username": format!("{prefix}-{i}"), "role": if i % 2 == 0 { "viewer" } else { "editor" }});
        made.push(owner.post(USERS, &wanted).await.expect(201)["item"].clone());
    }
    let q = prefix.to_lowercase().replace('%', "%25");
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let after = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = owner.get(&format!("{USERS}?q={q}&limit=2{after}")).await.expect(200);
        found.extend(page["items"].as_array().unwrap().clone());
        match page["next_cursor"].as_str() {
            Some(next) => {
                let elsewhere = owner.get(&format!("{USERS}?limit=2&cursor={next}")).await;
                elsewhere.refused(400, "invalid-cursor");
                cursor = Some(next.to_owned());
            }
            None => break,
        }
    }
    made.reverse();
    assert_eq!(found, made);
    let viewers = owner.get(&format!("{USERS}?q={q}&role=viewer&kind=user&disabled=false")).await.expect(200);
    assert_eq!(viewers["items"].as_array().unwrap().len(), 3, "{viewers}");
    assert_eq!(owner.get(&format!("{USERS}?q={q}&disabled=true")).await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn roles_hold_what_they_say() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let may = async |user: &User, path: &str| user.get(path).await.status == 200;
    for (role, users, keys, audit, cards) in [
        ("admin", true, true, true, true),
        ("editor", false, false, false, true),
        ("viewer", false, false, false, true),
    ] {
        let user = owner.make_user(role).await;
        assert_eq!(may(&user, USERS).await, users, "{role}");
        assert_eq!(may(&user, "/v1/admin/api-keys").await, keys, "{role}");
        assert_eq!(may(&user, "/v1/admin/audit").await, audit, "{role}");
        assert_eq!(may(&user, "/v1/admin/master-cards").await, cards, "{role}");
        let wanted = json!({"title": "T", "sku": unique("SKU")});
        let made = user.post("/v1/admin/master-cards", &wanted).await.status;
        assert_eq!(made == 201, role != "viewer", "{role}");
    }
}

#[tokio::test]
async fn an_admin_does_everything_but_to_owners() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (admin, second) = (owner.make_user("admin").await, owner.make_user("owner").await);
    admin.make_user("admin").await;
    let editor = admin.make_user("editor").await;
    admin.patch(&at(editor.id), &json!({"role": "admin"})).await.expect(200);
    let path = at(second.id);
    for change in
        [json!({"role": "viewer"}), json!({"disabled": true}), json!({"password": PASSWORD}), json!({"username": "x"})]
    {
        admin.patch(&path, &change).await.refused(403, "forbidden");
    }
    admin.delete(&path).await.refused(403, "forbidden");
    let end = format!("/v1/admin/sessions?user_id={}", second.id);
    admin.delete(&end).await.refused(403, "forbidden");
    let key = second.make_key(json!({"name": unique("k"), "scopes": ["cards:read"]})).await;
    admin
        .delete(&format!("/v1/admin/api-keys/{}", key["item"]["id"].as_str().unwrap()))
        .await
        .refused(403, "forbidden");
    admin.post(USERS, &json!({"username": unique("o"), "role": "owner"})).await.refused(403, "forbidden");
    for role in ["owner"] {
        admin.patch(&at(admin.id), &json!({"role": role})).await.refused(403, "forbidden");
        admin.patch(&at(editor.id), &json!({"role": role})).await.refused(403, "forbidden");
    }
    second.get(ME).await.expect(200);
}

#[tokio::test]
async fn the_last_owner_stays_an_owner() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let path = at(owner.id);
    for change in [json!({"role": "admin"}), json!({"disabled": true})] {
        owner.patch(&path, &change).await.refused(409, "conflict");
    }
    owner.delete(&path).await.refused(409, "conflict");
    // Somebody who can't log in, or no more, is no owner to rely on.
    let idle = owner.post(USERS, &json!({"username": "idle", "role": "owner"})).await.expect(201)["item"].clone();
    let off = owner.make_user("owner").await;
    owner.patch(&at(off.id), &json!({"disabled": true})).await.expect(200);
    owner.delete(&path).await.refused(409, "conflict");
    owner.delete(&at(idle["id"].as_str().unwrap())).await.expect(204);
    owner.get(ME).await.expect(200);

    // Of two owners who remove each other at the same time, one stays, however often it is tried.
    for round in 0..10 {
        let current = &User::log_in(&host.client(), OWNER, OWNER_PASSWORD).await;
        let other = current.make_user("owner").await;
        let (mine, theirs) = (at(current.id), at(other.id));
        let (a, b, c) = match round % 3 {
            0 => (json!({"role": "viewer"}), json!({"role": "admin"}), json!({"disabled": true})),
            1 => (json!({"disabled": true}), json!({"role": "viewer"}), json!({"disabled": true})),
            _ => (json!({"disabled": true}), json!({"disabled": true}), json!({"role": "editor"})),
        };
        let attempts = [(&other, &mine, &a), (current, &theirs, &b), (&other, &theirs, &c), (current, &mine, &c)];
        let statuses =
            join_all(attempts.map(|(by, path, body)| async move { by.patch(path, body).await.status })).await;
        let restored = json!({"role": "owner", "disabled": false});
        let mut left = Vec::new();
        for (name, password) in [(OWNER, OWNER_PASSWORD), (other.username.as_str(), PASSWORD)] {
            let answer = host.client().post(LOGIN, &json!({"username": name, "password": password})).await;
            if answer.status != 200 {
                continue;
            }
            let user = User::log_in(&host.client(), name, password).await;
            let own = user.get(&at(user.id)).await;
            if own.status == 200 && own.json()["item"]["role"] == "owner" {
                left.push(user);
            }
        }
        assert!(!left.is_empty(), "round {round}: no owner is left: {statuses:?}");
        let survivor = &left[0];
        survivor.patch(&mine, &restored).await.expect(200);
        let survivor = User::log_in(&host.client(), OWNER, OWNER_PASSWORD).await;
        survivor.delete(&theirs).await.expect(204);
    }
}

#[tokio::test]
async fn neither_a_key_nor_its_rights_grow_by_way_of_users() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let all = owner.key(&["*"]).await;
    let narrow = owner.key(&["users:write"]).await;
    let victim = owner.make_user("viewer").await;
    // No password by a key, whatever its scopes: neither of a new user, nor another's, nor its owner's.
    let with_password = json!({"username": unique("k"), "password": PASSWORD, "role": "viewer"});
    all.post(USERS, &with_password).await.refused(403, "forbidden");
    all.patch(&at(victim.id), &json!({"password": "another pass phrase"})).await.refused(403, "forbidden");
    // The owner's role holds what no key holds.
    let own = all.patch(&at(owner.id), &json!({"password": "another pass phrase"})).await;
    assert_eq!(own.status, 403, "{own}");
    let change = json!({"current_password": OWNER_PASSWORD, "new_password": "another pass phrase"});
    all.post("/v1/admin/auth/password", &change).await.refused(403, "forbidden");
    // No role that holds more: answering confirmations is a person's, so only viewers are a key's to make.
    for role in ["owner", "admin", "editor"] {
        let refused = all.post(USERS, &json!({"username": unique("k"), "role": role})).await;
        let problem = refused.refused(403, "insufficient-scope");
        assert_eq!(problem["required_scope"], "mcp:approve", "{problem}");
        let answer = all.patch(&at(victim.id), &json!({"role": role})).await;
        answer.refused(403, "insufficient-scope");
    }
    all.post(USERS, &json!({"username": unique("k"), "role": "viewer"})).await.expect(201);
    for role in ["owner", "admin", "editor", "viewer"] {
        let answer = narrow.post(USERS, &json!({"username": unique("k"), "role": role})).await;
        answer.refused(403, "insufficient-scope");
    }
    narrow.patch(&at(victim.id), &json!({"disabled": true})).await.refused(403, "insufficient-scope");
    narrow.delete(&at(victim.id)).await.refused(403, "insufficient-scope");
    // An admin's key, an owner's rights.
    let admins = owner.make_user("admin").await.key(&["*"]).await;
    for answer in [
        admins.patch(&at(owner.id), &json!({"disabled": true})).await,
        admins.patch(&at(admins.id), &json!({"role": "owner"})).await,
        admins.delete(&at(owner.id)).await,
    ] {
        assert_eq!(answer.status, 403, "{answer}");
    }
    victim.get(ME).await.expect(200);
    User::log_in(&host.client(), OWNER, OWNER_PASSWORD).await;
}

#[tokio::test]
async fn a_password_is_ones_own_business_or_a_logged_in_administrators() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (admin, user) = (owner.make_user("admin").await, owner.make_user("editor").await);
    // Not even one's own without the current one: a stolen token must not become an account.
    admin.patch(&at(admin.id), &json!({"password": "another pass phrase"})).await.refused(403, "forbidden");
    admin.patch(&at(user.id), &json!({"password": "another pass phrase"})).await.expect(200);
    user.get(ME).await.refused(401, "revoked-token");
    let login = |password: &str| json!({"username": user.username, "password": password});
    let stranger = host.client().from_address([127, 0, 3, 3]);
    stranger.post(LOGIN, &login(PASSWORD)).await.refused(401, "invalid-credentials");
    User::log_in(&host.client(), &user.username, "another pass phrase").await;
}

#[tokio::test]
async fn a_disabled_account_says_so_only_to_who_knows_its_password() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let user = owner.make_user("admin").await;
    let key = user.key(&["cards:read"]).await;
    owner.patch(&at(user.id), &json!({"disabled": true})).await.expect(200);
    let stranger = host.client().from_address([127, 0, 3, 4]);
    let login = |password: &str| json!({"username": user.username, "password": password});
    stranger.post(LOGIN, &login("not the password")).await.refused(401, "invalid-credentials");
    stranger.post(LOGIN, &login(PASSWORD)).await.refused(403, "account-disabled");
    assert_eq!(user.get(ME).await.status.as_u16() / 100, 4, "the session goes on");
    key.get(ME).await.refused(403, "account-disabled");
    owner.patch(&at(user.id), &json!({"disabled": false})).await.expect(200);
    key.get(ME).await.expect(200);
    user.get(ME).await.refused(401, "revoked-token");
    User::log_in(&host.client(), &user.username, PASSWORD).await;
}

#[tokio::test]
async fn a_removed_users_sessions_and_keys_end_with_it() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let user = owner.make_user("admin").await;
    let key = user.key(&["cards:read"]).await;
    key.get(ME).await.expect(200);
    owner.delete(&at(user.id)).await.expect(204);
    assert_eq!(user.get(ME).await.status, 401);
    key.get(ME).await.refused(401, "revoked-token");
    let keys = owner.get("/v1/admin/api-keys?limit=200").await.expect(200)["items"].clone();
    let theirs = keys.as_array().unwrap().iter().find(|item| item["owner_id"] == json!(user.id)).cloned();
    assert_eq!(theirs.map_or(Value::Null, |key| key["revoked_reason"].clone()), "owner deleted");
}

#[tokio::test]
async fn a_plugins_user_is_the_hosts() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let plugins = owner.get(&format!("{USERS}?kind=plugin")).await.expect(200)["items"].clone();
    let Some(plugin) = plugins.as_array().unwrap().first() else { return };
    assert_eq!((&plugin["role"], &plugin["has_password"]), (&json!(null), &json!(false)), "{plugin}");
    let path = at(plugin["id"].as_str().unwrap());
    for change in [json!({"role": "owner"}), json!({"password": PASSWORD}), json!({"disabled": true})] {
        owner.patch(&path, &change).await.refused(403, "forbidden");
    }
    owner.delete(&path).await.refused(403, "forbidden");
}

/// A provider whose tokens may do everything that a token can do at all, and a person of it whom the administrator made
/// an owner: the most that a JWT can be.
#[tokio::test]
async fn neither_a_jwt_nor_its_rights_grow_by_way_of_users_or_keys() {
    let all = Federated::start(|settings| settings.set("OIDC_MAX_SCOPES", "*")).await;
    let owner = all.host.owner().await;
    let subject = unique("person");
    let jwt = all.holder(&subject, "*").await;
    let id = jwt.get(ME).await.expect(200)["user"]["id"].as_str().unwrap().to_owned();
    let item = owner.get(&at(&id)).await.expect(200)["item"].clone();
    assert_eq!((&item["kind"], &item["role"]), (&json!("oidc"), &json!(null)), "{item}");
    assert_eq!(item["identity"], json!({"issuer": all.provider.issuer, "subject": subject}), "{item}");
    // Without a role it is no owner.
    jwt.patch(&at(owner.id), &json!({"disabled": true})).await.refused(403, "forbidden");
    owner.patch(&at(&id), &json!({"role": "owner"})).await.expect(200);
    let victim = owner.make_user("viewer").await;
    // No passwords: a new user's, another's, one's own.
    let wanted = json!({"username": unique("j"), "password": PASSWORD, "role": "viewer"});
    jwt.post(USERS, &wanted).await.refused(403, "forbidden");
    jwt.patch(&at(victim.id), &json!({"password": PASSWORD})).await.refused(403, "forbidden");
    let change = json!({"current_password": PASSWORD, "new_password": "another pass phrase"});
    jwt.post("/v1/admin/auth/password", &change).await.refused(403, "forbidden");
    // No role that answers confirmations or waives them.
    for role in ["owner", "admin", "editor"] {
        let answer = jwt.post(USERS, &json!({"username": unique("j"), "role": role})).await;
        answer.refused(403, "insufficient-scope");
        jwt.patch(&at(victim.id), &json!({"role": role})).await.refused(403, "insufficient-scope");
    }
    // No key that waives them either, and none that outlives the token.
    let key = async |wanted: Value| {
        let mut body = json!({"name": unique("j")});
        body.as_object_mut().unwrap().extend(wanted.as_object().unwrap().clone());
        jwt.post("/v1/admin/api-keys", &body).await
    };
    for scope in ["*", "mcp:*", "mcp:unattended"] {
        key(json!({"scopes": [scope]})).await.refused(403, "insufficient-scope");
    }
    key(json!({"scopes": ["mcp:approve"]})).await.refused(422, "validation-failed");
    key(json!({"scopes": ["cards:read"], "expires_in_days": 1})).await.refused(403, "forbidden");
    let made = key(json!({"scopes": ["cards:read"]})).await.expect(201)["item"].clone();
    assert_eq!(made["expires_at"], jwt.get(ME).await.expect(200)["expires_at"], "{made}");

    // What the provider keeps of its users is not changed here; a deleted one stays, disabled.
    for (change, pointer) in [(json!({"username": "x"}), "/username"), (json!({"password": PASSWORD}), "/password")] {
        let problem = owner.patch(&at(&id), &change).await.refused(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    owner.delete(&at(&id)).await.expect(204);
    jwt.get(ME).await.refused(403, "account-disabled");
    let again = all.holder(&subject, "cards:read").await;
    again.get(ME).await.refused(403, "account-disabled");
    let item = owner.get(&at(&id)).await.expect(200)["item"].clone();
    assert_eq!((&item["disabled"], &item["role"]), (&json!(true), &json!(null)), "{item}");
    owner.patch(&at(&id), &json!({"disabled": false})).await.expect(200);
    assert_eq!(again.get(ME).await.expect(200)["user"]["id"], json!(id));
}
