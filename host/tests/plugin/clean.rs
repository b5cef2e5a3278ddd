//! A connection comes back clean, or not at all.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use cardinal_plugin_abi::values;
use cardinal_plugin_host::{connection::Connection, fault::Fault};
use futures_util::StreamExt;

use crate::support::{Echo, eventually};

/// The one connection of a pool of one.
async fn checkout(echo: &Echo) -> Arc<Connection> {
    let started = std::time::Instant::now();
    loop {
        match echo.pool.get().await {
            Ok(connection) => return connection,
            Err(error) => assert!(started.elapsed() < Duration::from_secs(20), "{error:?}"),
        }
    }
}

/// One text that a statement without parameters gives.
pub(crate) async fn ask(connection: &Arc<Connection>, sql: &str) -> String {
    try_ask(connection, sql).await.unwrap()
}

async fn try_ask(connection: &Arc<Connection>, sql: &str) -> Result<String, Fault> {
    let mut rows = connection.clone().query(prepare(connection, sql).await?, Bytes::new()).await?;
    let batch = std::future::poll_fn(|cx| rows.poll_batch(cx)).await.unwrap()?;
    while std::future::poll_fn(|cx| rows.poll_batch(cx)).await.is_some() {}
    let mut reader = values::Reader::new(&batch);
    reader.row().unwrap();
    Ok(String::from_utf8(reader.next().unwrap().unwrap_or_default().to_vec()).unwrap())
}

/// The number of a statement.
async fn prepare(connection: &Arc<Connection>, sql: &str) -> Result<u64, Fault> {
    let described = connection.clone().prepare(sql.to_owned()).await?;
    let described: serde_json::Value = serde_json::from_slice(&described).unwrap();
    Ok(described["statement"].as_u64().unwrap())
}

const STATE: &str = "SELECT concat_ws(' ', current_user = session_user, current_setting('search_path'),
    current_setting('statement_timeout'), current_setting('work_mem'),
    (SELECT count(*) FROM pg_listening_channels()), (SELECT count(*) FROM pg_cursors),
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
    (SELECT count(*) FROM notes))";
/// How long the host lets a stream run out that was dropped.
const DRAIN_LIMIT: Duration = Duration::from_millis(50);
const PID: &str = "SELECT pg_backend_pid()::text";
/// Two statements of one transaction see one time.
const NOW: &str = "SELECT now()::text";

