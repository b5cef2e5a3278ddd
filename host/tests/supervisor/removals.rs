//! What keeps cards from being removed, or others from the cards, for a moment at most: steps that change a table with a key,
//! whole-table locks, plugins' data that is dropped, and what a killed step leaves.

use std::time::{Duration, Instant};

use cardinal_control::link::ProvisionFault;
use cardinal_database::{connect, pool::Pools};
use cardinal_schema::plugin_schema::{StepError, close, purge::Purge};
use cardinal_store::{plugin_state, reaper};

use super::database::{Database, Login, Place, found_in};

const KEYED: &str = "CREATE TABLE keyed (n int, card_id uuid REFERENCES public.master_cards (id) ON DELETE CASCADE);
                     CREATE TABLE other (n int)";
/// As promised to operators, with what a busy machine adds.
const PROMISED: Duration = Duration::from_secs(4);
/// A try to lock takes a tenth of a second; the rest is a busy machine's.
const SHORT: Duration = Duration::from_millis(900);

async fn places() -> Vec<Database> {
    let mut databases = Vec::new();
    for place in [15, 18].into_iter().filter_map(|major| Place::new(major, Login::Superuser)) {
        databases.push(place.database().await);
    }
    databases
}

fn pools(database: &Database) -> Pools {
    let names = &database.prepared.names;
    let login = |role: &str| database.login(role).pg_config();
    Pools::new(login(&names.core()), login(&names.reaper())).unwrap()
}

/// How long removals of cards, one after the other, waited at most beside this.
async fn beside_removals<T>(database: &Database, work: impl Future<Output = T>) -> (T, Duration) {
    let (core, pools) = (database.core().await, pools(database));
    let (mut work, mut longest) = (std::pin::pin!(work), Duration::ZERO);
    loop {
        let card = database.card(&uuid::Uuid::now_v7().to_string()).await;
        core.execute("UPDATE public.master_cards SET deleted_at = now() WHERE id = $1", &[&card]).await.unwrap();
        let begun = Instant::now();
        let removal = async {
            while !matches!(reaper::remove_cards(&pools.reaper, &[card], reaper::CARD_TIMEOUT).await, Ok(1)) {}
        };
        let mut removal = std::pin::pin!(removal);
        let done = tokio::select! {
            done = &mut work => {
                removal.await;
                Some(done)
            }
            () = &mut removal => None,
        };
        longest = longest.max(begun.elapsed());
        if let Some(done) = done {
            return (done, longest);
        }
    }
}

/// Each removal of a card asks every key and is planned with every condition of an index, whichever version made them.
#[tokio::test]
async fn keys_and_conditions_of_indexes_are_bounded_over_all_versions() {
    for database in places().await {
        let key = |n: usize| {
            format!(
                "ALTER TABLE t ADD CONSTRAINT k{n} FOREIGN KEY (c) REFERENCES public.master_cards (id) ON DELETE CASCADE;"
            )
        };
        let keys: String = (0..32).map(key).collect();
        database.provision("keyed", &format!("CREATE TABLE t (c uuid); {keys}")).await.unwrap();
        let found = found_in(database.provision("keyed", &key(32)).await, "schema-unsafe");
        assert!(found.contains("more than 32 keys to master_cards: 33 keys"), "{found}");

        let index = |number: usize| {
            let terms = (0..300).map(|n| format!("n = {}", number * 1_000 + n)).collect::<Vec<_>>().join(" OR ");
            format!("CREATE INDEX ON i (n) WHERE {terms};")
        };
        database.provision("indexed", "CREATE TABLE i (n int)").await.unwrap();
        let mut refused = None;
        for number in 0..20 {
            let made = database.provision("indexed", &index(number)).await;
            if made.is_err() {
                refused = Some((number, found_in(made, "schema-unsafe")));
                break;
            }
        }
        let (indexes, found) = refused.unwrap();
        assert!(indexes > 0 && found.contains("conditions of indexes that take long to read"), "{indexes}: {found}");
        // Nobody's removals notice.
        let ((), waited) = beside_removals(&database, async { tokio::task::yield_now().await }).await;
        assert!(waited < PROMISED, "{waited:?}");
    }
}

