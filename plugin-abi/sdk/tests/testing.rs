//! `cardinal_plugin::testing`, used as an author uses it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use cardinal_plugin::{
    CardChange, CardQuery, Error, Job, Level, PluginContext, Request, Response, Result, Router, Uuid, block_on,
    bytes::Bytes,
    futures::stream,
    json,
    testing::{
        JobEnd, SERVICE_USER, TestHost, TestHostBuilder, TestJob, TestRequest, has_database, lacks_database, test_card,
        test_user,
    },
    tokio,
};

const MANIFEST: &str = r#"{
    "name": "notes", "version": "1.0.0", "provides_kinds": ["note"], "backend": {},
    "mcp": { "tools": [{ "name": "plugin_notes_add", "handler": "add" }] },
    "settings_schema": { "properties": { "most": { "default": 3 }, "prefix": { "default": "" } } }
}"#;
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS notes (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        card_id uuid NOT NULL REFERENCES public.master_cards (id) ON DELETE CASCADE,
        text text NOT NULL UNIQUE)";

fn routes(_: &PluginContext) -> Router {
    Router::new()
        .get("/cards/{card_id}", title)
        .post("/cards/{card_id}", add)
        .get("/stored", stored)
        .get("/wait", wait)
        .get("/stream", streamed)
        .get("/panic", panics)
        .get("/settings", settings)
        .post("/body", body)
}

#[derive(serde::Deserialize)]
struct Add {
    card_id: Uuid,
    text: String,
}

async fn title(ctx: PluginContext, req: Request) -> Result<Response> {
    let card: Uuid = req.param("card_id").unwrap_or_default().parse()?;
    Ok(Response::text(ctx.read_card(card, ctx.user()?.id).await?.title))
}

async fn add(ctx: PluginContext, req: Request) -> Result<Response> {
    let Add { card_id, text } = req.input().await?;
    let data = json!({ "text": text, "tool": req.tool(), "locale": req.locale() });
    let version = ctx.enrich_card(card_id, ctx.user()?.id, "notes:all", "note", &data).await?;
    ctx.log_with(Level::Info, "noted", &json!({ "card": card_id }));
    ctx.metrics().label("by", "hand").count("added", 1);
    Ok(Response::json(&json!({ "version": version })).status(201))
}

async fn stored(ctx: PluginContext, req: Request) -> Result<Response> {
    let conn = ctx.get_plugin_conn().await?;
    let (_, text) = req.query_pairs().next().ok_or_else(|| Error::bad_request("Say what."))?;
    let sql = "INSERT INTO notes (card_id, text) SELECT id, $1 FROM public.master_cards";
    conn.execute(sql, &[&text]).await?;
    let rows = conn.query("SELECT text FROM notes ORDER BY id", &[]).await?;
    Ok(Response::json(&rows.iter().map(|row| row.get("text")).collect::<Vec<String>>()))
}

async fn wait(_: PluginContext, _: Request) -> Result<Response> {
    tokio::time::sleep(Duration::from_secs(3600)).await;
    Ok(Response::text("waited"))
}

async fn streamed(_: PluginContext, _: Request) -> Result<Response> {
    Ok(Response::stream("text/plain", stream::iter(["a", "b"].map(|text| Ok(Bytes::from(text))))))
}

async fn panics(_: PluginContext, _: Request) -> Result<Response> {
    panic!("on purpose")
}

async fn settings(ctx: PluginContext, _: Request) -> Result<Response> {
    Ok(Response::json(&ctx.settings::<cardinal_plugin::serde_json::Value>()?))
}

async fn body(_: PluginContext, req: Request) -> Result<Response> {
    Ok(Response::bytes("text/plain", req.body().await?))
}

fn host() -> TestHost {
    TestHost::new(MANIFEST, routes)
}

fn builder() -> TestHostBuilder {
    TestHost::builder(MANIFEST)
}

fn send(host: &TestHost, request: TestRequest) -> cardinal_plugin::testing::TestReply {
    block_on(host.send(request))
}

