//! What native code in the worker can write, call, print or connect to: nothing that leads to the supervisor.

use std::path::Path;

use cardinal_tests::{
    Host, HostSettings, Package, PluginsFolder, Relay, User, cardinal, cardinal_on, descendants, eventually, exited,
    lives,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{ORDINARY_USER, UNRULY, is_root, linux, status, with_unruly};

/// The number of a segment of shared memory that this process has made.
fn shared_memory_of(pid: i32) -> String {
    let table = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_pid = rows.filter(|row| row.get(4) == Some(&pid.to_string().as_str())).map(|row| row[1].to_owned()).next();
    of_pid.expect("PostgreSQL has a segment")
}

/// What native code tries with paths and processes of this host. None of it may go well.
fn attempts(host: &Host, outside: &Path) -> Value {
    let (postgres, supervisor) = (host.postgres_pid(), "{supervisor}");
    let outside = |name: &str| outside.join(name).to_str().unwrap().to_owned();
    let data = |name: &str| host.data().join(name).to_str().unwrap().trim_end_matches('/').to_owned();
    let token = data("local-token");
    let mut tried = vec![
        // Whoever writes as the supervisor's user becomes the supervisor.
        json!(["write", outside(".bashrc")]),
        json!(["append", outside("profile")]),
        json!(["mkdir", outside("bin")]),
        json!(["remove", outside("profile")]),
        json!(["truncate", outside("profile")]),
        json!(["write", "/tmp/unruly"]),
        json!(["rename", data(""), outside("moved")]),
        json!(["write", data("made")]),
        // Other ways to what is hidden.
        json!(["read", token]),
        json!(["link", token, "{tmp}/token"]),
        json!(["read through a link", token, "{tmp}/link"]),
        json!(["read", format!("/proc/self/root{token}")]),
        json!(["read", format!("/proc/{supervisor}/root{token}")]),
        json!(["read", format!("/proc/{supervisor}/cwd{token}")]),
        json!(["read in", data(""), "local-token"]),
        json!(["have namespaces"]),
        json!(["mount", data(""), "{tmp}"]),
        json!(["change mode", data(""), "755"]),
        json!(["change mode", data("postgres-password"), "644"]),
        // Into PostgreSQL and the supervisor.
        json!(["list", "/dev/shm"]),
        json!(["write", "/dev/shm/unruly"]),
        json!(["remove shared memory", shared_memory_of(postgres)]),
        json!(["read", format!("/proc/{postgres}/environ")]),
        json!(["read", format!("/proc/{postgres}/maps")]),
        json!(["follow", format!("/proc/{postgres}/fd/3")]),
        json!(["read", format!("/proc/{postgres}/fd/3")]),
        json!(["append", format!("/proc/{postgres}/oom_score_adj")]),
        json!(["limit", postgres.to_string()]),
        json!(["limit", supervisor]),
        json!(["read", format!("/proc/{supervisor}/environ")]),
        // A program that keeps the rights of its owner.
        json!(["change mode of an open file", "{tmp}/sh", "4755"]),
    ];
    if linux() >= (6, 12) {
        tried.extend([json!(["kill", postgres.to_string()]), json!(["kill", supervisor])]);
    }
    json!({"attempts": tried})
}

async fn attempts_come_to_nothing(host: &Host) {
    let outside = host.data().parent().unwrap().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("profile"), "mine").unwrap();
    // As if it were the home of whoever runs the worker.
    let worker = status(host.worker_pid(), "Uid:").parse().unwrap();
    if is_root() {
        for path in [outside.clone(), outside.join("profile")] {
            std::os::unix::fs::chown(path, Some(worker), None).unwrap();
        }
    }
    let owner = host.owner().await;
    let route = format!("{UNRULY}/attempts");
    assert_eq!(owner.post(&route, &attempts(host, &outside)).await.expect(200), json!({"done": []}));
    assert_eq!(std::fs::read_to_string(outside.join("profile")).unwrap(), "mine");
    // Each is one that can go well, and what a plugin may do it can.
    let may = json!([
        ["write", "{tmp}/file"],
        ["append", "{tmp}/file"],
        ["truncate", "{tmp}/file"],
        ["read", "{tmp}/file"],
        ["read in", "{tmp}", "file"],
        ["read through a link", "{tmp}/file", "{tmp}/another-link"],
        ["follow", "{tmp}/another-link"],
        ["link", "{tmp}/file", "{tmp}/other"],
        ["change mode of an open file", "{tmp}/plain", "644"],
        ["mkdir", "{tmp}/a"],
        ["rename", "{tmp}/file", "{tmp}/a/b"],
        ["list", "{tmp}/a"],
        ["remove", "{tmp}/a/b"],
        ["append", "/dev/null"],
        ["read", "/proc/sysvipc/shm"],
        ["kill", "0"],
    ]);
    let done = owner.post(&route, &json!({"attempts": may})).await.expect(200);
    assert_eq!(done["done"], may);
    assert_eq!(status(host.worker_pid(), "Seccomp:"), "2");
}

