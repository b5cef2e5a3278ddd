//! The private server: where it lives, who gets in, and how it comes back.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cardinal_database::connect::{self, ConnectParams, SocketDir};
use cardinal_supervisor::{
    data_dir::DataDir,
    launch::Launcher,
    postgres::{PrivatePostgres, installation},
};
use rustix::process::{Pid, PidfdFlags, Signal};
use tokio_postgres::Client;

use super::database::{CARDINAL, programs, scratch};

/// Nothing that these tests wait for takes longer on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

async fn start(data_dir: &Path) -> anyhow::Result<(PrivatePostgres, DataDir)> {
    let data = DataDir::open(data_dir)?;
    let postgres = PrivatePostgres::start(&data, &Launcher::program(CARDINAL), programs().as_deref()).await?;
    Ok((postgres, data))
}

async fn logged_in(login: &ConnectParams) -> Result<Client, tokio_postgres::Error> {
    let dir = SocketDir::open(&login.host, login.port).unwrap();
    connect::connect(&login.clone().through(&dir)).await
}

async fn until_logged_in(login: &ConnectParams) -> Client {
    let started = Instant::now();
    loop {
        match logged_in(login).await {
            Ok(client) => return client,
            Err(error) if started.elapsed() > START_TIMEOUT => panic!("the server does not come back: {error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

pub(crate) fn server_pid(data_dir: &Path) -> Pid {
    let file = std::fs::read_to_string(data_dir.join("pg/cluster/postmaster.pid")).unwrap();
    Pid::from_raw(file.lines().next().unwrap().parse().unwrap()).unwrap()
}

/// Waits for the end of a process that is not our child.
pub(crate) fn wait_for_end(pid: Pid) {
    let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return };
    let mut events = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
    let patience = rustix::event::Timespec { tv_sec: START_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut events, Some(&patience)).unwrap(), 1, "process {pid:?} does not end");
}

fn private_folder(name: &str) -> PathBuf {
    let folder = scratch().join(name);
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

#[tokio::test]
async fn it_lives_in_a_private_folder_with_a_long_path_and_keeps_its_data() {
    // As root, the server's user cannot walk here; and the socket's path is longer than an address may be.
    let data_dir = private_folder("closed").join("x".repeat(150)).join("data");
    for round in 0..2 {
        let (postgres, data) = start(&data_dir).await.unwrap();
        let client = logged_in(postgres.superuser()).await.unwrap();
        client.batch_execute("CREATE TABLE IF NOT EXISTS kept (round int)").await.unwrap();
        assert_eq!(client.query("SELECT * FROM kept", &[]).await.unwrap().len(), round);
        client.batch_execute("INSERT INTO kept VALUES (1)").await.unwrap();
        // A backend of its own, which has to reach the folder too.
        client.batch_execute("SET max_parallel_workers_per_gather = 4; SELECT count(*) FROM pg_class").await.unwrap();
        drop(client);
        postgres.stop().await;
        drop(data);
    }
}

#[tokio::test]
async fn nobody_gets_in_without_the_password_and_nothing_listens_on_tcp() {
    let data_dir = private_folder("guarded").join("data");
    let (postgres, _data) = start(&data_dir).await.unwrap();
    let login = postgres.superuser();
    let wrong = login.with_login(&login.user, cardinal_base::config::Secret::new("wrong"));
    assert!(logged_in(&wrong).await.is_err());
    let client = logged_in(login).await.unwrap();
    let rules = client.query("SELECT type, auth_method FROM pg_hba_file_rules", &[]).await.unwrap();
    let rules: Vec<(String, String)> = rules.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(rules, [("local".to_owned(), "scram-sha-256".to_owned())]);
    let setting = |name: &'static str| {
        let client = &client;
        async move { client.query_one(&format!("SHOW {name}"), &[]).await.unwrap().get::<_, String>(0) }
    };
    assert_eq!(setting("listen_addresses").await, "");
    for name in ["fsync", "full_page_writes", "synchronous_commit"] {
        assert_eq!(setting(name).await, "on", "{name}");
    }
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(data_dir.join("pg")), 0o700);
    assert_eq!(mode(data_dir.join("pg/run")), 0o700);
    assert_eq!(mode(data_dir.join("postgres-password")), 0o600);
    assert!(!data_dir.join("pg/initial-password").exists());
    postgres.stop().await;
}

#[tokio::test]
async fn two_of_them_live_side_by_side() {
    let folders = [private_folder("one").join("data"), private_folder("other").join("data")];
    let (one, other) = tokio::join!(start(&folders[0]), start(&folders[1]));
    let ((one, _), (other, _)) = (one.unwrap(), other.unwrap());
    logged_in(one.superuser()).await.unwrap();
    logged_in(other.superuser()).await.unwrap();
    let swapped = one.superuser().with_login(&one.superuser().user, other.superuser().password.clone());
    assert!(logged_in(&swapped).await.is_err());
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn killed_it_is_started_again_with_what_was_committed() {
    let data_dir = private_folder("killed").join("data");
    let (postgres, _data) = start(&data_dir).await.unwrap();
    let client = logged_in(postgres.superuser()).await.unwrap();
    client.batch_execute("CREATE TABLE kept (id int); INSERT INTO kept VALUES (1)").await.unwrap();
    let pid = server_pid(&data_dir);
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    tokio::task::spawn_blocking(move || wait_for_end(pid)).await.unwrap();
    let again = until_logged_in(postgres.superuser()).await;
    assert_eq!(again.query("SELECT * FROM kept", &[]).await.unwrap().len(), 1);
    assert_ne!(server_pid(&data_dir), pid);
    postgres.stop().await;
}

#[tokio::test]
async fn the_file_of_a_server_that_is_gone_stops_nobody() {
    let data_dir = private_folder("stale").join("data");
    let (postgres, data) = start(&data_dir).await.unwrap();
    postgres.stop().await;
    drop(data);
    // The number of a process that lives and is no server: ours.
    let file = data_dir.join("pg/cluster/postmaster.pid");
    std::fs::write(&file, format!("{}\n/somewhere\n1\n5432\n", std::process::id())).unwrap();
    let (postgres, _data) = start(&data_dir).await.unwrap();
    logged_in(postgres.superuser()).await.unwrap();
    postgres.stop().await;
}

#[tokio::test]
async fn data_of_another_major_is_refused_in_words() {
    let data_dir = private_folder("aged").join("data");
    let (postgres, data) = start(&data_dir).await.unwrap();
    postgres.stop().await;
    drop(data);
    std::fs::write(data_dir.join("pg/cluster/PG_VERSION"), "9\n").unwrap();
    let refused = format!("{:#}", start(&data_dir).await.unwrap_err());
    for part in ["made by PostgreSQL 9", "this machine has only PostgreSQL", "install PostgreSQL 9"] {
        assert!(refused.contains(part), "{refused}");
    }
}

#[tokio::test]
async fn a_making_that_was_cut_off_is_begun_anew() {
    let data_dir = private_folder("cut").join("data");
    let (postgres, data) = start(&data_dir).await.unwrap();
    postgres.stop().await;
    drop(data);
    std::fs::rename(data_dir.join("pg/cluster"), data_dir.join("pg/cluster.new")).unwrap();
    std::fs::remove_file(data_dir.join("pg/cluster.new/PG_VERSION")).unwrap();
    let (postgres, _data) = start(&data_dir).await.unwrap();
    logged_in(postgres.superuser()).await.unwrap();
    postgres.stop().await;
}

#[tokio::test]
async fn a_lost_password_is_told_before_anything_is_started() {
    let data_dir = private_folder("forgetful").join("data");
    let (postgres, data) = start(&data_dir).await.unwrap();
    postgres.stop().await;
    drop(data);
    std::fs::remove_file(data_dir.join("postgres-password")).unwrap();
    let refused = format!("{:#}", start(&data_dir).await.unwrap_err());
    assert!(refused.contains("postgres-password is missing"), "{refused}");
}

/// As root, with the programs in a folder that the server's user cannot walk to.
#[tokio::test]
async fn programs_in_a_private_folder_are_copied_to_where_the_servers_user_gets() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let private = private_folder("private-programs");
    let original = private.join("original");
    let installed = installation::choose(programs().as_deref(), &private, None).unwrap();
    let copied = Command::new("cp").arg("-a").arg(installed.bin_dir.parent().unwrap()).arg(&original).status().unwrap();
    assert!(copied.success());
    let data = DataDir::open(&private.join("data")).unwrap();
    let found = original.join("bin");
    let postgres = PrivatePostgres::start(&data, &Launcher::program(CARDINAL), Some(&found)).await.unwrap();
    logged_in(postgres.superuser()).await.unwrap();
    let running =
        std::fs::read_link(format!("/proc/{}/exe", server_pid(&private.join("data")).as_raw_nonzero())).unwrap();
    assert!(running.starts_with("/var/lib/cardinal"), "{}", running.display());
    postgres.stop().await;
    std::fs::remove_dir_all(running.parent().unwrap().parent().unwrap()).unwrap();
    let _ = std::fs::remove_dir("/var/lib/cardinal");
}
