//! Contract 3.2: sessions are seen, ended, and end at once when their user changes, on every host of the database.

use std::time::{Duration, Instant};

use cardinal_tests::{Host, OWNER, OWNER_PASSWORD, PASSWORD, User, eventually};
use serde_json::{Value, json};
use uuid::Uuid;

const SESSIONS: &str = "/v1/admin/sessions";
const ME: &str = "/v1/admin/auth/me";
/// Within which a change reaches every host, contract 3; and what a busy machine may add.
const EVERYWHERE: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_secs(2);

fn at(id: &Value) -> String {
    format!("{SESSIONS}/{}", id.as_str().unwrap())
}

async fn sessions(by: &User, user: &User) -> Vec<Value> {
    let list = by.get(&format!("{SESSIONS}?user_id={}", user.id)).await.expect(200);
    list["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_user_sees_and_ends_its_own_sessions() {
    let host = Host::shared().await;
    let user = host.owner().await.make_user("viewer").await;
    let other = User::log_in(&host.client().from_address([127, 0, 4, 1]), &user.username, PASSWORD).await;
    let mine = user.get(SESSIONS).await.expect(200)["items"].as_array().unwrap().clone();
    assert_eq!((mine.len(), &mine), (2, &sessions(&user, &user).await));
    let (newer, older) = (&mine[0], &mine[1]);
    assert_eq!((&newer["current"], &older["current"]), (&json!(false), &json!(true)), "newest first: {mine:?}");
    assert_eq!((&newer["ip"], &newer["username"]), (&json!("127.0.4.1"), &json!(user.username)), "{newer}");
    assert!(newer["created_at"].is_string() && newer["expires_at"].is_string(), "{newer}");
    assert!(!user.get(SESSIONS).await.text().contains("mps_"));

    assert_eq!(user.delete(&at(&newer["id"])).await.status, 204);
    other.get(ME).await.refused(401, "revoked-token");
    user.get(ME).await.expect(200);
    user.delete(&at(&newer["id"])).await.refused(404, "not-found");
    assert_eq!(user.delete(&format!("{SESSIONS}?user_id={}", user.id)).await.status, 204);
    user.get(ME).await.refused(401, "revoked-token");
}

#[tokio::test]
async fn others_sessions_need_the_right_to_manage_users() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (editor, viewer) = (owner.make_user("editor").await, owner.make_user("viewer").await);
    let all = format!("{SESSIONS}?user_id={}", viewer.id);
    let one = at(&sessions(owner, &viewer).await[0]["id"]);
    for answer in [editor.get(&all).await, editor.delete(&all).await, editor.delete(&one).await] {
        let problem = answer.refused(403, "insufficient-scope");
        assert_eq!(problem["required_scope"], "users:write", "{problem}");
    }
    // A key is not the person: its owner's sessions are others' to it.
    let key = owner.key(&["cards:read"]).await;
    for answer in [key.get(SESSIONS).await, key.delete(&format!("{SESSIONS}?user_id={}", owner.id)).await] {
        answer.refused(403, "insufficient-scope");
    }
    viewer.get(ME).await.expect(200);
    owner.key(&["users:write"]).await.get(&all).await.expect(200);
    assert_eq!(owner.delete(&one).await.status, 204);
    viewer.get(ME).await.refused(401, "revoked-token");
    let again = User::log_in(&host.client(), &viewer.username, PASSWORD).await;
    assert_eq!(owner.delete(&all).await.status, 204);
    again.get(ME).await.refused(401, "revoked-token");
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    owner.delete(SESSIONS).await.refused(400, "invalid-request");
    owner.get(&format!("{SESSIONS}?user_id=me")).await.refused(400, "invalid-request");
    owner.get(&format!("{SESSIONS}?colour=red")).await.refused(400, "invalid-request");
    owner.get(&format!("{SESSIONS}?cursor=AAAA")).await.refused(400, "invalid-cursor");
    owner.delete(&format!("{SESSIONS}/{}", Uuid::now_v7())).await.refused(404, "not-found");
    owner.delete(&format!("{SESSIONS}?user_id={}", Uuid::now_v7())).await.refused(404, "not-found");
    let none = owner.get(&format!("{SESSIONS}?user_id={}", Uuid::now_v7())).await.expect(200);
    assert_eq!(none["items"], json!([]));
}