/// What is left to the next one after `sql`, and whether it got the same session.
async fn after(sql: &str) -> (String, bool) {
    let echo = Echo::with_connections(1).await;
    let first = checkout(&echo).await;
    let (clean, pid) = (ask(&first, STATE).await, ask(&first, PID).await);
    let outcome = first.clone().batch(sql.to_owned()).await;
    drop(outcome);
    first.release();
    let second = checkout(&echo).await;
    assert_eq!(ask(&second, STATE).await, clean, "after {sql}");
    let now = ask(&second, NOW).await;
    assert_ne!(ask(&second, NOW).await, now, "a transaction is open after {sql}");
    let same = ask(&second, PID).await == pid;
    second.release();
    (clean, same)
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_was_left_is_undone() {
    for sql in [
        "BEGIN; INSERT INTO notes (text) VALUES ('left')",
        "BEGIN; SELECT 1/0",
        "SET search_path = public; SET statement_timeout = 12345; SET work_mem = '1MB'",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "LISTEN news",
        "SELECT pg_advisory_lock(7)",
        "BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT 1; COMMIT",
    ] {
        let (_, same) = after(sql).await;
        assert!(same, "the session is good for another after {sql}");
    }
}

/// Plain statements leave nothing, so nothing is undone after them: the next one has the session at once.
#[tokio::test(flavor = "multi_thread")]
async fn plain_statements_give_the_session_back_at_once() {
    let echo = Echo::with_connections(1).await;
    let first = checkout(&echo).await;
    let last_statement = "SELECT query FROM pg_stat_activity WHERE pid = $1::int4";
    let pid: i32 = ask(&first, PID).await.parse().unwrap();
    first.release();
    for (sql, cleaned) in [("SELECT 'plain'::text", false), ("SELECT set_config('work_mem', '1MB', false)", true)] {
        let connection = checkout(&echo).await;
        ask(&connection, sql).await;
        connection.release();
        // That one is undone shows below; how soon is the other threads' affair.
        assert!(cleaned || echo.pool.status().available == 1, "after {sql}");
        eventually("it is free", async || echo.pool.status().available == 1).await;
        let query: String = echo.database.admin().await.query_one(last_statement, &[&pid]).await.unwrap().get(0);
        assert_eq!(query.contains("DISCARD"), cleaned, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_was_taken_is_given_back() {
    let echo = Echo::with_connections(1).await;
    let group = echo.database.prepared.names.plugin();
    let first = checkout(&echo).await;
    if first.clone().batch(format!("SET ROLE {group}")).await.is_ok() {
        assert_ne!(ask(&first, "SELECT current_user::text").await, ask(&first, "SELECT session_user::text").await);
    }
    first.release();
    let second = checkout(&echo).await;
    assert_eq!(ask(&second, "SELECT current_user::text").await, ask(&second, "SELECT session_user::text").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_made_by_sql_do_not_stay() {
    for sql in ["PREPARE mine AS SELECT 1", "DEALLOCATE ALL", "DISCARD PLANS"] {
        let (_, same) = after(sql).await;
        assert!(!same, "the session goes after {sql}");
    }
}

/// How many of the plugin's sessions are at a statement like this.
async fn running(echo: &Echo, like: &str) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query LIKE $1 AND pid <> pg_backend_pid()";
    echo.database.admin().await.query_one(sql, &[&like]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_future_cancels_its_statement_and_ends_its_connection() {
    let echo = Echo::with_connections(1).await;
    let first = checkout(&echo).await;
    let pid = ask(&first, PID).await;
    first.clone().batch("BEGIN".into()).await.unwrap();
    let sleeping = tokio::spawn(first.clone().batch("SELECT pg_sleep(600)".into()));
    eventually("it sleeps", async || running(&echo, "SELECT pg_sleep%").await == 1).await;
    sleeping.abort();
    eventually("it is cancelled", async || running(&echo, "SELECT pg_sleep%").await == 0).await;
    let refused = first.clone().batch("COMMIT".into()).await;
    assert!(matches!(refused, Err(Fault::Gone(_))), "nothing more runs on it: {refused:?}");
    first.release();
    let second = checkout(&echo).await;
    assert_ne!(ask(&second, PID).await, pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_given_back_while_it_works_is_not_used_again() {
    let echo = Echo::with_connections(1).await;
    let first = checkout(&echo).await;
    let pid = ask(&first, PID).await;
    let sleeping = tokio::spawn(first.clone().batch("SELECT pg_sleep(600)".into()));
    eventually("it sleeps", async || running(&echo, "SELECT pg_sleep%").await == 1).await;
    first.release();
    assert!(sleeping.await.unwrap().is_err());
    let second = checkout(&echo).await;
    assert_ne!(ask(&second, PID).await, pid);
    // The server hears of it a moment later than the call that is told.
    eventually("it is cancelled", async || running(&echo, "SELECT pg_sleep%").await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_dropped_leaves_the_pool_whole() {
    let echo = Echo::with_connections(1).await;
    for _ in 0..3 {
        let call = tokio::spawn(echo.call("/db/sleep").query("seconds=600").begin());
        eventually("it sleeps", async || running(&echo, "SELECT pg_sleep%").await == 1).await;
        call.abort();
        assert_eq!(echo.call("count").ok().await["in_transaction"], false);
    }
    echo.call("leave_open").ok().await;
    let after = echo.call("count").ok().await;
    assert_eq!((after["notes"].as_i64(), after["search_path"].as_str()), (Some(0), Some("plugin_echo,pg_temp")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_dropped_early_is_cancelled() {
    let echo = Echo::with_connections(1).await;
    let first = checkout(&echo).await;
    let pid = ask(&first, PID).await;
    // Not FROM the series, of which PostgreSQL writes every row to a file before it gives the first.
    let sql = "SELECT repeat('x', 1000) || generate_series(1, 100000000)";
    let number = prepare(&first, sql).await.unwrap();
    let mut rows = first.clone().query(number, Bytes::new()).await.unwrap();
    std::future::poll_fn(|cx| rows.poll_batch(cx)).await.unwrap().unwrap();
    assert_eq!(running(&echo, "%100000000%").await, 1);
    drop(rows);
    eventually("it is cancelled", async || running(&echo, "%100000000%").await == 0).await;
    first.release();
    let second = checkout(&echo).await;
    assert_ne!(ask(&second, PID).await, pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_stream_that_is_dropped_costs_nothing() {
    let echo = Echo::with_connections(1).await;
    // A busy machine may take longer over a stream than it has, but not each time.
    eventually("the session goes on, and is good for another", async || {
        let begun = std::time::Instant::now();
        let first = checkout(&echo).await;
        let pid = drop_short_streams(&first).await.ok();
        first.release();
        let second = checkout(&echo).await;
        let is_same = pid.is_some() && try_ask(&second, PID).await.ok() == pid;
        assert!(is_same || begun.elapsed() > DRAIN_LIMIT, "each stream had the time to run out");
        second.release();
        is_same
    })
    .await;
}

/// The session that all of it was done in.
async fn drop_short_streams(connection: &Arc<Connection>) -> Result<String, Fault> {
    let pid = try_ask(connection, PID).await?;
    let number = prepare(connection, "SELECT n FROM generate_series(1, 1000) n").await?;
    for _ in 0..5 {
        drop(connection.clone().query(number, Bytes::new()).await?);
    }
    assert_eq!(try_ask(connection, PID).await?, pid, "the connection goes on");
    drop(connection.clone().query(number, Bytes::new()).await?);
    Ok(pid)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_died_is_replaced() {
    let echo = Echo::with_connections(1).await;
    let first = checkout(&echo).await;
    let pid: i32 = ask(&first, PID).await.parse().unwrap();
    let killed = echo.database.admin().await;
    killed.execute("SELECT pg_terminate_backend($1)", &[&pid]).await.unwrap();
    eventually("it notices", async || first.clone().batch("SELECT 1".into()).await.is_err()).await;
    first.release();
    let second = checkout(&echo).await;
    assert_ne!(ask(&second, PID).await, pid.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_changed_its_shape_is_prepared_again() {
    let echo = Echo::with_connections(1).await;
    let first = checkout(&echo).await;
    let sql = "SELECT * FROM notes";
    let described = |bytes: Bytes| serde_json::from_slice::<serde_json::Value>(&bytes).unwrap();
    let number = described(first.clone().prepare(sql.into()).await.unwrap())["statement"].as_u64().unwrap();
    first.clone().execute(number, Bytes::new()).await.unwrap();
    let admin = echo.database.admin().await;
    admin.batch_execute("ALTER TABLE plugin_echo.notes ADD COLUMN more text").await.unwrap();
    let stale = match first.clone().query(number, Bytes::new()).await {
        Err(error) => Some(error),
        Ok(mut rows) => std::future::poll_fn(|cx| rows.poll_batch(cx)).await.and_then(Result::err),
    };
    assert!(matches!(stale, Some(Fault::Database(_))), "{stale:?}");
    let again = described(first.clone().prepare(sql.into()).await.unwrap());
    assert_eq!(again["columns"].as_array().unwrap().len(), 5);
    assert_ne!(again["statement"].as_u64(), Some(number));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_breaks_off_leaves_nothing() {
    let echo = Echo::with_connections(1).await;
    let first = checkout(&echo).await;
    let pieces = futures_util::stream::iter([Ok(Bytes::from_static(b"one\n")), Err("the source dried up")]);
    let broken = first.clone().copy_in("COPY notes (text) FROM STDIN".into(), pieces).await.unwrap();
    assert_eq!(broken, Err("the source dried up"));
    first.release();

    let pending =
        futures_util::stream::iter([Ok::<_, ()>(Bytes::from_static(b"two\n"))]).chain(futures_util::stream::pending());
    let second = checkout(&echo).await;
    let copying = tokio::spawn(second.clone().copy_in("COPY notes (text) FROM STDIN".into(), Box::pin(pending)));
    eventually("it copies", async || running(&echo, "COPY notes%").await == 1).await;
    copying.abort();
    eventually("it is over", async || running(&echo, "COPY notes%").await == 0).await;
    second.release();

    let third = checkout(&echo).await;
    assert_eq!(ask(&third, "SELECT count(*)::text FROM notes").await, "0");
    let wrong = third.clone().copy_in("SELECT 1".into(), futures_util::stream::iter([Ok::<_, ()>(Bytes::new())])).await;
    assert!(wrong.is_err());
    third.release();
    let fourth = checkout(&echo).await;
    assert_eq!(ask(&fourth, "SELECT count(*)::text FROM notes").await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_drains_keeps_no_connection() {
    let echo = Echo::with_connections(2).await;
    let [held, free] = [checkout(&echo).await, checkout(&echo).await];
    let [held_pid, free_pid] = [ask(&held, PID).await, ask(&free, PID).await];
    free.release();
    drop(free);
    eventually("it is free", async || echo.pool.status().available > 0).await;
    echo.pool.drain();
    let admin = echo.database.admin().await;
    let is_gone = async |pid: &str| {
        let sql = "SELECT FROM pg_stat_activity WHERE pid = $1::text::int";
        admin.query_opt(sql, &[&pid]).await.unwrap().is_none()
    };
    eventually("the free one is closed", async || is_gone(&free_pid).await).await;
    assert_eq!(ask(&held, PID).await, held_pid, "who has one keeps it");
    held.release();
    eventually("and then it is closed", async || is_gone(&held_pid).await).await;
    let late = checkout(&echo).await;
    assert_eq!(ask(&late, "SELECT 'a call that was under way'").await, "a call that was under way");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_waits_for_room_in_its_login() {
    let echo = Echo::with_connections(1).await;
    let admin = echo.database.admin().await;
    let role = echo.pool.connect_options()["user"].as_str().unwrap().to_owned();
    let limit = async |count: i32| {
        admin.batch_execute(&format!("ALTER ROLE \"{role}\" CONNECTION LIMIT {count}")).await.unwrap();
    };
    limit(0).await;
    let mut waiting = std::pin::pin!(echo.pool.get());
    // Long enough for the server to have refused it once.
    let early = tokio::time::timeout(Duration::from_millis(300), &mut waiting).await;
    assert!(early.is_err(), "{:?}", early.map(|it| it.map(drop)));
    limit(1).await;
    assert_eq!(ask(&waiting.await.unwrap(), "SELECT 'in'").await, "in");

    limit(0).await;
    echo.pool.drain();
    let refused = echo.pool.get().await.map(drop);
    assert!(
        matches!(&refused, Err(Fault::Unavailable(cause)) if format!("{cause:#}").contains("too many connections")),
        "{refused:?}"
    );
}
