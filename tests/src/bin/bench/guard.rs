//! What stands around plugins' calls: what it costs a call, and what it spares everybody else when calls block.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use cardinal_plugin_host::lane::THREADS;
use cardinal_tests::{Answer, Host, Package, PluginsFolder, User, eventually};
use futures_util::future::join_all;
use tokio::task::JoinHandle;

use crate::{
    Options,
    measure::{self, Measured, Round},
    subjects::{Ask, Scripts, Subject, Target},
};

/// What the names of all these subjects begin with.
pub(crate) const NAME: &str = "guard: ";
/// A host built with `without-guard.patch`; `scripts/bench` makes it.
const UNGUARDED: &str = "CARDINAL_UNGUARDED";
const HELLO: &str = "/v1/admin/plugins/quick/hello";
const CORE: &str = "/v1/admin/auth/me";
const UNRULY: &str = "/v1/admin/plugins/unruly";
/// Calls that block at the same time.
const BLOCKED: usize = 16;
/// Quick calls in which a handler earns its place on the core's threads, and as many again.
const QUICK: usize = 2_000;

/// What goes on while somebody else asks.
struct Sin {
    name: &'static str,
    by: By,
}

enum By {
    Calls {
        route: &'static str,
        /// The handler has earned a place on the core's threads before.
        on_core: bool,
    },
    /// Nothing of the host's: what the machine makes of as much computing at the lowest priority, with any guard or none.
    AnotherProgram,
}

const SINS: [Sin; 4] = [
    Sin { name: "guard: core route, 16 calls asleep", by: By::Calls { route: "/block/sleep", on_core: false } },
    Sin { name: "guard: core route, 16 calls computing", by: By::Calls { route: "/block/spin", on_core: false } },
    Sin {
        name: "guard: core route, 16 calls asleep that were quick",
        by: By::Calls { route: "/block/sleep", on_core: true },
    },
    Sin { name: "guard: core route, another program computing", by: By::AnotherProgram },
];

/// Measures all of it, on hosts of its own.
pub(crate) async fn measure(options: &Options) -> Vec<Measured> {
    let folder = tempfile::tempdir().unwrap();
    let mut measured = Vec::new();
    if options.wants("guard: plugin route") {
        measured.push(cost(folder.path(), options).await);
    }
    for sin in SINS.iter().filter(|sin| options.wants(sin.name)) {
        measured.push(beside(sin, folder.path(), options).await);
    }
    measured
}

async fn start(program: Option<PathBuf>) -> Host {
    let plugins =
        PluginsFolder::default().with("quick", &Package::fixture("quick")).with("unruly", &Package::fixture("unruly"));
    let settings = Host::settings()
        .plugins(plugins)
        .set("API_KEY_RATE_PER_MINUTE", "100000000")
        // Calls that block run into their deadlines, again and again.
        .set("PLUGIN_BREAKER", "observe");
    match program {
        Some(path) => settings.program(path).start().await,
        None => settings.start().await,
    }
}

fn target(host: &Host, path: &str, key: &User, folder: &Path) -> Target {
    let script = Scripts { folder }.write(Ask { token: Some(&key.token), ..Ask::default() });
    Target { url: format!("{}{path}", host.url()), script, pid: host.worker_pid() }
}

/// A plugin's route with the guard, and the same without.
async fn cost(folder: &Path, options: &Options) -> Measured {
    let bare = std::env::var_os(UNGUARDED).map(PathBuf::from);
    let bare = bare.unwrap_or_else(|| panic!("{UNGUARDED} names no build without the guard: use scripts/bench"));
    let (guarded, bare) = (start(None).await, start(Some(bare)).await);
    let mut targets = Vec::new();
    for host in [&guarded, &bare] {
        let key = host.owner().await.key(&["plugin:quick:read"]).await;
        targets.push(target(host, HELLO, &key, folder));
    }
    let baseline = targets.pop().unwrap();
    let subject = Subject {
        name: "guard: plugin route",
        target: targets.pop().unwrap(),
        baseline_name: "the same without the guard",
        baseline,
    };
    measure::one(&subject, options)
}

/// A route of the core while calls of a plugin block, and the same while they don't.
async fn beside(sin: &Sin, folder: &Path, options: &Options) -> Measured {
    eprintln!("    {}", sin.name);
    let host = start(None).await;
    let owner = host.owner().await;
    let key = owner.key(&["cards:read"]).await;
    let target = target(&host, CORE, &key, folder);
    measure::run(&target, measure::WARM_UP_SECONDS);
    let mut measured =
        Measured { name: sin.name, baseline: "the same, nothing blocked", subject: Vec::new(), against: Vec::new() };
    for _ in 0..options.rounds {
        measured.against.push(measure::run(&target, options.seconds));
        measured.subject.push(round(sin, owner, &target, options.seconds).await);
    }
    measured
}

async fn round(sin: &Sin, owner: &User, target: &Target, seconds: u64) -> Round {
    let By::Calls { route, on_core } = sin.by else { return beside_another_program(target, seconds) };
    if on_core {
        earn_a_place(route, owner).await;
    }
    // A little longer than wrk asks.
    let block = format!("{UNRULY}{route}?ms={}", seconds * 1_000 + 1_000);
    let (begun, calls) = (Instant::now(), block_all(owner, &block));
    let blocked = async || (blocked(owner).await > 0).then_some(());
    eventually("calls block", blocked).await;
    let round = measure::run(target, seconds);
    assert!(begun.elapsed() >= Duration::from_secs(seconds));
    for call in calls {
        drop(call.await);
    }
    eventually("the plugin is back", async || (owner.get(&format!("{UNRULY}/who")).await.status == 200).then_some(()))
        .await;
    round
}

fn beside_another_program(target: &Target, seconds: u64) -> Round {
    let compute = ["--idle", "0", "sh", "-c", "while :; do :; done"];
    let mut programs: Vec<Child> =
        (0..THREADS).map(|_| Command::new("chrt").args(compute).spawn().expect("chrt(1) of util-linux")).collect();
    let round = measure::run(target, seconds);
    for program in &mut programs {
        program.kill().unwrap();
        program.wait().unwrap();
    }
    round
}

fn block_all(owner: &User, path: &str) -> Vec<JoinHandle<anyhow::Result<Answer>>> {
    let call = |_| tokio::spawn(owner.call(http::Method::GET, path).try_send());
    (0..BLOCKED).map(call).collect()
}

/// Threads that the plugin has not given back.
async fn blocked(owner: &User) -> u64 {
    let metrics = owner.get("/metrics").await.text();
    let threads = metrics.lines().filter_map(|line| line.strip_prefix("cardinal_plugin_threads_blocked{"));
    threads.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Quick polls until the handler runs on the core's threads; it takes twice as many after each time that it blocked one.
async fn earn_a_place(route: &str, owner: &User) {
    let quick = format!("{UNRULY}{route}?ms=0");
    loop {
        for _ in 0..QUICK / 50 {
            join_all((0..50).map(|_| owner.get(&quick))).await;
        }
        let report = owner.get("/v1/admin/plugin-registry/unruly").await.expect(200);
        if report["item"]["counters"]["execution"]["inline"].as_u64() > Some(0) {
            return;
        }
    }
}