#[tokio::test]
async fn a_step_keeps_its_lock_on_a_table_with_a_key_for_a_moment() {
    let slow = "INSERT INTO other SELECT generate_series(1, 100000000)";
    for database in places().await {
        database.provision("slow", KEYED).await.unwrap();
        for change in ["ALTER TABLE keyed ADD COLUMN x int", "CREATE INDEX ON keyed (n)"] {
            let file = format!("{change}; {slow}");
            let (refused, waited) = beside_removals(&database, database.provision("slow", &file)).await;
            assert!(waited < PROMISED, "{change}: {waited:?}");
            let found = found_in(refused, "schema-failed");
            assert!(found.contains("no card could be removed meanwhile"), "{found}");
        }
        let fill = "INSERT INTO other SELECT generate_series(1, 20000); ALTER TABLE keyed ADD COLUMN x int; UPDATE keyed SET x = n";
        database.provision("slow", fill).await.unwrap();
    }
}

#[tokio::test]
async fn a_reader_in_the_way_of_a_drop_is_named_and_others_go_on() {
    for database in places().await {
        database.provision("gone", KEYED).await.unwrap();
        let other = database.provision("reader", "CREATE TABLE other (n int)").await.unwrap();
        let reader = connect::connect(&other.connect).await.unwrap();
        reader.batch_execute("BEGIN; SELECT count(*) FROM public.master_cards").await.unwrap();
        let names = &database.prepared.names;
        let provisioner = database.login(&names.provision());
        let purge = Purge { plugin: "gone", is_installed: false, provisioner: &provisioner, names };
        let card = database.card("written").await;
        let core = database.core().await;
        let mut longest = Duration::ZERO;
        let refused = {
            let mut made = std::pin::pin!(purge.make());
            loop {
                let begun = Instant::now();
                let update = "UPDATE public.master_cards SET version = version + 1 WHERE id = $1";
                let args: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&card];
                let mut write = std::pin::pin!(core.execute(update, &args));
                let done = tokio::select! {
                    done = &mut made => Some(done),
                    written = &mut write => {
                        written.unwrap();
                        None
                    }
                };
                longest = longest.max(begun.elapsed());
                if let Some(done) = done {
                    break done;
                }
            }
        };
        assert!(longest < SHORT, "{longest:?}");
        let Err(StepError::Refused(ProvisionFault::Refused { code, found, .. })) = refused else {
            panic!("{refused:?}")
        };
        assert!(code == "in-use" && found.contains("a session of plugin reader was in the way"), "{found}");
        reader.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(purge.make().await.unwrap().tables, ["keyed", "other"]);
    }
}

#[tokio::test]
async fn what_a_killed_first_step_leaves_is_closed_and_can_be_dropped() {
    for database in places().await {
        let names = &database.prepared.names;
        let (provisioner, pools) = (database.login(&names.provision()), pools(&database));
        let admin = database.admin().await;
        let left = "INSERT INTO other SELECT generate_series(1, 100000000)";
        let file = format!("CREATE TABLE other (n int); {left}");
        let step = database.step(&provisioner, "killed", &file);
        {
            let mut making = std::pin::pin!(step.make());
            let running = "SELECT FROM pg_stat_activity WHERE usename = $1 AND state = 'active' AND query ILIKE '%generate_series%'";
            let role = names.plugin_schema("killed");
            tokio::select! {
                made = &mut making => panic!("{made:?}"),
                () = async { while admin.query(running, &[&role]).await.unwrap().is_empty() {} } => {}
            }
        }
        close::close_left_open(&provisioner, names).await.unwrap();
        let open = "SELECT rolname::text FROM pg_roles WHERE rolname = ANY ($1) AND rolcanlogin";
        let roles = vec![names.plugin_schema("killed"), names.plugin_runtime("killed")];
        assert!(admin.query(open, &[&roles]).await.unwrap().is_empty());
        assert!(plugin_state::has_left_data(&pools.core, "killed").await.unwrap());
        assert!(!plugin_state::has_left_data(&pools.core, "other").await.unwrap());
        let purge = Purge { plugin: "killed", is_installed: false, provisioner: &provisioner, names };
        purge.make().await.unwrap();
        assert!(admin.query("SELECT FROM pg_roles WHERE rolname = ANY ($1)", &[&roles]).await.unwrap().is_empty());
        assert!(!plugin_state::has_left_data(&pools.core, "killed").await.unwrap());
        // The next step opens what a start has closed.
        database.provision("again", "CREATE TABLE other (n int)").await.unwrap();
        close::close_left_open(&provisioner, names).await.unwrap();
        let again = database.provision("again", "CREATE TABLE other (n int)").await.unwrap();
        connect::connect(&again.connect).await.unwrap();
    }
}
