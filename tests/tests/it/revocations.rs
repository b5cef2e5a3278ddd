//! Contract 3.1 and 3.2: whatever ends or narrows a credential at one host is felt within 300 ms at every other one, and
//! at once where it was done.

use std::time::{Duration, Instant};

use cardinal_tests::{Client, EventStream, Host, Network, Relay, User, eventually, unique};
use http::Method;
use serde_json::{Value, json};

const ME: &str = "/v1/admin/auth/me";
const KEYS: &str = "/v1/admin/api-keys";
const ONE_SECRET: &str = "one secret for the logins on all hosts";
/// The contract's bound, and what a shared machine adds.
const REVOCATION_TIMEOUT: Duration = Duration::from_millis(300 + 700);

async fn two_hosts() -> (Host, Host) {
    let one = Host::settings().set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let two = one.beside().set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    (one, two)
}

/// Calls without a pause until the answer is the expected one, so that the credential is always known there.
async fn felt(what: &str, client: &Client, path: &str, expected: &[u16]) {
    let begun = Instant::now();
    while !expected.contains(&client.get(path).await.status.as_u16()) {
        assert!(begun.elapsed() < REVOCATION_TIMEOUT, "{what}: not felt after {:?}", begun.elapsed());
    }
}

async fn make_key(owner: &User, scopes: Value) -> (String, String) {
    // Without a limit: the tests ask as often as they can.
    let key = json!({"name": unique("key"), "scopes": scopes, "rate_limit": null});
    let made = owner.make_key(key).await;
    let path = format!("{KEYS}/{}", made["item"]["id"].as_str().unwrap());
    (path, made["key"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_key_that_ends_or_is_narrowed_at_one_host_is_so_at_the_other() {
    let (one, two) = two_hosts().await;
    let owner = one.owner().await;
    let users = "/v1/admin/users";

    let (path, key) = make_key(owner, json!(["cards:read", "users:read"])).await;
    let (here, there) = (one.client().bearer(key.clone()), two.client().bearer(key));
    for client in [&here, &there] {
        client.get(users).await.expect(200);
    }
    owner.patch(&path, &json!({"scopes": ["cards:read"]})).await.expect(200);
    here.get(users).await.refused(403, "insufficient-scope");
    felt("a narrowed key", &there, users, &[403]).await;
    owner.delete(&path).await.expect(204);
    here.get(ME).await.refused(401, "revoked-token");
    felt("a deleted key", &there, ME, &[401]).await;

    let (path, key) = make_key(owner, json!(["cards:read"])).await;
    let there = two.client().bearer(key);
    there.get(ME).await.expect(200);
    let rotated = owner.post(&format!("{path}/rotate"), &json!({"overlap_seconds": 5})).await.expect(201);
    let end = Instant::now() + Duration::from_secs(5);
    two.client().bearer(rotated["key"].as_str().unwrap()).get(ME).await.expect(200);
    there.get(ME).await.expect(200);
    tokio::time::sleep_until(end.into()).await;
    felt("a rotated key", &there, ME, &[401]).await;
}

#[tokio::test]
async fn an_account_that_changes_at_one_host_has_changed_at_the_other() {
    let (one, two) = two_hosts().await;
    let owner = one.owner().await;
    let there = |user: &User| two.client().bearer(user.token.clone());
    let change = async |user: &User, change: Value| {
        owner.patch(&format!("/v1/admin/users/{}", user.id), &change).await.expect(200);
    };

    let admin = owner.make_user("admin").await;
    let (_, key) = make_key(&admin, json!(["cards:read"])).await;
    let key_there = two.client().bearer(key);
    key_there.get(ME).await.expect(200);
    there(&admin).get(ME).await.expect(200);
    change(&admin, json!({"disabled": true})).await;
    felt("a disabled user", &there(&admin), ME, &[401, 403]).await;
    felt("a disabled user's key", &key_there, ME, &[401, 403]).await;

    let admin = owner.make_user("admin").await;
    let (_, key) = make_key(&admin, json!(["cards:write"])).await;
    let key_there = two.client().bearer(key);
    let held = key_there.get(ME).await.expect(200)["scopes"].clone();
    assert_eq!(held, json!(["cards:write"]));
    there(&admin).get(ME).await.expect(200);
    change(&admin, json!({"role": "viewer"})).await;
    felt("a demoted user", &there(&admin), ME, &[401]).await;
    let begun = Instant::now();
    while key_there.get(ME).await.expect(200)["scopes"] == held {
        assert!(begun.elapsed() < REVOCATION_TIMEOUT, "the demoted user's key");
    }

    let editor = owner.make_user("editor").await;
    there(&editor).get(ME).await.expect(200);
    assert_eq!(editor.call(Method::POST, "/v1/admin/auth/logout").send().await.status, 204);
    felt("a logged out session", &there(&editor), ME, &[401]).await;

    let editor = owner.make_user("editor").await;
    there(&editor).get(ME).await.expect(200);
    change(&editor, json!({"password": "another password, as good"})).await;
    felt("a changed password", &there(&editor), ME, &[401]).await;
}

#[tokio::test]
async fn streams_end_with_the_key_that_reads_them() {
    let (one, two) = two_hosts().await;
    let owner = one.owner().await;
    let (path, key) = make_key(owner, json!(["cards:read", "mcp:use"])).await;
    let there = two.client().bearer(key);
    let mut events = EventStream::open(&there, "?topics=card", None).await.greeted().await;
    owner.card("While it may be read").await;
    events.next_of("card.created").await;
    owner.delete(&path).await.expect(204);
    let begun = Instant::now();
    let closed = events.next_of("closed").await;
    assert!(begun.elapsed() < REVOCATION_TIMEOUT, "{:?}: {closed:?}", begun.elapsed());
    assert!(events.try_next().await.unwrap().is_none());
}

#[tokio::test]
async fn the_stream_of_an_mcp_session_ends_with_its_key() {
    let (one, two) = two_hosts().await;
    let owner = one.owner().await;
    let (path, key) = make_key(owner, json!(["mcp:use"])).await;
    let there = two.client().bearer(key);
    let speak = |method| there.call(method, "/api").header("accept", "application/json, text/event-stream");
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let begun = speak(Method::POST).json(&begin).send().await;
    let session = begun.header("mcp-session-id").unwrap_or_else(|| panic!("{begun}")).to_owned();
    let listen = speak(Method::GET).header("mcp-session-id", &session).header("mcp-protocol-version", "2025-06-18");
    let mut stream = tokio::spawn(async move { listen.try_send().await.map(|answer| answer.status) });
    let still = tokio::time::timeout(Duration::from_secs(1), &mut stream).await;
    assert!(still.is_err(), "{still:?}");
    owner.delete(&path).await.expect(204);
    let ended = tokio::time::timeout(REVOCATION_TIMEOUT, stream).await.expect("it ends in time");
    assert_eq!(ended.unwrap().unwrap(), 200);
}

/// What is stopped answers nothing, as a network that is cut.
#[tokio::test]
async fn a_host_that_is_cut_off_trusts_nobody_for_long_and_comes_back_by_itself() {
    let mut one = Host::settings().set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let two = one.beside().set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let owner = one.owner().await;
    let (_, key) = make_key(owner, json!(["cards:read"])).await;
    let (revoked_path, revoked) = make_key(owner, json!(["cards:read"])).await;
    let [good, revoked] = [key, revoked].map(|key| two.client().bearer(key));
    good.get(ME).await.expect(200);
    revoked.get(ME).await.expect(200);

    owner.delete(&revoked_path).await.expect(204);
    felt("a revoked key", &revoked, ME, &[401]).await;
    // The database ends with the host that it belongs to.
    one.program().signal(rustix::process::Signal::TERM);
    assert!(one.program().ended().await.success(), "{}", one.log());
    // What was known is trusted for a moment more.
    felt("the database's end", &good, ME, &[503]).await;
    felt("the database's end", &revoked, ME, &[503]).await;
    for client in [&good, &revoked] {
        client.get(ME).await.refused(503, "database-unavailable");
    }
    let one = one.again(|settings| settings).await;
    let begun = Instant::now();
    while good.get(ME).await.status != 200 {
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }
    revoked.get(ME).await.refused(401, "revoked-token");
    drop(one);
}

/// The way of one of two hosts to their database is cut, or carries nothing, while the other one revokes.
#[tokio::test]
async fn a_host_whose_way_to_the_database_is_cut_or_frozen_lets_nobody_in_who_was_revoked() {
    let one = Host::settings().set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let relay = Relay::before(&one).await;
    let url = relay.url(&one);
    let two = one.beside().set("DATABASE_URL", url).set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let owner = one.owner().await;
    for network in [Network::Cut, Network::Frozen] {
        let ((path, key), (_, other)) =
            (make_key(owner, json!(["cards:read"])).await, make_key(owner, json!(["cards:read"])).await);
        let (revoked, good) = (two.client().bearer(key), two.client().bearer(other));
        revoked.get(ME).await.expect(200);
        good.get(ME).await.expect(200);
        relay.set(network);
        let begun = Instant::now();
        // Each is known for a moment of its own.
        for client in [&revoked, &good] {
            while client.get(ME).await.status == 200 {
                assert!(begun.elapsed() < REVOCATION_TIMEOUT, "{network:?}: trusted after {:?}", begun.elapsed());
            }
        }
        let answered = begun.elapsed();
        assert!(answered < Duration::from_secs(8), "{network:?}: the first refusal took {answered:?}");
        owner.delete(&path).await.expect(204);
        // For as long as it lasts, and past every time that is waited for.
        while begun.elapsed() < Duration::from_secs(8) {
            for client in [&revoked, &good] {
                client.get(ME).await.refused(503, "database-unavailable");
            }
        }
        assert_eq!(two.client().get("/healthz").await.status, 200);
        relay.set(Network::Whole);
        let refused = eventually("it is back", async || {
            let answer = revoked.get(ME).await;
            (answer.status != 503).then_some(answer)
        });
        refused.await.refused(401, "revoked-token");
        eventually("others are let in", async || (good.get(ME).await.status == 200).then_some(())).await;
    }
}
