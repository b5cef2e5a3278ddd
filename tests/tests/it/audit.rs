//! `GET /v1/admin/audit`: who did what, append-only, without secrets.

use std::collections::BTreeSet;

use cardinal_tests::{Host, OWNER, PASSWORD, User, eventually, unique};
use http::Method;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};
use uuid::Uuid;

const AUDIT: &str = "/v1/admin/audit";
const USERS: &str = "/v1/admin/users";
const KEYS: &str = "/v1/admin/api-keys";

async fn lines(by: &User, query: &str) -> Vec<Value> {
    by.get(&format!("{AUDIT}?{query}")).await.expect(200)["items"].as_array().unwrap().clone()
}

fn actions(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["action"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn every_act_of_administration_leaves_a_line() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let admin = owner.make_user("admin").await;
    let user = admin.make_user("viewer").await;
    let path = format!("{USERS}/{}", user.id);
    admin.patch(&path, &json!({"role": "editor"})).await.expect(200);
    let made = admin.make_key(json!({"name": unique("k"), "scopes": ["cards:read"]})).await;
    let key = format!("{KEYS}/{}", made["item"]["id"].as_str().unwrap());
    admin.patch(&key, &json!({"name": "renamed"})).await.expect(200);
    admin.post(&format!("{key}/rotate"), &json!({"overlap_seconds": 60})).await.expect(201);
    admin.delete(&key).await.expect(204);
    let other = User::log_in(&host.client(), &user.username, PASSWORD).await;
    let session = lines_of_sessions(&admin, &other).await;
    admin.delete(&format!("/v1/admin/sessions/{session}")).await.expect(204);
    admin.delete(&format!("/v1/admin/sessions?user_id={}", user.id)).await.expect(204);
    admin.delete(&path).await.expect(204);
    let card = admin.card("Audited").await;
    admin.delete(&format!("/v1/admin/master-cards/{}?purge=true", card["id"].as_str().unwrap())).await.expect(204);
    let change = json!({"current_password": PASSWORD, "new_password": "another pass phrase"});
    admin.post("/v1/admin/auth/password", &change).await.expect(204);
    let again = User::log_in(&host.client(), &admin.username, "another pass phrase").await;
    again.call(Method::POST, "/v1/admin/auth/logout").send().await.expect(204);

    let written = lines(owner, &format!("actor={}&limit=200", admin.id)).await;
    let mut expected = vec![
        "auth.login",
        "user.create",
        "auth.login", // the harness logs the new user in; that line is the user's
        "user.update",
        "api_key.create",
        "api_key.update",
        "api_key.rotate",
        // The old key takes its successor with it.
        "api_key.revoke",
        "api_key.revoke",
        "session.end",
        "session.end_all",
        "user.delete",
        "card.purge",
        "auth.password",
        "auth.login",
        "auth.logout",
    ];
    expected.remove(2);
    expected.reverse();
    assert_eq!(actions(&written), expected, "newest first");
    for line in &written {
        assert_eq!(line["actor"], json!({"kind": "user", "id": admin.id, "name": admin.username}), "{line}");
        assert_eq!((&line["outcome"], &line["count"]), (&json!("ok"), &json!(1)), "{line}");
        assert!(line["id"].as_str().is_some_and(|id| Uuid::try_parse(id).is_ok()), "{line}");
        assert!(line["request_id"].is_string() && line["ip"] == "127.0.0.1", "{line}");
    }
    let updated = &written[actions(&written).iter().position(|action| *action == "user.update").unwrap()];
    assert_eq!(updated["target"], json!(user.id), "{updated}");
    assert_eq!(updated["detail"]["role"], json!({"before": "viewer", "after": "editor"}), "{updated}");
    let all = Value::Array(written).to_string();
    for secret in [PASSWORD, "another pass phrase", made["key"].as_str().unwrap(), "argon2", &admin.token] {
        assert!(!all.contains(secret), "the audit log has a secret: {secret}");
    }
}

async fn lines_of_sessions(by: &User, user: &User) -> String {
    let list = by.get(&format!("/v1/admin/sessions?user_id={}", user.id)).await.expect(200);
    list["items"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_keys_acts_are_the_keys() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let made = owner.make_key(json!({"name": unique("actor"), "scopes": ["*"]})).await;
    let item = &made["item"];
    let key = host.client().bearer(made["key"].as_str().unwrap());
    key.post(USERS, &json!({"username": unique("by-key")})).await.expect(201);
    let line = lines(owner, &format!("actor={}", item["id"].as_str().unwrap())).await[0].clone();
    assert_eq!(line["actor"], json!({"kind": "api_key", "id": item["id"], "name": item["name"]}), "{line}");
    assert_eq!(lines(owner, &format!("actor={}", item["name"].as_str().unwrap())).await, [line]);
}

#[tokio::test]
async fn the_log_is_read_by_filter_and_page_by_page() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let admin = owner.make_user("admin").await;
    let begun = OffsetDateTime::now_utc() - Duration::SECOND;
    let mut users = Vec::new();
    for _ in 0..5 {
        users.push(admin.post(USERS, &json!({"username": unique("u")})).await.expect(201)["item"]["id"].clone());
    }
    let filter = format!("actor={}&action=user.create", admin.id);
    let (mut targets, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = owner.get(&format!("{AUDIT}?{filter}&limit=2{cursor}")).await.expect(200);
        targets.extend(page["items"].as_array().unwrap().iter().map(|line| line["target"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        owner.get(&format!("{AUDIT}?limit=2&cursor={next}")).await.refused(400, "invalid-cursor");
        cursor = format!("&cursor={next}");
    }
    users.reverse();
    assert_eq!(targets, users);
    let one = lines(owner, &format!("target={}", users[0].as_str().unwrap())).await;
    assert_eq!(actions(&one), ["user.create"]);
    let time = |at: OffsetDateTime| at.format(&Rfc3339).unwrap();
    let count = async |query: String| lines(owner, &format!("{filter}&{query}")).await.len();
    assert_eq!(count(format!("since={}", time(begun))).await, 5);
    assert_eq!(count(format!("until={}", time(begun))).await, 0);
    assert_eq!(count("outcome=refused".to_owned()).await, 0);
    owner.get("/v1/admin/audit?outcome=lost").await.refused(400, "invalid-request");
    for query in ["since=yesterday", "until=1", "colour=red", "limit=0", "limit=201", "limit=many"] {
        owner.get(&format!("{AUDIT}?{query}")).await.refused(400, "invalid-request");
    }
    owner.get(&format!("{AUDIT}?cursor=AAAA")).await.refused(400, "invalid-cursor");
}

#[tokio::test]
async fn refused_attempts_are_told_at_once_and_then_counted() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let made = owner.make_key(json!({"name": unique("curious"), "scopes": ["cards:read"]})).await;
    let id = made["item"]["id"].as_str().unwrap().to_owned();
    let curious = host.client().bearer(made["key"].as_str().unwrap());
    let victim = format!("{USERS}/{}", owner.id);
    for _ in 0..20 {
        curious.patch(&victim, &json!({"role": "viewer"})).await.refused(403, "insufficient-scope");
    }
    curious.get(USERS).await.refused(403, "insufficient-scope"); // reading is no act
    let first = eventually("the first attempt is written", async || {
        let found = lines(owner, &format!("actor={id}")).await;
        (!found.is_empty()).then_some(found)
    })
    .await;
    assert!(first.len() <= 2, "{first:?}");
    let line = first.last().unwrap();
    assert_eq!((&line["action"], &line["outcome"]), (&json!("user.update"), &json!("refused")), "{line}");
    assert_eq!((&line["target"], &line["detail"]["code"]), (&json!(owner.id), &json!("insufficient-scope")), "{line}");

    // What is still being counted when the host ends is written at its end.
    let host = host.restart(|settings| settings).await;
    let owner = User::log_in(&host.client(), OWNER, cardinal_tests::OWNER_PASSWORD).await;
    let all = lines(&owner, &format!("actor={id}")).await;
    let count: u64 = all.iter().map(|line| line["count"].as_u64().unwrap()).sum();
    assert_eq!((count, all.len() <= 3), (20, true), "{all:?}");
    let time = |line: &Value, field: &str| OffsetDateTime::parse(line[field].as_str().unwrap(), &Rfc3339).unwrap();
    assert!(all.iter().all(|line| time(line, "first_at") <= time(line, "at")), "{all:?}");
}

#[tokio::test]
async fn a_failed_login_names_an_account_and_never_what_was_typed() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let user = owner.make_user("viewer").await;
    let typed = unique("a-password-in-the-wrong-field");
    let stranger = host.client().from_address([127, 0, 5, 1]);
    for name in [typed.as_str(), &user.username] {
        let wrong = json!({"username": name, "password": "wrong pass phrase"});
        stranger.post("/v1/admin/auth/login", &wrong).await.refused(401, "invalid-credentials");
    }
    let found = eventually("both are written", async || {
        let found = lines(owner, "action=auth.login&outcome=refused&limit=200").await;
        let ours: Vec<Value> = found.into_iter().filter(|line| line["ip"] == "127.0.5.1").collect();
        (ours.len() == 2).then_some(ours)
    })
    .await;
    let names: BTreeSet<String> = found.iter().map(|line| line["actor"]["name"].to_string()).collect();
    assert_eq!(names, BTreeSet::from(["null".to_owned(), json!(user.username).to_string()]));
    assert!(!json!(found).to_string().contains(&typed));
}

#[tokio::test]
async fn the_log_can_be_added_to_and_nothing_else() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    owner.make_user("viewer").await;
    let before = lines(owner, "limit=200").await;
    let database = host.database().await;
    let role = |part: &str| {
        let sql = format!("SELECT rolname FROM pg_roles WHERE rolname LIKE 'cardinal\\_________\\_{part}'");
        let database = &database;
        async move { database.query_one(&sql, &[]).await.unwrap().get::<_, String>(0) }
    };
    let (core, reaper) = (role("core").await, role("reaper").await);
    for (role, statement) in [
        (&core, "UPDATE public.admin_audit_log SET action = 'nothing'"),
        (&core, "DELETE FROM public.admin_audit_log"),
        (&core, "TRUNCATE public.admin_audit_log"),
        (&core, "ALTER TABLE public.admin_audit_log DISABLE TRIGGER ALL"),
        (&core, "DROP TABLE public.admin_audit_log"),
        (&reaper, "UPDATE public.admin_audit_log SET action = 'nothing'"),
        (&reaper, "INSERT INTO public.admin_audit_log (actor, action, outcome) VALUES ('{}', 'x', 'ok')"),
        (&reaper, "SELECT actor FROM public.admin_audit_log"),
        (&reaper, "TRUNCATE public.admin_audit_log"),
        // What was just done can't be removed even by who removes what is old.
        (&reaper, "DELETE FROM public.admin_audit_log"),
    ] {
        database.batch_execute(&format!("SET ROLE \"{role}\"")).await.unwrap();
        let refused = database.batch_execute(statement).await.expect_err(statement);
        assert_eq!(refused.code().map(|code| code.code()), Some("42501"), "{statement}: {refused:?}");
        database.batch_execute("RESET ROLE").await.unwrap();
    }
    assert_eq!(lines(owner, "limit=200").await, before);
}

#[tokio::test]
async fn what_is_past_its_retention_is_removed_and_nothing_younger() {
    let host = Host::settings().set("AUDIT_RETENTION_DAYS", "10").start().await;
    let database = host.database().await;
    for days in [11, 9] {
        let sql = "INSERT INTO public.admin_audit_log (at, actor, action, outcome) \
                   SELECT now() - make_interval(days => $1), '{}', 'old.' || $1, 'ok' FROM generate_series(1, 7000)";
        database.execute(sql, &[&days]).await.unwrap();
    }
    drop(database);
    let host = host.restart(|settings| settings).await;
    let owner = User::log_in(&host.client(), OWNER, cardinal_tests::OWNER_PASSWORD).await;
    eventually("the old lines go", async || lines(&owner, "action=old.11").await.is_empty().then_some(())).await;
    assert_eq!(lines(&owner, "action=old.9&limit=1").await.len(), 1);
    assert!(!lines(&owner, "action=user.bootstrap").await.is_empty());
}
