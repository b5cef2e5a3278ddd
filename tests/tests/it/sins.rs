//! Each thing that a plugin should not do: what its own client gets, and that nobody else loses a request meanwhile.
//! The plugin is `unruly`. What ends the process is in `crates/control/src/crash.rs`, what comes up at loading in `refusals.rs`, what
//! keeps a thread in `blocking.rs`.

use std::time::Duration;

use cardinal_tests::{Answer, Host, HostSettings, Others, Package, PluginsFolder, User, built, eventually};
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::import_faults::fed;

const UNRULY: &str = "/v1/admin/plugins/unruly";
const REPORT: &str = "/v1/admin/plugin-registry/unruly";

/// Nothing is refused because calls fail: each sin is looked at by itself.
fn sinners() -> HostSettings {
    let plugins =
        PluginsFolder::default().with("unruly", &Package::fixture("unruly")).with("quick", &Package::fixture("quick"));
    Host::settings().plugins(plugins).set("PLUGIN_BREAKER", "observe")
}

async fn ask(user: &User, route: &str) -> Answer {
    user.get(&format!("{UNRULY}{route}")).await
}

async fn report(user: &User) -> Value {
    user.get(REPORT).await.expect(200)["item"].take()
}

async fn nothing_under_way(user: &User) {
    eventually("no call is under way", async || (report(user).await["counters"]["in_flight"] == 0).then_some(())).await;
}

#[tokio::test]
async fn whatever_a_call_does_wrong_is_its_own_failure() {
    let host = sinners().start().await;
    let owner = host.owner().await;
    let (worker, others) = (host.worker_pid(), Others::start(&host).await);
    for (route, status, code) in [
        ("/panic", 500, "plugin-panicked"),
        ("/panic-later", 500, "plugin-panicked"),
        ("/panic/drop", 504, "plugin-timeout"),
        ("/hang", 504, "plugin-timeout"),
        ("/leak", 500, "internal-error"),
        ("/refuse", 409, "already-there"),
        ("/downstream", 502, "shop-unreachable"),
        ("/bad-sql", 500, "internal-error"),
        ("/slow-statement", 504, "plugin-timeout"),
        ("/odd-status?status=99", 502, "plugin-error"),
        ("/odd-status?status=42", 502, "plugin-error"),
        ("/odd-status?status=1000", 502, "plugin-error"),
        ("/odd-status?status=101", 502, "plugin-error"),
        // The SDK itself refuses to send it; what comes past it is refused by the host (`instance/reply.rs`).
        ("/bad-header", 500, "internal-error"),
        ("/many-headers", 502, "plugin-error"),
        ("/huge", 502, "plugin-error"),
    ] {
        for _ in 0..3 {
            ask(owner, route).await.refused(status, code);
        }
        others.go_on(5).await;
    }
    ask(owner, "/panic/tasks").await.expect(204);
    // Bytes are the client's to read; what they mean is between it and the plugin.
    let bytes = ask(owner, "/bad-utf8").await;
    assert_eq!((bytes.status.as_u16(), &bytes.body[..]), (200, &b"\"\xff\xfe\""[..]));
    ask(owner, "/who").await.expect(200);
    // What it left running panics once more when it is stopped.
    for (verb, status) in [("disable", 503), ("enable", 200)] {
        owner.call(Method::POST, &format!("{REPORT}/{verb}")).send().await.expect(200);
        assert_eq!(ask(owner, "/who").await.status, status, "{verb}");
    }
    let (slowest, asked) = others.unharmed();
    println!("{asked} requests of others, the slowest took {slowest:?}");
    assert_eq!(host.worker_pid(), worker, "the worker died");
    nothing_under_way(owner).await;
}

