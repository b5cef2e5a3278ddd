//! What a plugin's sessions lock: others go on, since a watch ends sessions that have too much.

use std::time::{Duration, Instant};

use cardinal_control::link::PluginDatabase;
use cardinal_database::{
    connect,
    pool::{Pool, Pools},
};
use cardinal_schema::session_watch;
use cardinal_store::reaper;
use tokio::sync::oneshot;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::database::{Database, Login, Place, is_long_run, superuser_databases};

const LINKED: &str = "CREATE TABLE items (n int, card_id uuid REFERENCES public.master_cards (id) ON DELETE CASCADE);
                      CREATE INDEX ON items (n)";
/// Of one transaction, each with a lock: enough for several of these to fill the table of a server.
const SAVEPOINTS: usize = 20_000;
/// A second until the watch notices, and time to end sessions.
const MAX_LOCKED: Duration = Duration::from_secs(4);

/// A host's watch, as long as this lives. On a thread of its own, as a host's is in a process of its own: what floods
/// the server keeps this one's busy.
struct Watched {
    database: Database,
    made: PluginDatabase,
    _stop: oneshot::Sender<()>,
}

fn watch(database: &Database) -> oneshot::Sender<()> {
    let names = database.prepared.names.clone();
    let provisioner = database.login(&names.provision());
    let (stop, stopped) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            tokio::select! {
                () = session_watch::watch(provisioner, names) => {}
                _ = stopped => {}
            }
        });
    });
    stop
}

/// With the right to end anybody's session, and without: on PostgreSQL 16 and later only a superuser can give it.
async fn watched() -> Vec<Watched> {
    let mut places = vec![(15, Login::Plain), (18, Login::Superuser), (18, Login::Owner)];
    if is_long_run() {
        places.extend([(15, Login::Superuser), (16, Login::Owner), (18, Login::Plain)]);
    }
    let mut watched = Vec::new();
    for place in places.into_iter().filter_map(|(major, login)| Place::new(major, login)) {
        let database = place.database().await;
        let made = database.provision("flood", LINKED).await.unwrap();
        let stop = watch(&database);
        watched.push(Watched { database, made, _stop: stop });
    }
    watched
}

async fn session(made: &PluginDatabase) -> Client {
    let session = connect::connect(&made.connect).await.unwrap();
    let lifted = "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0";
    session.batch_execute(lifted).await.unwrap();
    session
}

/// Fills the table of locks, and goes on after what refuses it: the innermost savepoint is all that is lost.
async fn flood(made: &PluginDatabase, step: &str) -> SqlState {
    let session = session(made).await;
    session.batch_execute("BEGIN").await.unwrap();
    let flood: String = (0..SAVEPOINTS).map(|number| step.replace('#', &number.to_string())).collect();
    loop {
        match session.batch_execute(&flood).await {
            Ok(()) => {}
            Err(error) => match error.code() {
                Some(code) if *code == SqlState::OUT_OF_MEMORY => {
                    let _ = session.batch_execute("ROLLBACK TO a").await;
                }
                Some(code) => return code.clone(),
                None => return SqlState::ADMIN_SHUTDOWN, // the session is gone
            },
        }
    }
}

/// As one does that hid behind a delay at its login while the others were ended.
#[tokio::test]
async fn a_session_that_outlives_its_login_is_ended() {
    for Watched { database, made, .. } in &watched().await {
        let session = session(made).await;
        let other = database.provision("other", "CREATE TABLE items (n int)").await.unwrap();
        let other = connect::connect(&other.connect).await.unwrap();
        let close = format!("ALTER ROLE {} NOLOGIN", database.prepared.names.plugin_runtime("flood"));
        database.admin().await.batch_execute(&close).await.unwrap();
        let error = session.batch_execute("SELECT pg_sleep(60)").await.unwrap_err();
        assert!(error.is_closed() || error.code() == Some(&SqlState::ADMIN_SHUTDOWN), "{error:?}");
        other.batch_execute("SELECT 1").await.unwrap();
    }
}

