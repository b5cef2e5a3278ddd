//! Replies beyond plain JSON, through a host. What needs tables needs CARDINAL_TEST_DATABASE.

#![allow(clippy::unwrap_used)]

use std::{
    future::Future,
    task::{Context, Waker},
    time::Duration,
};

use cardinal_plugin::{
    Cursor, Event, FromRow, Page, PluginContext, Request, Response, Result, Router, RowFormat, Uuid, block_on,
    futures::stream,
    json,
    serde_json::Value,
    testing::{TestHost, TestReply, TestRequest, lacks_database},
    tokio,
};

const MANIFEST: &str = r#"{
    "name": "replies", "version": "1.0.0", "backend": {},
    "settings_schema": { "properties": { "wait": { "default": 1 } } }
}"#;
const SCHEMA: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE DOMAIN tag AS text;
    CREATE TABLE things (
        id bigint PRIMARY KEY, name text NOT NULL, price numeric(10,2), at timestamptz, key uuid, more jsonb, mood mood,
        tags tag[], words text[], label tag, ok boolean);
    INSERT INTO things VALUES
        (1, E'a \"b\", c\\nd', 9.9, '2026-01-02T03:04:05.5Z', '0190d3a0-0000-7000-8000-000000000001', '{\"n\": [1]}', 'ok',
         NULL, ARRAY['x', NULL, 'y,z'], 'red', true),
        (2, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)";
const COLUMNS: &str = "id, name, price, at, key, more, mood, words, label, ok";

fn routes(_: &PluginContext) -> Router {
    Router::new()
        .get("/rows", rows)
        .get("/many", many)
        .get("/page", page)
        .get("/typed", typed)
        .get("/things/{id}", thing)
        .get("/file", file)
        .get("/settings", settings)
        .get("/events", events)
        .get("/elsewhere", |_: PluginContext, _: Request| async { Ok(Response::redirect("/admin/")) })
}

async fn rows(ctx: PluginContext, req: Request) -> Result<Response> {
    let format = match req.query() {
        "csv" => RowFormat::Csv,
        "ndjson" => RowFormat::NdJson,
        _ => RowFormat::Json,
    };
    let columns = if req.query() == "inet" { "'::1'::inet AS net" } else { COLUMNS };
    let where_ = if req.query() == "none" { "WHERE id < $1" } else { "WHERE id >= $1" };
    let sql = format!("SELECT {columns} FROM things {where_} ORDER BY id");
    Response::rows(ctx.get_plugin_conn().await?, &sql, &[&1i64], format).await
}

async fn many(ctx: PluginContext, _: Request) -> Result<Response> {
    let sql = "SELECT n, repeat('x', 100) AS text FROM generate_series(1, 20000) n";
    Response::rows(ctx.get_plugin_conn().await?, sql, &[], RowFormat::NdJson).await
}

#[derive(FromRow, serde::Serialize)]
#[allow(clippy::struct_field_names)]
struct Thing {
    id: i64,
    /// Attributes of others stay what they are.
    #[serde(rename = "called")]
    #[row(name = "name")]
    pub(crate) title: String,
    #[row(json)]
    more: std::collections::HashMap<String, Vec<i32>>,
    key: Option<Uuid>,
    r#ok: Option<bool>,
}

async fn typed(ctx: PluginContext, _: Request) -> Result<Response> {
    let conn = ctx.get_plugin_conn().await?;
    let thing: Thing = conn.query_one_as("SELECT * FROM things WHERE id = 1", &[]).await?;
    let none: Option<Thing> = conn.query_opt_as("SELECT * FROM things WHERE id = 3", &[]).await?;
    let pairs: Vec<(i64, Option<bool>)> = conn.query_as("SELECT id, ok FROM things ORDER BY id", &[]).await?;
    let wrong = conn.query_as::<Thing>("SELECT * FROM things WHERE id = 2", &[]).await.err().map(|e| e.to_string());
    let ids: Vec<i64> = conn.query_values("SELECT id, ok FROM things ORDER BY id", &[]).await?;
    let not_null = conn.query_values::<bool>("SELECT ok FROM things ORDER BY id", &[]).await.is_err();
    let ids = json!({ "all": ids, "not_null": not_null });
    Ok(Response::json(&json!({ "thing": thing, "none": none.is_none(), "pairs": pairs, "wrong": wrong, "ids": ids })))
}

