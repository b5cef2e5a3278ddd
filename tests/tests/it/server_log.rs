//! What PostgreSQL logs on behalf of a plugin: named, bounded, and no way to fill a disk.

use cardinal_tests::{Host, Package, PluginsFolder, eventually};
use serde_json::Value;

const UNRULY: &str = "/v1/admin/plugins/unruly";

#[tokio::test]
async fn a_plugin_does_not_flood_the_log_through_postgresql() {
    const LONGEST: usize = 16 << 10;
    const MOST: usize = 1_000;
    let plugins = PluginsFolder::default().with("unruly", &Package::fixture("unruly"));
    let host = Host::settings().plugins(plugins).set("LOG_LEVEL", "debug").start().await;
    let owner = host.owner().await;
    for _ in 0..3 {
        // It may run into its time limit.
        owner.get(&format!("{UNRULY}/server-log")).await;
    }
    let dropped = |log: &str| {
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines
            .filter(|line| line["target"] == "postgres" && line["plugin"] == "unruly" && line["lines"].is_u64())
            .filter_map(|line| line["lines"].as_u64())
            .sum::<u64>()
    };
    eventually("the dropped lines are counted", async || (dropped(&host.log()) > 2_000).then_some(())).await;
    let log = host.log();
    let noise: Vec<&str> = log.lines().filter(|line| line.contains("\"postgres\"") && line.contains("noise")).collect();
    assert!(!noise.is_empty() && noise.len() < MOST, "{} lines", noise.len());
    assert!(
        noise.iter().all(|line| line.contains("_p_unruly") && line.contains("\"plugin\":\"unruly\"")),
        "{}",
        noise[0]
    );
    assert!(!log.contains("WARNING:  noise"), "warnings of SQL are in the log");
    let longest = log.lines().map(str::len).max().unwrap_or_default();
    assert!(longest < LONGEST, "a line of {longest} bytes");
}