#[tokio::test]
async fn a_body_that_breaks_off_or_never_ends_costs_its_own_reader_alone() {
    let host = sinners().start().await;
    let owner = host.owner().await;
    let others = Others::start(&host).await;
    let open = async |route: &str| {
        let call = owner.call(Method::GET, &format!("{UNRULY}{route}"));
        let reply = call.open(None).await.unwrap();
        assert_eq!(reply.status(), 200, "{route}");
        reply.into_body()
    };
    // It breaks off: after the first piece, or before the head has left the host. What never happens is an end.
    if let Ok(reply) = owner.call(Method::GET, &format!("{UNRULY}/panic/stream")).open(None).await {
        let (mut broken, mut read) = (reply.into_body(), Vec::new());
        let failed = loop {
            match broken.frame().await {
                Some(Ok(frame)) => read.extend_from_slice(frame.data_ref().unwrap()),
                Some(Err(_)) => break true,
                None => break false,
            }
        };
        assert!(failed && b"one\n".starts_with(&read), "a body that broke off looks whole: {read:?}");
    }

    let mut endless = Vec::new();
    for _ in 0..4 {
        endless.push(open("/endless").await);
    }
    for body in &mut endless {
        let mut bytes = 0;
        while bytes < 4 << 20 {
            bytes += body.frame().await.unwrap().unwrap().data_ref().unwrap().len();
        }
    }
    let silent = [open("/silent").await, open("/silent").await];
    assert!(report(owner).await["counters"]["in_flight"].as_u64() >= Some(6));
    others.go_on(50).await;
    drop((endless, silent));
    nothing_under_way(owner).await;
    others.unharmed();
}

#[tokio::test]
async fn a_plugin_that_holds_all_its_connections_starves_itself() {
    let host = sinners().start().await;
    let owner = host.owner().await;
    let others = Others::start(&host).await;
    let held = ask(owner, "/connections/hold").await.expect(200);
    assert_eq!(held["held"], 4, "{held}");
    let budget = report(owner).await["budgets"]["connections"].clone();
    assert_eq!(budget, json!({"used": 4, "most": 4}));
    let refused = ask(owner, "/connections/want").await;
    // Whichever comes first: the wait for a connection, or the call's own deadline.
    assert!([503, 504].contains(&refused.status.as_u16()), "{refused}");
    refused.problem();
    ask(owner, "/who").await.expect(200);
    others.go_on(50).await;
    others.unharmed();
    assert_eq!(ask(owner, "/connections/let-go").await.expect(200)["let_go"], 4);
    ask(owner, "/connections/want").await.expect(204);
}

#[tokio::test]
async fn more_calls_than_a_plugin_may_have_at_a_time_are_refused_and_nobody_elses() {
    let few = Package::fixture("unruly").manifest(|manifest| {
        manifest["limits"]["max_concurrency"] = 3.into();
        manifest["limits"]["timeout_ms"] = 30_000.into();
    });
    let plugins = PluginsFolder::default().with("unruly", &few).with("quick", &Package::fixture("quick"));
    let host = sinners().plugins(plugins).start().await;
    let owner = host.owner().await;
    assert_eq!(report(owner).await["budgets"]["calls"], json!({"used": 0, "most": 3}));
    let others = Others::start(&host).await;
    let answers = futures_util::future::join_all((0..8).map(|_| ask(owner, "/slow?ms=1000"))).await;
    let served = answers.iter().filter(|answer| answer.status == 200).count();
    assert!((3..8).contains(&served), "{served}");
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        answer.refused(503, "plugin-unavailable");
    }
    ask(owner, "/slow?ms=1").await.expect(200);
    others.unharmed();
    let counters = &report(owner).await["counters"];
    assert!(counters["refused"].as_u64() > Some(0) && counters["causes"]["plugin"] == 0, "{counters}");
}