#[tokio::test]
async fn sessions_come_page_by_page() {
    let host = Host::shared().await;
    let user = host.owner().await.make_user("viewer").await;
    for _ in 0..2 {
        User::log_in(&host.client(), &user.username, PASSWORD).await;
    }
    let first = user.get(&format!("{SESSIONS}?limit=2")).await.expect(200);
    let next = first["next_cursor"].as_str().unwrap();
    let second = user.get(&format!("{SESSIONS}?limit=2&cursor={next}")).await.expect(200);
    assert_eq!(second["next_cursor"], Value::Null);
    let pages = [&first, &second].map(|page| page["items"].as_array().unwrap().clone()).concat();
    assert_eq!(pages, sessions(&user, &user).await);
}

#[tokio::test]
async fn logging_out_ends_this_session_alone() {
    let host = Host::shared().await;
    let user = host.owner().await.make_user("viewer").await;
    let other = User::log_in(&host.client(), &user.username, PASSWORD).await;
    assert_eq!(user.call(http::Method::POST, "/v1/admin/auth/logout").send().await.status, 204);
    user.get(ME).await.refused(401, "revoked-token");
    other.get(ME).await.expect(200);
    let key = host.owner().await.key(&["*"]).await;
    key.call(http::Method::POST, "/v1/admin/auth/logout").send().await.refused(400, "invalid-request");
}

#[tokio::test]
async fn when_a_session_was_last_seen_is_written_down() {
    let host = Host::shared().await;
    let user = host.owner().await.make_user("viewer").await;
    user.get(ME).await.expect(200);
    eventually("the session's use is written", async || {
        sessions(&user, &user).await[0]["last_seen_at"].is_string().then_some(())
    })
    .await;
}

/// A change of a user ends its sessions at once where it is made, and within five seconds at the other host, which has
/// the session in its memory.
#[tokio::test]
async fn a_change_reaches_every_host_of_the_database() {
    let (first, second) = pair().await;
    let owner = first.owner().await;
    for change in [json!({"role": "viewer"}), json!({"disabled": true}), json!({"password": "another pass phrase"})] {
        let user = owner.make_user("editor").await;
        let there = second.client().bearer(&user.token);
        there.get(ME).await.expect(200);
        owner.patch(&format!("/v1/admin/users/{}", user.id), &change).await.expect(200);
        let changed = Instant::now();
        assert_eq!(user.get(ME).await.status.as_u16() / 100, 4, "{change}: not at once");
        ends_there(&there, changed, &change).await;
    }
    // What a user does itself.
    let user = User::log_in(&first.client(), OWNER, OWNER_PASSWORD).await;
    let there = second.client().bearer(&user.token);
    there.get(ME).await.expect(200);
    user.call(http::Method::POST, "/v1/admin/auth/logout").send().await;
    ends_there(&there, Instant::now(), &json!("logout")).await;
    // And a key.
    let made = owner.make_key(json!({"name": "both", "scopes": ["cards:read"]})).await;
    let there = second.client().bearer(made["key"].as_str().unwrap());
    there.get(ME).await.expect(200);
    owner.delete(&format!("/v1/admin/api-keys/{}", made["item"]["id"].as_str().unwrap())).await.expect(204);
    ends_there(&there, Instant::now(), &json!("key revoked")).await;
}

async fn ends_there(there: &cardinal_tests::Client, changed: Instant, what: &Value) {
    let ended = eventually("the other host notices", async || {
        let status = there.get(ME).await.status.as_u16();
        assert!([200, 401, 403].contains(&status), "{what}: {status}");
        (status != 200).then(|| changed.elapsed())
    });
    let took = ended.await;
    assert!(took < EVERYWHERE + SLACK, "{what}: the other host took {took:?}");
}

/// Two hosts on one database: the second uses the private server of the first.
async fn pair() -> (Host, Host) {
    const SECRET: &str = "one secret for both hosts, 32 bytes or more";
    let first = Host::settings().set("ADMIN_TOKEN_SECRET", SECRET).start().await;
    let second = first.beside().set("ADMIN_TOKEN_SECRET", SECRET).start().await;
    (first, second)
}
