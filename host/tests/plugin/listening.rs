//! Notifications: who hears them, what an outage and a slow reader leave, and whose connection it is.

use std::{sync::Arc, time::Duration};

use cardinal_plugin_abi::{
    Error, Slice, Stream, error,
    error::flags,
    record::{self, listen, notification},
};
use cardinal_plugin_host::{bridge::host_api, connection::PluginPool, instance::Instance};
use serde_json::json;
use tokio::{runtime::Handle, time::timeout};

use crate::support::{Echo, WAIT_TIMEOUT, create, eventually, identity};

/// Sessions of the plugin that listen.
const LISTENING: &str = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND query LIKE 'LISTEN cardinal_%'";

async fn listen_in(instance: &Arc<Instance>, call: u64, channel: &str) -> Result<Stream, Error> {
    let request = record::write(&[(listen::CHANNEL, channel.as_bytes())]);
    (host_api().listen().unwrap().listen)(instance.ctx(), call, Slice::new(&request)).await
}

async fn name_of(instance: &Arc<Instance>, channel: &str) -> String {
    let name = (host_api().listen().unwrap().channel)(instance.ctx(), Slice::text(channel)).await.unwrap();
    name.as_text().unwrap().to_owned()
}

/// Notifies as the plugin's own SQL does.
async fn notify(pool: &PluginPool, name: &str, payload: &str) {
    let connection = pool.get().await.unwrap();
    connection.clone().batch(format!("SELECT pg_notify('{name}', '{payload}')")).await.unwrap();
    connection.release();
}

/// The payload, or the gap in angle brackets.
async fn next(stream: &mut Stream) -> Option<String> {
    let piece = timeout(WAIT_TIMEOUT, stream.next()).await.expect("something comes")?.unwrap();
    let text = |number| String::from_utf8(record::field(piece.get(), number).to_vec()).unwrap();
    let gap = text(notification::GAP);
    Some(if gap.is_empty() { text(notification::PAYLOAD) } else { format!("<{gap}>") })
}

async fn is_silent(stream: &mut Stream) -> bool {
    timeout(Duration::from_millis(300), stream.next()).await.is_err()
}

