//! Contract 8: supervisor, worker and PostgreSQL begin, end and come back together.

use std::time::{Duration, Instant};

use cardinal_tests::{Host, Package, PluginsFolder, WAIT_TIMEOUT, dead_children, descendants, eventually, lives};
use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process},
};
use serde_json::{Value, json};

/// Some end with others that were killed a moment before.
fn kill(pid: i32) {
    let killed = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
    assert!(matches!(killed, Ok(()) | Err(Errno::SRCH)), "{killed:?}");
}

#[tokio::test]
async fn a_killed_worker_is_started_again_and_loses_nothing() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let card = owner.card("Survivor").await;
    let first = host.worker_pid();
    kill(first);
    let path = format!("/v1/admin/master-cards/{}", card["id"].as_str().unwrap());
    let read = eventually("the host serves again", async || {
        let answer = owner.call(http::Method::GET, &path).try_send().await.ok()?;
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!(read.await["item"], card);
    assert_ne!(host.worker_pid(), first);
}

const RENEWAL: &str = "the process that starts probes has ended and is made again";

#[tokio::test]
async fn what_starts_probes_is_made_again_when_it_is_killed_or_stopped() {
    let host = Host::settings().start().await;
    let (owner, worker) = (host.owner().await, host.worker_pid());
    let report = async |name: &str| {
        let list = owner.get("/v1/admin/plugin-registry").await.expect(200);
        list["items"].as_array().unwrap().iter().find(|item| item["name"] == name).cloned().unwrap_or_default()
    };
    // Below the worker are the one that waits for its end, it, and the probes.
    let starter = || descendants(worker).get(1).map(|(pid, _)| *pid);
    host.plugins().put("bad-constructor", &Package::fixture("bad-constructor").sin(b"hang."));
    eventually("a library is being tried", async || (descendants(worker).len() > 2).then_some(())).await;
    for (signal, plugin, times) in [(Signal::KILL, "echo", 1), (Signal::STOP, "quick", 2)] {
        let before = starter().unwrap();
        kill_process(Pid::from_raw(before).unwrap(), signal).unwrap();
        eventually("it is made again", async || (host.log().matches(RENEWAL).count() == times).then_some(())).await;
        host.plugins().put(plugin, &Package::fixture(plugin));
        eventually("a plugin is loaded", async || (report(plugin).await["state"] == "active").then_some(())).await;
        let is_other = async || starter().filter(|pid| *pid != before);
        eventually("another one is there", is_other).await;
    }
    let refused = async || Some(report("bad-constructor").await).filter(|it| it["state"] == "refused");
    let refused = eventually("the other one is refused", refused).await;
    assert_eq!(refused["refusal"]["found"], "it was still busy", "it was tried once more");
    let waiting = descendants(worker)[0].0;
    eventually("no dead one stays", async || dead_children(waiting).is_empty().then_some(())).await;
    assert_eq!((host.worker_pid(), host.log().matches(RENEWAL).count()), (worker, 2));
}

#[tokio::test]
async fn a_killed_supervisor_leaves_nothing_behind() {
    let mut host = Host::settings().start().await;
    let supervisor = host.supervisor_pid();
    let family = descendants(supervisor);
    assert!(family.iter().any(|(_, line)| line.contains("postgres")), "{family:?}");
    kill(supervisor);
    host.program().ended().await;
    eventually("worker and PostgreSQL end", async || family.iter().all(|(pid, _)| !lives(*pid)).then_some(())).await;
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_everything_was_killed() {
    let mut host = Host::settings().start().await;
    let token = host.owner().await.token.clone();
    let card = host.owner().await.card("Durable").await;
    let family = descendants(host.supervisor_pid());
    family.iter().for_each(|(pid, _)| kill(*pid));
    kill(host.supervisor_pid());
    host.program().ended().await;
    let host = host.again(|settings| settings).await;
    let path = format!("/v1/admin/master-cards/{}", card["id"].as_str().unwrap());
    assert_eq!(host.client().bearer(token).get(&path).await.expect(200)["item"], card);
}

#[tokio::test]
async fn a_stopped_host_ends_in_order_and_takes_postgresql_along() {
    let mut host = Host::settings().start().await;
    let family = descendants(host.supervisor_pid());
    host.program().signal(Signal::TERM);
    let begun = std::time::Instant::now();
    assert!(host.program().ended().await.success(), "{}", host.log());
    assert!(begun.elapsed() < WAIT_TIMEOUT / 2, "an idle host took {:?} to stop", begun.elapsed());
    assert!(family.iter().all(|(pid, _)| !lives(*pid)), "left behind of {family:?}");
}

/// Processes that stand still until this is dropped: a failed test must not leave them so, deaf even to their end.
struct StoppedProcesses(Vec<i32>);

impl StoppedProcesses {
    /// Of a host's database, those included that begin while others are being stopped.
    fn database_of(host: &Host) -> StoppedProcesses {
        let mut stopped = StoppedProcesses(Vec::new());
        loop {
            let running: Vec<i32> = database_of(host).into_iter().filter(|pid| !stopped.0.contains(pid)).collect();
            if running.is_empty() {
                return stopped;
            }
            stopped.0.extend(running);
            stopped.signal(Signal::STOP);
        }
    }

    fn signal(&self, signal: Signal) {
        for pid in &self.0 {
            // One of them may have ended by itself.
            let _ = kill_process(Pid::from_raw(*pid).unwrap(), signal);
        }
    }
}

impl Drop for StoppedProcesses {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
    }
}

#[tokio::test]
async fn without_its_database_the_host_is_unready_and_says_503_and_comes_back() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    owner.card("Before").await;
    // Stopped, it neither answers nor closes; the worst a database can do.
    let stopped = StoppedProcesses::database_of(&host);
    assert!(!stopped.0.is_empty());
    let answer = owner.post("/v1/admin/master-cards", &json!({"title": "T", "sku": "database-gone"})).await;
    answer.refused(503, "database-unavailable");
    let unknown = host.client().bearer(&owner.token).get("/v1/admin/auth/me").await;
    assert_ne!(unknown.status, 401, "a database that is away must not log anybody out: {unknown}");
    eventually("the host is unready", async || (host.client().get("/readyz").await.status == 503).then_some(())).await;
    assert_eq!(host.client().get("/healthz").await.status, 200);
    drop(stopped);
    host.ready_again().await;
    owner.card("After").await;
}

