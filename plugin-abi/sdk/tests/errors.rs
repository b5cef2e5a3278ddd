//! What `?` takes in a handler, and the place that it keeps for the log.

#![allow(clippy::unwrap_used)]

use cardinal_plugin::{
    Error, PluginContext, Request, Response, Result, Router, block_on,
    testing::{TestHost, TestRequest, lacks_database},
};
use eyre::WrapErr as _;

const MANIFEST: &str = r#"{ "name": "fails", "version": "1.0.0" }"#;

fn import(text: &str) -> eyre::Result<u32> {
    if text == "taken" {
        return Err(Error::conflict("It is taken.").into_std()).wrap_err("importing");
    }
    text.parse().wrap_err("reading the page").wrap_err("importing")
}

#[test]
fn eyre_is_taken_and_gives_back_what_was_ours() {
    let handler = |text: &str| -> Result<u32> { Ok(import(text)?) };
    assert_eq!(handler("7").unwrap(), 7);
    let error = handler("x").unwrap_err();
    assert_eq!(error.message(), "importing: reading the page: invalid digit found in string");
    assert_eq!((error.status(), handler("taken").unwrap_err().status()), (None, Some(409)));
    let bare = || -> Result<()> { Err(eyre::Report::new(Error::conflict("It is taken.").into_std()))? };
    assert_eq!(bare().unwrap_err().status(), Some(409));
    let text = || -> Result<()> { Err(eyre::eyre!("no page"))? };
    assert_eq!(text().unwrap_err().message(), "no page");
}

const BEGIN: u32 = line!();

async fn parses(_: PluginContext, _: Request) -> Result<Response> {
    Ok(Response::text("x".parse::<u32>()?.to_string())) // BEGIN + 3
}

async fn imports(_: PluginContext, _: Request) -> Result<Response> {
    Ok(Response::text(import("x")?.to_string())) // BEGIN + 7
}

async fn makes(_: PluginContext, _: Request) -> Result<Response> {
    Err(Error::internal("no page")) // BEGIN + 11
}

async fn asks(ctx: PluginContext, _: Request) -> Result<Response> {
    let conn = ctx.get_plugin_conn().await?;
    conn.execute("NONSENSE", &[]).await?; // BEGIN + 16; without a database it ends the line before
    Ok(Response::empty())
}

async fn passes_on(ctx: PluginContext, req: Request) -> Result<Response> {
    parses(ctx, req).await // of no line by itself
}

#[test]
fn an_error_that_is_for_the_log_keeps_its_line() {
    let (routes, builder) = (|_: &PluginContext| Router::new(), TestHost::builder(MANIFEST));
    let builder = if lacks_database() { builder } else { builder.database("") };
    let host = builder.start(routes);
    host.fail("prepare NONSENSE", Error::internal("no such statement"));
    let location = |reply: &cardinal_plugin::testing::TestReply| format!("{:?}", reply.error().unwrap());
    let is_at = |shown: &str, line: u32| shown.contains(&format!("tests/errors.rs:{}:", BEGIN + line));
    for (line, shown) in [
        (3, location(&block_on(host.call(parses, TestRequest::get("/"))))),
        (7, location(&block_on(host.call(imports, TestRequest::get("/"))))),
        (11, location(&block_on(host.call(makes, TestRequest::get("/"))))),
        (if lacks_database() { 15 } else { 16 }, location(&block_on(host.call(asks, TestRequest::get("/"))))),
        (3, location(&block_on(host.call(passes_on, TestRequest::get("/"))))),
    ] {
        assert!(is_at(&shown, line), "{line}: {shown}");
    }
}

#[test]
fn one_for_the_client_and_one_from_inside_the_library_have_none() {
    async fn conflict(_: PluginContext, _: Request) -> Result<Response> {
        Err(Error::conflict("It is taken."))
    }
    async fn unreadable(_: PluginContext, req: Request) -> Result<Response> {
        req.json::<u32>().await.map(|number| Response::text(number.to_string()))
    }
    async fn mapped(_: PluginContext, _: Request) -> Result<Response> {
        "x".parse::<u32>().map_err(Error::internal).map(|_| Response::empty())
    }
    let host = TestHost::new(MANIFEST, |_: &PluginContext| Router::new());
    for reply in [
        block_on(host.call(conflict, TestRequest::post("/"))),
        block_on(host.call(unreadable, TestRequest::post("/"))),
        block_on(host.call(mapped, TestRequest::post("/"))),
    ] {
        let shown = format!("{:?}", reply.error().unwrap());
        assert!(!shown.contains("location"), "{shown}");
    }
}
