//! Contract 8: the supervisor alone has the credentials of owner and provisioner. No plugin reads them from disk, from the
//! supervisor's process or from an environment.

mod attacks;

use std::path::Path;

use cardinal_tests::{Host, HostSettings, Package, PluginsFolder, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

const UNRULY: &str = "/v1/admin/plugins/unruly";
/// `nobody`: the tests that run as root start a host as this user, too. PostgreSQL wants one that has a name.
const ORDINARY_USER: u32 = 65_534;
const TOKEN_SECRET: &str = "a token secret of this test, long enough";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn with_unruly() -> HostSettings {
    Host::settings().plugins(PluginsFolder::default().with("unruly", &Package::fixture("unruly")))
}

/// Landlock keeps signals in since 6.12.
fn linux() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// What the kernel says of a process.
fn status(pid: i32, field: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.split_whitespace().next().unwrap_or_default().to_owned()
}

/// Everything that is the supervisor's.
fn forbidden(host: &Host, secret_file: &Path) -> Vec<String> {
    let in_data = [
        "",
        "postgres-password",
        "database-secret",
        "token-secret",
        "bootstrap-password",
        "host-id",
        "plugins.lock",
        "pg/cluster",
        "pg/cluster/PG_VERSION",
        "pg/cluster/pg_hba.conf",
    ];
    let of_supervisor = ["environ", "mem", "maps", "auxv", "fd/0", "fd/1", "cwd/.", "root/etc/passwd"];
    let in_data = in_data.map(|file| host.data().join(file).to_str().unwrap().to_owned());
    let of_supervisor = of_supervisor.map(|file| format!("/proc/{{supervisor}}/{file}"));
    let own = secret_file.to_str().unwrap().to_owned();
    in_data.into_iter().chain(of_supervisor).chain([own]).collect()
}

async fn finds_nothing_of_the_supervisors(host: &Host, secret_file: &Path) {
    let owner = host.owner().await;
    let found = owner.post(&format!("{UNRULY}/snoop"), &json!({"paths": forbidden(host, secret_file)})).await;
    assert_eq!(found.expect(200), json!({"read": [], "write": []}));
    // Its own are there, and what every program may read.
    let package = host.plugins().path().join("unruly/manifest.json");
    let own = [package.to_str().unwrap(), "/etc/passwd", "/proc/self/status"];
    let found = owner.post(&format!("{UNRULY}/snoop"), &json!({"paths": own})).await.expect(200);
    assert_eq!(found["read"], json!(own));
}

/// A file with a secret, the host's user's alone; a host that finds it open does not start.
fn secret_of(user: Option<u32>) -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.path().join("token"), format!("{TOKEN_SECRET}\n")).unwrap();
    std::fs::set_permissions(folder.path().join("token"), std::fs::Permissions::from_mode(0o400)).unwrap();
    if let Some(user) = user {
        std::os::unix::fs::chown(folder.path().join("token"), Some(user), Some(user)).unwrap();
    }
    folder
}

/// Opens it to everybody, so that nothing but Landlock is in the way.
fn open(file: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o444)).unwrap();
}

fn closed(pid: i32) {
    assert_eq!(status(pid, "NoNewPrivs:"), "1");
    // What belongs to a process that is closed to others is root's.
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(std::fs::metadata(format!("/proc/{pid}/environ")).unwrap().uid(), 0);
}