async fn the_local_socket_does_not_answer(host: &Host) {
    let owner = host.owner().await;
    let socket = host.data().join("cardinal.sock");
    for begin in ["", &"0".repeat(64)] {
        let wanted = json!({"socket": socket.to_str().unwrap(), "begin": begin});
        let answer = owner.call(http::Method::POST, &format!("{UNRULY}/local-socket")).json(&wanted).send().await;
        // Another user does not even get to connect.
        assert!(answer.status != 200 || answer.expect(200) == json!({"answer": ""}));
    }
}

#[tokio::test]
async fn native_code_of_an_ordinary_users_host_cannot_write_call_or_connect_its_way_to_the_supervisor() {
    if !cardinal_control::sandbox::is_supported() {
        return;
    }
    let settings = if is_root() { with_unruly().run_as(ORDINARY_USER) } else { with_unruly() };
    let host = settings.start().await;
    attempts_come_to_nothing(&host).await;
    the_local_socket_does_not_answer(&host).await;
    assert!(host.log().contains("did not begin with its token"), "{}", host.log());
}

#[tokio::test]
async fn native_code_of_a_host_that_root_started_cannot_write_call_or_connect_its_way_to_the_supervisor() {
    if !is_root() || !cardinal_control::sandbox::is_supported() {
        return;
    }
    let host = with_unruly().start().await;
    attempts_come_to_nothing(&host).await;
    the_local_socket_does_not_answer(&host).await;
}

#[tokio::test]
async fn what_native_code_prints_is_bounded_and_cannot_command_a_terminal() {
    let host = with_unruly().start().await;
    let printed = host.owner().await.get(&format!("{UNRULY}/print")).await.expect(200);
    let places: Vec<&str> = printed["places"].as_array().unwrap().iter().filter_map(|it| it.as_str()).collect();
    assert!(places[0] == "/dev/null" && places[1..].iter().all(|it| it.starts_with("pipe:")), "{printed}");
    eventually("what was dropped is counted", async || host.log().contains("lines were dropped").then_some(())).await;
    let log = host.log();
    assert!(log.contains("before") && log.contains("after") && !log.contains('\x1b') && !log.contains('\x07'), "{log}");
    assert!(log.matches("a line of a flood").count() < 5_000, "{} lines", log.matches("a line of a flood").count());
    // A line that looks like the host's is a text within one of the supervisor's.
    let forged = log.lines().find(|line| line.contains("forged")).unwrap();
    let forged: serde_json::Value = serde_json::from_str(forged).unwrap();
    assert_eq!((&forged["level"], &forged["target"]), (&json!("WARN"), &json!("worker")), "{forged}");
    host.owner().await.get(&format!("{UNRULY}/who")).await.expect(200);
}

/// Root's, where the tests run as root, and an ordinary user's, with a plugin that has time for its attacks.
fn hosts_of_both_kinds() -> Vec<HostSettings> {
    let with_unruly = || {
        let unruly = Package::fixture("unruly").manifest(|it| it["limits"]["timeout_ms"] = json!(60_000));
        Host::settings().plugins(PluginsFolder::default().with("unruly", &unruly))
    };
    if is_root() { vec![with_unruly(), with_unruly().run_as(ORDINARY_USER)] } else { vec![with_unruly()] }
}

