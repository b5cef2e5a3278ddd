//! `ctx.http()` through the plugin API's own table, answered by a test's host.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use cardinal_plugin::{
    Error, HttpFailure, Method, PluginContext, Router, block_on, json,
    serde_json::Value,
    testing::{SentRequest, ServerAnswer, TestHost},
};

const SHOP: &str = "https://shop.example/p?x=1";

fn host(answer: impl Fn(&SentRequest) -> ServerAnswer + Send + Sync + 'static) -> TestHost {
    let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    host.answer_http(answer);
    host
}

#[test]
fn a_request_arrives_as_it_was_put_together() {
    let host = host(|request| {
        assert_eq!((&request.method, request.url.as_str(), request.path()), (&Method::PUT, SHOP, "/p?x=1"));
        assert_eq!(request.headers.get_all("x").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((request.header("content-type"), &request.body[..]), (Some("application/json"), &b"[7]"[..]));
        assert_eq!((request.timeout, request.max_bytes), (Some(Duration::from_millis(1_500)), Some(9)));
        ServerAnswer::new(201).header("Location", "/q").body("done")
    });
    let ctx = host.context();
    let request = ctx.http().put(SHOP).header("x", "1").header("X", "2").json(&[7]).unwrap();
    let answer = block_on(request.timeout(Duration::from_millis(1_500)).max_bytes(9).send()).unwrap();
    assert_eq!((answer.status().as_u16(), answer.header("location")), (201, Some("/q")));
    assert!(answer.address().is_some());
    assert_eq!(block_on(answer.text()).unwrap(), "done");
    assert_eq!(host.journal(), [format!("http PUT {SHOP}")]);
}

#[test]
fn parameters_join_the_query_that_is_there_and_may_be_any_text() {
    let host = host(|request| ServerAnswer::new(200).body(request.url.clone()));
    let ctx = host.context();
    let asked = |url: &str, name: &str, value: &str| {
        block_on(async { ctx.http().get(url).query(name, value).send().await?.text().await }).unwrap()
    };
    for (url, expected) in [
        ("https://a.example/p", "https://a.example/p?q=1"),
        ("https://a.example/p?", "https://a.example/p?q=1"),
        ("https://a.example/p?x=1&", "https://a.example/p?x=1&q=1"),
        ("https://a.example/p#a?b", "https://a.example/p?q=1#a?b"),
    ] {
        assert_eq!(asked(url, "q", "1"), expected);
    }
    assert_eq!(asked(SHOP, "a b", "ü&c=#+%"), format!("{SHOP}&a%20b=%C3%BC%26c%3D%23%2B%25"));
}

#[test]
fn a_body_comes_whole_as_json_or_piece_by_piece() {
    let long = "x".repeat(100_000);
    let host = host(move |request| match request.path() {
        "/json" => ServerAnswer::new(200).json(&json!({ "left": 3 })),
        "/empty" => ServerAnswer::new(204),
        _ => ServerAnswer::new(200).body(long.clone()),
    });
    let (ctx, get) = (host.context(), |path: &str| format!("http://shop.example{path}"));
    let json: Value = block_on(async { ctx.http().get(get("/json")).send().await?.json().await }).unwrap();
    assert_eq!(json, json!({ "left": 3 }));
    let empty = block_on(async { ctx.http().get(get("/empty")).send().await?.bytes().await });
    assert_eq!(empty.unwrap(), "");
    let pieces = block_on(async {
        let mut stream = ctx.http().get(get("/long")).send().await?.stream();
        let mut pieces = Vec::new();
        while let Some(piece) = stream.next().await {
            pieces.push(piece?.len());
        }
        Ok::<_, Error>(pieces)
    })
    .unwrap();
    assert!(pieces.len() > 1 && pieces.iter().sum::<usize>() == 100_000, "{pieces:?}");
    let whole = block_on(async { ctx.http().get(get("/long")).send().await?.bytes().await });
    assert_eq!(whole.unwrap().len(), 100_000);
    let wrong = block_on(async { ctx.http().get(get("/json")).send().await?.json::<Vec<u8>>().await }).unwrap_err();
    assert_eq!(wrong.status(), Some(502), "{wrong:?}");
}

#[test]
fn failures_have_kinds_and_statuses_are_answers() {
    let host = host(|request| match request.path() {
        "/missing" => ServerAnswer::new(404),
        "/cut" => ServerAnswer::new(200).body("half").then_failed(HttpFailure::BrokenOff),
        "/slow" => ServerAnswer::failed(HttpFailure::TimedOut),
        _ => ServerAnswer::new(200).body("ten bytes."),
    });
    let ctx = host.context();
    let get = |path: &str, max_bytes| {
        let request = ctx.http().get(format!("http://shop.example{path}")).max_bytes(max_bytes);
        block_on(async { request.send().await?.error_for_status()?.text().await })
    };
    assert_eq!(get("/ten", 10).unwrap(), "ten bytes.");
    for (path, failure) in
        [("/cut", HttpFailure::BrokenOff), ("/slow", HttpFailure::TimedOut), ("/ten", HttpFailure::TooLarge)]
    {
        let error = get(path, 9).unwrap_err();
        assert_eq!((error.http_failure(), error.status()), (Some(failure), None), "{path}");
    }
    let missing = get("/missing", 9).unwrap_err();
    assert_eq!((missing.status(), missing.http_failure()), (Some(502), None));
}

#[test]
fn what_is_no_request_is_refused_and_a_dropped_one_is_cancelled() {
    let host = host(|_| ServerAnswer::new(200));
    let ctx = host.context();
    for url in ["file:///etc/passwd", "http://user:secret@shop.example/", "nonsense", "http://", "not a url", "ftp://x"]
    {
        let refused = block_on(ctx.http().get(url).send()).unwrap_err();
        assert_eq!(refused.http_failure(), Some(HttpFailure::InvalidUrl), "{url}");
        assert!(refused.message().starts_with("The URL ") && !refused.message().contains("secret"), "{refused:?}");
    }
    let refused = block_on(ctx.http().get(SHOP).header("x", "a\r\nb: c").send()).unwrap_err();
    assert_eq!((refused.http_failure(), refused.status()), (None, None));
    host.hold("http");
    drop(ctx.http().get(SHOP).send());
    assert_eq!(host.journal().last().unwrap(), "cancelled http");
}
