//! What PostgreSQL logs on behalf of a plugin: named, bounded, and no way to fill a disk.

use cardinal_tests::{Host, Package, PluginsFolder, eventually};
use rustix::process::Signal;
use serde_json::Value;

const UNRULY: &str = "/v1/admin/plugins/unruly";

#[tokio::test]
async fn a_plugin_does_not_flood_the_log_through_postgresql() {
    const MAX_LINE: usize = 16 << 10;
    const MAX_LINES: usize = 1_000;
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
    assert!(!noise.is_empty() && noise.len() < MAX_LINES, "{} lines", noise.len());
    assert!(
        noise.iter().all(|line| line.contains("_p_unruly") && line.contains("\"plugin\":\"unruly\"")),
        "{}",
        noise[0]
    );
    assert!(!log.contains("WARNING:  noise"), "warnings of SQL are in the log");
    let longest = log.lines().map(str::len).max().unwrap_or_default();
    assert!(longest < MAX_LINE, "a line of {longest} bytes");
}

#[tokio::test]
async fn a_name_that_a_client_chooses_is_no_line_of_postgresqls() {
    let host = Host::settings().plugins(PluginsFolder::default()).set("LOG_LEVEL", "debug").start().await;
    let names = [
        "x\n1 1|PANIC:  forged by a line",
        "x\n1 1|LOG:  connection authorized: user=cardinal_superuser database=forged",
        "cardinal_superuser|PANIC:  forged by a bar",
        "cardinal_superuser",
        "\u{1b}[2Jforged\r",
    ];
    for name in names {
        let mut login = tokio_postgres::Config::new();
        login.host_path(host.data().join("pg/run")).user(name).password("wrong").dbname("cardinal");
        assert!(login.connect(tokio_postgres::NoTls).await.is_err());
    }
    let lines = || -> Vec<Value> {
        let log = host.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["target"] == "postgres").collect()
    };
    let message = |line: &Value| line["message"].as_str().unwrap_or_default().to_owned();
    let refused = |line: &&Value| message(line).starts_with("FATAL:  password authentication failed");
    let lines = eventually("each is refused", async || {
        let lines = lines();
        (lines.iter().filter(refused).count() == names.len()).then_some(lines)
    })
    .await;
    for line in &lines {
        let is_forged = names.iter().any(|name| line["role"] == *name) || message(line).starts_with("PANIC");
        assert!(!is_forged, "{line}");
    }
    assert!(!host.log().contains(['\u{1b}', '\r']), "{}", host.log());
}

#[tokio::test]
async fn a_stop_in_order_logs_nothing_fatal() {
    let mut host = Host::settings().plugins(PluginsFolder::default()).start().await;
    host.owner().await.card("One").await;
    host.program().signal(Signal::TERM);
    assert!(host.program().ended().await.success());
    assert!(!host.log().contains("FATAL"), "{}", host.log());
}