const CARDS: &str = "/v1/admin/master-cards";

/// The processes of a host's own database.
fn database_of(host: &Host) -> Vec<i32> {
    let postgres = descendants(host.supervisor_pid()).into_iter().filter(|(_, line)| line.contains("postgres"));
    postgres.map(|(pid, _)| pid).collect()
}

/// What is stopped closes nothing, so only time tells that it is away. The bounds are 2 seconds for a credential and 8 for
/// what is under way, and then none has to wait; the machine is shared.
#[tokio::test]
async fn a_frozen_database_keeps_nobody_waiting() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    owner.card("Before").await;
    let made = owner.make_key(json!({"name": "never used", "scopes": ["cards:read"]})).await;
    let never_used = host.client().bearer(made["key"].as_str().unwrap());
    // A card is written, and waits for a lock, when the database stops.
    let blocker = host.database().await;
    blocker.batch_execute("BEGIN; LOCK TABLE public.master_cards IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let card = json!({"title": "T", "sku": "under-way"});
    let under_way = tokio::spawn(owner.call(http::Method::POST, CARDS).json(&card).try_send());
    eventually("it waits", async || {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        (blocker.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) > 0).then_some(())
    })
    .await;
    let stopped = StoppedProcesses::database_of(&host);
    let begun = Instant::now();
    never_used.get(CARDS).await.refused(503, "database-unavailable");
    let credential = begun.elapsed();
    let answer = under_way.await.unwrap().unwrap();
    answer.refused(503, "database-unavailable");
    let last = begun.elapsed();
    let begun = Instant::now();
    for _ in 0..20 {
        owner.get(CARDS).await.refused(503, "database-unavailable");
        owner.get("/v1/admin/auth/me").await.refused(503, "database-unavailable");
        assert_eq!(host.client().get("/healthz").await.status, 200);
        host.client().get("/.well-known/oauth-protected-resource/api").await.expect(200);
    }
    let refused = begun.elapsed();
    println!("credential {credential:?}, under way {last:?}, then 40 in {refused:?}");
    assert!(credential < Duration::from_secs(6), "{credential:?}");
    assert!(last < Duration::from_secs(15), "{last:?}");
    assert!(refused < Duration::from_secs(10), "{refused:?}");
    drop(stopped);
    drop(blocker);
    host.ready_again().await;
    owner.card("After").await;
    eventually("its end is logged", async || host.log().contains("the database is reachable again").then_some(()))
        .await;
    assert_eq!(host.log().matches("the database is unreachable").count(), 1, "{}", host.log());
}

