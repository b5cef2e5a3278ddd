//! `ctx.listen()` and `conn.notify()` in a test's host, with a database of the test's own.
#![allow(clippy::unwrap_used)]

use std::sync::Mutex;

use cardinal_plugin::{
    Error, Notification, Notifications, PluginContext, Request, Response, Result, Router, block_on, json,
    testing::{TestHost, TestRequest, lacks_database},
};

const MANIFEST: &str = r#"{ "name": "orders", "version": "1.0.0", "backend": {} }"#;

/// A host with a database; none where there is no PostgreSQL.
fn host() -> Option<TestHost> {
    let start = || TestHost::builder(MANIFEST).database("").start(|_: &PluginContext| Router::new().get("/call", call));
    (!lacks_database()).then(start)
}

/// Hears of one order, and leaves the stream to whoever holds on to it.
async fn call(ctx: PluginContext, _: Request) -> Result<Response> {
    let orders = ctx.listen("orders").await?;
    LEFT.lock().unwrap().push(orders);
    Ok(Response::empty())
}

static LEFT: Mutex<Vec<Notifications>> = Mutex::new(Vec::new());

fn payload(text: &str) -> Option<Notification> {
    Some(Notification::Payload(text.to_owned()))
}

#[test]
fn what_is_committed_is_heard_and_what_is_rolled_back_is_not() {
    let Some(host) = host() else { return };
    let ctx = host.context();
    block_on(async {
        let (mut orders, mut others) = (ctx.listen("orders").await?, ctx.listen("Orders").await?);
        let mut conn = ctx.get_plugin_conn().await?;
        let tx = conn.transaction().await?;
        tx.notify("orders", "never").await?;
        tx.rollback().await?;
        let tx = conn.transaction().await?;
        tx.notify("orders", "7").await?;
        tx.commit().await?;
        let name = ctx.channel_name("orders").await?;
        conn.execute("SELECT pg_notify($1, n::text) FROM generate_series(8, 9) n", &[&name]).await?;
        for n in 7..=9 {
            assert_eq!(orders.next().await, payload(&n.to_string()));
        }
        conn.notify("Orders", "").await?;
        assert_eq!(others.next().await, payload(""), "another name is another channel");
        let too_long = conn.notify("orders", &"x".repeat(8_000)).await.unwrap_err();
        assert_eq!(too_long.sqlstate(), Some("22023"));
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn a_stream_ends_with_its_call_or_its_instance() {
    let Some(host) = host() else { return };
    let ctx = host.context();
    let mut of_plugin = block_on(ctx.listen("orders")).unwrap();
    block_on(host.send(TestRequest::get("/call")));
    let mut of_call = LEFT.lock().unwrap().pop().unwrap();
    assert_eq!(block_on(of_call.next()), None);
    block_on(async { ctx.get_plugin_conn().await?.notify("orders", "7").await }).unwrap();
    assert_eq!(block_on(of_plugin.next()), payload("7"), "the plugin's own goes on");
    host.change_settings(&json!({}));
    assert_eq!(block_on(of_plugin.next()), None);
    assert!(block_on(ctx.listen("orders")).unwrap_err().is_cancelled());
}

#[test]
fn what_a_host_refuses_is_refused_here() {
    let Some(host) = host() else { return };
    let ctx = host.context();
    for name in ["", &"x".repeat(101)] {
        let refused = block_on(ctx.listen(name)).unwrap_err().to_string();
        assert!(refused.contains("1 to 100 bytes"), "{refused}");
    }
    host.fail("listen", Error::unavailable("The database is away."));
    assert!(block_on(ctx.listen("orders")).is_err());
    assert!(host.journal().contains(&"listen orders".to_owned()));
}