#[tokio::test]
async fn memory_that_a_plugin_keeps_is_shown() {
    const MIB: u64 = 1 << 20;
    let host = sinners().start().await;
    let owner = host.owner().await;
    let held = async || report(owner).await["budgets"]["memory_bytes"].as_u64().unwrap();
    let before = held().await;
    assert!(before < 16 * MIB, "{before}");
    for _ in 0..3 {
        ask(owner, "/hoard?mb=8").await.expect(200);
    }
    let after = held().await;
    assert!((24 * MIB..32 * MIB).contains(&(after - before)), "{before} {after}");
    let report = report(owner).await;
    assert!(report["budgets"]["library_bytes"].as_u64() > Some(MIB), "{report}");
    assert_eq!(
        (&report["budgets"]["statement_timeout_ms"], &report["budgets"]["timeout_ms"]),
        (&json!(15_000), &json!(1_500))
    );
    let metrics = owner.get("/metrics").await.text();
    let line =
        metrics.lines().find(|line| line.starts_with("cardinal_plugin_memory_bytes{plugin=\"unruly\"}")).unwrap();
    let shown: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(shown >= (24 * MIB) as f64, "{line}");
}

#[tokio::test]
async fn a_failure_is_put_down_to_who_caused_it() {
    let host = sinners().start().await;
    let owner = host.owner().await;
    let causes = async || report(owner).await["counters"]["causes"].clone();
    assert_eq!(causes().await, json!({"plugin": 0, "database": 0, "downstream": 0, "host": 0, "client": 0}));
    ask(owner, "/panic").await.refused(500, "plugin-panicked");
    ask(owner, "/odd-status").await.refused(502, "plugin-error");
    ask(owner, "/hang").await.refused(504, "plugin-timeout");
    ask(owner, "/slow-statement").await.refused(504, "plugin-timeout");
    ask(owner, "/downstream").await.refused(502, "shop-unreachable");
    ask(owner, "/refuse").await.refused(409, "already-there");
    // A function of the host's that fails: the table that it needs is not there.
    let card = owner.card("Chair").await;
    let id = card["id"].as_str().unwrap();
    let database = host.database().await;
    database.batch_execute("ALTER TABLE public.card_source_index RENAME TO elsewhere").await.unwrap();
    let note = json!({"card_id": id, "source_key": "unruly:a", "kind": "unruly-note", "data": {}});
    owner.post(&format!("{UNRULY}/enrich/{id}"), &note).await.refused(500, "internal-error");
    database.batch_execute("ALTER TABLE public.elsewhere RENAME TO card_source_index").await.unwrap();
    owner.post(&format!("{UNRULY}/enrich/{id}"), &note).await.expect(200);
    assert_eq!(causes().await, json!({"plugin": 3, "database": 1, "downstream": 1, "host": 1, "client": 0}));
    let counters = report(owner).await["counters"].take();
    let newest = &counters["recent_faults"][0];
    assert_eq!(
        (&newest["cause"], &newest["handler"]),
        (&json!("host"), &json!("POST /enrich/{card_id}")),
        "{counters}"
    );
    let metrics = owner.get("/metrics").await.text();
    for (cause, count) in [("plugin", 3), ("database", 1), ("downstream", 1), ("host", 1)] {
        let line = format!("cardinal_plugin_fault_causes_total{{plugin=\"unruly\",cause=\"{cause}\"}} {count}");
        assert!(metrics.contains(&line), "no {line}");
    }
}