fn open_files(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

#[tokio::test]
async fn neither_the_local_socket_nor_its_token_is_ever_in_the_worker() {
    for settings in hosts_of_both_kinds() {
        let host = settings.start().await;
        let owner = host.owner().await;
        let listening = tokio::time::Duration::from_secs(4);
        let wanted = format!("{UNRULY}/walls/eavesdrop?ms={}", listening.as_millis());
        let calls = async {
            for _ in 0..5 {
                let data = host.data();
                let list = move || cardinal(["plugin", "list", "--data-dir", data.to_str().unwrap()]);
                exited(&tokio::task::spawn_blocking(list).await.unwrap(), 0);
            }
        };
        let (heard, ()) = tokio::join!(owner.get(&wanted), calls);
        let heard = heard.expect(200);
        assert_eq!((&heard["accepted"], &heard["log_opened"]), (&json!(0), &json!([])), "{heard}");
        let token = std::fs::read_to_string(host.data().join("local-token")).unwrap();
        assert!(!heard["seen"].as_str().unwrap().contains(token.trim()), "{heard}");
        assert_eq!(remembered(owner, token.trim()).await, 0);
        // The search finds what is there.
        assert!(remembered(owner, host.data().to_str().unwrap()).await > 0);
    }
}

/// How often a text stands in the worker's memory. It is sent backwards, so that the question is not what is found.
async fn remembered(owner: &User, text: &str) -> u64 {
    let wanted = json!({"reversed": text.chars().rev().collect::<String>()});
    let found = owner.post(&format!("{UNRULY}/walls/remembers"), &wanted).await.expect(200);
    found["found"].as_u64().unwrap()
}

#[tokio::test]
async fn native_code_forges_no_line_of_the_log_and_loses_none_of_others() {
    for settings in hosts_of_both_kinds() {
        let host = settings.set("LOG_FORMAT", "json").start().await;
        let owner = host.owner().await;
        let before = open_files(host.supervisor_pid());
        let requests = async {
            for n in 0..200 {
                owner.get(&format!("{UNRULY}/who?n={n}")).await.expect(200);
            }
        };
        let forge = format!("{UNRULY}/walls/forge");
        let (forged, ()) = tokio::join!(owner.get(&forge), requests);
        assert!(forged.status == 200 && forged.text() == "forged", "{forged}");
        let dropped = "dropped lines that are not the host's";
        let read = |log: &str| log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<Value>>();
        let of_who = |line: &&Value| line["path"] == format!("{UNRULY}/who") && line["process"] == "worker";
        // Lines of requests wait for a moment in the worker.
        let log = eventually("what was dropped is counted, and the last request has its line", async || {
            let log = host.log();
            let is_whole = log.contains(dropped) && read(&log).iter().filter(of_who).count() >= 200;
            is_whole.then_some(log)
        })
        .await;
        let lines = read(&log);
        let forged: Vec<&Value> = lines.iter().filter(|line| line.to_string().contains("forged")).collect();
        let message = "forged, and yet the worker's";
        let fair = |line: &Value| {
            line["process"] == "worker" && line["target"] == "cardinal::db" && line["message"] == message
        };
        assert!(!forged.is_empty() && forged.iter().all(|line| fair(line)), "{forged:?}");
        let whole = log.lines().filter(|line| line.contains("forged")).all(|line| line.starts_with("{\"timestamp\""));
        assert!(whole && !log.contains('\x1b'), "{log}");
        assert_eq!(lines.iter().filter(of_who).count(), 200);
        // Lines of the supervisor are nobody's but the supervisor's.
        let supervisors =
            lines.iter().filter(|line| line["target"].as_str().is_some_and(|it| it.starts_with("cardinal::keeper")));
        assert!(supervisors.clone().count() > 0 && supervisors.clone().all(|line| line["process"].is_null()));
        assert!(open_files(host.supervisor_pid()) <= before + 5);
        owner.get(&format!("{UNRULY}/who")).await.expect(200);
    }
}

#[tokio::test]
async fn native_code_cannot_cut_the_worker_off() {
    let host = with_unruly().start().await;
    let (owner, worker) = (host.owner().await, host.worker_pid());
    let tried = owner.get(&format!("{UNRULY}/walls/shut")).await.expect(200);
    let tried = tried.as_array().unwrap();
    assert!(
        tried.len() >= 2 && tried.iter().all(|errno| *errno == rustix::io::Errno::PERM.raw_os_error()),
        "{tried:?}"
    );
    owner.get(&format!("{UNRULY}/who?n=after")).await.expect(200);
    eventually("it goes on logging", async || host.log().contains("unruly/who").then_some(())).await;
    exited(&cardinal_on(&host, &["plugin", "list"]), 0);
    assert_eq!(host.worker_pid(), worker);
}

/// Every process of the worker, the supervisor's own apart.
fn below(worker: i32) -> Vec<String> {
    let name = |pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    descendants(worker).into_iter().map(|(pid, line)| format!("{} {line}", name(pid))).collect()
}

#[tokio::test]
async fn native_code_starts_no_process_and_no_program() {
    for settings in hosts_of_both_kinds() {
        let mut host = settings.start().await;
        let (owner, worker) = (host.owner().await, host.worker_pid());
        let before = below(worker);
        assert!(before.len() == 2 && before.iter().all(|it| it.contains("probes")), "{before:?}");
        let found = owner.get(&format!("{UNRULY}/walls/start")).await.expect(200);
        let found = found.as_object().unwrap();
        assert!(found.len() >= 5 && found.values().all(|errno| errno.as_u64() > Some(0)), "{found:?}");
        let answer = owner.get(&format!("{UNRULY}/walls/become-another")).await;
        assert_eq!(answer.status, 500, "{answer}");
        assert_eq!((below(worker), host.worker_pid()), (before, worker));
        // Plugins are tried all the same: by a process that ends with the worker.
        let again = owner.post("/v1/admin/plugin-registry/unruly/reload", &json!({})).await.expect(200);
        assert_eq!(again["item"]["state"], "active", "{again}");
        let family = descendants(worker);
        kill_process(Pid::from_raw(worker).unwrap(), Signal::KILL).unwrap();
        eventually("they end with the worker", async || family.iter().all(|(pid, _)| !lives(*pid)).then_some(())).await;
        host.ready_again().await;
        let family = descendants(host.supervisor_pid());
        kill_process(Pid::from_raw(host.supervisor_pid()).unwrap(), Signal::KILL).unwrap();
        host.program().ended().await;
        eventually("nothing is left", async || family.iter().all(|(pid, _)| !lives(*pid)).then_some(())).await;
        tokio::net::TcpListener::bind(host.address()).await.expect("nobody listens there any more");
    }
}

#[tokio::test]
async fn calls_that_no_plugin_needs_are_refused() {
    for settings in hosts_of_both_kinds() {
        let host = settings.start().await;
        let found = host.owner().await.get(&format!("{UNRULY}/walls/calls")).await.expect(200);
        let found = found.as_object().unwrap();
        for (call, errno) in found {
            let landlock_alone = call == "kill the supervisor" && is_root() && linux() < (6, 12);
            assert!(landlock_alone || errno.as_u64() > Some(0), "{call} went well");
        }
        assert!(found.len() >= 12);
    }
}

#[tokio::test]
async fn with_a_database_over_tcp_an_ordinary_users_worker_connects_to_no_unix_socket() {
    let other = Host::settings().start().await;
    let folder = tempfile::tempdir().unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let path = folder.path().join("docker.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let relay = Relay::before(&other).await;
    let settings = with_unruly().set("DATABASE_URL", relay.url(&other));
    let settings = if is_root() { settings.run_as(ORDINARY_USER) } else { settings };
    let host = settings.start().await;
    let wanted = json!({"socket": path.to_str().unwrap()});
    let tried = host.owner().await.post(&format!("{UNRULY}/walls/connect"), &wanted).await.expect(200);
    assert_eq!(tried, json!({"connected": false, "error": 1}));
    host.owner().await.card("By the network").await;
}
