//! Contract 7: settings are judged before a port is bound; a bad one names itself.

use cardinal_tests::{Host, PluginsFolder, cardinal, cardinal_with, eventually, exited};
use tempfile::tempdir;

#[tokio::test]
async fn a_bad_setting_names_itself_and_ends_the_start() {
    for (name, value) in [
        ("LISTEN_ADDR", "everywhere"),
        ("BASE_URL", "http://host.example/path"),
        ("ADMIN_TOKEN_TTL_HOURS", "0"),
        ("ADMIN_TOKEN_TTL_HOURS", "8761"),
        ("API_KEY_RATE_PER_MINUTE", "many"),
        ("PLUGIN_TRUST", "maybe"),
        ("TRUSTED_PROXIES", "10.0.0.0/40"),
        ("SHUTDOWN_GRACE_SECONDS", "-1"),
        ("DATABASE_URL", "mysql://root:hunter2@db/x"),
        ("ADMIN_TOKEN_SECRET", "hunter2"),
        ("PLUGIN_SETTINGS_SUPPLIER", "{not json"),
        ("OIDC_MAX_SCOPES", "mcp:use card:read"),
        ("OIDC_MAX_SCOPES", "plugin:supplier:fly"),
    ] {
        let mut host = Host::settings().set(name, value).launch();
        let status = host.program().ended().await;
        assert_eq!(status.code(), Some(64), "{name}={value}: {}", host.log());
        let log = host.log();
        assert!(log.contains(name), "{name}={value} is not named: {log}");
        assert!(!log.contains("hunter2"), "a secret is printed: {log}");
        assert!(!host.data().join("addresses.json").exists(), "{name}={value}: a port was bound");
    }
}

#[tokio::test]
async fn all_bad_settings_are_named_at_once() {
    let mut host = Host::settings().set("ADMIN_TOKEN_TTL_HOURS", "0").set("LOG_FORMAT", "loud").launch();
    assert_eq!(host.program().ended().await.code(), Some(64));
    let log = host.log();
    assert!(log.contains("ADMIN_TOKEN_TTL_HOURS") && log.contains("LOG_FORMAT"), "{log}");
}

#[tokio::test]
async fn listeners_of_one_address_are_refused_before_a_port_is_bound() {
    for (name, value) in [("METRICS_ADDR", "127.0.0.1:18080"), ("ADMIN_LISTEN_ADDR", "0.0.0.0:18080")] {
        let mut host = Host::settings().set("LISTEN_ADDR", "127.0.0.1:18080").set(name, value).launch();
        assert_eq!(host.program().ended().await.code(), Some(64), "{name}: {}", host.log());
        let log = host.log();
        assert!(log.contains(&format!("{name} (--")) && log.contains("overlaps with LISTEN_ADDR"), "{log}");
        assert!(!host.data().join("lock").exists(), "DATA_DIR was taken");
    }
}

#[test]
fn folders_and_files_that_do_not_fit_are_named_with_a_way_out() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("file"), "text").unwrap();
    for setting in ["DATA_DIR", "PLUGINS_DIR"] {
        let (_, error) = exited(&cardinal_with(["serve"], &[(setting, &at("file"))]), 64);
        assert!(error.contains(setting) && error.contains("is not a folder"), "{error}");
    }
    let (_, error) = exited(&cardinal_with(["serve"], &[("DATA_DIR", "/proc/nowhere")]), 1);
    assert!(error.contains("DATA_DIR /proc/nowhere cannot be created"), "{error}");
    let (_, error) = exited(&cardinal(["backup", &at("missing/backup.tar")]), 1);
    assert!(error.contains(&format!("the folder {} does not exist: create it", at("missing"))), "{error}");
    let (_, error) = exited(&cardinal(["restore", &at("file")]), 1);
    assert!(error.contains("is not a Cardinal backup") && !error.contains("text"), "{error}");
    let (_, error) = exited(&cardinal(["cards", "import", folder.path().to_str().unwrap()]), 1);
    assert!(error.contains("is a folder: give a CSV or NDJSON file"), "{error}");
}

#[tokio::test]
async fn a_slip_in_the_name_of_a_setting_is_warned_about() {
    let settings = Host::settings().plugins(PluginsFolder::bundled()).set("LISTEN_ADR", "127.0.0.1:1");
    let host = settings.set("PLUGIN_SETTINGS_SUPLIER", "{}").set("PLUGIN_SETTINGS_SUPPLIER", "{}").start().await;
    eventually("the warnings", async || host.log().contains("PLUGIN_SETTINGS_SUPLIER").then_some(())).await;
    let log = host.log();
    let lines = |of: &str| log.lines().filter(|line| line.contains("WARN") && line.contains(of)).count();
    assert!(log.contains("did you mean LISTEN_ADDR?"), "{log}");
    assert!(log.contains("Did you mean `PLUGIN_SETTINGS_SUPPLIER`?"), "{log}");
    assert_eq!((lines("LISTEN_ADR"), lines("PLUGIN_SETTINGS_")), (1, 1), "{log}");
}

#[tokio::test]
async fn an_address_in_use_names_who_has_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut host = Host::settings().set("LISTEN_ADDR", taken.local_addr().unwrap().to_string()).launch();
    assert!(!host.program().ended().await.success());
    let log = host.log();
    let own = format!("(process {}) listens there already", std::process::id());
    assert!(log.contains(&own) && log.contains("--listen-addr"), "{log}");
}
