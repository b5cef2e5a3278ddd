//! Statements, parameters, rows and COPY: the server's own bytes, all the way to the author.

use bytes::Bytes;
use cardinal_plugin_abi::values;
use cardinal_plugin_host::fault::Fault;
use serde_json::{Value, json};

use crate::support::Echo;

async fn described(echo: &Echo, sql: &str) -> Value {
    let connection = echo.pool.get().await.unwrap();
    let described = connection.clone().prepare(sql.to_owned()).await.unwrap();
    connection.release();
    serde_json::from_slice(&described).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_type_is_told() {
    let echo = Echo::new().await;
    let admin = echo.database.admin().await;
    let types = "CREATE TYPE plugin_echo.mood AS ENUM ('fine', 'not');
                 CREATE DOMAIN plugin_echo.short AS text CHECK (length(value) < 9);
                 CREATE TYPE plugin_echo.pair AS (a int4, b plugin_echo.mood);
                 GRANT USAGE ON TYPE plugin_echo.mood, plugin_echo.short, plugin_echo.pair TO PUBLIC";
    admin.batch_execute(types).await.unwrap();
    let prepared =
        described(&echo, "SELECT $1::mood, $2::short, $3::pair, $4::int8range, $5::text[], $6::int4multirange").await;
    let params = prepared["params"].as_array().unwrap();
    assert_eq!((&params[0]["kind"], &params[0]["variants"]), (&json!("enum"), &json!(["fine", "not"])));
    assert_eq!(params[0]["schema"], "plugin_echo");
    assert_eq!(params[1]["kind"]["domain"]["name"], "text");
    assert_eq!(params[2]["kind"]["composite"][1]["type"]["name"], "mood");
    assert_eq!(params[3]["kind"]["range"]["name"], "int8");
    assert_eq!(params[4]["kind"]["array"]["oid"], 25);
    assert_eq!(params[5]["kind"]["multirange"]["name"], "int4");
    assert_eq!(prepared["columns"][0]["name"], "mood");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_is_prepared_once_for_all_borrowers() {
    let echo = Echo::with_connections(1).await;
    let first = described(&echo, "SELECT 1").await;
    let connection = loop {
        if let Ok(connection) = echo.pool.get().await {
            break connection;
        }
    };
    let again = connection.prepared("SELECT 1").expect("it is there already");
    assert_eq!(serde_json::from_slice::<Value>(&again).unwrap(), first);
    for n in 0..600 {
        connection.clone().prepare(format!("SELECT {n}")).await.unwrap();
    }
    assert!(connection.prepared("SELECT 1").is_none(), "those that nobody used for long are let go");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_in_bounded_batches() {
    let echo = Echo::new().await;
    let connection = echo.pool.get().await.unwrap();
    let sql = "SELECT n, CASE WHEN n % 2 = 0 THEN repeat('x', 1000) END FROM generate_series(1, 5000) n";
    let prepared: Value = serde_json::from_slice(&connection.clone().prepare(sql.into()).await.unwrap()).unwrap();
    let mut rows = connection.clone().query(prepared["statement"].as_u64().unwrap(), Bytes::new()).await.unwrap();
    let mut next = 1;
    while let Some(batch) = std::future::poll_fn(|cx| rows.poll_batch(cx)).await {
        let batch = batch.unwrap();
        assert!(batch.len() < 70_000, "{} bytes", batch.len());
        let mut reader = values::Reader::new(&batch);
        while !reader.is_done() {
            assert_eq!(reader.row(), Some(2));
            assert_eq!(reader.next().unwrap().unwrap(), i32::to_be_bytes(next));
            assert_eq!(reader.next().unwrap().map(<[u8]>::len), (next % 2 == 0).then_some(1000));
            next += 1;
        }
    }
    assert_eq!(next, 5001);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_checked_before_they_are_sent() {
    let echo = Echo::new().await;
    let connection = echo.pool.get().await.unwrap();
    let prepared: Value =
        serde_json::from_slice(&connection.clone().prepare("SELECT $1::int4".into()).await.unwrap()).unwrap();
    let number = prepared["statement"].as_u64().unwrap();
    let mut one = Vec::new();
    values::push(&mut one, Some(&7i32.to_be_bytes()));
    let two = [one.clone(), one.clone()].concat();
    for wrong in [&b""[..], &one[..5], &two, b"\0\0\0\x09abc"] {
        let refused = connection.clone().execute(number, Bytes::copy_from_slice(wrong)).await;
        assert!(matches!(refused, Err(Fault::Invalid(_))), "{refused:?}");
    }
    let mut short = Vec::new();
    values::push(&mut short, Some(b"\x01"));
    let refused = connection.clone().execute(number, short.into()).await;
    assert!(matches!(refused, Err(Fault::Database(_))), "the server judges the bytes: {refused:?}");
    assert_eq!(connection.clone().execute(number, one.into()).await.unwrap(), 1, "and the connection goes on");
    assert!(matches!(connection.clone().execute(99, Bytes::new()).await, Err(Fault::Gone(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_author_reads_and_writes_with_ordinary_types() {
    let echo = Echo::new().await;
    let card = echo.database.card("rows").await;
    for text in ["one", "zwei ü"] {
        echo.call("add").json(&json!({"text": text, "card_id": card})).ok().await;
    }
    let notes = echo.call("notes").ok().await;
    assert_eq!(notes["items"][1]["text"], "zwei ü");
    assert_eq!(notes["items"][0]["card_id"], card.to_string());
    assert_eq!(echo.call("rollback").json(&json!({})).ok().await["left"], 0);
    assert_eq!(echo.call("rows").query("rows=10000").ok().await, json!({"sum": 50_005_000, "count": 10_000}));
    assert_eq!(echo.call("rows").query("rows=10000&take=3").ok().await["count"], 3);
    assert_eq!(echo.call("wrong_type").ok().await["again"], 7);
    assert_eq!(echo.call("write_to_cards").ok().await["sqlstate"], "42501");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_author_tells_errors_apart() {
    let echo = Echo::new().await;
    let conflict = echo.call("/db/error").error().await;
    assert_eq!((conflict.status, conflict.public), (409, true));
    let unknown = echo.call("add").json(&json!({"text": "x", "card_id": uuid::Uuid::now_v7()})).error().await;
    assert_eq!((unknown.status, unknown.public), (500, false), "what PostgreSQL says is not for clients");
    assert_eq!(unknown.details["sqlstate"], "23503");
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_goes_both_ways() {
    let echo = Echo::new().await;
    let lines = (0..1000).map(|n| format!("line {n}\n")).collect::<String>();
    let body = cardinal_plugin_host::call::CallBody::Full(lines.clone().into());
    let copied = echo.call("copy").body(body).ok().await;
    assert_eq!(copied["copied"], 1000);
    assert_eq!(copied["table"], lines);
}