async fn thing(_: PluginContext, req: Request) -> Result<Response> {
    let id: i64 = req.param_as("id")?;
    Ok(Response::json(&json!({ "id": id, "missing": req.param_as::<i64>("other").err().map(|error| error.status()) })))
}

async fn page(ctx: PluginContext, req: Request) -> Result<Response> {
    let after = req.query_pairs().next().map_or(Ok(0), |(_, cursor)| Cursor::read::<i64>(&cursor))?;
    let conn = ctx.get_plugin_conn().await?;
    let rows: Vec<(i64,)> = conn.query_as("SELECT id FROM things WHERE id > $1 ORDER BY id LIMIT 2", &[&after]).await?;
    Ok(Response::json(&Page::new(rows, 1, |row| row.0)?))
}

async fn file(_: PluginContext, req: Request) -> Result<Response> {
    let (_, path) = req.query_pairs().next().unwrap();
    Ok(Response::file(path).await?.conditional(&req))
}

#[derive(serde::Deserialize)]
struct Settings {
    wait: u32,
}

async fn settings(ctx: PluginContext, _: Request) -> Result<Response> {
    Ok(Response::json(&ctx.settings::<Settings>()?.wait))
}

async fn events(_: PluginContext, _: Request) -> Result<Response> {
    let first = stream::iter([Ok(Event::json(&json!({ "n": 1 })).name("step").id("1"))]);
    let later = stream::once(async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        Ok(Event::text("late"))
    });
    Ok(Response::events(cardinal_plugin::futures::StreamExt::chain(first, later)))
}

fn get(host: &TestHost, path: &str) -> TestReply {
    block_on(host.send(TestRequest::get(path)))
}

#[test]
fn a_file_is_sent_whole_in_parts_or_not_again() {
    let host = TestHost::new(MANIFEST, routes);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, "0123456789").unwrap();
    let address = format!("/file?path={}", path.display());
    let whole = get(&host, &address);
    assert_eq!((whole.status(), whole.text()), (200, "0123456789"));
    assert_eq!(
        (whole.header("content-type"), whole.header("accept-ranges")),
        (Some("text/csv; charset=utf-8"), Some("bytes"))
    );
    let ask = |name: &str, value: &str| block_on(host.send(TestRequest::get(&address).header(name, value)));
    let part = ask("Range", "bytes=-3");
    assert_eq!((part.status(), part.text(), part.header("content-range")), (206, "789", Some("bytes 7-9/10")));
    let known = ask("If-None-Match", whole.header("etag").unwrap());
    assert_eq!((known.status(), known.bytes().len()), (304, 0));
    let large = folder.path().join("large.bin");
    std::fs::write(&large, vec![7; 5 << 20]).unwrap();
    let large = format!("/file?path={}", large.display());
    assert_eq!(get(&host, &large).bytes().len(), 5 << 20, "streamed");
    for missing in [folder.path().join("none"), folder.path().to_owned()] {
        assert_eq!(get(&host, &format!("/file?path={}", missing.display())).status(), 404);
    }
    let reply = get(&host, "/elsewhere");
    assert_eq!((reply.status(), reply.header("location")), (303, Some("/admin/")));
}

#[test]
fn events_come_one_by_one_with_a_sign_of_life_between() {
    let host = TestHost::builder(MANIFEST).paused().start(routes);
    let mut reply = block_on(host.begin(TestRequest::get("/events")));
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    assert_eq!(block_on(reply.next_piece()).unwrap().unwrap(), "event: step\nid: 1\ndata: {\"n\":1}\n\n");
    for (wait, piece) in [(15, ":\n\n"), (5, "data: late\n\n")] {
        let mut next = Box::pin(reply.next_piece());
        assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        block_on(host.advance(Duration::from_secs(wait)));
        assert_eq!(block_on(next).unwrap().unwrap(), piece);
    }
    assert!(block_on(reply.next_piece()).is_none());
}

