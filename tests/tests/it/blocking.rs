//! A handler that keeps its thread, asleep or computing, starves its own plugin and nobody else, and is named. The
//! plugin is `unruly`.

use std::time::{Duration, Instant};

use cardinal_tests::{Answer, Host, HostSettings, Others, Package, PluginsFolder, User, eventually};
use futures_util::future::join_all;
use serde_json::{Value, json};

const UNRULY: &str = "/v1/admin/plugins/unruly";
const REPORT: &str = "/v1/admin/plugin-registry/unruly";
/// Calls that block at a time; the machine of the tests has two cores.
const BLOCKED: usize = 16;
/// Of `unruly`.
const DEADLINE: Duration = Duration::from_millis(1_500);
/// Within this a handler that does not return is shown; on an idle machine it takes 3 s.
const SHOWN: Duration = Duration::from_secs(10);
/// What nobody else may wait for, however busy the machine: far less than a call blocks.
const STANDSTILL: Duration = Duration::from_secs(3);

fn settings() -> HostSettings {
    let plugins =
        PluginsFolder::default().with("unruly", &Package::fixture("unruly")).with("quick", &Package::fixture("quick"));
    Host::settings().plugins(plugins).set("PLUGIN_BREAKER", "observe").set("LOG_FORMAT", "json")
}

async fn ask(user: &User, route: &str) -> Answer {
    user.get(&format!("{UNRULY}{route}")).await
}

async fn execution(user: &User) -> Value {
    user.get(REPORT).await.expect(200)["item"]["counters"]["execution"].take()
}

/// `BLOCKED` calls at once, and their answers.
async fn block(user: &User, route: &str) -> Vec<Answer> {
    join_all((0..BLOCKED).map(|_| ask(user, route))).await
}