#[tokio::test]
async fn a_plugin_of_a_host_that_root_started_finds_nothing_of_the_supervisors() {
    if !is_root() {
        return;
    }
    let secrets = secret_of(None);
    let file = secrets.path().join("token");
    let host = with_unruly().set("ADMIN_TOKEN_SECRET_FILE", file.to_str().unwrap()).start().await;
    let user = status(host.worker_pid(), "Uid:");
    assert!(user != "0" && user != status(host.postgres_pid(), "Uid:"), "the worker runs as {user}");
    assert_eq!(status(host.worker_pid(), "CapEff:"), "0000000000000000");
    closed(host.supervisor_pid());
    closed(host.worker_pid());
    open(&file);
    // Without Landlock a secret that its operator has opened to everybody is open.
    let looked_for = if cardinal_control::sandbox::is_supported() { file.clone() } else { host.data().join("lock") };
    finds_nothing_of_the_supervisors(&host, &looked_for).await;
    let reached = host.owner().await.get(&format!("{UNRULY}/signal")).await.expect(200);
    assert_eq!(reached, json!({"reached": false}));
    assert!(!host.log().contains(TOKEN_SECRET));
    // All of it again in the worker's next life.
    kill_process(Pid::from_raw(host.worker_pid()).unwrap(), Signal::KILL).unwrap();
    eventually("the plugin is back", async || {
        (host.owner().await.call(http::Method::GET, &format!("{UNRULY}/who")).try_send().await.ok()?.status == 200)
            .then_some(())
    })
    .await;
    finds_nothing_of_the_supervisors(&host, &looked_for).await;
}

#[tokio::test]
async fn a_plugin_of_an_ordinary_users_host_finds_nothing_of_the_supervisors() {
    if !cardinal_control::sandbox::is_supported() {
        return;
    }
    let secrets = secret_of(is_root().then_some(ORDINARY_USER));
    let file = secrets.path().join("token");
    let settings = with_unruly().set("ADMIN_TOKEN_SECRET_FILE", file.to_str().unwrap());
    let settings = if is_root() { settings.run_as(ORDINARY_USER) } else { settings };
    let host = settings.start().await;
    assert_eq!(status(host.worker_pid(), "Uid:"), status(host.supervisor_pid(), "Uid:"));
    closed(host.supervisor_pid());
    closed(host.worker_pid());
    finds_nothing_of_the_supervisors(&host, &file).await;
    if linux() >= (6, 12) {
        let reached = host.owner().await.get(&format!("{UNRULY}/signal")).await.expect(200);
        assert_eq!(reached, json!({"reached": false}));
    }
    // It keeps packages, and comes back with them.
    let kept = host.data().join("packages/unruly");
    eventually("the package is kept", async || kept.is_dir().then_some(())).await;
    let host = host.restart(|settings| settings).await;
    finds_nothing_of_the_supervisors(&host, &file).await;
}

#[tokio::test]
async fn a_worker_that_cannot_reach_its_plugins_keeps_roots_account_and_finds_nothing_all_the_same() {
    use std::os::unix::fs::PermissionsExt as _;
    if !is_root() || !cardinal_control::sandbox::is_supported() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let plugins = PluginsFolder::within(folder).with("unruly", &Package::fixture("unruly"));
    let host = Host::settings().plugins(plugins).start().await;
    assert_eq!(status(host.worker_pid(), "Uid:"), "0");
    assert!(host.log().contains("the worker runs as root"), "{}", host.log());
    finds_nothing_of_the_supervisors(&host, &host.data().join("lock")).await;
    // Once it can, what was kept as root is handed over.
    std::fs::set_permissions(host.plugins().path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let host = host.restart(|settings| settings).await;
    assert_ne!(status(host.worker_pid(), "Uid:"), "0");
    assert_eq!(host.plugin("unruly").await["state"], "active");
    host.owner().await.get(&format!("{UNRULY}/who")).await.expect(200);
}

#[tokio::test]
async fn a_worker_that_cannot_reach_the_databases_socket_keeps_roots_account() {
    if !is_root() || !cardinal_control::sandbox::is_supported() {
        return;
    }
    // Its PostgreSQL lets nobody else to its socket.
    let other = Host::settings().run_as(ORDINARY_USER).start().await;
    let host = other.beside().start().await;
    assert_eq!(status(host.worker_pid(), "Uid:"), "0");
    host.owner().await.card("By the other way").await;
}