#[test]
fn a_route_and_a_tool_are_called_as_by_a_host() {
    let host = host();
    let lamp = host.add_card(test_card("Lamp", json!({})));
    let path = format!("/cards/{lamp}");
    assert_eq!(send(&host, TestRequest::get(&path)).text(), "Lamp");
    let added = TestRequest::post(&path).json(&json!({ "text": "legs" })).locale("de-AT");
    let reply = send(&host, added);
    assert_eq!((reply.status(), reply.json()), (201, json!({ "version": 2 })));
    assert_eq!(reply.header("Content-Type"), Some("application/json"));
    let source = &host.card(lamp).sources()["notes:all"];
    assert_eq!(source.data, json!({ "text": "legs", "tool": null, "locale": "de-AT" }));
    let tool = TestRequest::tool("plugin_notes_add", &json!({ "card_id": lamp, "text": "arms" }));
    assert_eq!(send(&host, tool).json(), json!({ "version": 3 }));
    let source = &host.card(lamp).sources()["notes:all"];
    assert_eq!(source.data, json!({ "text": "arms", "tool": "plugin_notes_add", "locale": null }));
    assert_eq!(host.metrics()[0].labels["by"], "hand");
    let line = host.log().into_iter().find(|line| line.message == "noted").unwrap();
    assert!(line.is(Level::Info) && line.field("card") == json!(lamp) && line.call != 0);
}

#[test]
fn a_cursor_is_good_for_its_own_list_alone() {
    let host = host();
    for title in ["Lamp", "Chair", "Desk"] {
        host.add_card(test_card(title, json!({})));
    }
    let ctx = host.context();
    let list = |query: CardQuery| block_on(ctx.list_cards(query));
    let cursor = list(CardQuery::new().sort("title").limit(2)).unwrap().next_cursor.unwrap();
    let rest = list(CardQuery::new().sort("title").cursor(&cursor)).unwrap();
    assert_eq!(rest.items.iter().map(|card| &*card.title).collect::<Vec<_>>(), ["Lamp"]);
    for (sort, cursor) in [("sku", &*cursor), ("title", "2"), ("title", "x")] {
        let refused = list(CardQuery::new().sort(sort).cursor(cursor)).unwrap_err();
        assert_eq!(refused.code(), Some("invalid-cursor"));
    }
}

#[test]
fn the_last_body_of_a_request_is_the_one_it_has() {
    let kind = |_: PluginContext, req: Request| async move {
        Ok(Response::text(req.header("content-type").unwrap_or("none")))
    };
    let request = TestRequest::post("/").json(&json!({})).body("text/csv", "L1,990");
    assert_eq!(block_on(host().call(kind, request)).text(), "text/csv");
}

#[test]
fn a_body_of_another_kind_is_not_taken_for_csv_without_rows() {
    let rows = |_: PluginContext, req: Request| async move {
        let names = req.csv(b',').await?.names().join(" ");
        Ok(Response::text(names))
    };
    let sent = |kind: &str| block_on(host().call(rows, TestRequest::post("/").body(kind, "sku,cents\n")));
    for kind in ["text/csv; charset=utf-8", "application/octet-stream", "application/x-www-form-urlencoded"] {
        assert_eq!(sent(kind).text(), "sku cents", "{kind}");
    }
    for kind in ["application/json", "Application/Problem+JSON", "multipart/form-data; boundary=x"] {
        let refused = sent(kind);
        assert_eq!(refused.status(), 415, "{kind}: {refused:?}");
    }
}

#[test]
fn what_no_route_takes_is_refused_as_by_a_host() {
    let host = host();
    assert_eq!(send(&host, TestRequest::get("/nowhere")).status(), 404);
    assert_eq!(send(&host, TestRequest::delete("/stream")).status(), 405);
    assert_eq!(send(&host, TestRequest::tool("plugin_notes_none", &json!({}))).status(), 404);
}

#[test]
fn a_call_has_its_users_rights_and_no_more() {
    let host = host();
    let lamp = host.add_card(test_card("Lamp", json!({})));
    let path = format!("/cards/{lamp}");
    let reader = || test_user("Ada", &["plugin:notes:read"]);
    assert_eq!(send(&host, TestRequest::get(&path).user(reader())).status(), 200);
    let reply = send(&host, TestRequest::post(&path).json(&json!({ "text": "x" })).user(reader()));
    assert_eq!((reply.status(), reply.json()["code"].clone()), (403, json!("insufficient-scope")));
    assert_eq!(host.card(lamp).version, 1);
    let ctx = host.call_context(TestRequest::get("/").user(reader()));
    assert_eq!(ctx.user().unwrap().name, "Ada");
    assert!(block_on(ctx.read_card(lamp, SERVICE_USER)).is_err(), "another user's");
    assert!(block_on(host.context().read_card(lamp, SERVICE_USER)).is_ok());
    let unknown = block_on(host.context().read_card(Uuid::nil(), SERVICE_USER)).unwrap_err();
    assert!(unknown.is_not_found());
}