async fn blocks_of(user: &User, place: &str) -> f64 {
    let name = format!("cardinal_plugin_blocks_total{{plugin=\"unruly\",place=\"{place}\"}} ");
    let metrics = user.get("/metrics").await.text();
    metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

#[tokio::test]
async fn on_its_own_threads_a_plugin_starves_itself_alone_and_is_named() {
    for (route, handler) in [("/block/sleep?ms=8000", "GET /block/sleep"), ("/block/spin?ms=8000", "GET /block/spin")] {
        let host = settings().start().await;
        let owner = host.owner().await;
        let others = Others::start(&host).await;
        let timed = async {
            let begun = Instant::now();
            (block(owner, route).await, begun.elapsed())
        };
        // All its threads are taken by then, and none of anybody else's.
        let behind_them = async {
            host.calls_under_way("unruly", BLOCKED as u64 / 2).await;
            ask(owner, "/who").await
        };
        let ((answers, took), who) = tokio::join!(timed, behind_them);
        who.refused(504, "plugin-timeout");
        for answer in &answers {
            answer.refused(504, "plugin-timeout");
        }
        assert!(took >= DEADLINE && took < Duration::from_secs(7), "late answers: {took:?}");
        let placed = execution(owner).await;
        assert_eq!(
            (&placed["blocking"][0]["handler"], &placed["blocked_core"]),
            (&json!(handler), &json!(0)),
            "{placed}"
        );
        assert!(placed["blocking"][0]["longest_ms"].as_u64() >= Some(50) && placed["blocked_lane"].as_u64() >= Some(1));
        assert!(blocks_of(owner, "lane").await >= 1.0);
        let counters = owner.get(REPORT).await.expect(200)["item"]["counters"].take();
        assert!(counters["timeouts"].as_u64() >= Some(BLOCKED as u64), "{counters}");
        let fault = counters["recent_faults"].as_array().unwrap().iter().find(|fault| fault["handler"] == handler);
        let fault = fault.unwrap_or_else(|| panic!("{counters}"));
        assert_eq!(fault["kind"], "timeout", "{counters}");
        assert!(fault["ms"].as_u64() >= Some(1_500), "{fault}");
        let line = eventually("the log names it", async || {
            let page = owner.get(&format!("{REPORT}/logs?limit=200")).await.expect(200);
            let lines = page["items"].as_array().unwrap().clone();
            lines.into_iter().find(|line| line["message"] == "a plugin blocks one of its own threads")
        })
        .await;
        assert_eq!(line["fields"]["handler"], handler, "{line}");
        let told = host.log().lines().any(|line| line.contains("reached its deadline") && line.contains(handler));
        assert!(told, "the request's line names plugin, handler and time");
        others.go_on(50).await;
        let (slowest, asked) = others.unharmed();
        println!("{route}: {asked} requests of others, the slowest took {slowest:?}");
        assert!(slowest < STANDSTILL, "somebody else waited for {slowest:?}");
        eventually("the plugin is back", async || (ask(owner, "/who").await.status == 200).then_some(())).await;
    }
}

#[tokio::test]
async fn a_handler_that_was_quick_and_blocks_the_core_loses_its_place_at_once() {
    let host = settings().start().await;
    let owner = host.owner().await;
    // Few at a time: on a busy machine, threads that are never idle are taken away for longer than a quick poll takes.
    let begun = Instant::now();
    while execution(owner).await["inline"] == 0 {
        assert!(begun.elapsed() < Duration::from_secs(180), "a handler that is quick stays on its lane");
        for _ in 0..50 {
            join_all((0..2).map(|_| ask(owner, "/block/sleep?ms=0"))).await;
        }
    }
    let others = Others::start(&host).await;
    let answers = block(owner, "/block/sleep?ms=6000").await;
    // One that blocks a thread of the core is answered when it gives it back; its deadline cannot pass before.
    for answer in &answers {
        assert!([200, 504].contains(&answer.status.as_u16()), "{answer}");
    }
    let (slowest, asked) = others.unharmed();
    println!("{asked} requests of others, the slowest took {slowest:?}");
    assert!(slowest < STANDSTILL, "somebody else waited for {slowest:?}");
    let placed = execution(owner).await;
    assert!(placed["blocked_core"].as_u64() >= Some(1) && placed["inline"] == 0, "{placed}");
    assert!(blocks_of(owner, "core").await >= 1.0);
    let page = owner.get(&format!("{REPORT}/logs?level=warn&limit=200")).await.expect(200);
    let lines = page["items"].as_array().unwrap();
    let named = lines.iter().find(|line| line["message"] == "a plugin blocks a thread of the core");
    assert_eq!(named.unwrap()["fields"]["handler"], "GET /block/sleep", "{page}");
}

#[tokio::test]
async fn a_polite_handler_hears_that_nobody_waits_any_more() {
    let host = settings().start().await;
    let owner = host.owner().await;
    let others = Others::start(&host).await;
    ask(owner, "/block/until-cancelled").await.refused(504, "plugin-timeout");
    eventually("it stops by itself", async || {
        let page = owner.get(&format!("{REPORT}/logs?limit=200")).await.expect(200);
        let lines = page["items"].as_array().unwrap().clone();
        lines.into_iter().find(|line| line["message"] == "stopped spinning: the call was cancelled")
    })
    .await;
    ask(owner, "/who").await.expect(200);
    others.unharmed();
}

#[tokio::test]
async fn an_operator_says_where_a_plugin_runs() {
    for (setting, execution_mode) in [("lane", "lane"), ("auto,unruly=inline", "inline"), ("unruly=lane", "lane")] {
        let host = settings().set("PLUGIN_EXECUTION", setting).start().await;
        let owner = host.owner().await;
        for _ in 0..20 {
            ask(owner, "/who").await.expect(200);
        }
        let placed = execution(owner).await;
        assert_eq!(placed["execution"], execution_mode, "{setting}: {placed}");
        let on_core = if execution_mode == "inline" { placed["handlers"].clone() } else { json!(0) };
        assert_eq!(placed["inline"], on_core, "{setting}: {placed}");
    }
}

#[tokio::test]
async fn a_body_whose_pieces_block_is_made_beside_everybody_else() {
    let host = settings().start().await;
    let owner = host.owner().await;
    let others = Others::start(&host).await;
    let bodies = join_all((0..4).map(|_| ask(owner, "/block/stream?ms=100"))).await;
    for body in bodies {
        assert_eq!((body.status.as_u16(), body.text().as_str()), (200, "late\nlate\nlate\n"), "{body}");
    }
    // And data that goes into the database.
    for copied in join_all((0..2).map(|_| ask(owner, "/block/copy?ms=100"))).await {
        assert_eq!(copied.expect(200)["rows"], 3);
    }
    let (slowest, _) = others.unharmed();
    assert!(slowest < STANDSTILL, "somebody else waited for {slowest:?}");
    assert_eq!(execution(owner).await["blocked_core"], 0, "none of it was made on the core's threads");
}

/// Four calls that hold a thread each and never give it back.
async fn hold(user: &User) {
    for answer in join_all((0..4).map(|_| ask(user, "/block/sleep?ms=6000000"))).await {
        answer.refused(504, "plugin-timeout");
    }
}

async fn is_served(user: &User) {
    eventually("its calls are served again", async || (ask(user, "/who").await.status == 200).then_some(())).await;
}

#[tokio::test]
async fn handlers_that_never_return_are_shown_and_replaced_and_set_aside() {
    let host = settings().start().await;
    let owner = host.owner().await;
    let others = Others::start(&host).await;
    let report = async || owner.get(REPORT).await.expect(200)["item"].take();
    for generation in 0..2 {
        let before = report().await["generation"].clone();
        let begun = Instant::now();
        let (_, seen) = tokio::join!(
            hold(owner),
            eventually("it is shown", async || {
                let item = report().await;
                item["reason"].as_str()?.contains("GET /block/sleep").then_some(item)
            })
        );
        println!("shown after {:?}: {}", begun.elapsed(), seen["reason"]);
        assert!(begun.elapsed() < SHOWN, "it was shown after {:?}", begun.elapsed());
        let longest = |item: &Value| item["counters"]["execution"]["blocking"][0]["longest_ms"].as_u64();
        assert!(longest(&seen) >= Some(2_000), "the call under way counts: {seen}");
        let grows = async || (longest(&report().await) > longest(&seen)).then_some(());
        eventually("its time goes on while it does", grows).await;
        eventually("the log names plugin and handler", async || {
            let says = |line: &&str| line.contains("a handler does not return and holds its thread");
            let line = host.log().lines().find(says).map(str::to_owned)?;
            (line.contains("GET /block/sleep") && line.contains("unruly")).then_some(())
        })
        .await;
        is_served(owner).await; // on fresh threads
        assert_eq!(report().await["generation"], before, "of the same instance");
        hold(owner).await; // those, too
        if generation == 0 {
            let reloaded = async || (report().await["generation"] != before).then_some(());
            eventually("it is reloaded", reloaded).await;
            is_served(owner).await;
        }
    }
    eventually("it is set aside", async || (report().await["state"] == "quarantined").then_some(())).await;
    let item = report().await;
    assert_eq!(item["quarantine"]["crash"]["cause"], "blocked", "{item}");
    assert_eq!(item["quarantine"]["crash"]["plugin"]["handler"], "GET /block/sleep", "{item}");
    assert!(item["reason"].as_str().is_some_and(|reason| reason.contains("held all its threads")), "{item}");
    others.go_on(50).await;
    let (slowest, asked) = others.unharmed();
    println!("{asked} requests of others, the slowest took {slowest:?}");
    assert!(slowest < STANDSTILL, "somebody else waited for {slowest:?}");
    let released = owner.call(http::Method::POST, &format!("{REPORT}/release")).send().await;
    assert_eq!(released.expect(200)["item"]["state"], "active");
    is_served(owner).await;
}

#[tokio::test]
async fn a_burst_of_time_outs_opens_the_breaker() {
    let host = settings().set("PLUGIN_BREAKER", "on").start().await;
    let owner = host.owner().await;
    for answer in join_all((0..24).map(|_| ask(owner, "/hang"))).await {
        answer.refused(504, "plugin-timeout");
    }
    ask(owner, "/who").await.refused(503, "plugin-unavailable");
    let breaker = owner.get(REPORT).await.expect(200)["item"]["counters"]["breaker"].take();
    assert_eq!(breaker["state"], "open", "{breaker}");
}