#[tokio::test]
async fn a_client_that_sends_slowly_is_no_fault_of_the_plugins() {
    let reviews = Package::fixture("reviews").manifest(|manifest| manifest["limits"] = json!({"timeout_ms": 1_500}));
    let host = Host::settings().plugins(PluginsFolder::default().with("reviews", &reviews)).start().await;
    let owner = host.owner().await;
    let send = |route: &str, content_type, body| {
        let call = owner.call(Method::POST, &format!("/v1/admin/plugins/reviews{route}")).stream(content_type, body);
        tokio::spawn(call.try_send())
    };
    let ((rows, large), (pieces, small)) = (fed(), fed());
    let add = format!("/cards/{}/reviews", owner.card("Chair").await["id"].as_str().unwrap());
    let (import, add) = (send("/import", "text/csv", large), send(&add, "application/json", small));
    pieces.send(Ok(r#"{"author": "A", "stars": 5, "#.to_owned())).await.unwrap();
    rows.send(Ok("card_id,author,stars,text\n".to_owned())).await.unwrap();
    import.await.unwrap().unwrap().refused(408, "request-timeout");
    // A body that the plugin gets whole has not begun to count by now.
    pieces.send(Ok(r#""text": "Good"}"#.to_owned())).await.unwrap();
    drop(pieces);
    let added = add.await.unwrap().unwrap();
    assert!(added.status.is_success(), "{added}");
    let counters = owner.get("/v1/admin/plugin-registry/reviews").await.expect(200)["item"]["counters"].take();
    assert_eq!((&counters["causes"]["client"], &counters["causes"]["plugin"]), (&json!(1), &json!(0)), "{counters}");
    assert_eq!(counters["recent_faults"][0]["cause"], "client", "{counters}");
}

#[tokio::test]
async fn a_plugin_that_fails_again_and_again_gets_a_rest_and_is_tried_again() {
    let host = sinners().set("PLUGIN_BREAKER", "on").start().await;
    let owner = host.owner().await;
    let breaker = async || report(owner).await["counters"]["breaker"].take();
    // What is not the plugin's fault does not count, however often.
    for _ in 0..30 {
        ask(owner, "/downstream").await.refused(502, "shop-unreachable");
        ask(owner, "/refuse").await.refused(409, "already-there");
    }
    assert_eq!(breaker().await["state"], "closed");
    let others = Others::start(&host).await;
    let mut refused = None;
    for _ in 0..200 {
        let answer = ask(owner, "/panic").await;
        if answer.status == 503 {
            refused = Some(answer);
            break;
        }
        answer.refused(500, "plugin-panicked");
    }
    let refused = refused.expect("it opens");
    refused.refused(503, "plugin-unavailable");
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=11).contains(&seconds), "{refused}");
    assert_eq!((&breaker().await["state"], &breaker().await["mode"]), (&json!("open"), &json!("on")));
    ask(owner, "/who").await.refused(503, "plugin-unavailable");
    others.go_on(20).await;
    others.unharmed();
    eventually("one is let through and goes well", async || (ask(owner, "/who").await.status == 200).then_some(()))
        .await;
    assert_eq!((&breaker().await["state"], &breaker().await["opened"]), (&json!("closed"), &json!(1)));
}

#[tokio::test]
async fn a_breaker_can_be_told_to_watch_only() {
    let host = sinners().start().await;
    let owner = host.owner().await;
    for _ in 0..20 {
        ask(owner, "/panic").await.refused(500, "plugin-panicked");
    }
    // Within the seconds that it is open; after them one more would open it once more.
    for _ in 0..5 {
        for answer in futures_util::future::join_all((0..8).map(|_| ask(owner, "/panic"))).await {
            answer.refused(500, "plugin-panicked");
        }
    }
    let breaker = report(owner).await["counters"]["breaker"].take();
    assert_eq!((&breaker["mode"], &breaker["opened"]), (&json!("observe"), &json!(1)), "{breaker}");
    let told = eventually("it is told", async || {
        let page = owner.get(&format!("{REPORT}/logs?level=warn&limit=200")).await.expect(200);
        let lines = page["items"].as_array().unwrap().clone();
        lines.into_iter().find(|line| line["message"].as_str().unwrap().contains("none is refused"))
    });
    tokio::time::timeout(Duration::from_secs(20), told).await.unwrap();
}

#[tokio::test]
async fn the_frames_of_a_panic_lead_to_its_line() {
    let host = sinners().start().await;
    let owner = host.owner().await;
    ask(owner, "/panic").await.refused(500, "plugin-panicked");
    let line = eventually("the panic is logged", async || {
        let page = owner.get(&format!("{REPORT}/logs?level=error")).await.expect(200);
        let lines = page["items"].as_array().unwrap().clone();
        lines.into_iter().find(|line| line["message"].as_str().unwrap().starts_with("panicked at "))
    })
    .await;
    let frames = line["fields"]["backtrace"].as_array().unwrap_or_else(|| panic!("no frames in {line}")).clone();
    // As `plugins/README.md` says it.
    let mut addr2line = std::process::Command::new("addr2line");
    addr2line.arg("-Cfie").arg(built("libunruly.so")).args(frames.iter().map(|frame| frame.as_str().unwrap()));
    let places = String::from_utf8(addr2line.output().unwrap().stdout).unwrap();
    let place = line["fields"]["location"].as_str().unwrap().rsplit_once(':').unwrap().0;
    assert!(places.contains("unruly::routes::panic_at_once") && places.contains(place), "{place} in {places}");
}

#[tokio::test]
async fn a_tool_that_answers_nonsense_or_never_ends_is_a_failed_call() {
    let tool = |handler: &str| json!({"name": format!("plugin_unruly_{handler}"), "description": "Does no good.", "handler": handler});
    let tools = Package::fixture("unruly").manifest(|manifest| {
        let tools = ["panic_at_once", "hang", "silent", "endless", "bad_utf8"].map(tool);
        manifest["mcp"] = json!({"tools": tools});
    });
    let plugins = PluginsFolder::default().with("unruly", &tools).with("quick", &Package::fixture("quick"));
    let host = sinners().plugins(plugins).start().await;
    let owner = host.owner().await;
    let others = Others::start(&host).await;
    for (handler, told) in [
        ("panic_at_once", "plugin-panicked"),
        ("hang", "plugin-timeout: the plugin `unruly` did not finish within the 1.5 s"),
        ("silent", "plugin-timeout: the plugin `unruly` did not finish within the 1.5 s"),
        ("endless", "plugin-error"),
    ] {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": format!("plugin_unruly_{handler}"), "arguments": {}}});
        let result = owner.mcp(&call).await.expect(200)["result"].take();
        let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        assert!(result["isError"] == true && text.starts_with(told), "{handler}: {result}");
    }
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "plugin_unruly_bad_utf8", "arguments": {}}});
    let result = owner.mcp(&call).await.expect(200)["result"].take();
    assert_eq!(result["content"][0]["text"], "\"\u{fffd}\u{fffd}\"", "what is no text is shown as such: {result}");
    nothing_under_way(owner).await;
    others.unharmed();
}

