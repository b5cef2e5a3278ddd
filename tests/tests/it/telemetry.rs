//! What the host tells of itself: metrics as Prometheus reads them, log lines, its system page, and where the time of
//! a request went.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use cardinal_tests::{Answer, Call, Client, Host, HostSettings, Package, PluginsFolder, User, eventually};
use http::Method;
use openmetrics_parser::{PrometheusType, PrometheusValue, prometheus::parse_prometheus};
use serde_json::{Value, json};

const LOG_LEVEL: &str = "/v1/admin/system/log-level";
const ECHO: &str = "/v1/admin/plugins/echo";

fn with_echo() -> HostSettings {
    Host::settings().plugins(PluginsFolder::default().with("echo", &Package::fixture("echo"))).set("LOG_FORMAT", "json")
}

/// A page of metrics, read by somebody else's parser: values by name and labels, of histograms the count.
struct Page {
    families: BTreeMap<String, PrometheusType>,
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

impl Page {
    #[track_caller]
    fn read(answer: &Answer) -> Page {
        assert_eq!(answer.status, 200, "{answer}");
        assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        let read = parse_prometheus(&answer.text()).unwrap_or_else(|error| panic!("{error:?} in {}", answer.text()));
        let (mut families, mut samples) = (BTreeMap::new(), Vec::new());
        for (name, family) in read.families {
            assert!(!family.help.is_empty(), "{name} says nothing of itself");
            families.insert(name.clone(), family.family_type.clone());
            for sample in family.iter_samples() {
                let labels = sample.get_labelset().unwrap();
                let labels = labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                let value = match &sample.value {
                    PrometheusValue::Counter(counter) => counter.value.as_f64(),
                    PrometheusValue::Gauge(value) | PrometheusValue::Unknown(value) => value.as_f64(),
                    PrometheusValue::Histogram(histogram) => histogram.count.unwrap() as f64,
                    PrometheusValue::Summary(_) => panic!("{name} is a summary"),
                };
                samples.push((name.clone(), labels, value));
            }
        }
        Page { families, samples }
    }

    /// The sum of the samples of this name that have these labels.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |found: &BTreeMap<String, String>| {
            labels.iter().all(|(label, value)| found.get(*label).is_some_and(|found| found == value))
        };
        self.samples.iter().filter(|(own, found, _)| own == name && fits(found)).map(|(_, _, value)| value).sum()
    }

    fn values_of(&self, label: &str) -> Vec<&str> {
        let mut values: Vec<&str> =
            self.samples.iter().filter_map(|(_, labels, _)| Some(labels.get(label)?.as_str())).collect();
        values.sort_unstable();
        values.dedup();
        values
    }
}

async fn page(user: &User) -> Page {
    Page::read(&user.get("/metrics").await)
}

/// The lines of the worker, and of the supervisor, that are JSON.
fn lines(host: &Host) -> Vec<Value> {
    host.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The access line of an answer; lines come together for some milliseconds before they are written.
async fn line_of(host: &Host, answer: &Answer) -> Value {
    let id = answer.header("x-request-id").unwrap().to_owned();
    eventually("the request has its line", async || {
        lines(host).into_iter().find(|line| line["target"] == "cardinal::access" && line["request_id"] == id.as_str())
    })
    .await
}

#[tokio::test]
async fn metrics_are_for_who_may_see_the_system() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    host.client().get("/metrics").await.refused(401, "missing-token");
    let blind = owner.key(&["cards:read"]).await;
    assert_eq!(blind.get("/metrics").await.refused(403, "insufficient-scope")["required_scope"], "system:read");
    blind.get("/v1/admin/system").await.refused(403, "insufficient-scope");
    let seeing = owner.key(&["system:read"]).await;
    page(&seeing).await;
    let head = seeing.call(Method::HEAD, "/metrics").send().await;
    assert!(head.status == 200 && head.body.is_empty(), "{head}");
    seeing.get("/metrics?format=json").await.refused(400, "invalid-request");
    seeing.post("/metrics", &json!({})).await.refused(405, "method-not-allowed");
    let change = json!({"target": "cardinal", "level": "debug", "minutes": 1});
    seeing.call(Method::PUT, LOG_LEVEL).json(&change).send().await.refused(403, "insufficient-scope");
}