/// How many sessions of the plugin's login listen.
async fn listening(echo: &Echo) -> i64 {
    let user = echo.pool.connect_options()["user"].as_str().unwrap().to_owned();
    echo.database.admin().await.query_one(LISTENING, &[&user]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_hears_its_own_channels() {
    let echo = Echo::new().await;
    let mut orders = listen_in(&echo.instance, 0, "orders").await.unwrap();
    let mut again = listen_in(&echo.instance, 0, "orders").await.unwrap();
    let mut others = listen_in(&echo.instance, 0, "others").await.unwrap();
    assert_eq!(listening(&echo).await, 1, "one connection for all streams");
    let name = name_of(&echo.instance, "orders").await;
    notify(&echo.pool, &name, "7").await;
    notify(&echo.pool, &name, "").await;
    for stream in [&mut orders, &mut again] {
        assert_eq!(next(stream).await.as_deref(), Some("7"));
        assert_eq!(next(stream).await.as_deref(), Some(""));
    }
    assert!(is_silent(&mut others).await);
    drop((orders, again, others));
    eventually("the connection is given back", async || listening(&echo).await == 0).await;
    eventually("its place is free", async || echo.pool.status().size == echo.pool.status().available).await;
    let mut later = listen_in(&echo.instance, 0, "orders").await.unwrap();
    notify(&echo.pool, &name, "8").await;
    assert_eq!(next(&mut later).await.as_deref(), Some("8"));
}

/// PostgreSQL lets everybody listen and notify: what keeps plugins apart is that they cannot tell the names.
#[tokio::test(flavor = "multi_thread")]
async fn another_plugin_neither_hears_nor_sends_by_the_same_name() {
    let echo = Echo::new().await;
    let made = echo.database.provision("other", "").await.unwrap();
    let pool = PluginPool::open(&made, 4, &Handle::current(), None).unwrap();
    let other = create(&echo.services, identity("other", json!({}), Some(pool.clone()))).await;
    let mut orders = listen_in(&echo.instance, 0, "orders").await.unwrap();
    let mut theirs = listen_in(&other, 0, "orders").await.unwrap();
    for guess in [name_of(&other, "orders").await, "orders".into(), "plugin_echo.orders".into()] {
        notify(&pool, &guess, "forged").await;
    }
    assert_eq!(next(&mut theirs).await.as_deref(), Some("forged"), "its own");
    assert!(is_silent(&mut orders).await);
    // What the server shows of another login's sessions has no name in it.
    let shown = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%cardinal\\_%' AND usename <> session_user";
    let connection = pool.get().await.unwrap();
    assert_eq!(crate::clean::ask(&connection, &format!("SELECT ({shown})::text")).await, "0");
    connection.release();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_there_is_a_gap_and_it_goes_on() {
    let echo = Echo::new().await;
    let mut orders = listen_in(&echo.instance, 0, "orders").await.unwrap();
    let name = name_of(&echo.instance, "orders").await;
    for payload in ["first", "second"] {
        let admin = echo.database.admin().await;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE query LIKE 'LISTEN cardinal_%' AND datname = current_database()";
        assert_eq!(admin.query(end, &[]).await.unwrap().len(), 1);
        assert_eq!(next(&mut orders).await.as_deref(), Some("<reconnected>"));
        notify(&echo.pool, &name, payload).await;
        assert_eq!(next(&mut orders).await.as_deref(), Some(payload));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_slow_plugin_does_not_take_is_a_gap() {
    let echo = Echo::new().await;
    let mut slow = listen_in(&echo.instance, 0, "orders").await.unwrap();
    let name = name_of(&echo.instance, "orders").await;
    let connection = echo.pool.get().await.unwrap();
    let many = format!("SELECT pg_notify('{name}', n::text) FROM generate_series(1, 1500) n");
    connection.clone().batch(many).await.unwrap();
    connection.release();
    // Another channel of the same connection: once this is heard, all before it have come.
    let mut other = listen_in(&echo.instance, 0, "other").await.unwrap();
    notify(&echo.pool, &name_of(&echo.instance, "other").await, "last").await;
    assert_eq!(next(&mut other).await.as_deref(), Some("last"));
    for n in 1..=1_000 {
        assert_eq!(next(&mut slow).await, Some(n.to_string()));
    }
    assert_eq!(next(&mut slow).await.as_deref(), Some("<overflow>"));
    assert_eq!(echo.instance.notifications_dropped(), 500);
    notify(&echo.pool, &name, "heard again").await;
    assert_eq!(next(&mut slow).await.as_deref(), Some("heard again"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_one_of_the_plugins_own_connections() {
    let echo = Echo::with_connections(2).await;
    let _orders = listen_in(&echo.instance, 0, "orders").await.unwrap();
    let held = echo.pool.get().await.unwrap();
    assert!(echo.pool.get().await.is_err(), "of two connections one listens");
    held.release();

    let single = Echo::with_connections(1).await;
    let refused = listen_in(&single.instance, 0, "orders").await.unwrap_err();
    assert!(refused.code == error::UNSUPPORTED && refused.text().contains("db_connections"), "{refused:?}");
    single.pool.get().await.unwrap().release();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_channel_and_too_many_streams_are_refused() {
    let echo = Echo::new().await;
    for name in ["", &"x".repeat(101)] {
        assert_eq!(listen_in(&echo.instance, 0, name).await.unwrap_err().code, error::INVALID_ARGUMENT);
    }
    let mut streams = Vec::new();
    for n in 0..32 {
        streams.push(listen_in(&echo.instance, 0, &format!("channel {n}")).await.unwrap());
    }
    let refused = listen_in(&echo.instance, 0, "one more").await.unwrap_err();
    assert_eq!((refused.code, refused.flags & flags::RETRY), (error::UNAVAILABLE, flags::RETRY));
    streams.pop();
    listen_in(&echo.instance, 0, "one more").await.unwrap();
    let without = create(&echo.services, identity("without", json!({}), None)).await;
    assert_eq!(listen_in(&without, 0, "orders").await.unwrap_err().code, error::UNSUPPORTED);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_with_the_instance_and_when_another_takes_its_place() {
    let echo = Echo::new().await;
    let mut orders = listen_in(&echo.instance, 0, "orders").await.unwrap();
    echo.instance.drain();
    assert_eq!(next(&mut orders).await, None);
    assert_eq!(listen_in(&echo.instance, 0, "orders").await.unwrap_err().code, error::BAD_HANDLE);
    eventually("no session listens", async || listening(&echo).await == 0).await;

    let echo = Echo::new().await;
    let mut leaked = listen_in(&echo.instance, 0, "orders").await.unwrap();
    echo.instance.shutdown(Duration::ZERO).await;
    assert_eq!(next(&mut leaked).await, None);
    eventually("no session listens", async || listening(&echo).await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_there_is_said_at_once() {
    let echo = Echo::new().await;
    let mut made = echo.database.provision("gone", "").await.unwrap();
    made.connect.host = "/nonexistent".into();
    let pool = PluginPool::open(&made, 2, &Handle::current(), None).unwrap();
    let gone = create(&echo.services, identity("gone", json!({}), Some(pool))).await;
    let refused = listen_in(&gone, 0, "orders").await.unwrap_err();
    assert_eq!((refused.code, refused.flags & flags::RETRY), (error::UNAVAILABLE, flags::RETRY));
}
