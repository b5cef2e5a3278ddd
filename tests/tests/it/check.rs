//! `cardinal check`: tells what is wrong beside a running host and with the host stopped, and changes nothing.

use std::path::Path;
use std::process::Output;

use cardinal_tests::{Host, Package, Pages, PluginsFolder, cardinal};
use rustix::process::Signal;
use serde_json::{Value, json};

/// What a check found, and how it ended.
struct Checked {
    code: Option<i32>,
    report: Value,
}

impl Checked {
    fn from_output(output: &Output) -> Checked {
        let told = String::from_utf8_lossy(&output.stderr);
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
        Checked { code: output.status.code(), report }
    }

    fn findings(&self) -> &[Value] {
        self.report["findings"].as_array().unwrap()
    }

    fn codes(&self) -> Vec<&str> {
        self.findings().iter().map(|finding| finding["code"].as_str().unwrap()).collect()
    }

    #[track_caller]
    fn finding(&self, code: &str) -> &Value {
        let found = self.findings().iter().find(|finding| finding["code"] == code);
        found.unwrap_or_else(|| panic!("no {code} in {:#}", self.report))
    }

    #[track_caller]
    fn finding_on(&self, code: &str, subject: &str) -> &Value {
        let found = self.findings().iter().find(|it| it["code"] == code && it["subject"] == subject);
        found.unwrap_or_else(|| panic!("no {code} on {subject} in {:#}", self.report))
    }

    fn problems(&self) -> Vec<&Value> {
        self.findings().iter().filter(|finding| finding["severity"] == "error").collect()
    }
}

fn check_at(data: &Path, plugins: &Path, more: &[&str]) -> Checked {
    let mut arguments = vec!["check", "--json", "--listen-addr", "127.0.0.1:0"];
    arguments.extend(["--data-dir", data.to_str().unwrap(), "--plugins-dir", plugins.to_str().unwrap()]);
    arguments.extend(more);
    Checked::from_output(&cardinal(arguments))
}

fn check(host: &Host, more: &[&str]) -> Checked {
    check_at(&host.data(), host.plugins().path(), more)
}

async fn stop(host: &mut Host) {
    host.program().signal(Signal::TERM);
    assert!(host.program().ended().await.success());
}

fn two_plugins() -> PluginsFolder {
    PluginsFolder::default().with("supplier", &Package::bundled("supplier")).with("echo", &Package::fixture("echo"))
}

#[tokio::test]
async fn a_host_that_is_well_passes_running_and_stopped() {
    let mut host = Host::settings().plugins(two_plugins()).start().await;
    let running = check(&host, &[]);
    assert_eq!((running.code, &running.problems()), (Some(0), &vec![]), "{:#}", running.report);
    assert_eq!(running.report["host"], "running");
    stop(&mut host).await;
    let stopped = check(&host, &[]);
    assert_eq!((stopped.code, &stopped.problems()), (Some(0), &vec![]), "{:#}", stopped.report);
    assert_eq!((&stopped.report["host"], &stopped.report["ok"]), (&json!("stopped"), &json!(true)));
    for checked in [&running, &stopped] {
        for code in ["settings-valid", "database-reachable", "migrations-current", "isolation-holds", "secrets-private"]
        {
            assert_eq!(checked.finding(code)["severity"], "ok");
        }
        assert!(checked.finding_on("plugin-good", "supplier")["message"].as_str().unwrap().contains("would be loaded"));
        checked.finding_on("plugin-good", "echo");
    }
    assert!(stopped.codes().contains(&"address-free"));
    running.finding("host-ready");
    for plugin in ["echo", "supplier"] {
        running.finding_on("plugin-serving", plugin);
    }
    // This check was not given the host's own settings.
    let differing = running.finding("settings-differ");
    assert!(differing["found"].as_str().unwrap().contains("SHUTDOWN_GRACE_SECONDS = 25, in force 10"), "{differing}");
    assert!(!differing.to_string().contains("LISTEN_ADDR"), "a port that the system has chosen: {differing}");
    // And the host starts on what the check has left behind.
    let host = host.again(|settings| settings).await;
    host.owner().await.get("/v1/admin/plugins/echo/hello").await.expect(200);
}