#[tokio::test]
async fn every_request_is_counted_by_its_route() {
    const SECONDS: &str = "cardinal_http_request_duration_seconds";
    let host = with_echo().start().await;
    let owner = host.owner().await;
    let before = page(owner).await;
    for n in 0..3 {
        owner.get("/v1/admin/master-cards/0198c5f7-3f7e-7c3e-8f6e-1f2a3b4c5d6e").await.refused(404, "not-found");
        host.client().get(&format!("/no/such/path/{n}")).await.refused(404, "not-found");
        host.client().call(Method::from_bytes(format!("ODD{n}").as_bytes()).unwrap(), "/none").send().await;
        owner.get(&format!("{ECHO}/hello")).await.expect(200);
    }
    owner.get(&format!("{ECHO}/db/sleep?seconds=0.12")).await.expect(200);
    owner.get(&format!("{ECHO}/teapot")).await.refused(418, "teapot");
    let after = page(owner).await;
    let more = |name: &str, labels: &[(&str, &str)]| after.sum(name, labels) - before.sum(name, labels);
    let card = [("route", "/v1/admin/master-cards/{id}"), ("method", "GET"), ("status", "4xx")];
    assert!((more(SECONDS, &card) - 3.0).abs() < 0.1);
    assert!((more(SECONDS, &[("route", "/v1/admin/plugins/echo/hello"), ("status", "2xx")]) - 3.0).abs() < 0.1);
    assert!(more(SECONDS, &[("route", "unmatched")]) >= 6.0);
    assert!(!after.values_of("route").iter().any(|route| route.contains("no/such")), "paths are no labels");
    assert!(!after.values_of("method").iter().any(|method| method.starts_with("ODD")), "nor are odd methods");
    let part = |part| {
        let route = [("route", "/v1/admin/plugins/echo/db/sleep"), ("part", part)];
        more("cardinal_http_request_part_seconds_total", &route)
    };
    assert!(part("database") >= 0.12, "{}", part("database"));
    assert!((more("cardinal_plugin_call_duration_seconds", &[("plugin", "echo")]) - 5.0).abs() < 0.1);
    assert!((more("plugin_echo_hellos_total", &[]) - 3.0).abs() < 0.1, "the plugin's own counter");
    assert!(more("cardinal_auth_cache_total", &[("cache", "session"), ("outcome", "hit")]) >= 5.0);
    assert!((after.sum("cardinal_http_requests_in_flight", &[]) - 1.0).abs() < 0.1, "this one");
    assert!((after.sum("cardinal_plugins", &[("state", "active")]) - 1.0).abs() < 0.1);
    assert!((after.sum("cardinal_database_up", &[]) - 1.0).abs() < 0.1);
    assert!(after.sum("cardinal_database_pool_connections", &[("pool", "plugin"), ("plugin", "echo")]) >= 1.0);
    assert!(after.sum("process_resident_memory_bytes", &[]) > 1e6 && after.sum("process_open_fds", &[]) > 3.0);
    assert!(after.families.keys().all(|name| !name.ends_with("_total_total")));
    for (name, kind) in &after.families {
        assert_eq!(name.ends_with("_total"), matches!(kind, PrometheusType::Counter), "{name}");
    }
}

