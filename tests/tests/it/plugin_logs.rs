//! What a plugin writes, and what the host says of it: as a page, read live, bounded, without credentials. The plugin
//! is `unruly`.

use cardinal_tests::{EventStream, Host, HostSettings, Package, PluginsFolder, Sent, User, eventually};
use http::Method;
use serde_json::{Value, json};

const UNRULY: &str = "/v1/admin/plugins/unruly";
const LOGS: &str = "/v1/admin/plugin-registry/unruly/logs";
const REPORT: &str = "/v1/admin/plugin-registry/unruly";
const CLIENT_ERRORS: &str = "/v1/admin/plugin-registry/unruly/client-errors";

fn with_unruly() -> HostSettings {
    // Floods compute, which gets no time on a machine that others keep busy.
    let unruly = Package::fixture("unruly").manifest(|manifest| manifest["limits"]["timeout_ms"] = json!(30_000));
    let plugins = PluginsFolder::default().with("unruly", &unruly).with("quick", &Package::fixture("quick"));
    Host::settings().plugins(plugins).set("LOG_FORMAT", "json")
}

async fn flood(user: &User, lines: u32) {
    user.get(&format!("{UNRULY}/flood?lines={lines}")).await.expect(200);
}

fn messages(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|line| line["message"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_last_lines_are_pages_from_the_newest() {
    let host = with_unruly().start().await;
    let owner = host.owner().await;
    flood(owner, 10).await;
    owner.get(&format!("{UNRULY}/panic")).await.refused(500, "plugin-panicked");
    let page = owner.get(&format!("{LOGS}?limit=4")).await.expect(200);
    let newest = &page["items"][0];
    assert_eq!((&newest["level"], &newest["source"]), (&json!("error"), &json!("host")), "{page}");
    assert_eq!((&newest["fields"]["handler"], &newest["fields"]["kind"]), (&json!("GET /panic"), &json!("panic")));
    assert!(newest["request_id"].is_string() && newest["id"].is_i64() && newest["at"].is_string(), "{page}");
    let all = owner.get(&format!("{LOGS}?limit=200")).await.expect(200);
    let floods: Vec<&str> = messages(&all).into_iter().filter(|line| line.starts_with("flood")).collect();
    assert_eq!((floods.len(), floods[0], floods[9]), (10, "flood 9", "flood 0"));
    let flooded = all["items"].as_array().unwrap().iter().find(|line| line["message"] == "flood 3").unwrap();
    assert_eq!((&flooded["level"], &flooded["source"]), (&json!("info"), &json!("plugin")));
    assert_eq!(all["host_id"], owner.get("/v1/admin/system").await.expect(200)["host_id"]);

    let mut walked: Vec<Value> = page["items"].as_array().unwrap().clone();
    let mut cursor = page["next_cursor"].as_str().map(str::to_owned);
    while let Some(next) = cursor {
        let page = owner.get(&format!("{LOGS}?limit=4&cursor={next}")).await.expect(200);
        walked.extend(page["items"].as_array().unwrap().iter().cloned());
        cursor = page["next_cursor"].as_str().map(str::to_owned);
    }
    assert_eq!(walked, *all["items"].as_array().unwrap());
    let graver = owner.get(&format!("{LOGS}?level=error")).await.expect(200);
    assert!(!messages(&graver).is_empty() && graver["items"].as_array().unwrap().iter().all(|l| l["level"] == "error"));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let first = owner.get(&format!("{LOGS}?limit=1")).await.expect(200);
    let stale = first["next_cursor"].as_str().unwrap_or("AAAA").to_owned();
    for query in ["limit=0", "limit=201", "level=loud", "level=INFO", "lines=3", "cursor=x"] {
        let answer = owner.get(&format!("{LOGS}?{query}")).await;
        assert_eq!(answer.status, 400, "{query}: {answer}");
    }
    owner.get(&format!("{LOGS}?level=warn&cursor={stale}")).await.refused(400, "invalid-cursor");
    owner.get("/v1/admin/plugin-registry/nobody/logs").await.refused(404, "not-found");
    let stream = owner.call(Method::GET, LOGS).header("accept", "text/event-stream");
    stream.header("last-event-id", "x").send().await.refused(400, "invalid-request");
    let both = owner.call(Method::GET, &format!("{LOGS}?cursor=AAAA")).header("accept", "text/event-stream");
    both.send().await.refused(400, "invalid-request");
    let head = owner.call(Method::HEAD, LOGS).header("accept", "text/event-stream").send().await;
    assert_eq!((head.status.as_u16(), head.header("content-type")), (200, Some("text/event-stream")));
    owner.key(&["plugin:unruly:write", "system:read"]).await.get(LOGS).await.refused(403, "insufficient-scope");
}

/// The next line of the plugin itself.
async fn next_own(stream: &mut EventStream) -> Sent {
    loop {
        let sent = stream.next().await;
        assert_ne!(sent.kind, "closed", "{sent:?}");
        if sent.kind == "line" && sent.data["source"] == "plugin" {
            return sent;
        }
    }
}

#[tokio::test]
async fn a_reader_gets_the_last_lines_and_then_those_that_follow_and_can_come_back() {
    let host = with_unruly().start().await;
    let owner = host.owner().await;
    flood(owner, 5).await;
    let mut stream = EventStream::follow(owner, &format!("{LOGS}?limit=2&level=info"), None).await;
    assert_eq!(next_own(&mut stream).await.data["message"], "flood 3");
    assert_eq!(next_own(&mut stream).await.data["message"], "flood 4");
    flood(owner, 3).await;
    let mut seen = Vec::new();
    for n in 0..3 {
        let line = next_own(&mut stream).await;
        assert_eq!(
            (line.data["message"].as_str().unwrap(), line.id),
            (&*format!("flood {n}"), line.data["id"].as_i64())
        );
        seen.push(line.id.unwrap().to_string());
    }
    drop(stream);
    // Where it was; then from a place that was never there.
    let mut again = EventStream::follow(owner, LOGS, Some(&seen[1])).await;
    assert_eq!(next_own(&mut again).await.data["message"], "flood 2");
    let mut stranger = EventStream::follow(owner, LOGS, Some("17")).await;
    assert_eq!(stranger.next().await.kind, "reset");
    assert_eq!(next_own(&mut stranger).await.data["message"], "flood 0", "all that is kept");
    // Only graver lines.
    let mut grave = EventStream::follow(owner, &format!("{LOGS}?level=error"), None).await.greeted().await;
    flood(owner, 3).await;
    owner.get(&format!("{UNRULY}/panic")).await.refused(500, "plugin-panicked");
    assert_eq!(grave.next().await.data["level"], "error");
}

#[tokio::test]
async fn readers_are_told_why_it_ends_and_are_bounded() {
    let host = with_unruly().start().await;
    let owner = host.owner().await;
    let made = owner.make_key(json!({"name": "reader", "scopes": ["plugins:read"]})).await;
    let key = host.client().bearer(made["key"].as_str().unwrap());
    let mut stream = EventStream::follow(&key, LOGS, None).await.greeted().await;
    owner.delete(&format!("/v1/admin/api-keys/{}", made["item"]["id"].as_str().unwrap())).await.expect(204);
    let last = loop {
        let sent = stream.next().await;
        if sent.kind == "closed" {
            break sent;
        }
    };
    assert_eq!(last.data["reason"], "revoked-token");
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(EventStream::follow(owner, LOGS, None).await.greeted().await);
    }
    let stream = owner.call(Method::GET, LOGS).header("accept", "text/event-stream").send().await;
    stream.refused(429, "rate-limited");
    assert!(stream.header("retry-after").is_some());
    drop(open);
    eventually("a seat is free again", async || EventStream::try_follow(owner, LOGS, None, None).await.ok()).await;
}

#[tokio::test]
async fn a_slow_reader_is_cut_off_and_told() {
    let host = with_unruly().start().await;
    let owner = host.owner().await;
    let mut slow = EventStream::try_follow(owner, LOGS, None, Some(4_096)).await.unwrap().greeted().await;
    let mut quick = EventStream::follow(owner, LOGS, None).await.greeted().await;
    // More than is kept, and than the kernel keeps for one connection: some 4 KB a line, of which 1 MiB a second pass.
    let reading = tokio::spawn(async move {
        for _ in 0..2_200 {
            next_own(&mut quick).await;
        }
    });
    while !reading.is_finished() {
        owner.get(&format!("{UNRULY}/flood?lines=300&size=4000")).await.expect(200);
    }
    reading.await.unwrap();
    let last = loop {
        match slow.try_next().await.unwrap() {
            Some(sent) if sent.kind == "closed" => break sent,
            Some(_) => {}
            None => panic!("the stream ended without a word"),
        }
    };
    assert_eq!(last.data["reason"], "slow");
    let back = slow.last_id.clone();
    let mut again = EventStream::follow(owner, LOGS, back.as_deref()).await;
    assert_eq!(again.next().await.kind, "reset", "what came meanwhile is not kept");
}

#[tokio::test]
async fn a_flood_is_capped_counted_and_told_and_costs_nobody_else_a_line() {
    let host = with_unruly().start().await;
    let owner = host.owner().await;
    flood(owner, 20_000).await;
    let told = eventually("the flood is told", async || {
        let page = owner.get(&format!("{LOGS}?level=warn")).await.expect(200);
        page["items"].as_array().unwrap().iter().find(|line| line["fields"]["lines"].as_u64() > Some(0)).cloned()
    })
    .await;
    assert_eq!((&told["level"], &told["source"]), (&json!("warn"), &json!("host")), "{told}");
    let counters = owner.get(REPORT).await.expect(200)["item"]["counters"].clone();
    let [written, dropped] = ["log_lines", "log_lines_dropped"].map(|name| counters[name].as_u64().unwrap());
    assert!(written + dropped >= 20_000 && dropped > 10_000 && written >= 500, "{counters}");
    let seen = owner.get("/v1/admin/auth/me").await;
    let id = seen.header("x-request-id").unwrap().to_owned();
    eventually("the access line", async || host.log().contains(&id).then_some(())).await;
    let flooded = host.log().matches("\"message\":\"flood ").count() as u64;
    assert_eq!(flooded, written, "what was let through is in the log, and no more");
    assert!(host.log().contains("lines of the plugin were dropped"));
    let metrics = owner.get("/metrics").await.text();
    let line = format!("cardinal_plugin_log_lines_dropped_total{{plugin=\"unruly\"}} {dropped}");
    assert!(metrics.contains(&line), "{line}");
}

#[tokio::test]
async fn no_line_shows_a_credential_or_leaves_its_line() {
    const SECRETS: [&str; 4] = ["0123456789abcdefghij", "abcdefghijklmnop", "hunter2", "c2lnbmF0dXJl"];
    for format in ["json", "human"] {
        let host = with_unruly().set("LOG_FORMAT", format).start().await;
        let owner = host.owner().await;
        owner.get(&format!("{UNRULY}/odd-lines?mark=4711")).await.expect(204);
        let page = owner.get(LOGS).await;
        let items = page.expect(200);
        assert!(messages(&items).iter().any(|line| line.starts_with("secrets 4711 mpk_***")), "{items}");
        let odd = messages(&items).into_iter().find(|line| line.starts_with("odd 4711")).unwrap();
        assert!(odd.contains("\u{1b}[2J") && odd.contains('\u{202e}'), "a reader gets the text as it was: {odd:?}");
        let log = eventually("the lines are there", async || {
            Some(host.log()).filter(|log| log.contains("odd 4711") && log.contains("secrets 4711"))
        })
        .await;
        let mut stream = EventStream::follow(owner, LOGS, None).await;
        let mut live = Vec::new();
        while live.len() < 2 {
            live.push(next_own(&mut stream).await.data.to_string());
        }
        for (place, text) in [("the page", page.text()), ("the log", log), ("the stream", live.concat())] {
            let odd = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(place == "the stream" || !text.chars().any(odd), "{format}: {place}: {text:?}");
            for secret in SECRETS {
                assert!(!text.contains(secret), "{format}: {secret} in {place}: {text}");
            }
            assert!(!text.lines().any(|line| line.starts_with("2026 ERROR forged")), "{format}: {place}");
        }
    }
}

#[tokio::test]
async fn a_plugins_level_is_changed_while_its_lines_flow() {
    let host = with_unruly().set("LOG_LEVEL", "info,plugin::unruly=warn").start().await;
    let owner = host.owner().await;
    let set = async |level: &str| {
        let change = json!({"target": "plugin::unruly", "level": level, "minutes": 5});
        owner.call(Method::PUT, "/v1/admin/system/log-level").json(&change).send().await.expect(200);
    };
    flood(owner, 3).await;
    let mut stream = EventStream::follow(owner, LOGS, None).await.greeted().await;
    set("info").await;
    flood(owner, 1).await;
    assert_eq!(next_own(&mut stream).await.data["message"], "flood 0", "the three before were not written");
    set("off").await;
    flood(owner, 2).await;
    set("info").await;
    owner.get(&format!("{UNRULY}/odd-lines?mark=1")).await.expect(204);
    let next = next_own(&mut stream).await;
    assert!(next.data["message"].as_str().unwrap().starts_with("odd 1"), "nothing in between: {next:?}");
    assert_eq!(
        owner.get(REPORT).await.expect(200)["item"]["counters"]["log_lines_dropped"],
        0,
        "not asked for is not lost"
    );
}

#[tokio::test]
async fn failures_in_browsers_are_shown_counted_and_bounded() {
    let host = with_unruly().start().await;
    let owner = host.owner().await;
    let report = json!({"phase": "render", "message": "it broke\n\u{1b}[31m mpk_0123456789abcdef", "version": "1.0.0"});
    owner.post(CLIENT_ERRORS, &report).await.expect(204);
    let page = owner.get(LOGS).await.expect(200);
    let line = page["items"].as_array().unwrap().iter().find(|line| line["source"] == "browser").unwrap().clone();
    assert_eq!((&line["fields"]["phase"], &line["level"]), (&json!("render"), &json!("warn")), "{line}");
    assert_eq!(line["fields"]["error"], "it broke\n\u{1b}[31m mpk_***", "{line}");
    owner.post(CLIENT_ERRORS, &json!({"phase": "hang", "message": "it held up the page"})).await.expect(204);
    owner.post(CLIENT_ERRORS, &json!({"phase": "render", "stack": "x"})).await.refused(422, "validation-failed");
    let stranger = owner.key(&["plugin:quick:read", "plugins:manage"]).await;
    stranger.post(CLIENT_ERRORS, &report).await.refused(403, "insufficient-scope");
    let long = json!({"phase": "render", "message": "x".repeat(15_000)});
    owner.post(CLIENT_ERRORS, &long).await.expect(204);
    let too_long = json!({"phase": "render", "message": "x".repeat(20_000)});
    assert_eq!(owner.post(CLIENT_ERRORS, &too_long).await.status, 413);
    let mut refused = None;
    for _ in 0..40 {
        let answer = owner.post(CLIENT_ERRORS, &report).await;
        if answer.status == 429 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("one user is held to 30 a minute");
    refused.refused(429, "rate-limited");
    assert!(refused.header("retry-after").is_some());
    let another = owner.make_user("editor").await;
    another.post(CLIENT_ERRORS, &report).await.expect(204);
    let counters = owner.get(REPORT).await.expect(200)["item"]["counters"].clone();
    let counted = counters["client_errors"].as_u64().unwrap();
    assert!(counted >= 30, "{counted}");
    assert_eq!(counters["client_hangs"], 1, "a hang is counted as such, beside the others");
    let metrics = owner.get("/metrics").await.text();
    assert!(metrics.contains("cardinal_plugin_client_errors_total{plugin=\"unruly\"}"));
    assert!(metrics.contains("cardinal_plugin_client_hangs_total{plugin=\"unruly\"} 1"));
}
