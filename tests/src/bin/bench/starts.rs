//! How long a host takes to its first answer and to its last plugin, what that takes of the processor, and what it holds
//! once it is idle.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use cardinal_tests::{Host, Package, PluginsFolder, descendants};
use serde_json::{Value, json};

/// By this name it is asked for; the baseline is the host without plugins.
pub(crate) const NAME: &str = "starts";
const MANY: usize = 100;
/// With the same plugins; the quickest counts, since anything else that runs only makes a start slower.
const STARTS: usize = 3;
/// After so long a silent process has given back what its start left.
const IDLE: Duration = Duration::from_secs(40);
const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS notes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    card uuid NOT NULL REFERENCES public.master_cards (id) ON DELETE CASCADE,
    note text NOT NULL CHECK (length(note) <= 1000)
);
CREATE INDEX IF NOT EXISTS notes_card ON notes (card);";

/// With the same plugins.
struct Measured {
    plugins: &'static str,
    /// The start that runs each schema.sql.
    first: Start,
    /// The quickest of those that follow.
    again: Start,
    worker: u64,
    supervisor: u64,
}

struct Start {
    took: Duration,
    /// Seconds of the processor, by process.
    processor: BTreeMap<&'static str, f64>,
}

/// Measures starts with more and more plugins, and prints them; as JSON into `file`, too.
pub(crate) async fn measure(file: Option<&Path>) {
    let measured = [
        starts("none", 0, PluginsFolder::default()).await,
        starts("the bundled ones", 3, PluginsFolder::bundled()).await,
        starts("100 without a table", MANY, many("")).await,
        starts("100 with a table", MANY, many(SCHEMA)).await,
    ];
    print(&measured);
    if let Some(file) = file {
        let json: Value = measured.iter().map(as_json).collect();
        std::fs::write(file, json.to_string()).expect("the file for --json can be written");
    }
}

/// Copies of one plugin.
fn many(schema: &str) -> PluginsFolder {
    (0..MANY).fold(PluginsFolder::default(), |folder, n| {
        let name = format!("q{n:04}"); // as long as the name that was built
        let package = Package::fixture("quick").renamed(&name).schema(schema).manifest(|manifest| {
            manifest["backend"]["apiPrefix"] = name.as_str().into();
            manifest["provides_kinds"] = json!([name]);
            manifest["mcp"]["tools"][0]["name"] = format!("plugin_{name}_hello").into();
        });
        folder.with(&name, &package)
    })
}

async fn starts(plugins: &'static str, count: usize, folder: PluginsFolder) -> Measured {
    let begun = Instant::now();
    let mut host = Host::settings().plugins(folder).start().await;
    let first = started(&host, count, begun).await;
    let mut again: Option<Start> = None;
    for _ in 0..STARTS {
        host.end().await;
        let begun = Instant::now();
        host = host.again(|settings| settings).await;
        let start = started(&host, count, begun).await;
        again = again.into_iter().chain([start]).min_by_key(|start| start.took);
    }
    tokio::time::sleep(IDLE).await;
    let (worker, supervisor) = (host.worker_memory("VmRSS"), host.supervisor_memory("VmRSS"));
    Measured { plugins, first, again: again.expect("there was one"), worker, supervisor }
}

/// Once all plugins serve, which they do when the host is ready.
async fn started(host: &Host, plugins: usize, begun: Instant) -> Start {
    let took = begun.elapsed();
    let processor = processor(host);
    let listed = host.owner().await.get("/v1/admin/plugin-registry").await.expect(200);
    let active = listed["items"].as_array().expect("a list").iter().filter(|item| item["state"] == "active").count();
    assert_eq!(active, plugins, "{listed}");
    Start { took, processor }
}

fn processor(host: &Host) -> BTreeMap<&'static str, f64> {
    let supervisor = host.supervisor_pid();
    let mut spent = BTreeMap::new();
    let processes = descendants(supervisor).into_iter().chain([(supervisor, String::new())]);
    for (pid, line) in processes {
        let of = match line.split(' ').nth(1) {
            _ if pid == supervisor => "supervisor and schema steps",
            Some("worker") => "worker and probes",
            _ if line.contains("postgres") => "PostgreSQL",
            _ => "other",
        };
        *spent.entry(of).or_default() += seconds(pid);
    }
    spent
}

/// Of the processor, those of its children that have ended among them.
fn seconds(pid: i32) -> f64 {
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(11).take(4);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS_A_SECOND
}

fn print(measured: &[Measured]) {
    println!("| plugins | first start | later | against none | processor, later | idle worker | supervisor |");
    println!("|---|--:|--:|--:|---|--:|--:|");
    let none = measured[0].again.took.as_secs_f64();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    for Measured { plugins, first, again, worker, supervisor } in measured {
        let (first, later) = (first.took.as_secs_f64(), again.took.as_secs_f64());
        let processor: Vec<_> = again.processor.iter().map(|(of, seconds)| format!("{of} {seconds:.2} s")).collect();
        println!(
            "| {plugins} | {first:.2} s | {later:.2} s | {:.1} | {} | {:.1} MiB | {:.1} MiB |",
            later / none,
            processor.join(", "),
            mib(*worker),
            mib(*supervisor)
        );
    }
}

fn as_json(measured: &Measured) -> Value {
    let start = |start: &Start| json!({"seconds": start.took.as_secs_f64(), "processor_seconds": start.processor});
    json!({
        "plugins": measured.plugins,
        "first": start(&measured.first),
        "later": start(&measured.again),
        "idle_bytes": {"worker": measured.worker, "supervisor": measured.supervisor},
    })
}