/// `DROP DATABASE` asks for its lock before it asks for the right, and whoever logs in waits behind it.
#[tokio::test]
async fn a_plugin_that_waits_for_the_database_itself_keeps_nobody_from_logging_in() {
    for Watched { database, made, .. } in &watched().await {
        let (admin, holder, dropper) = (database.admin().await, session(made).await, session(made).await);
        let name = cardinal_database::sql::identifier(&database.admin.dbname);
        let hold = format!("BEGIN; ALTER ROLE CURRENT_USER IN DATABASE {name} SET work_mem = '5MB'");
        holder.batch_execute(&hold).await.unwrap();
        let drop = format!("DROP DATABASE {name}");
        let drop = tokio::spawn(async move { dropper.batch_execute(&drop).await });
        let waits = "SELECT FROM pg_locks WHERE locktype = 'object' AND NOT granted";
        while admin.query(waits, &[]).await.unwrap().is_empty() {
            assert!(!drop.is_finished(), "it did not wait");
            tokio::task::yield_now().await;
        }
        let started = Instant::now();
        database.core().await;
        assert!(started.elapsed() < MAX_LOCKED, "{:?}", started.elapsed());
        drop.await.unwrap().unwrap_err();
        // It is not left to whoever comes next.
        let (started, another) = (Instant::now(), session(made).await);
        holder.batch_execute("SELECT 1").await.unwrap();
        let rename = format!("ALTER DATABASE {name} RENAME TO another");
        another.batch_execute(&rename).await.unwrap_err();
        assert!(started.elapsed() < MAX_LOCKED, "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn a_login_that_fills_the_table_of_locks_is_ended_and_cards_are_written() {
    for Watched { database, made, .. } in &watched().await {
        // A row for each savepoint: to lock one row again and again takes the server longer each time, and no flood
        // comes of it.
        let fill = format!("INSERT INTO items SELECT generate_series(0, {SAVEPOINTS})");
        session(made).await.batch_execute(&fill).await.unwrap();
        for step in
            ["SAVEPOINT a; INSERT INTO items VALUES (1);", "SAVEPOINT a; SELECT n FROM items WHERE n = # FOR UPDATE;"]
        {
            // One locks the row, and others wait for it.
            let count = if step.contains("UPDATE") { 1 } else { 3 };
            let floods = futures_util::future::join_all((0..count).map(|_| flood(made, step)));
            let mut floods = std::pin::pin!(floods);
            let ended = loop {
                let sku = uuid::Uuid::now_v7().to_string();
                tokio::select! {
                    ended = &mut floods => break ended,
                    // A new login each time.
                    _ = database.card(&sku) => {}
                }
            };
            assert_eq!(ended, vec![SqlState::ADMIN_SHUTDOWN; count], "{step}");
        }
        // What is no flood goes on.
        let session = session(made).await;
        session
            .batch_execute(&format!("BEGIN; {}", "SAVEPOINT a; INSERT INTO items VALUES (1);".repeat(1_500)))
            .await
            .unwrap();
        database.card("later").await;
        session.batch_execute("COMMIT").await.unwrap();
    }
}

/// Some thousand savepoints that wrote are few locks for a large table, but a removal looks at each row of each.
#[tokio::test]
async fn a_login_with_thousands_of_savepoints_is_ended() {
    for Watched { made, .. } in &watched().await {
        let session = session(made).await;
        let _ = session
            .batch_execute(&format!("BEGIN; {}", "SAVEPOINT a; INSERT INTO items VALUES (1);".repeat(2_100)))
            .await;
        let ended = async { while session.batch_execute("SELECT 1").await.is_ok() {} };
        tokio::time::timeout(Duration::from_secs(20), ended).await.expect("the watch ends it");
    }
}

/// Removes the card, in several tries if need be, while others have locked tables.
async fn is_removed_in_time(reaper: &Pool, card: Uuid, what: &str) {
    let started = Instant::now();
    let mut removed = reaper::remove_cards(reaper, &[card], reaper::CARD_TIMEOUT).await;
    while removed.is_err() && started.elapsed() < MAX_LOCKED {
        removed = reaper::remove_cards(reaper, &[card], reaper::CARD_TIMEOUT).await;
    }
    assert!(matches!(removed, Ok(1)) && started.elapsed() < MAX_LOCKED, "{what}: {removed:?}, {:?}", started.elapsed());
}

#[tokio::test]
async fn a_locked_table_keeps_no_card_from_being_removed_for_long() {
    for Watched { database, made, .. } in &watched().await {
        let names = &database.prepared.names;
        let login = |role: &str| database.login(role).pg_config();
        let pools = Pools::new(login(&names.core()), login(&names.reaper())).unwrap();
        for mode in ["SHARE", "ACCESS EXCLUSIVE"] {
            let card = database.card(&format!("in {mode}")).await;
            let core = database.core().await;
            core.execute("UPDATE public.master_cards SET deleted_at = now() WHERE id = $1", &[&card]).await.unwrap();
            let lock = format!("BEGIN; LOCK TABLE items IN {mode} MODE");
            let holder = session(made).await;
            holder.batch_execute(&lock).await.unwrap();
            // Those that queue are in the way as well.
            let queued = [session(made).await, session(made).await];
            let waiting = queued.map(|session| {
                let lock = lock.clone();
                tokio::spawn(async move { drop((session.batch_execute(&lock).await, session)) })
            });
            is_removed_in_time(&pools.reaper, card, mode).await;
            waiting.iter().for_each(tokio::task::JoinHandle::abort);
        }
    }
}

/// Only sessions of that very login can be ended so.
#[tokio::test]
async fn nobody_else_is_ended() {
    let Some(place) = Place::new(18, Login::Owner) else { return };
    let database = place.database().await;
    let made = database.provision("one", LINKED).await.unwrap();
    database.provision("two", LINKED).await.unwrap();
    let core = database.core().await;
    let pid: i32 = core.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let provisioner = database.provisioner().await;
    let end = "SELECT cardinal.end_plugin_sessions($1, $2)";
    let ended: i32 = provisioner.query_one(end, &[&"one", &vec![pid]]).await.unwrap().get(0);
    assert_eq!(ended, 0);
    let plugin = connect::connect(&made.connect).await.unwrap();
    let pid: i32 = plugin.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let ended: i32 = provisioner.query_one(end, &[&"two", &vec![pid]]).await.unwrap().get(0);
    assert_eq!(ended, 0);
    plugin.batch_execute("SELECT 1").await.unwrap();
    core.batch_execute("SELECT 1").await.unwrap();
    let refused = plugin.query(end, &[&"one", &vec![pid]]).await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    let ended: i32 = provisioner.query_one(end, &[&"one", &vec![pid]]).await.unwrap().get(0);
    assert_eq!(ended, 1);
    // Nothing stays of the right to do so.
    let members = "SELECT FROM pg_auth_members WHERE roleid = $1::text::regrole AND inherit_option";
    let role = database.prepared.names.plugin_runtime("one");
    assert!(database.admin().await.query(members, &[&role]).await.unwrap().is_empty());
}

/// A login is closed although a transaction of its own that has altered it is open, and others of it are ended as well.
#[tokio::test]
async fn a_login_that_alters_itself_is_closed_all_the_same() {
    for place in [(15, Login::Superuser), (18, Login::Owner)] {
        let Some(place) = Place::new(place.0, place.1) else { continue };
        let database = place.database().await;
        let made = database.provision("one", LINKED).await.unwrap();
        let holder = session(&made).await;
        holder.batch_execute("BEGIN; ALTER ROLE CURRENT_USER PASSWORD 'held'").await.unwrap();
        let provisioner = database.provisioner().await;
        provisioner.execute("SELECT cardinal.close_runtime_login('one', 60)", &[]).await.unwrap();
        assert!(holder.batch_execute("SELECT 1").await.is_err(), "the session lives on");
        assert!(connect::connect(&made.connect).await.is_err(), "the login is open");
    }
}

/// PostgreSQL locks the cards for these before it asks for rights.
#[tokio::test]
async fn statements_that_would_lock_the_cards_are_refused_before_they_do() {
    for place in [(15, Login::Superuser), (18, Login::Superuser)] {
        let Some(place) = Place::new(place.0, place.1) else { continue };
        let database = place.database().await;
        let made = database.provision("one", LINKED).await.unwrap();
        let core = database.core().await;
        core.batch_execute("BEGIN; SELECT FROM public.master_cards").await.unwrap();
        let plugin = session(&made).await;
        plugin.batch_execute("SET lock_timeout = '20s'").await.unwrap();
        for statement in [
            "CREATE RULE r AS ON INSERT TO public.master_cards DO NOTHING",
            "CREATE TRIGGER t AFTER INSERT ON public.master_cards FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "ALTER TABLE public.master_cards ADD COLUMN c int",
            "DROP TABLE public.master_cards",
            "CREATE INDEX ON public.master_cards (title)",
            "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC",
        ] {
            let refused = plugin.batch_execute(statement).await.unwrap_err();
            assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{statement}");
            let message = refused.as_db_error().unwrap().message();
            assert!(message.ends_with("runs no DDL at run time"), "{statement}: {message}");
        }
    }
}

/// `nextval` of another plugin's sequence is refused, and its lock stays until the transaction ends.
#[tokio::test]
async fn a_lock_on_another_plugins_sequence_holds_up_no_step() {
    for place in [(15, Login::Superuser), (18, Login::Owner)] {
        let Some(place) = Place::new(place.0, place.1) else { continue };
        let database = place.database().await;
        const SERIAL: &str = "CREATE TABLE IF NOT EXISTS numbered (id serial PRIMARY KEY)";
        database.provision("victim", SERIAL).await.unwrap();
        let made = database.provision("other", LINKED).await.unwrap();
        let _stop = watch(&database);
        let oid: u32 = database
            .admin()
            .await
            .query_one("SELECT 'plugin_victim.numbered_id_seq'::regclass::oid", &[])
            .await
            .unwrap()
            .get(0);
        let holder = session(&made).await;
        holder.batch_execute("BEGIN; SAVEPOINT a").await.unwrap();
        assert!(holder.batch_execute(&format!("SELECT nextval({oid}::regclass)")).await.is_err());
        holder.batch_execute("ROLLBACK TO a").await.unwrap();
        let step = format!("{SERIAL}; ALTER SEQUENCE numbered_id_seq RENAME TO numbers");
        database.provision("victim", &step).await.unwrap();
    }
}

/// `PREPARE` locks what it names before anybody asks for rights; the lock stays until the transaction ends.
#[tokio::test]
async fn a_lock_that_a_prepare_took_holds_up_neither_start_nor_step() {
    for (watched, number) in watched().await.iter().zip(0..) {
        let database = &watched.database;
        for what in ["DELETE FROM public.core_migrations", "UPDATE public.master_cards SET title = ''"] {
            // A start closes the logins of plugins that no host has in service, and a step opens them.
            let made = database.provision("flood", LINKED).await.unwrap();
            let holder = session(&made).await;
            holder.batch_execute(&format!("BEGIN; PREPARE p AS {what}")).await.unwrap();
            database.start_again().await;
            database.provision(&format!("keyed{number}"), LINKED).await.unwrap();
            let held = holder.batch_execute("SELECT 1").await;
            if what.starts_with("DELETE") {
                assert!(held.is_err(), "its session was ended");
            }
        }
    }
}

/// On servers where a member of a group may alter it.
#[tokio::test]
async fn a_group_that_is_being_altered_holds_up_no_start() {
    for Watched { database, made, .. } in &watched().await {
        let group = database.prepared.names.plugin();
        let holder = session(made).await;
        holder.batch_execute(&format!("BEGIN; SET ROLE {group}")).await.unwrap();
        if holder.batch_execute(&format!("ALTER ROLE {group} PASSWORD 'x'")).await.is_ok() {
            database.start_again().await;
        }
    }
}

const TABLES: usize = 8;

fn tables() -> String {
    (0..TABLES).map(|number| LINKED.replace("items", &format!("t{number}")) + ";").collect()
}

/// All of them at once, and a plugin that does it again and again loses its login for a while.
#[tokio::test]
async fn locks_on_many_tables_are_ended_at_once_and_the_login_is_closed() {
    for place in [(15, Login::Superuser), (18, Login::Owner)] {
        let Some(place) = Place::new(place.0, place.1) else { continue };
        let database = place.database().await;
        let made = database.provision("flood", &tables()).await.unwrap();
        let _stop = watch(&database);
        let names = &database.prepared.names;
        let login = |role: &str| database.login(role).pg_config();
        let pools = Pools::new(login(&names.core()), login(&names.reaper())).unwrap();
        let core = database.core().await;
        let mut rounds = 0;
        let closed = loop {
            rounds += 1;
            assert!(rounds < 20);
            let card = database.card(&format!("round {rounds}")).await;
            core.execute("UPDATE public.master_cards SET deleted_at = now() WHERE id = $1", &[&card]).await.unwrap();
            let mut holders = Vec::new();
            for number in 0..TABLES / 2 {
                let Ok(holder) = connect::connect(&made.connect).await else { break };
                let lock = format!(
                    "BEGIN; LOCK TABLE t{number} IN SHARE MODE; LOCK TABLE t{} IN SHARE MODE",
                    number + TABLES / 2
                );
                if holder.batch_execute(&lock).await.is_err() {
                    break;
                }
                holders.push(holder);
            }
            if holders.len() < TABLES / 2 {
                break connect::connect(&made.connect).await;
            }
            is_removed_in_time(&pools.reaper, card, &format!("round {rounds}")).await;
        };
        assert!(closed.is_err(), "the login is open after {rounds} rounds");
        assert!((5..=7).contains(&rounds), "{rounds}");
        let refused = database.provision("flood", &tables()).await.unwrap_err().to_string();
        assert!(refused.contains("login is closed for"), "{refused}");
        // Given back when the time is over.
        let early = "SELECT cardinal.close_runtime_login('flood', 0)";
        database.provisioner().await.batch_execute(early).await.unwrap();
        let made = database.provision("flood", &tables()).await.unwrap();
        connect::connect(&made.connect).await.unwrap();
    }
}

/// Its client is gone, and no host is there to end it.
#[tokio::test]
async fn a_start_ends_the_sessions_of_plugins_that_keep_it_waiting() {
    for database in superuser_databases().await {
        let made = database.provision("left", LINKED).await.unwrap();
        let holder = session(&made).await;
        holder.batch_execute("ALTER ROLE CURRENT_USER SET role = 'none'").await.unwrap();
        holder.batch_execute("BEGIN; ALTER ROLE CURRENT_USER SET work_mem = '1MB'").await.unwrap();
        database.start_again().await;
        holder.batch_execute("SELECT 1").await.unwrap_err();
    }
}