#[test]
fn what_happens_to_cards_is_read_by_pages() {
    let host = host();
    let ctx = host.context();
    let begin = block_on(ctx.card_events(None, 10)).unwrap();
    assert!(begin.restart && begin.items.is_empty());
    let lamp = host.add_card(test_card("Lamp", json!({})));
    block_on(ctx.enrich_card(lamp, SERVICE_USER, "notes:all", "note", &json!({}))).unwrap();
    block_on(ctx.remove_source(lamp, SERVICE_USER, "notes:all")).unwrap();
    let first = block_on(ctx.card_events(Some(begin.cursor), 2)).unwrap();
    let changes: Vec<_> = first.items.iter().map(|event| (event.what, event.card_id, event.version)).collect();
    assert_eq!(changes, [(CardChange::Created, Some(lamp), Some(1)), (CardChange::Enriched, Some(lamp), Some(2))]);
    assert_eq!((first.items[0].plugin(), first.items[1].plugin()), (None, Some("notes")));
    let next = block_on(ctx.card_events(Some(first.cursor), 2)).unwrap();
    assert_eq!(next.items[0].what, CardChange::SourceRemoved);
    assert!(block_on(ctx.card_events(Some(next.cursor), 2)).unwrap().items.is_empty());
    host.raise_bulk_event("purge", 900);
    let bulk = block_on(ctx.next_card_events(Some(next.cursor), 2)).unwrap();
    assert_eq!((bulk.items[0].what, bulk.items[0].card_id), (CardChange::Bulk, None));
    host.forget_card_events();
    assert!(block_on(ctx.card_events(Some(begin.cursor), 2)).unwrap().restart);
    let stranger = host.call_context(TestRequest::get("/").user(test_user("Eve", &[])));
    assert_eq!(block_on(stranger.card_events(None, 1)).unwrap_err().code(), Some("insufficient-scope"));
}

#[test]
fn events_are_followed_and_come_again_until_they_are_dealt_with() {
    let host = TestHost::builder(MANIFEST).paused().start(routes);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (own, kept) = (host.context(), seen.clone());
    let following = host.context().spawn(async move {
        own.follow_card_events(None, |page| {
            let mut seen = kept.lock().unwrap();
            seen.push((page.restart, page.items.len()));
            let fails = seen.len() == 2;
            async move { if fails { Err(Error::internal("on purpose")) } else { Ok(()) } }
        })
        .await;
    });
    let until = |count: usize| {
        while seen.lock().unwrap().len() < count {
            std::thread::yield_now();
        }
    };
    until(1);
    host.add_card(test_card("Lamp", json!({})));
    until(2);
    while !host.log().iter().any(|line| line.message.contains("card events")) {
        std::thread::yield_now();
    }
    block_on(host.advance(Duration::from_secs(1)));
    until(3);
    host.add_card(test_card("Chair", json!({})));
    until(4);
    assert_eq!(*seen.lock().unwrap(), [(true, 0), (false, 1), (false, 1), (false, 1)]);
    drop(following);
}

#[test]
fn sources_keep_the_rules_of_the_manifest() {
    let host = host();
    let lamp = host.add_card(test_card("Lamp", json!({})));
    let ctx = host.context();
    let enrich = |key, kind| block_on(ctx.enrich_card(lamp, SERVICE_USER, key, kind, &json!({}))).unwrap_err();
    assert_eq!(enrich("other:all", "note").code(), Some("source-key-invalid"));
    assert_eq!(enrich("notes:", "note").code(), Some("source-key-invalid"));
    assert_eq!(enrich("notes:all", "price").code(), Some("kind-not-declared"));
}

#[test]
fn errors_panics_and_streams_are_seen_as_a_client_sees_them() {
    let host = host();
    let reply = send(&host, TestRequest::get("/panic"));
    assert_eq!((reply.status(), reply.error().unwrap().is_panic()), (500, true));
    let told = format!("{reply:?}");
    assert!(told.contains("panic: on purpose") && told.contains("tests/testing.rs:84:5"), "{told}");
    assert_eq!(reply.json()["code"], "internal-error");
    assert!(host.log().iter().any(|line| line.message.ends_with("on purpose")));
    assert_eq!(send(&host, TestRequest::get("/stream")).text(), "ab");
    let mut open = block_on(host.begin(TestRequest::get("/stream")));
    assert_eq!(block_on(open.next_piece()).unwrap().unwrap(), "a");
    assert_eq!(send(&host, TestRequest::post("/cards/x").json(&json!({ "text": "x" }))).status(), 404, "no such id");
    let path = format!("/cards/{}", Uuid::nil());
    let reply = send(&host, TestRequest::post(&path).json(&json!({ "text": 7 })));
    assert_eq!((reply.status(), reply.json()["errors"][0]["pointer"].clone()), (422, json!("/text")));
    assert_eq!(send(&host, TestRequest::post("/body").pieces(["one", "two"])).text(), "onetwo");
}