#[tokio::test]
async fn an_outage_of_the_database_is_one_line_at_its_start_and_one_at_its_end() {
    let mut database = Host::settings().plugins(PluginsFolder::default()).start().await;
    let host = database.beside().plugins(PluginsFolder::default()).start().await;
    let owner = host.owner().await;
    database.program().signal(Signal::TERM);
    assert!(database.program().ended().await.success());
    for _ in 0..50 {
        owner.get("/v1/admin/master-cards").await.refused(503, "database-unavailable");
    }
    let _database = database.again(|settings| settings).await;
    host.ready_again().await;
    owner.get("/v1/admin/master-cards").await.expect(200);
    eventually("its end is logged", async || host.log().contains("the database is reachable again").then_some(()))
        .await;
    let log = host.log();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let loud = lines.filter(|line| line["level"] != "INFO" && line["target"] != "cardinal::access");
    let loud: Vec<Value> = loud.filter(|line| line["message"] != "the database is still unreachable").collect();
    assert_eq!(loud.len(), 1, "{loud:?}");
    assert_eq!((&loud[0]["level"], &loud[0]["target"]), (&json!("ERROR"), &json!("cardinal::db::outage")), "{loud:?}");
}

/// What a start has read of the program and of plugins' libraries goes back to the system soon, and comes again.
#[tokio::test]
async fn a_worker_that_falls_silent_gives_back_what_its_start_has_read() {
    let host = Host::settings().plugins(PluginsFolder::default().with("echo", &Package::fixture("echo"))).start().await;
    assert_eq!(host.plugin("echo").await["state"], "active");
    let (programs, libraries) = (host.worker_memory("RssFile"), host.worker_memory("RssShmem"));
    eventually("it gives back both", async || {
        let (programs_now, libraries_now) = (host.worker_memory("RssFile"), host.worker_memory("RssShmem"));
        (programs_now < programs && libraries_now * 2 < libraries).then_some(())
    })
    .await;
    host.owner().await.get("/v1/admin/plugins/echo/hello").await.expect(200);
}

#[tokio::test]
async fn the_data_folder_is_closed_to_everybody_else() {
    use std::os::unix::fs::PermissionsExt;
    let host = Host::settings().start().await;
    let mut open = Vec::new();
    for entry in std::fs::read_dir(host.data()).unwrap().flatten() {
        let (path, mode) = (entry.path(), entry.metadata().unwrap().permissions().mode());
        let secret = !path.ends_with("addresses.json");
        if secret && mode & 0o007 != 0 && !entry.metadata().unwrap().is_dir() {
            open.push(format!("{} {:o}", path.display(), mode & 0o777));
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[tokio::test]
async fn two_hosts_never_share_a_data_folder() {
    let host = Host::settings().start().await;
    let data = host.data().to_str().unwrap().to_owned();
    let mut second = Host::settings().set("DATA_DIR", data).launch();
    let status = second.program().ended().await;
    assert!(!status.success(), "{}", second.log());
    assert_eq!(host.client().get("/readyz").await.status, 200, "the first is not disturbed");
}

#[tokio::test]
async fn the_workers_environment_names_its_folder_for_temporary_files_alone() {
    let host = Host::settings().set("DATABASE_SECRET_NOT_OURS", "x").start().await;
    let environment = match std::fs::read(format!("/proc/{}/environ", host.worker_pid())) {
        // A process that is closed to others shows it to root alone.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return,
        read => read.unwrap(),
    };
    let temp = host.data().join("plugin-tmp");
    assert_eq!(String::from_utf8_lossy(&environment), format!("TMPDIR={}\0", temp.display()));
}