#[test]
fn settings_that_do_not_fit_are_named_without_their_value() {
    let host = TestHost::builder(MANIFEST).settings(json!({ "wait": "s3cret" })).start(routes);
    let reply = get(&host, "/settings");
    let said = reply.error().unwrap().message();
    assert!(said.contains("the setting `wait` does not fit: found string, expected u32"), "{said}");
    assert!(!said.contains("s3cret"));
    assert_eq!(get(&TestHost::new(MANIFEST, routes), "/settings").json(), 1);
}

#[test]
fn rows_are_written_as_json_lines_and_csv() {
    if lacks_database() {
        return;
    }
    let host = TestHost::builder(MANIFEST).database(SCHEMA).start(routes);
    let first = json!({
        "id": 1, "name": "a \"b\", c\nd", "price": "9.90", "at": "2026-01-02T03:04:05.5Z",
        "key": "0190d3a0-0000-7000-8000-000000000001", "more": { "n": [1] }, "mood": "ok", "words": ["x", null, "y,z"],
        "label": "red", "ok": true,
    });
    let reply = get(&host, "/rows");
    assert_eq!(reply.status(), 200, "{reply:?}");
    assert_eq!(reply.json()[0], first);
    assert_eq!((reply.json()[1]["name"].clone(), reply.json()[1]["more"].clone()), (json!(""), Value::Null));
    assert_eq!(get(&host, "/rows?none").text(), "[]");
    let lines = get(&host, "/rows?ndjson");
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
    let lines: Vec<Value> = lines.text().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]), (2, &first));
    let csv = get(&host, "/rows?csv");
    let expected = format!(
        "{}\r\n1,\"a \"\"b\"\", c\nd\",9.90,2026-01-02T03:04:05.5Z,0190d3a0-0000-7000-8000-000000000001,\
         \"{{\"\"n\"\":[1]}}\",ok,\"[\"\"x\"\",null,\"\"y,z\"\"]\",red,true\r\n2,\"\",,,,,,,,\r\n",
        COLUMNS.replace(", ", ",")
    );
    assert_eq!(csv.text(), expected);
    let unknown = get(&host, "/rows?inet");
    assert!(unknown.error().unwrap().message().contains("`net::text`"), "{unknown:?}");
    let many = get(&host, "/many");
    assert_eq!(many.text().lines().count(), 20_000);
    let taken = host.journal().iter().filter(|line| *line == "connect").count();
    let back = host.journal().iter().filter(|line| line.starts_with("release")).count();
    assert_eq!(taken, back, "every connection went back");
}

#[test]
fn rows_become_the_authors_types() {
    if lacks_database() {
        return;
    }
    let host = TestHost::builder(MANIFEST).database(SCHEMA).start(routes);
    let typed = get(&host, "/typed").json();
    let key = "0190d3a0-0000-7000-8000-000000000001";
    let thing = json!({ "id": 1, "called": "a \"b\", c\nd", "more": { "n": [1] }, "key": key, "ok": true });
    assert_eq!(typed["thing"], thing);
    assert_eq!((&typed["none"], &typed["pairs"]), (&json!(true), &json!([[1, true], [2, null]])));
    assert!(typed["wrong"].as_str().unwrap().contains("column `more`"), "{typed}");
    assert_eq!(typed["ids"], json!({ "all": [1, 2], "not_null": true }));
    assert_eq!(
        (get(&host, "/things/2").json(), get(&host, "/things/two").status()),
        (json!({ "id": 2, "missing": null }), 404)
    );
    let first = get(&host, "/page").json();
    assert_eq!(first["items"], json!([[1]]));
    let second = get(&host, &format!("/page?cursor={}", first["next_cursor"].as_str().unwrap())).json();
    assert_eq!(second, json!({ "items": [[2]], "next_cursor": null }));
    assert_eq!(get(&host, "/page?cursor=x").status(), 400);
}