#[tokio::test]
async fn a_finding_has_the_same_members_always() {
    let folder = tempfile::tempdir().unwrap();
    let plugins = PluginsFolder::default().with("broken", &Package::fixture("echo").manifest_text("{"));
    let checked = check_at(&folder.path().join("data"), plugins.path(), &[]);
    let mut members: Vec<&String> = checked.report.as_object().unwrap().keys().collect();
    members.sort();
    assert_eq!(members, ["counts", "findings", "host", "ok", "version"]);
    for finding in checked.findings() {
        let mut members: Vec<&String> = finding.as_object().unwrap().keys().collect();
        members.sort();
        assert_eq!(members, ["cause", "code", "expected", "fix", "found", "message", "severity", "subject"]);
        assert!(["ok", "warning", "error"].contains(&finding["severity"].as_str().unwrap()));
        if finding["severity"] != "ok" {
            assert!(finding["fix"].is_string() && finding["message"].is_string(), "{finding}");
        }
    }
    assert_eq!(checked.report["counts"]["error"], checked.problems().len());
}

#[tokio::test]
async fn nothing_is_made_where_there_is_no_host_yet() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let checked = check_at(&data, &folder.path().join("plugins"), &[]);
    assert_eq!(checked.code, Some(0), "{:#}", checked.report);
    assert_eq!(
        (checked.finding("database-new")["severity"].as_str(), checked.codes().contains(&"plugins-none")),
        (Some("ok"), true)
    );
    assert!(!data.exists() && !folder.path().join("plugins").exists());
}

