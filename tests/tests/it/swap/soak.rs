//! Everything at once, again and again: three plugins and the core under load while packages are swapped, broken,
//! truncated, removed, disabled, reloaded and rolled back. What the contract promises is counted.

use std::time::{Duration, Instant};

use cardinal_tests::{Client, Host, Package, PluginsFolder, eventually};
use serde_json::{Value, json};

use super::load::Load;
use super::{CORE, OTHER, SLOW, WHICH, item, version};

const ECHO: &str = "/v1/admin/plugins/echo/hello";
const CLIENTS: usize = 2;
/// Requests that are answered between two changes.
const BETWEEN: usize = 30;
const SHORT_ROUNDS: usize = 2;
const LONG: Duration = Duration::from_secs(30 * 60);
/// Versions that can be told apart; each round makes two.
const MAX_ROUNDS: usize = 390;

/// What happens to packages, and how long each took until it was in force.
struct Changes {
    host: Host,
    client: Client,
    /// Versions that were made.
    made: usize,
    took: Vec<(&'static str, Duration)>,
}

impl Changes {
    async fn verb(&self, plugin: &str, verb: &str) {
        let body = if verb == "rollback" { json!({}) } else { Value::Null };
        self.client.post(&format!("/v1/admin/plugin-registry/{plugin}/{verb}"), &body).await.expect(200);
    }

    async fn rescan(&self) {
        self.client.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
    }

    async fn timed(&mut self, what: &'static str, wanted: impl Fn(&Value) -> bool) {
        let begun = Instant::now();
        let client = self.client.clone();
        eventually(what, async || wanted(&item(&client, "versioned").await).then_some(())).await;
        self.took.push((what, begun.elapsed()));
    }

    fn next(&mut self) -> Package {
        self.made += 1;
        version(&self.version(), &format!("v{}", self.made))
    }

    /// Of as many characters as the one that was built.
    fn version(&self) -> String {
        format!("{}.{}.{}", 1 + self.made / 100, self.made / 10 % 10, self.made % 10)
    }

    /// One after the other, each in force before the next; `versioned` serves through all of them.
    async fn round(&mut self, load: &Load) {
        let new = self.next();
        self.host.plugins().put("versioned", &new);
        let wanted = self.version();
        self.timed("swapped by the folder", |report| report["version"] == *wanted).await;
        load.more(BETWEEN).await;

        let half = version("9.9.9", "never");
        let half = Package::library(half, |library| Some(library[..library.len() / 3].to_vec()));
        self.host.plugins().put("versioned", &half);
        self.timed("truncated, refused", |report| report["refusal"]["code"] == "truncated").await;
        load.more(BETWEEN).await;
        self.host.plugins().put("versioned", &version("9.9.8", "never").manifest_text("{"));
        self.timed("broken, refused", |report| report["refusal"]["code"] == "bad-manifest").await;
        load.more(BETWEEN).await;

        let new = self.next();
        self.host.plugins().copy_over("versioned", &new);
        let wanted = self.version();
        self.timed("swapped by a copy", |report| report["version"] == *wanted).await;
        let begun = Instant::now();
        self.verb("versioned", "rollback").await;
        self.took.push(("rolled back", begun.elapsed()));
        load.more(BETWEEN).await;
        let begun = Instant::now();
        self.verb("versioned", "reload").await;
        self.took.push(("reloaded", begun.elapsed()));

        // Another plugin comes and goes; it has no load.
        self.host.plugins().put("crasher", &Package::fixture("crasher"));
        self.rescan().await;
        self.verb("crasher", "disable").await;
        load.more(BETWEEN).await;
        self.verb("crasher", "enable").await;
        self.host.plugins().remove("crasher");
        self.rescan().await;
        self.client.get("/v1/admin/plugins/crasher/well").await.refused(404, "not-found");
        load.more(BETWEEN).await;
    }
}

fn resident(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn soak(go_on: impl Fn(usize, Instant) -> bool) {
    let plugins = PluginsFolder::default()
        .with("versioned", &version("1.0.0", "v0"))
        .with("quick", &Package::fixture("quick"))
        .with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    let client = host.owner().await.unlimited().await;
    let worker = host.worker_pid();
    let load = Load::start(&host, &[WHICH, SLOW, OTHER, ECHO, CORE], CLIENTS).await;
    let mut changes = Changes { host, client: client.clone(), made: 0, took: Vec::new() };
    load.more(BETWEEN).await;
    let (begun, before, mut rounds) = (Instant::now(), resident(worker), 0);
    while go_on(rounds, begun) {
        changes.round(&load).await;
        rounds += 1;
    }
    let tallies = load.stop().await;
    let report = eventually("old generations are let go", async || {
        let report = item(&client, "versioned").await;
        let old = report["generations"].as_array().unwrap();
        old[1..].iter().all(|it| it["freed"] == true).then_some(report)
    })
    .await;
    let grown = resident(worker).saturating_sub(before);
    eprintln!("{rounds} rounds in {:.0?}", begun.elapsed());
    eprintln!("| target | requests | failed |\n|---|---|---|");
    for (target, tally) in &tallies {
        eprintln!("| {target} | {} | {} |", tally.sent, tally.failures);
    }
    eprintln!("| change | times | median | longest |\n|---|---|---|---|");
    let mut kinds: Vec<&str> = changes.took.iter().map(|(what, _)| *what).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let mut took: Vec<Duration> = changes.took.iter().filter(|(what, _)| *what == kind).map(|it| it.1).collect();
        took.sort_unstable();
        eprintln!("| {kind} | {} | {:.0?} | {:.0?} |", took.len(), took[took.len() / 2], took[took.len() - 1]);
    }
    let generations = report["generations"][0]["generation"].as_u64().unwrap();
    eprintln!(
        "{generations} generations in this worker, {} KiB more than at the start, {} KiB each",
        grown,
        grown / generations
    );
    assert_eq!(changes.host.worker_pid(), worker, "the worker is the same one");
    for (target, tally) in &tallies {
        assert_eq!(tally.failures, 0, "{target}: {:#?}", tally.failed);
        // A slow one takes half a second: a round on a quick machine has some seven of them for each client.
        let least = if *target == SLOW { CLIENTS * rounds } else { BETWEEN };
        assert!(tally.sent > least, "{target}: {} requests", tally.sent);
    }
    assert_eq!(report["state"], json!("active"), "{report}");
}

#[tokio::test]
async fn a_few_rounds_of_everything_fail_no_request() {
    soak(|rounds, _| rounds < SHORT_ROUNDS).await;
}

#[tokio::test]
#[ignore = "long: scripts/test --long"]
async fn half_an_hour_of_everything_fails_no_request() {
    soak(|rounds, begun| begun.elapsed() < LONG && rounds < MAX_ROUNDS).await;
}