#[tokio::test]
async fn connections_that_a_call_leaks_come_back_when_it_ends() {
    let host = sinners().start().await;
    let owner = host.owner().await;
    let others = Others::start(&host).await;
    for _ in 0..3 {
        let leaked = ask(owner, "/connections/leak").await.expect(200)["leaked"].as_u64();
        assert!(leaked > Some(0), "those of the call before are back");
    }
    ask(owner, "/connections/want").await.expect(204);
    others.unharmed();
}

#[tokio::test]
async fn a_plugin_cannot_lift_the_limit_of_its_statements() {
    let host = sinners().start().await;
    let owner = host.owner().await;
    let others = Others::start(&host).await;
    ask(owner, "/endless-statement").await.expect(204);
    let log = eventually("the statement ends", async || {
        let log = host.log();
        log.contains("the endless statement ended").then_some(log)
    })
    .await;
    assert!(log.contains("exceeded its time limit"), "{log}");
    ask(owner, "/connections/want").await.expect(204);
    others.unharmed();
}

#[tokio::test]
async fn a_plugin_that_forks_has_no_child_that_comes_back_into_the_host() {
    let host = sinners().start().await;
    let owner = host.owner().await;
    let (worker, others) = (host.worker_pid(), Others::start(&host).await);
    for _ in 0..10 {
        assert_eq!(ask(owner, "/fork").await.expect(200)["child"], -1, "it is refused");
    }
    nothing_under_way(owner).await;
    ask(owner, "/who").await.expect(200);
    others.unharmed();
    assert_eq!(host.worker_pid(), worker);
}
