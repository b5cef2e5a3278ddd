//! A schema step whose process is killed: what its role had in the step is gone at once, and so is its session.

use std::time::{Duration, Instant};

use cardinal_tests::{Host, Package, PluginsFolder, User, descendants, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio_postgres::Client;

/// From the end of the process until its role has nothing left: the next process closes it as it starts. Half a second on a
/// machine of its own; the rest is for one that is shared.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(10);
const FIRST: &str = "CREATE TABLE IF NOT EXISTS items (id int)";
/// Waits for writers of cards.
const LINKED: &str =
    "CREATE TABLE IF NOT EXISTS items (id int); CREATE TABLE linked (card_id uuid REFERENCES public.master_cards (id))";

/// Whether the schema role of `echo` may log in, make something or point at cards, or has a session.
async fn is_open(database: &Client) -> bool {
    let asked = "SELECT r.rolcanlogin OR has_schema_privilege(r.oid, 'plugin_echo', 'CREATE')
                   OR EXISTS (SELECT FROM pg_auth_members m WHERE m.member = r.oid)
                   OR EXISTS (SELECT FROM pg_stat_activity a WHERE a.usesysid = r.oid)
                 FROM pg_roles r WHERE r.rolname LIKE 'cardinal\\_%\\_s\\_echo'";
    database.query_one(asked, &[]).await.unwrap().get(0)
}

async fn waits_for_a_lock(database: &Client) -> bool {
    let asked =
        "SELECT FROM pg_stat_activity WHERE usename LIKE 'cardinal\\_%\\_s\\_echo' AND wait_event_type = 'Lock'";
    !database.query(asked, &[]).await.unwrap().is_empty()
}

fn provisioner(host: &Host) -> i32 {
    let family = descendants(host.supervisor_pid());
    let step = family.iter().find(|(_, line)| line.split(' ').nth(1) == Some("provision"));
    step.unwrap_or_else(|| panic!("no step among {family:?}")).0
}

async fn rescan(owner: &User) {
    owner.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
}

/// Kills the step as it waits for a lock that `locked` takes, and waits until its role is closed.
async fn kill_in_the_middle(host: &Host, owner: &User, locked: &str, signal: Signal) {
    let (database, other) = (host.database().await, host.database().await);
    other.batch_execute(&format!("BEGIN; {locked}")).await.unwrap();
    let kill = async {
        eventually("the step waits", async || waits_for_a_lock(&database).await.then_some(())).await;
        assert!(is_open(&database).await);
        kill_process(Pid::from_raw(provisioner(host)).unwrap(), signal).unwrap();
        let killed = Instant::now();
        while is_open(&database).await {
            assert!(killed.elapsed() < CLOSING_TIMEOUT, "the role is still open after {:?}", killed.elapsed());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::join!(rescan(owner), kill);
    other.batch_execute("ROLLBACK").await.unwrap();
}

async fn is_served(owner: &User) {
    eventually("the plugin is served", async || {
        rescan(owner).await;
        let echo = owner.get("/v1/admin/plugin-registry/echo").await.expect(200)["item"].clone();
        (echo["state"] == json!("active") && echo["refusal"].is_null()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_is_killed_leaves_its_role_with_nothing() {
    let host = Host::settings().plugins(PluginsFolder::default()).start().await;
    let owner = host.owner().await;
    // The very first one, whose role and schema are new.
    host.plugins().put("echo", &Package::fixture("echo").schema(LINKED));
    let writer = "LOCK TABLE public.master_cards IN ROW EXCLUSIVE MODE";
    kill_in_the_middle(&host, owner, writer, Signal::KILL).await;
    is_served(owner).await;
    // A later one; by hand, or as a crash would end it.
    for (number, signal) in [Signal::KILL, Signal::ABORT].into_iter().enumerate() {
        let next = format!("{FIRST}; ALTER TABLE items ADD COLUMN added_{number} int");
        host.plugins().put("echo", &Package::fixture("echo").schema(&next));
        kill_in_the_middle(&host, owner, "LOCK TABLE plugin_echo.items", signal).await;
        is_served(owner).await;
        let added = format!("SELECT count(added_{number}) FROM plugin_echo.items");
        eventually("the next step is made", async || {
            rescan(owner).await;
            host.database().await.query_one(&added, &[]).await.ok().map(drop)
        })
        .await;
    }
    assert!(!is_open(&host.database().await).await);
}
