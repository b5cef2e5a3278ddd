//! Spans of requests at a collector of the tests' own: what is sent, as a part of which trace, and what never is.

mod collector;

use cardinal_tests::{Host, PortReservation, Upstream, eventually, unique};
use http::{Method, Response};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use self::collector::{Collector, settings};
use super::mcp_sessions;

const ECHO: &str = "/v1/admin/plugins/echo";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
/// A word that stands where no span may have it from.
const HIDDEN: &str = "hunter2";

fn lines(host: &Host) -> Vec<Value> {
    host.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// How many lines of the log say this.
fn count_of(host: &Host, message: &str) -> usize {
    lines(host).iter().filter(|line| line["message"].as_str().is_some_and(|text| text.contains(message))).count()
}

async fn metric(host: &Host, sample: &str) -> u64 {
    let page = host.owner().await.get("/metrics").await.text();
    let found = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {sample} in {page}")).parse().unwrap()
}

fn tool_call(name: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

#[tokio::test]
async fn a_request_is_a_span_with_the_ids_of_its_line_and_without_what_it_carries() {
    let collector = Collector::start().await;
    let settings = settings(&format!("{}/below/", collector.url()));
    let settings = settings.set("PROXY_ROUTES", format!("/shop={}", Upstream::shared().url()));
    let host = settings.start().await;
    let owner = host.owner().await;
    let card = owner.card("Chair").await["id"].as_str().unwrap().to_owned();
    let call = owner.call(Method::GET, &format!("/v1/admin/master-cards/{card}")).header("user-agent", "tester/7");
    let read = call.header("cookie", HIDDEN).send().await;
    read.expect(200);
    let span = collector.span_of(&read).await;
    assert_eq!((span.name.as_str(), span.kind), ("GET /v1/admin/master-cards/{id}", 2));
    assert_eq!((&span.parent, span.flags, span.has_failed), (&None, 0x101, false), "the trace begins here: {span:#?}");
    span.has(&[
        ("http.request.method", json!("GET")),
        ("http.route", json!("/v1/admin/master-cards/{id}")),
        ("http.response.status_code", json!(200)),
        ("url.path", json!(format!("/v1/admin/master-cards/{card}"))),
        ("url.scheme", json!("http")),
        ("client.address", json!("127.0.0.1")),
        ("server.address", json!("127.0.0.1")),
        ("server.port", json!(host.address().port())),
        ("user_agent.original", json!("tester/7")),
    ]);
    assert!(span.attributes["cardinal.database_ms"].as_f64().unwrap() > 0.0, "{span:#?}");
    let line = eventually("the request's line", async || {
        let id = read.header("x-request-id").unwrap();
        lines(&host).into_iter().find(|line| line["target"] == "cardinal::access" && line["request_id"] == id)
    })
    .await;
    assert_eq!((&line["trace_id"], &line["span_id"]), (&json!(span.trace), &json!(span.id)), "{line}");

    let refused = owner.get(&format!("/v1/admin/master-cards?no-such={HIDDEN}")).await;
    refused.refused(400, "invalid-request");
    let span = collector.span_of(&refused).await;
    span.has(&[("http.response.status_code", json!(400)), ("cardinal.problem_code", json!("invalid-request"))]);
    assert!(!span.has_failed && !span.attributes.contains_key("error.type"), "a client's mistake: {span:#?}");
    let nowhere = host.client().call(Method::from_bytes(b"BREW").unwrap(), &format!("/none/mpk_{HIDDEN}{HIDDEN}"));
    let span = collector.span_of(&nowhere.header("user-agent", &"x".repeat(999)).send().await).await;
    assert_eq!(span.name, "HTTP", "neither a method that is known nor a route");
    span.has(&[("http.request.method", json!("_OTHER")), ("url.path", json!("/none/***"))]);
    assert_eq!(span.attributes["user_agent.original"].as_str().unwrap().len(), 256);
    let page = host.client().get("/admin/").await;
    // 404 where the Admin UI is not built.
    collector.span_of(&page).await.has(&[("http.response.status_code", json!(page.status.as_u16()))]);

    let mark = unique("traced");
    let passed = host.client().call(Method::GET, &format!("/shop/chair?key={HIDDEN}")).header("x-mark", &mark);
    let passed = passed.send().await;
    let span = collector.span_of(&passed).await;
    assert_eq!((span.name.as_str(), &span.attributes["cardinal.proxy_prefix"]), ("GET (proxy)", &json!("/shop")));
    let seen = Upstream::shared().seen(&mark).remove(0);
    assert_eq!(seen.header("traceparent"), Some(&*format!("00-{}-{}-01", span.trace, span.id)));

    for (path, headers, body) in collector.exports() {
        assert_eq!(
            (path.as_str(), headers["content-type"].to_str().unwrap()),
            ("/below/v1/traces", "application/json")
        );
        assert!(headers["user-agent"].to_str().unwrap().starts_with("cardinal/"), "{headers:?}");
        assert!(!body.contains(HIDDEN) && !body.contains(&owner.token) && !body.contains("no-such"), "{body}");
        assert!(!body.contains(cardinal_tests::OWNER_PASSWORD), "{body}");
    }
    let shown = owner.get("/v1/admin/system").await.expect(200);
    assert_eq!(shown["settings"]["OTEL_EXPORTER_OTLP_ENDPOINT"], format!("{}/below", collector.url()));
    assert!(metric(&host, "cardinal_trace_spans_sent_total").await >= 6);
    assert_eq!(metric(&host, "cardinal_trace_spans_dropped_total{reason=\"collector\"}").await, 0);
}

#[tokio::test]
async fn a_plugin_and_each_tool_call_have_spans_within_the_requests() {
    let collector = Collector::start().await;
    let host = collector.settings().start().await;
    let owner = host.owner().await;
    let mark = unique("asked");
    let target = format!("{}/x", Upstream::shared().url());
    let asked = json!({"url": target, "headers": [["x-mark", mark]]});
    let call = owner.call(Method::POST, &format!("{ECHO}/ask")).json(&asked);
    let call = call.header("traceparent", &format!("00-{TRACE}-{PARENT}-01")).header("tracestate", "vendor=1");
    let answer = call.send().await;
    answer.expect(200);
    let span = collector.span_of(&answer).await;
    assert_eq!((&*span.trace, span.parent.as_deref(), span.flags), (TRACE, Some(PARENT), 0x301));
    span.has(&[("http.route", json!(format!("{ECHO}/ask"))), ("cardinal.plugin", json!("echo"))]);
    assert!(collector.exports().iter().any(|(_, _, body)| body.contains(r#""traceState":"vendor=1""#)));
    let [part] = &collector.within(&span)[..] else { panic!("{:#?}", collector.spans()) };
    assert_eq!((part.name.as_str(), part.kind, &part.trace, part.flags), ("plugin echo", 1, &span.trace, 0x101));
    part.has(&[("cardinal.plugin", json!("echo")), ("http.response.status_code", json!(200))]);
    // Times are taken in microseconds.
    assert!(part.began >= span.began && part.ended <= span.ended + 1_000, "{part:#?} {span:#?}");
    let seen = Upstream::shared().seen(&mark).remove(0);
    assert_eq!(seen.header("traceparent"), Some(&*format!("00-{TRACE}-{}-01", part.id)), "of the plugin's part");

    let failed = owner.get(&format!("{ECHO}/panic")).await;
    let code = failed.json()["code"].as_str().unwrap().to_owned();
    let span = collector.span_of(&failed).await;
    for span in [&span, &collector.within(&span)[0]] {
        assert!(span.has_failed, "{span:#?}");
        let status = failed.status.as_u16();
        span.has(&[("error.type", json!(status.to_string())), ("cardinal.problem_code", json!(code))]);
    }

    // By the short way, and within a session.
    let plain = owner.mcp(&tool_call("cards_search", &json!({}))).await;
    let user = host.client().bearer(&owner.token);
    let session = mcp_sessions::session(&user).await;
    let repeat = tool_call("plugin_echo_repeat", &json!({"text": HIDDEN}));
    let held = mcp_sessions::send(&user, &session, &repeat).await;
    for (answer, tool, plugin) in [(plain, "cards_search", None), (held, "plugin_echo_repeat", Some(json!("echo")))] {
        let span = collector.span_of(&answer).await;
        assert_eq!(span.name, "POST /api");
        let call = eventually("the call's span", async || collector.within(&span).pop()).await;
        assert_eq!((call.name, call.kind), (format!("tools/call {tool}"), 1));
        assert_eq!((call.attributes.get("cardinal.plugin"), call.has_failed), (plugin.as_ref(), false));
        assert_eq!(
            ["mcp.method.name", "gen_ai.tool.name", "cardinal.outcome"].map(|key| call.attributes[key].clone()),
            [json!("tools/call"), json!(tool), json!("ok")]
        );
    }
    let missing = tool_call("cards_get", &json!({"id": uuid::Uuid::now_v7()}));
    let span = collector.span_of(&owner.mcp(&missing).await).await;
    let call = collector.within(&span).remove(0);
    assert!(call.has_failed && !span.has_failed, "{call:#?} {span:#?}");
    call.has(&[("cardinal.outcome", json!("error")), ("error.type", json!("tool_error"))]);
    assert!(collector.exports().iter().all(|(_, _, body)| !body.contains(HIDDEN)));
}

#[tokio::test]
async fn a_tool_call_joins_the_trace_that_its_message_names() {
    let collector = Collector::start().await;
    let host = collector.settings().start().await;
    let owner = host.owner().await;
    let user = host.client().bearer(&owner.token);
    let session = mcp_sessions::session(&user).await;
    let message = |parent: &str| {
        let mut message = tool_call("plugin_echo_say", &json!({"text": "hello"}));
        message["params"]["_meta"] = json!({"traceparent": parent});
        message
    };
    let parent = |span: &str| format!("00-{TRACE}-{span}-01");
    owner.mcp(&message(&parent("00f067aa0ba902b7"))).await.expect(200);
    let held = mcp_sessions::send(&user, &session, &message(&parent("00f067aa0ba902b8"))).await;
    assert_eq!(held.status, 200, "{held}");
    for span in ["00f067aa0ba902b7", "00f067aa0ba902b8"] {
        let call = eventually("the call's span", async || {
            collector.spans().into_iter().find(|seen| seen.parent.as_deref() == Some(span))
        })
        .await;
        assert_eq!((&*call.trace, &*call.name), (TRACE, "tools/call plugin_echo_say"));
        assert_eq!((call.kind, call.flags), (2, 0x301), "served for a client elsewhere");
    }

    // The request's own trace comes first; what names none is none; who does not want its spans kept has none.
    let call = owner.call(Method::POST, "/api").json(&message(&parent("00f067aa0ba902b9")));
    let first = call.header("accept", "application/json").header("traceparent", &parent(PARENT)).send().await;
    let others = ["nonsense", "00-0AF7651916CD43DD8448EB211C80319C-00f067aa0ba902b7-01"].map(message);
    for answer in [first, owner.mcp(&others[0]).await, owner.mcp(&others[1]).await] {
        let span = collector.span_of(&answer).await;
        let within = eventually("the call's span", async || collector.within(&span).pop()).await;
        assert_eq!((within.trace, within.kind), (span.trace, 1));
    }
    let unsampled = parent("00f067aa0ba902ba").replace("-01", "-00");
    collector.span_of(&owner.mcp(&message(&unsampled)).await).await;
    let spans = collector.spans();
    let outside = ["00f067aa0ba902b9", "00f067aa0ba902ba"];
    assert!(spans.iter().all(|span| !outside.contains(&span.parent.as_deref().unwrap_or_default())), "{spans:#?}");
}

#[tokio::test]
async fn who_began_a_trace_says_whether_it_is_sent() {
    let collector = Collector::start().await;
    let host = collector.settings().start().await;
    let owner = host.owner().await;
    let ask = async |path: &str, parent: Option<&str>| {
        let call = owner.call(Method::GET, path);
        let call = if let Some(parent) = parent { call.header("traceparent", parent) } else { call };
        call.send().await
    };
    let echo = format!("{ECHO}/request/x");
    let (given, not_sampled) = (format!("00-{TRACE}-{PARENT}-01"), format!("00-{TRACE}-{PARENT}-00"));
    let unsent = [ask(&echo, Some(&not_sampled)).await, ask("/healthz", None).await, ask("/metrics", None).await];
    assert!(unsent[0].expect(200)["trace_parent"].as_str().unwrap().ends_with("-00"), "and others hear of it");
    let probe = ask("/healthz", Some(&given)).await;
    assert_eq!(collector.span_of(&probe).await.parent.as_deref(), Some(PARENT), "who asks wants to know");
    // Spans are sent in the order in which they end.
    let last = ask(&echo, None).await;
    let span = collector.span_of(&last).await;
    let told = last.expect(200)["trace_parent"].as_str().unwrap().to_owned();
    let part = collector.within(&span).remove(0);
    assert_eq!(told, format!("00-{}-{}-01", span.trace, part.id));
    for answer in &unsent {
        let id = json!(answer.header("x-request-id").unwrap());
        assert!(!collector.spans().iter().any(|span| span.attributes.get("cardinal.request_id") == Some(&id)));
    }
}

#[tokio::test]
async fn a_collector_that_is_away_costs_no_request_and_two_lines() {
    let port = PortReservation::start();
    let host = settings(&format!("http://{}", port.address())).start().await;
    let owner = host.owner().await;
    let away = "cardinal_trace_spans_dropped_total{reason=\"collector\"}";
    // A scrape has no span of its own.
    for _ in 0..2 {
        let before = metric(&host, away).await;
        owner.get(&format!("{ECHO}/hello")).await.expect(200);
        eventually("spans are dropped", async || (metric(&host, away).await >= before + 2).then_some(())).await;
    }
    assert_eq!((count_of(&host, "failed to send traces"), count_of(&host, "traces are sent again")), (1, 0));
    let collector = Collector::at(port.address()).await;
    collector.span_of(&owner.get("/v1/admin/auth/me").await).await;
    eventually("the end has a line", async || (count_of(&host, "traces are sent again") == 1).then_some(())).await;
    assert_eq!(count_of(&host, "failed to send traces"), 1, "{}", host.log());
}

#[tokio::test]
async fn what_a_collector_refuses_for_now_is_sent_once_more() {
    let collector = Collector::start().await;
    collector.answer(Response::builder().status(503).header("retry-after", "1"), "");
    let host = collector.settings().start().await;
    let owner = host.owner().await;
    let answer = owner.get("/v1/admin/auth/me").await;
    collector.span_of(&answer).await;
    let exports =
        eventually("it is sent again", async || Some(collector.exports()).filter(|exports| exports.len() >= 2)).await;
    assert_eq!(exports[0].2, exports[1].2, "the same batch");
    let dropped = "cardinal_trace_spans_dropped_total{reason=\"collector\"}";
    assert_eq!((metric(&host, dropped).await, count_of(&host, "failed to send traces")), (0, 0));
    // What would be refused again is not; a part that is rejected is counted.
    collector.answer(Response::builder().status(400), "");
    owner.get("/v1/admin/auth/me").await.expect(200);
    eventually("the batch is dropped", async || (metric(&host, dropped).await >= 1).then_some(())).await;
    collector.span_of(&owner.get("/v1/admin/auth/me").await).await;
    eventually("the outage is over", async || (count_of(&host, "traces are sent again") == 1).then_some(())).await;
    let before = metric(&host, dropped).await;
    let partial = r#"{"partialSuccess": {"rejectedSpans": "1", "errorMessage": "too old"}}"#;
    collector.answer(Response::builder().status(200), partial);
    owner.get("/v1/admin/auth/me").await.expect(200);
    eventually("it is counted", async || (metric(&host, dropped).await == before + 1).then_some(())).await;
}

#[tokio::test]
async fn a_stop_sends_what_is_queued_and_waits_for_no_collector() {
    let collector = Collector::start().await;
    let mut host = collector.settings().start().await;
    let answer = host.owner().await.get(&format!("{ECHO}/hello")).await;
    host.program().signal(Signal::TERM);
    assert!(host.program().ended().await.success(), "{}", host.log());
    let id = json!(answer.header("x-request-id").unwrap());
    let spans = collector.spans();
    let span = spans.iter().find(|span| span.attributes.get("cardinal.request_id") == Some(&id)).unwrap();
    assert_eq!(collector.within(span).len(), 1, "{spans:#?}");

    // One that takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut host = settings(&format!("http://{}", silent.local_addr().unwrap())).start().await;
    host.owner().await.get(&format!("{ECHO}/hello")).await.expect(200);
    host.program().signal(Signal::TERM);
    assert!(host.program().ended().await.success(), "{}", host.log());
    assert_eq!(count_of(&host, "did not take the last traces in time"), 1, "{}", host.log());
}

#[tokio::test]
async fn an_address_with_a_credential_is_refused_and_not_repeated() {
    for endpoint in [format!("http://user:{HIDDEN}@127.0.0.1:4318"), format!("http://127.0.0.1:4318/?key={HIDDEN}")] {
        let mut host = settings(&endpoint).launch();
        assert_eq!(host.program().ended().await.code(), Some(64), "{}", host.log());
        assert!(host.log().contains("OTEL_EXPORTER_OTLP_ENDPOINT") && !host.log().contains(HIDDEN), "{}", host.log());
    }
}