#[tokio::test]
async fn a_wait_for_the_database_is_its_part_alone() {
    let host = with_echo().start().await;
    let owner = host.owner().await;
    // A busy machine may take a thread away in any part, but not each time.
    eventually("the plugin has next to no part in it", async || {
        let before = page(owner).await;
        owner.get(&format!("{ECHO}/db/sleep?seconds=0.12")).await.expect(200);
        let after = page(owner).await;
        let [database, plugin] = ["database", "plugin"].map(|part| {
            let labels = [("route", "/v1/admin/plugins/echo/db/sleep"), ("part", part)];
            let seconds = "cardinal_http_request_part_seconds_total";
            after.sum(seconds, &labels) - before.sum(seconds, &labels)
        });
        assert!(database >= 0.12, "{database}");
        (plugin < 0.1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_listener_of_its_own_needs_no_credential_and_shows_nothing_else() {
    let host = with_echo().set("METRICS_ADDR", "127.0.0.1:0").start().await;
    let addresses: Value = serde_json::from_slice(&std::fs::read(host.data().join("addresses.json")).unwrap()).unwrap();
    let address: SocketAddr = addresses["metrics"].as_str().unwrap().parse().unwrap();
    let metrics = Client::new(address);
    let read = Page::read(&metrics.get("/metrics").await);
    assert!((read.sum("cardinal_worker_restarts_total", &[])).abs() < 0.1);
    let head = metrics.call(Method::HEAD, "/metrics").send().await;
    assert!(head.status == 200 && head.body.is_empty(), "{head}");
    let named = metrics.call(Method::GET, "/metrics").header("x-request-id", "scrape-7").send().await;
    assert_eq!(named.header("x-request-id"), Some("scrape-7"), "{named}");
    for path in ["/", "/healthz", "/v1/admin/system", "/metrics/"] {
        metrics.get(path).await.refused(404, "not-found");
    }
    metrics.post("/metrics", &json!({})).await.refused(405, "method-not-allowed");
    host.client().get("/metrics").await.refused(401, "missing-token");
    // The supervisor counts the workers that it had to start again.
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(host.worker_pid()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    eventually("the restart is counted", async || {
        let answer = metrics.call(Method::GET, "/metrics").try_send().await.ok()?;
        (Page::read(&answer).sum("cardinal_worker_restarts_total", &[]) > 0.9).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_requests_line_says_where_its_time_went() {
    let host = with_echo().start().await;
    let owner = host.owner().await;
    let number = |line: &Value, name: &str| line[name].as_u64().unwrap_or_else(|| panic!("no {name} in {line}"));
    let parts = |line: &Value| {
        let [whole, host, plugin, db] = ["us", "us_host", "us_plugin", "us_db"].map(|name| number(line, name));
        assert!(whole.abs_diff(host + plugin + db) <= 3, "{line}");
        (host, plugin, db)
    };
    // A busy machine may take a thread away in any part, but not each time.
    let line = eventually("the plugin's time is the plugin's", async || {
        let slow = owner.get(&format!("{ECHO}/sleep?ms=150")).await;
        slow.expect(200);
        let line = line_of(&host, &slow).await;
        let (spent_host, plugin, db) = parts(&line);
        assert!(plugin >= 150_000, "{line}");
        (spent_host < plugin / 2 && db < 50_000).then_some(line)
    })
    .await;
    assert_eq!(
        (line["user"].as_str(), line["status"].as_u64(), line["level"].as_str()),
        (Some("owner"), Some(200), Some("INFO"))
    );
    assert_eq!((line["path"].as_str(), line["method"].as_str()), (Some("/v1/admin/plugins/echo/sleep"), Some("GET")));

    let told = |timing: &str, name: &str| -> f64 {
        let part = timing.split(", ").find_map(|part| part.strip_prefix(&format!("{name};dur=")));
        part.unwrap_or_else(|| panic!("no {name} in {timing}")).parse().unwrap()
    };
    eventually("waits asked for through ctx are the database's", async || {
        let asleep = owner.get(&format!("{ECHO}/db/sleep?seconds=0.15")).await;
        asleep.expect(200);
        let timing = asleep.header("server-timing").unwrap();
        let (_, plugin, db) = parts(&line_of(&host, &asleep).await);
        assert!(told(timing, "db") >= 150.0 && db >= 150_000, "{timing}");
        (told(timing, "plugin") < 100.0 && told(timing, "host") < 100.0 && plugin < db / 2).then_some(())
    })
    .await;
    assert_eq!(owner.get("/v1/admin/auth/me").await.header("server-timing"), None, "of plugins' routes alone");
    let failed = owner.get(&format!("{ECHO}/teapot")).await;
    assert!(failed.header("server-timing").is_some_and(|timing| timing.starts_with("host;dur=")), "{failed}");

    let card = owner.card("Chair").await;
    let enriched = owner.post(&format!("{ECHO}/enrich/{}", card["id"].as_str().unwrap()), &json!({"note": "x"})).await;
    enriched.expect(200);
    let (_, plugin, db) = parts(&line_of(&host, &enriched).await);
    assert!(plugin > 0 && db > 0);

    let listed = owner.get("/v1/admin/master-cards").await;
    listed.expect(200);
    let line = line_of(&host, &listed).await;
    let (_, plugin, db) = parts(&line);
    assert!(plugin == 0 && db > 0, "{line}");
    // Tools run in other tasks, and count for the request all the same.
    let tool =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "cards_search", "arguments": {}}});
    let searched = owner.mcp(&tool).await;
    searched.expect(200);
    let line = line_of(&host, &searched).await;
    let (_, _, db) = parts(&line);
    assert!(db > 0, "{line}");

    let key = owner.make_key(json!({"name": "Line", "scopes": ["plugin:echo:read"]})).await;
    let keyed = host.client().bearer(key["key"].as_str().unwrap()).get(&format!("{ECHO}/hello")).await;
    let line = line_of(&host, &keyed).await;
    assert_eq!((&line["key_id"], &line["us_db"]), (&key["item"]["id"], &line["us_db"]), "{line}");
    assert!(!host.log().contains(&owner.token) && !host.log().contains(key["key"].as_str().unwrap()));
}

/// Sends a call of `echo`, and goes away once the plugin has it.
async fn leave(host: &Host, call: Call) {
    let waiting = tokio::spawn(call.try_send());
    host.calls_under_way("echo", 1).await;
    waiting.abort();
}

#[tokio::test]
async fn a_trace_goes_through_the_host_into_the_plugin_and_both_their_lines() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let host = with_echo().start().await;
    let owner = host.owner().await;
    let ask = async |parent: &str| {
        let call = owner.call(Method::GET, &format!("{ECHO}/request/x")).header("tracestate", "vendor=1");
        call.header("traceparent", parent).send().await
    };
    let answer = ask(&format!("00-{TRACE}-b7ad6b7169203331-01")).await;
    let (seen, line) = (answer.expect(200), line_of(&host, &answer).await);
    let span = line["span_id"].as_str().unwrap();
    assert_eq!((line["trace_id"].as_str(), span.len()), (Some(TRACE), 16), "{line}");
    assert_eq!(seen["trace_parent"], format!("00-{TRACE}-{span}-01"), "the plugin's parent is this request");
    let header = |seen: &Value, name: &str| {
        seen["headers"].as_array().unwrap().iter().find(|pair| pair[0] == name).map(|pair| pair[1].clone())
    };
    assert_eq!(header(&seen, "tracestate"), Some(json!("vendor=1")));
    assert_eq!(header(&seen, "traceparent").as_ref(), Some(&seen["trace_parent"]));
    // What is not well-formed is none: a trace begins here, and nothing of the other one is passed on.
    let answer = ask(&format!("00-{}-b7ad6b7169203331-01", TRACE.to_uppercase())).await;
    let (seen, line) = (answer.expect(200), line_of(&host, &answer).await);
    let own = line["trace_id"].as_str().unwrap();
    assert!(own.len() == 32 && own != TRACE && seen["trace_parent"].as_str().unwrap().contains(own), "{line} {seen}");
    assert_eq!(header(&seen, "tracestate"), None);
    // A plugin's own line belongs to the request that it was called for.
    let call = owner.call(Method::GET, &format!("{ECHO}/sleep?ms=20000"));
    let call = call.header("traceparent", &format!("00-{TRACE}-b7ad6b7169203331-00")).header("x-request-id", "gone-1");
    leave(&host, call).await;
    let told = eventually("the plugin's line", async || {
        lines(&host).into_iter().find(|line| line["message"] == "dropped before its end")
    })
    .await;
    assert_eq!((told["target"].as_str(), told["plugin"].as_str()), (Some("plugin::echo"), Some("echo")), "{told}");
    assert_eq!((told["request_id"].as_str(), told["trace_id"].as_str()), (Some("gone-1"), Some(TRACE)), "{told}");
    let line = eventually("the line of who went away", async || {
        lines(&host).into_iter().find(|line| line["request_id"] == "gone-1" && line["status"] == 499)
    })
    .await;
    assert_eq!(line["code"], "client-closed");
    assert!(page(owner).await.sum("cardinal_http_requests_abandoned_total", &[]) > 0.9);
}

#[tokio::test]
async fn nothing_that_a_client_sends_forges_a_line() {
    for format in ["json", "human"] {
        let host = with_echo().set("LOG_FORMAT", format).start().await;
        let client = host.client();
        client.call(Method::GET, "/a%0Ab%1b%5b31m").header("x-request-id", "a b").send().await;
        let evil = "ad\u{1b}[31mmin\n2026-01-01T00:00:00.000000Z ERROR forged: line\r\u{202e}";
        let login = json!({"username": evil, "password": "x"});
        client.post("/v1/admin/auth/login", &login).await.refused(401, "invalid-credentials");
        let broken = json!({"phase": evil, "message": evil});
        host.owner().await.post("/v1/admin/plugin-registry/echo/client-errors", &broken).await.expect(204);
        let log = eventually("the line is there", async || {
            Some(host.log()).filter(|log| log.contains("failed in a browser"))
        })
        .await;
        assert!(!log.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{format}: {log:?}");
        assert!(!log.lines().any(|line| line.contains(" ERROR forged") && line.starts_with("2026-01-01")), "{log}");
    }
}

#[tokio::test]
async fn a_level_is_changed_for_a_while_and_comes_back() {
    let host = with_echo().set("LOG_LEVEL", "warn,plugin::echo=off").start().await;
    let owner = host.owner().await;
    let set = async |change: Value| owner.call(Method::PUT, LOG_LEVEL).json(&change).send().await;
    owner.get(&format!("{ECHO}/hello")).await.expect(200);
    let changed = set(json!({"target": "cardinal::access", "level": "info", "minutes": 5})).await.expect(200);
    assert_eq!(changed["log"]["changes"][0]["target"], "cardinal::access", "{changed}");
    let seen = owner.get("/v1/admin/auth/me").await;
    line_of(&host, &seen).await;
    let shown = owner.get("/v1/admin/system").await.expect(200);
    assert_eq!(shown["log"]["level"], "warn,plugin::echo=off,cardinal::access=info", "{shown}");
    assert_eq!(shown["settings"]["LOG_LEVEL"], "warn,plugin::echo=off");
    set(json!({"target": "cardinal::access", "level": "info", "minutes": 0})).await.expect(200);
    let unseen = owner.get("/v1/admin/auth/me").await;
    // A plugin by its name alone; its line is written after the one that must not be there.
    set(json!({"target": "plugin::echo", "level": "INFO"})).await.expect(200);
    leave(&host, owner.call(Method::GET, &format!("{ECHO}/sleep?ms=20000"))).await;
    eventually("the plugin's line", async || host.log().contains("dropped before its end").then_some(())).await;
    assert!(!host.log().contains(unseen.header("x-request-id").unwrap()), "{}", host.log());
    for (change, pointer) in [
        (json!({"target": "a b", "level": "info", "minutes": 1}), "/target"),
        (json!({"target": "cardinal::stoer", "level": "info", "minutes": 1}), "/target"),
        (json!({"target": "cardinal", "level": "loud", "minutes": 1}), "/level"),
        (json!({"target": "cardinal", "level": "info", "minutes": 1441}), "/minutes"),
        (json!({"target": "cardinal", "level": "info", "seconds": 1}), "/seconds"),
    ] {
        let refused = set(change).await.refused(422, "validation-failed");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
}

#[tokio::test]
async fn the_system_page_shows_what_is_in_force_and_no_secret() {
    let secret = "hunter2-hunter2-hunter2-hunter2-hunter2";
    let host = with_echo()
        .set("ADMIN_TOKEN_SECRET", secret)
        .set("PLUGIN_SETTINGS_ECHO", json!({"greeting": secret}).to_string())
        .start()
        .await;
    let answer = host.owner().await.get("/v1/admin/system").await;
    let system = answer.expect(200);
    assert!(!answer.text().contains("hunter2") && !answer.text().contains(cardinal_tests::OWNER_PASSWORD), "{answer}");
    assert_eq!(system["version"], "1.0.0");
    assert_eq!((&system["health"]["state"], &system["health"]["database"]["up"]), (&json!("ready"), &json!(true)));
    let settings = &system["settings"];
    assert_eq!(
        (&settings["ADMIN_TOKEN_SECRET"], &settings["ADMIN_BOOTSTRAP_PASSWORD"]),
        (&json!("***"), &json!("***"))
    );
    assert_eq!((&settings["PLUGIN_SETTINGS_ECHO"], &settings["DATABASE_URL"]), (&json!("***"), &Value::Null));
    assert_eq!(settings["LISTEN_ADDR"], host.address().to_string());
    assert_eq!((&settings["LOG_FORMAT"], &settings["CARD_RETENTION_DAYS"]), (&json!("json"), &json!(30)));
    let pools = system["pools"].as_array().unwrap();
    assert!(pools.iter().any(|pool| pool["pool"] == "core" && pool["size"].as_u64() > Some(0)), "{system}");
    assert!(pools.iter().any(|pool| pool["plugin"] == "echo"), "{system}");
    assert_eq!(system["plugins"], json!({"active": 1}));
    assert!(system["uptime_seconds"].as_u64().is_some() && system["host_id"].is_string(), "{system}");
}

#[tokio::test]
async fn a_level_that_is_none_ends_the_start() {
    for level in ["loud", "info,cardinal::db=verbose", "cardinal::db", "info,a b=debug", "info,cardinal::stoer=debug"] {
        let mut host = Host::settings().set("LOG_LEVEL", level).launch();
        assert_eq!(host.program().ended().await.code(), Some(64), "{level}: {}", host.log());
        assert!(host.log().contains("LOG_LEVEL"), "{level}: {}", host.log());
    }
}

#[tokio::test]
async fn the_last_hour_is_told_without_probes() {
    const TRAFFIC: &str = "/v1/admin/system/traffic";
    let host = with_echo().start().await;
    let owner = host.owner().await;
    let count = |hour: &Value| hour["requests"].as_u64().unwrap();
    let before = count(&owner.get(TRAFFIC).await.expect(200));
    for _ in 0..50 {
        assert_eq!(owner.get("/healthz").await.status, 200);
    }
    for path in ["/v1/admin/system", "/v1/admin/kinds"] {
        owner.get(path).await.expect(200);
    }
    // A request is counted when its answer has gone out, which its client may hear of before.
    let hour = eventually("the look and two calls are counted", async || {
        let hour = owner.get(TRAFFIC).await.expect(200);
        (count(&hour) >= before + 3).then_some(hour)
    })
    .await;
    assert!(count(&hour) < before + 50 && hour["failed"] == 0, "probes are not among them: {hour}");
    let spans = hour["spans"].as_array().unwrap();
    assert_eq!(spans.iter().map(count).sum::<u64>(), count(&hour), "{hour}");
    assert_eq!((&spans[0]["from"], &spans[spans.len() - 1]["to"]), (&hour["from"], &hour["to"]));
    assert!(hour["p99_ms"].as_f64().unwrap() > 0.0, "{hour}");

    let blind = owner.key(&["cards:read"]).await;
    blind.get(TRAFFIC).await.refused(403, "insufficient-scope");
}