#[test]
fn bad_settings_are_findings_and_a_bad_line_is_64() {
    let output = cardinal(["check", "--json", "--listen-addr", "nowhere", "--card-retention-days", "x"]);
    let checked = Checked::from_output(&output);
    assert_eq!((checked.code, &checked.report["host"]), (Some(1), &json!("unknown")));
    assert_eq!(checked.codes(), ["setting-invalid", "setting-invalid"]);
    checked.finding_on("setting-invalid", "LISTEN_ADDR");
    checked.finding_on("setting-invalid", "CARD_RETENTION_DAYS");
    for line in [vec!["check", "--no-such-flag"], vec!["check", "--core-version", "two"], vec!["check", "extra"]] {
        assert_eq!(cardinal(&line).status.code(), Some(64), "{line:?}");
    }
    let help = cardinal(["check", "--help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("Examples:"));
}

#[tokio::test]
async fn databases_that_plugins_reach_beside_the_hosts_are_named() {
    let host = Host::settings().start().await;
    assert!(!check(&host, &[]).codes().contains(&"other-databases-open"));
    host.database().await.batch_execute("GRANT CONNECT ON DATABASE postgres TO PUBLIC").await.unwrap();
    let checked = check(&host, &[]);
    assert_eq!(checked.finding("other-databases-open")["found"], "postgres");
}

#[tokio::test]
async fn rights_that_somebody_gave_by_hand_are_found() {
    let mut host = Host::settings().plugins(two_plugins()).start().await;
    let database = host.database().await;
    let role =
        |part: &str| format!("(SELECT rolname FROM pg_roles WHERE rolname LIKE 'cardinal\\_%\\_{part}' LIMIT 1)");
    let give =
        |statement: &str, part: &str| format!("DO $$ BEGIN EXECUTE format('{statement}', {}); END $$", role(part));
    let table =
        "SELECT relname FROM pg_class WHERE relnamespace = 'plugin_supplier'::regnamespace AND relkind = 'r' LIMIT 1";
    let table: String = database.query_one(table, &[]).await.unwrap().get(0);
    for part in ["core", "p\\_echo"] {
        database.batch_execute(&give("GRANT USAGE ON SCHEMA plugin_supplier TO %I", part)).await.unwrap();
        database.batch_execute(&give(&format!("GRANT SELECT ON plugin_supplier.{table} TO %I"), part)).await.unwrap();
    }
    database.batch_execute(&give("GRANT UPDATE ON public.master_cards TO %I", "plugin")).await.unwrap();
    database.batch_execute(&give("GRANT SELECT ON public.admin_users TO %I", "p\\_echo")).await.unwrap();
    for running in [true, false] {
        if !running {
            stop(&mut host).await;
        }
        let checked = check(&host, &[]);
        assert_eq!(checked.code, Some(1));
        let found = checked.finding("core-reads-plugin");
        assert!(found["subject"].as_str().unwrap().ends_with("_core"), "{found}");
        assert!(found["found"].as_str().unwrap().contains(&format!("plugin_supplier.{table}")), "{found}");
        assert!(found["fix"].as_str().unwrap().contains("REVOKE"), "{found}");
        let echo = checked.finding("plugin-reads-plugin");
        assert!(echo["subject"].as_str().unwrap().ends_with("_p_echo"), "{echo}");
        let writes: Vec<_> = checked.findings().iter().filter(|it| it["code"] == "plugin-writes-cards").collect();
        assert_eq!(writes.len(), 2, "both plugins are in the group: {writes:?}");
        assert!(checked.finding("plugin-reads-core")["found"].as_str().unwrap().contains("admin_users"));
        assert!(!checked.codes().contains(&"isolation-holds"));
    }
}

#[tokio::test]
async fn attempts_leave_nothing_behind() {
    let host = Host::settings().plugins(two_plugins()).start().await;
    let card = host.owner().await.card("Kept").await;
    let database = host.database().await;
    let state =
        "SELECT (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_roles), (SELECT count(*) FROM master_cards)";
    let row = |row: tokio_postgres::Row| [row.get::<_, i64>(0), row.get(1), row.get(2)];
    let before = row(database.query_one(state, &[]).await.unwrap());
    // Even what is let through is rolled back.
    database.batch_execute("GRANT CREATE ON SCHEMA public TO PUBLIC").await.unwrap();
    let checked = check(&host, &[]);
    assert!(checked.codes().contains(&"core-runs-ddl"), "{:#}", checked.report);
    // The fence refuses it to plugins whatever rights they are given.
    assert!(!checked.codes().contains(&"plugin-runs-ddl"), "{:#}", checked.report);
    assert_eq!(row(database.query_one(state, &[]).await.unwrap()), before);
    assert_eq!(host.owner().await.read_card(card["id"].as_str().unwrap()).await["version"], card["version"]);
}

#[tokio::test]
async fn broken_plugins_are_named_with_the_reason_and_good_ones_pass_beside_them() {
    let plugins = two_plugins()
        .with("no-manifest", &Package::fixture("quick").manifest_text("{"))
        .with(
            "newer",
            &Package::fixture("quick").manifest(|manifest| manifest["engine"]["core_version"] = json!(">=7.0.0")),
        )
        .with("twice", &Package::fixture("echo"));
    let folder = tempfile::tempdir().unwrap();
    let checked = check_at(&folder.path().join("data"), plugins.path(), &["--core-version", "2.0.0"]);
    assert_eq!(checked.code, Some(1));
    let causes: Vec<&str> = checked.findings().iter().filter_map(|it| it["cause"].as_str()).collect();
    for cause in ["bad-manifest", "core-out-of-range", "duplicate-name"] {
        assert!(causes.contains(&cause), "{cause} is missing: {causes:?}");
    }
    checked.finding_on("plugin-good", "supplier");
    checked.finding_on("plugin-good", "echo");
}

#[tokio::test]
async fn settings_of_no_plugin_are_warned_about_with_what_was_meant() {
    let (plugins, folder) = (two_plugins(), tempfile::tempdir().unwrap());
    let networks = ["--plugin-networks", "suplier=10.0.0.0/8,echo=10.1.0.0/16,127.0.0.1"];
    let checked = check_at(&folder.path().join("data"), plugins.path(), &networks);
    assert_eq!(checked.code, Some(0), "{:#}", checked.report);
    let finding = checked.finding_on("setting-of-no-plugin", "PLUGIN_NETWORKS");
    assert_eq!(finding["severity"], "warning");
    assert!(finding["message"].as_str().unwrap().contains("the plugin `suplier`"), "{finding}");
    assert!(finding["fix"].as_str().unwrap().contains("supplier"), "{finding}");
    assert_eq!(checked.codes().iter().filter(|code| **code == "setting-of-no-plugin").count(), 1);
}

#[tokio::test]
async fn another_core_version_is_judged_by_each_plugins_range() {
    let (plugins, folder) = (two_plugins(), tempfile::tempdir().unwrap());
    let at = |more: &[&str]| check_at(&folder.path().join("data"), plugins.path(), more);
    let checked = at(&["--core-version", "0.9.0"]);
    assert_eq!(checked.code, Some(1));
    for plugin in ["echo", "supplier"] {
        checked.finding_on("plugin-good", plugin);
        assert_eq!(checked.finding_on("core-version-breaks", plugin)["cause"], "core-out-of-range");
    }
    let checked = at(&["--core-version", "1.5.0-rc.1"]);
    assert_eq!(checked.code, Some(0));
    checked.finding_on("core-version-fits", "supplier");
}

#[tokio::test]
async fn a_library_that_ends_its_process_is_found_in_a_child() {
    let plugins = PluginsFolder::default().with(
        "bad",
        &Package::fixture("bad-constructor").library(|mut library| {
            let marker = b"cardinal-fixture-sin:";
            let at = library.windows(marker.len()).position(|window| window == marker).unwrap() + marker.len();
            library[at..at + 5].copy_from_slice(b"abort");
            Some(library)
        }),
    );
    let folder = tempfile::tempdir().unwrap();
    let checked = check_at(&folder.path().join("data"), plugins.path(), &[]);
    assert_eq!((checked.code, &checked.finding("plugin-refused")["cause"]), (Some(1), &json!("probe-failed")));
}

#[tokio::test]
async fn a_changed_schema_is_told_and_not_run() {
    let mut host = Host::settings().plugins(two_plugins()).start().await;
    stop(&mut host).await;
    let plugins = PluginsFolder::default().with("supplier", &Package::bundled("supplier")).with(
        "echo",
        &Package::fixture("echo")
            .schema("CREATE TABLE IF NOT EXISTS added (id int);")
            .manifest(|manifest| manifest["version"] = json!("9.9.9")),
    );
    // The manifest beside the library differs from the one inside: that is refused before anything else.
    let checked = check_at(&host.data(), plugins.path(), &[]);
    assert_eq!(checked.finding_on("plugin-refused", "echo")["cause"], "manifest-mismatch");
    let plugins = PluginsFolder::default()
        .with("echo", &Package::fixture("echo").schema("CREATE TABLE IF NOT EXISTS added (id int);"));
    let checked = check_at(&host.data(), plugins.path(), &[]);
    assert_eq!(checked.finding_on("plugin-schema-changes", "echo")["severity"], "warning");
    assert_eq!(checked.finding_on("plugin-data-orphaned", "supplier")["severity"], "warning");
    let host = host.again(|settings| settings).await;
    let added = "SELECT to_regclass('plugin_echo.added') IS NULL";
    assert!(host.database().await.query_one(added, &[]).await.unwrap().get::<_, bool>(0));
}

/// What an older version let a schema.sql leave behind.
#[tokio::test]
async fn a_function_in_a_plugins_schema_is_named() {
    let mut host = Host::settings().plugins(two_plugins()).start().await;
    let database = host.database().await;
    let left = "CREATE FUNCTION plugin_echo.left_behind() RETURNS int LANGUAGE sql AS 'select 1'";
    database.batch_execute(left).await.unwrap();
    drop(database);
    stop(&mut host).await;
    let checked = check_at(&host.data(), host.plugins().path(), &[]);
    let found = checked.finding_on("schema-unsafe", "echo");
    assert_eq!((checked.code, &found["severity"]), (Some(1), &json!("error")));
    assert!(found["found"].as_str().unwrap().contains("a function: plugin_echo.left_behind()"), "{found}");
    // And a host does not serve it; the other is served.
    let host = host.again(|settings| settings).await;
    let root = host.owner().await;
    let echo = root.get("/v1/admin/plugin-registry/echo").await.expect(200);
    assert_eq!(
        (&echo["item"]["state"], &echo["item"]["refusal"]["code"]),
        (&json!("refused"), &json!("schema-unsafe"))
    );
    assert_eq!(root.get("/v1/admin/plugin-registry/supplier").await.expect(200)["item"]["state"], "active");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxied_html_beside_the_admin_ui_is_warned_about() {
    let pages = Pages::serve([("/shop/", "<html></html>".to_owned())]).await;
    let folder = tempfile::tempdir().unwrap();
    let route = format!("/shop={}", pages.url(""));
    let at = |more: &[&str]| {
        let mut arguments = vec!["--proxy-routes", &route];
        arguments.extend(more);
        check_at(&folder.path().join("data"), &folder.path().join("plugins"), &arguments)
    };
    let checked = tokio::task::block_in_place(|| at(&[]));
    let found = checked.finding_on("proxy-serves-html", "/shop");
    assert_eq!((checked.code, &found["severity"]), (Some(0), &json!("warning")));
    assert!(found["fix"].as_str().unwrap().contains("PROXY_HOSTS"));
    assert_eq!(tokio::task::block_in_place(|| at(&["--strict"])).code, Some(1));
    let apart = tokio::task::block_in_place(|| at(&["--proxy-hosts", "www.example.com"]));
    assert!(apart.codes().contains(&"proxy-route") && !apart.codes().contains(&"proxy-serves-html"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_finds_what_the_command_finds_without_the_owners_rights() {
    const CHECK: &str = "/v1/admin/system/check";
    let pages = Pages::serve([("/shop/", "<html></html>".to_owned())]).await;
    let route = format!("/shop={}", pages.url(""));
    let host = Host::settings().plugins(PluginsFolder::default()).set("PROXY_ROUTES", &route).start().await;
    let report = host.owner().await.get(CHECK).await.expect(200);
    let again = host.owner().await.get(CHECK).await.expect(200);
    assert_eq!(again["checked_at"], report["checked_at"], "upstreams are not asked for each look");
    let worker = Checked { code: None, report };
    assert_eq!(worker.finding_on("proxy-serves-html", "/shop")["severity"], "warning");
    assert_eq!((&worker.report["ok"], worker.problems().len()), (&json!(true), 0), "{:#}", worker.report);
    let command = tokio::task::block_in_place(|| check(&host, &["--proxy-routes", &route]));
    let codes = ["settings-valid", "disk-space", "file-limit", "secrets-private", "proxy-serves-html"];
    for code in codes {
        assert_eq!(worker.finding(code)["severity"], command.finding(code)["severity"], "{code}");
    }
    // What takes the owner's rights, or opens packages, is the command's alone.
    let beyond = |code: &&str| ["database", "migrations", "isolation", "plugin"].iter().any(|of| code.starts_with(of));
    assert_eq!(worker.codes().into_iter().filter(beyond).collect::<Vec<_>>(), Vec::<&str>::new());
}

#[tokio::test]
async fn a_secret_that_others_may_read_is_an_error() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut host = Host::settings().plugins(PluginsFolder::default()).start().await;
    stop(&mut host).await;
    let file = host.data().join("token-secret");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let checked = check(&host, &[]);
    assert_eq!(checked.code, Some(1));
    let found = checked.finding("secret-readable");
    assert!(found["subject"].as_str().unwrap().ends_with("/token-secret"), "{found}");
    assert!(found["fix"].as_str().unwrap().contains("chmod 0600"), "{found}");
}

#[tokio::test]
async fn a_database_that_is_not_there_is_told_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let plugins = folder.path().join("plugins");
    let more = ["--database-url", "postgres://nobody:x@127.0.0.1:1/none"];
    let checked = check_at(&folder.path().join("data"), &plugins, &more);
    assert_eq!(checked.code, Some(1));
    let found = checked.finding("database-unusable");
    assert!(found["found"].as_str().unwrap().contains("127.0.0.1:1"), "{found}");
    assert!(!found.to_string().contains("nobody:x"), "no password is shown: {found}");
}

#[test]
fn what_a_file_is_called_cannot_take_over_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let plugins = folder.path().join("plugins");
    std::fs::create_dir_all(plugins.join("evil\u{1b}[2J\nERROR")).unwrap();
    let output = cardinal([
        "check",
        "--listen-addr",
        "127.0.0.1:0",
        "--data-dir",
        folder.path().join("data").to_str().unwrap(),
        "--plugins-dir",
        plugins.to_str().unwrap(),
    ]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(!told.contains('\u{1b}') && told.contains("evil\\u{1b}[2J\\u{a}ERROR"), "{told}");
}

#[tokio::test]
async fn what_an_upgrade_takes_away_is_told_against_what_serves_or_has_served_last() {
    let mut host = Host::settings().plugins(two_plugins()).start().await;
    let next =
        Package::fixture("echo").manifest(|manifest| manifest["mcp"]["tools"][0]["name"] = json!("plugin_echo_speak"));
    let plugins = PluginsFolder::default().with("echo", &next).with("supplier", &Package::bundled("supplier"));
    for state in ["running", "stopped"] {
        let checked = check_at(&host.data(), plugins.path(), &[]);
        assert_eq!(checked.report["host"], state);
        let lost = checked.finding_on("plugin-upgrade-loses", "echo");
        assert_eq!(lost["severity"], "warning");
        assert!(lost["found"].as_str().unwrap().contains("-tool plugin_echo_say"), "{lost}");
        assert!(!checked.findings().iter().any(|it| it["subject"] == "supplier" && it["code"] == "plugin-upgrade"));
        if state == "running" {
            host.program().signal(rustix::process::Signal::TERM);
            assert!(host.program().ended().await.success(), "{}", host.log());
        }
    }
}

#[tokio::test]
async fn a_host_that_cannot_be_asked_is_an_error() {
    let host = Host::settings().plugins(PluginsFolder::default()).start().await;
    std::fs::remove_file(host.data().join("cardinal.sock")).unwrap();
    let checked = check(&host, &[]);
    assert_eq!((checked.code, &checked.report["host"]), (Some(1), &json!("running")));
    assert!(checked.finding("host-unresponsive")["found"].as_str().unwrap().contains("cardinal.sock"));
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--auth-url", "http://127.0.0.1:1"];
    let checked = check_at(&folder.path().join("data"), &folder.path().join("plugins"), &more);
    let found = checked.finding("provider-unusable");
    assert_eq!((checked.code, &found["severity"]), (Some(0), &json!("warning")));
    assert!(found["found"].as_str().unwrap().contains("127.0.0.1:1"), "{found}");
}