#[test]
fn a_handler_can_be_called_without_a_route() {
    let host = host();
    let lamp = host.add_card(test_card("Lamp", json!({})));
    let request = TestRequest::get("/").param("card_id", &lamp.to_string());
    assert_eq!(block_on(host.call(title, request)).text(), "Lamp");
}

#[test]
fn settings_lie_over_their_defaults_and_change_with_a_new_instance() {
    let host = builder().settings(json!({ "prefix": "a" })).start(routes);
    assert_eq!(send(&host, TestRequest::get("/settings")).json(), json!({ "most": 3, "prefix": "a" }));
    let before = host.context();
    host.change_settings(&json!({ "most": 5 }));
    assert_eq!(send(&host, TestRequest::get("/settings")).json(), json!({ "most": 5, "prefix": "" }));
    assert!(before.cancelled(), "the old instance was stopped");
}

#[test]
fn a_stopped_clock_moves_when_the_test_says_so() {
    let host = builder().paused().start(routes);
    let mut call = host.begin(TestRequest::get("/wait"));
    assert!(call.is_waiting());
    block_on(host.advance(Duration::from_secs(3599)));
    assert!(call.is_waiting(), "a second is missing");
    block_on(host.advance(Duration::from_secs(1)));
    assert_eq!(block_on(call).text(), "waited");
}

#[test]
fn what_the_host_is_asked_can_fail_and_wait() {
    let host = host();
    let path = format!("/cards/{}", host.add_card(test_card("Lamp", json!({}))));
    host.hold("read_card");
    let mut call = host.begin(TestRequest::get(&path));
    assert!(call.is_waiting());
    drop(call);
    assert!(host.journal().contains(&"cancelled read_card".to_owned()), "the client went away");
    let mut call = host.begin(TestRequest::get(&path));
    assert!(call.is_waiting());
    host.release("read_card");
    assert_eq!(block_on(call).text(), "Lamp");
    host.fail("read_card", Error::unavailable("Later."));
    assert_eq!(send(&host, TestRequest::get(&path)).status(), 503);
}

