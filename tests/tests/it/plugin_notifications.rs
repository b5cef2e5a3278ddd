//! Notifications of PostgreSQL between the calls, hosts and instances of a plugin.

use cardinal_tests::{Client, Host, Package, PluginsFolder, eventually};
use http::Method;
use hyper::body::Incoming;
use serde_json::json;

use super::mcp_sessions::read_until;

const ECHO: &str = "/v1/admin/plugins/echo/db";
const ONE_SECRET: &str = "one secret for the logins on all hosts";
const LISTENING: &str = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN cardinal_%'";

fn folder() -> PluginsFolder {
    PluginsFolder::default().with("echo", &Package::fixture("echo"))
}

async fn listen(client: &Client, query: &str) -> Incoming {
    let path = format!("{ECHO}/notifications?channel=orders{query}");
    let answer = client.call(Method::GET, &path).open(None).await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut body = answer.into_body();
    read_until(&mut body, "listening\n").await;
    body
}

async fn notify(client: &Client, payload: &str) {
    let body = json!({"channel": "orders", "payload": payload});
    client.call(Method::POST, &format!("{ECHO}/notify")).json(&body).send().await.expect(204);
}

async fn listening(host: &Host) -> i64 {
    host.database().await.query_one(LISTENING, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn hosts_hear_each_other_and_an_outage_is_a_gap() {
    let one = Host::settings().plugins(folder()).set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let two = one.beside().plugins(folder()).set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let here: &Client = one.owner().await;
    let there = two.client().bearer(one.owner().await.token.clone());
    let (mut near, mut far) = (listen(here, "").await, listen(&there, "").await);
    notify(&there, "from there").await;
    assert_eq!(read_until(&mut near, "\n").await, "from there\n");
    assert_eq!(read_until(&mut far, "\n").await, "from there\n");

    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN cardinal_%'";
    assert_eq!(one.database().await.query(end, &[]).await.unwrap().len(), 2, "one connection on each host");
    assert_eq!(read_until(&mut near, "\n").await, "gap\n");
    assert_eq!(read_until(&mut far, "\n").await, "gap\n");
    notify(here, "from here").await;
    assert_eq!(read_until(&mut far, "\n").await, "from here\n");

    drop((near, far));
    let none_listens = async || (listening(&one).await == 0).then_some(());
    eventually("the calls are over, and so is the listening", none_listens).await;
}

#[tokio::test]
async fn another_instance_ends_what_the_old_one_hears() {
    let host = Host::settings().plugins(folder()).start().await;
    let owner = host.owner().await;
    let mut streams = [listen(owner, "").await, listen(owner, "&own=true").await];
    let settings = "/v1/admin/plugin-registry/echo/settings";
    owner.call(Method::PUT, settings).json(&json!({"greeting": "good day"})).send().await.expect(200);
    for stream in &mut streams {
        assert_eq!(read_until(stream, "no such line").await, "", "it ends without a word");
    }
    let none_listens = async || (listening(&host).await == 0).then_some(());
    eventually("the old instance's connection is given back", none_listens).await;
    let mut heard = listen(owner, "").await;
    notify(owner, "again").await;
    assert_eq!(read_until(&mut heard, "\n").await, "again\n");
}
