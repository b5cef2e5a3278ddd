//! Lines of `tracing` and `log` in the plugin's log. One test: both crates have one place in a program.

#![allow(clippy::unwrap_used)]

use cardinal_plugin::{
    Level, PluginContext, Request, Response, Result, Router, block_on, json, set_log_filter,
    testing::{LogLine, TestHost, TestRequest},
    tokio,
};

const MANIFEST: &str = r#"{ "name": "logging", "version": "1.0.0", "backend": {} }"#;

fn routes(_: &PluginContext) -> Router {
    Router::new().get("/lines", lines)
}

async fn lines(_: PluginContext, _: Request) -> Result<Response> {
    let span = tracing::info_span!("outer", card = 7, kind = "lamp");
    let inner = span.in_scope(|| tracing::debug_span!("inner", kind = "desk", late = tracing::field::Empty));
    inner.record("late", true);
    inner.in_scope(|| tracing::warn!(price = 9.5, found = ?Some(1), "a page {}", "read"));
    let thread = std::thread::spawn(move || inner.in_scope(|| tracing::info!("on a thread of its own")));
    tokio::task::yield_now().await;
    tracing::trace!("between two polls");
    tracing::info!(target: "hyper", "of another crate");
    tracing::debug!(target: "hyper", "too fine");
    log::error!("of log");
    log::debug!(target: "rustls", "too fine");
    thread.join().unwrap();
    Ok(Response::empty())
}

fn line(host: &TestHost, message: &str) -> LogLine {
    let mut found: Vec<_> = host.log().into_iter().filter(|line| line.message == message).collect();
    assert_eq!(found.len(), 1, "{message}: {:?}", host.log());
    found.remove(0)
}

#[test]
fn lines_go_to_the_instance_and_the_call_that_run() {
    let (host, other) = (TestHost::new(MANIFEST, routes), TestHost::new(MANIFEST, routes));
    block_on(host.send(TestRequest::get("/lines")));
    let read = line(&host, "a page read");
    assert!(read.is(Level::Warn) && read.call != 0, "{read:?}");
    let fields: cardinal_plugin::serde_json::Value = cardinal_plugin::serde_json::from_str(&read.fields).unwrap();
    assert_eq!(
        fields,
        json!({
            "target": "logging", "spans": "outer:inner", "card": 7, "kind": "desk", "late": true, "price": 9.5,
            "found": "Some(1)",
        })
    );
    assert_eq!(line(&host, "on a thread of its own").call, read.call, "by its span");
    assert!(line(&host, "between two polls").is(Level::Trace));
    assert!(line(&host, "of another crate").is(Level::Info));
    assert!(line(&host, "of log").is(Level::Error));
    assert!(!host.log().iter().any(|line| line.message == "too fine"));
    assert_eq!(other.log(), [], "nothing of it");

    host.change_settings(&json!({}));
    let before = host.log().len();
    block_on(host.send(TestRequest::get("/lines")));
    let after = &host.log()[before..];
    assert_eq!(after.len(), 5, "the new instance has its lines: {after:?}");
    assert!(after.iter().all(|line| line.instance != read.instance && line.call != read.call && line.call != 0));
    block_on(other.send(TestRequest::get("/lines")));
    assert_eq!((host.log().len(), other.log().len()), (before + 5, 5));

    set_log_filter("off,logging=warn").unwrap();
    let before = host.log().len();
    block_on(host.send(TestRequest::get("/lines")));
    let after: Vec<_> = host.log()[before..].iter().map(|line| line.message.clone()).collect();
    assert_eq!(after, ["a page read", "of log"]);
    assert!(set_log_filter("loud").is_err());
}