#[test]
fn a_router_and_a_manifest_that_disagree_are_refused_in_words() {
    let disagreement = |manifest: &'static str| {
        let started = std::panic::catch_unwind(|| drop(TestHost::new(manifest, routes)));
        *started.unwrap_err().downcast::<String>().unwrap()
    };
    let tools = r#""mcp": { "tools": [{ "name": "plugin_notes_add", "handler": "ad" }] }"#;
    let said = disagreement(format!(r#"{{ "name": "notes", "version": "1.0.0", "backend": {{}}, {tools} }}"#).leak());
    assert!(said.contains("plugin_notes_add names the handler `ad`") && said.contains("`add`"), "{said}");
    let said = disagreement(r#"{ "name": "notes", "version": "1.0.0" }"#);
    assert!(said.contains("no `backend`"), "{said}");
    let said = disagreement(r#"{ "name": "notes", "version": "1.0.0", "backend": { "routes": [] } }"#);
    assert!(said.contains("GET /cards/{card_id}") && said.contains("does not declare"), "{said}");
    let tools = r#""mcp": { "tools": [{ "name": "plugin_notes_add", "handler": "add", "preview": "try" }] }"#;
    let said = disagreement(format!(r#"{{ "name": "notes", "version": "1.0.0", "backend": {{}}, {tools} }}"#).leak());
    assert!(said.contains("plugin_notes_add names the handler `try`"), "{said}");
    let refused = |router: fn() -> Router| {
        let manifest = r#"{ "name": "notes", "version": "1.0.0", "backend": {} }"#;
        let started = std::panic::catch_unwind(|| drop(TestHost::new(manifest, move |_: &PluginContext| router())));
        *started.unwrap_err().downcast::<String>().unwrap()
    };
    let said = refused(|| Router::new().handler("stray", add));
    assert!(said.contains("`stray`") && said.contains("no tool"), "{said}");
    let said = refused(|| Router::new().get("/notes/{id}", title).post("/notes/{card}", add));
    assert!(said.contains("match the same requests"), "{said}");
}

#[test]
fn without_an_address_a_connection_says_what_to_set() {
    if has_database() {
        return;
    }
    let reply = send(&host(), TestRequest::get("/stored?text=a"));
    assert!(reply.error().unwrap().message().contains("CARDINAL_TEST_DATABASE"), "{reply:?}");
}

/// Needs CARDINAL_TEST_DATABASE.
#[test]
fn a_database_is_the_plugins_schema_beside_the_cards() {
    if lacks_database() {
        return;
    }
    let host = builder().database(SCHEMA).start(routes);
    host.add_card(test_card("Lamp", json!({})));
    let reply = send(&host, TestRequest::get("/stored?text=a"));
    assert_eq!(reply.json(), json!(["a"]), "{reply:?}");
    assert_eq!(send(&host, TestRequest::get("/stored?text=b")).json(), json!(["a", "b"]));
    let twice = send(&host, TestRequest::get("/stored?text=b"));
    let error = twice.error().unwrap();
    assert_eq!((error.sqlstate(), error.constraint()), (Some("23505"), Some("notes_text_key")));
    let mut conn = block_on(host.context().get_plugin_conn()).unwrap();
    let tx = block_on(conn.transaction()).unwrap();
    block_on(tx.batch_execute("DELETE FROM notes")).unwrap();
    drop(tx);
    let pieces = stream::iter([Ok(Bytes::from("c\nd\n"))]);
    block_on(conn.batch_execute("CREATE TABLE copied (text text)")).unwrap();
    assert_eq!(block_on(conn.copy_in("COPY copied FROM STDIN", pieces)).unwrap(), 2);
    let copied = block_on(conn.copy_out("COPY copied TO STDOUT")).unwrap();
    let copied: Vec<_> = block_on(cardinal_plugin::futures::StreamExt::collect(copied));
    assert_eq!(copied.into_iter().map(Result::unwrap).collect::<Vec<_>>().concat(), b"c\nd\n");
    let count: i64 = block_on(conn.query_one("SELECT count(*) FROM plugin_notes.notes", &[])).unwrap().get(0);
    assert_eq!(count, 2, "what was not committed is undone");
    let options = block_on(host.context().connect_options()).unwrap();
    assert!(options.dbname.starts_with("cardinal_test_"));
}

#[test]
fn a_job_runs_by_the_tests_clock_stops_and_goes_on_from_what_it_saved() {
    async fn count(ctx: PluginContext, job: Job) -> Result<()> {
        for at in job.checkpoint::<u64>()?.unwrap_or(0)..job.args::<u64>()? {
            tokio::time::sleep(Duration::from_secs(60)).await;
            if at == 0 {
                job.fail("first", "The first one fails.", &json!({ "line": 1 }));
                ctx.start_job("count", &json!({ "again": true })).await?;
            }
            job.progress(at + 1, Some(3), "Counting");
            job.save(&(at + 1)).await?;
        }
        Ok(())
    }
    let manifest = r#"{ "name": "counter", "version": "1.0.0", "backend": { "jobs": [{ "name": "count" }] } }"#;
    let host = TestHost::builder(manifest).paused().start(|_: &PluginContext| Router::new().job("count", count));
    let minute = || block_on(host.advance(Duration::from_secs(60)));

    let mut run = host.begin_job(TestJob::new("count").args(&3).user(test_user("Ada", &["*"])));
    assert!(run.is_waiting());
    minute();
    assert!(run.is_waiting(), "it waits for the second minute");
    assert_eq!((run.done(), run.total(), run.text().as_str()), (1, Some(3), "Counting"));
    assert_eq!(run.failures(), [json!({ "line": 1, "code": "first", "detail": "The first one fails." })]);
    let started = host.started_jobs();
    assert_eq!((started[0].name.as_str(), &started[0].args), ("count", &json!({ "again": true })));
    assert!(started[0].user_id.is_some(), "in the name of who started the first");
    run.stop();
    minute();
    assert!(matches!(block_on(&mut run), JobEnd::Stopped));
    assert_eq!(run.checkpoint(), Some(json!(2)), "the checkpoint of a job that is to stop is kept");

    let mut run = host.begin_job(TestJob::new("count").args(&3).checkpoint(&2));
    assert!(run.is_waiting());
    minute();
    assert!(matches!(block_on(&mut run), JobEnd::Done));
    let mut run = host.begin_job(TestJob::new("count").args("no number"));
    let JobEnd::Failed(error) = block_on(&mut run) else { panic!("it took a text for a number") };
    assert!(error.message().contains("arguments do not fit"), "{error:?}");
    block_on(host.context().start_job("cuont", &json!({}))).unwrap_err();
}
