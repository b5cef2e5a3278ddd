//! What keeps cards from being removed, or others from the cards, for a moment at most: steps that change a table with
//! a key, whole-table locks, plugins' data that is dropped, and what a killed step leaves.

// How long somebody waited is a figure that people want to see.
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use cardinal_control::link::ProvisionFault;
use cardinal_database::{connect, pool::Pools};
use cardinal_schema::plugin_schema::{StepError, catalog, close, purge::Purge};
use cardinal_store::{plugins, reaper};

use super::database::{Database, found_in, superuser_databases};
use super::slow_expression::beside_nothing_slow;

const KEYED: &str = "CREATE TABLE keyed (n int, card_id uuid REFERENCES public.master_cards (id) ON DELETE CASCADE);
                     CREATE TABLE other (n int)";
/// As promised to operators, with what a busy machine adds.
const PROMISED: Duration = Duration::from_secs(4);
/// A try to lock takes a tenth of a second; the rest is a busy machine's.
const SHORT: Duration = Duration::from_millis(900);

fn pools(database: &Database) -> Pools {
    let names = &database.prepared.names;
    let login = |role: &str| database.login(role).pg_config();
    Pools::new(login(&names.core()), login(&names.reaper())).unwrap()
}

/// How long removals of cards, one after the other, waited at most beside this.
pub(super) async fn beside_removals<T>(database: &Database, work: impl Future<Output = T>) -> (T, Duration) {
    let (core, pools) = (database.core().await, pools(database));
    let (mut work, mut longest) = (std::pin::pin!(work), Duration::ZERO);
    loop {
        // All of it beside the work, which holds locks while it is not polled.
        let removal = async {
            let card = database.card(&uuid::Uuid::now_v7().to_string()).await;
            core.execute("UPDATE public.master_cards SET deleted_at = now() WHERE id = $1", &[&card]).await.unwrap();
            let started = Instant::now();
            while !matches!(reaper::remove_cards(&pools.reaper, &[card], reaper::CARD_TIMEOUT).await, Ok(1)) {}
            started.elapsed()
        };
        let mut removal = std::pin::pin!(removal);
        let (done, waited) = tokio::select! {
            done = &mut work => (Some(done), removal.await),
            waited = &mut removal => (None, waited),
        };
        longest = longest.max(waited);
        if let Some(done) = done {
            return (done, longest);
        }
    }
}

/// As it is where an older version made the key.
#[tokio::test]
async fn a_key_without_an_index_is_named() {
    for database in superuser_databases().await {
        let keys =
            format!("{KEYED}; CREATE TABLE parts (n int, c uuid REFERENCES public.master_cards) PARTITION BY LIST (n)");
        database.provision("named", &keys).await.unwrap();
        let admin = database.admin().await;
        assert_eq!(catalog::unindexed_keys(&admin, "plugin_named").await.unwrap(), [""; 0]);
        let drop = "DO $$ DECLARE i regclass; BEGIN
            FOR i IN SELECT indexrelid FROM pg_index WHERE indrelid::regclass::text LIKE 'plugin_named.%' LOOP EXECUTE 'DROP INDEX ' || i; END LOOP; END $$;
            CREATE INDEX ON plugin_named.parts (n, c)";
        admin.batch_execute(drop).await.unwrap();
        assert_eq!(catalog::unindexed_keys(&admin, "plugin_named").await.unwrap(), ["keyed.card_id", "parts.c"]);
    }
}

/// It would be as if the key had been made without one.
#[tokio::test]
async fn the_index_of_a_key_goes_with_the_key_alone() {
    const INDEXED: &str = "CREATE TABLE IF NOT EXISTS t (n int, c uuid REFERENCES public.master_cards);
                           CREATE INDEX IF NOT EXISTS i ON t (c); CREATE INDEX IF NOT EXISTS other ON t (n)";
    for database in superuser_databases().await {
        database.provision("bare", INDEXED).await.unwrap();
        for lost in [
            "DROP INDEX i",
            "DROP INDEX i; CREATE INDEX ON t (n, c)",
            "DROP INDEX i; CREATE INDEX ON t (c) WHERE n > 1",
        ] {
            let found = found_in(database.provision("bare", &format!("{INDEXED}; {lost}")).await, "schema-failed");
            assert!(found.contains("t.c"), "{found}");
        }
        database.provision("bare", &format!("{INDEXED}; CREATE INDEX j ON t (c, n); DROP INDEX i")).await.unwrap();
        let dropped =
            "DROP INDEX IF EXISTS j; DROP INDEX IF EXISTS other; ALTER TABLE t DROP CONSTRAINT IF EXISTS t_c_fkey";
        database.provision_patiently("bare", dropped).await.unwrap();
    }
}

/// A table whose key has no index would be read whole by the removal of any card, as often as it has keys.
#[tokio::test]
async fn a_key_has_an_index_by_which_the_rows_of_a_card_are_found() {
    let _turn = beside_nothing_slow().await;
    const UNINDEXED: &str = "SELECT count(*) FROM pg_constraint k WHERE k.contype = 'f' AND k.connamespace = 'plugin_wide'::regnamespace
        AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = k.conrelid AND i.indkey[0] = k.conkey[1] AND i.indpred IS NULL)";
    for database in superuser_databases().await {
        let keys: String =
            (0..29).map(|n| format!(", c{n} uuid REFERENCES public.master_cards ON DELETE CASCADE")).collect();
        let parts = "CREATE TABLE parts (n int, c uuid REFERENCES public.master_cards) PARTITION BY LIST (n);
                     CREATE TABLE part PARTITION OF parts DEFAULT";
        let made = database.provision("wide", &format!("CREATE TABLE wide (id int{keys}); {parts}")).await.unwrap();
        let admin = database.admin().await;
        assert_eq!(admin.query_one(UNINDEXED, &[]).await.unwrap().get::<_, i64>(0), 0);
        let plugin = connect::connect(&made.connect).await.unwrap();
        // In parts: each row has an entry in 29 indexes, and one statement may take 15 s.
        for _ in 0..10 {
            plugin.execute("INSERT INTO wide (id) SELECT generate_series(1, 3000)", &[]).await.unwrap();
        }
        let ((), waited) = beside_removals(&database, async { tokio::task::yield_now().await }).await;
        assert!(waited < SHORT, "{waited:?}");
        // One that is there already will do; a partial one does not.
        let own = "CREATE TABLE own (c uuid PRIMARY KEY REFERENCES public.master_cards);
                   CREATE TABLE few (n int, c uuid REFERENCES public.master_cards); CREATE INDEX ON few (c) WHERE n > 1";
        database.provision("wide", own).await.unwrap();
        assert_eq!(admin.query_one(UNINDEXED, &[]).await.unwrap().get::<_, i64>(0), 0);
        let of_own = "SELECT count(*) FROM pg_index WHERE indrelid = 'plugin_wide.own'::regclass";
        assert_eq!(admin.query_one(of_own, &[]).await.unwrap().get::<_, i64>(0), 1);
    }
}

/// As much as a plugin may have. The lock on the cards lies from the first of its keys to the end of the transaction.
#[tokio::test]
async fn the_largest_schema_is_dropped_beside_writers_of_cards() {
    let _turn = beside_nothing_slow().await;
    for database in superuser_databases().await {
        let keyed: String = (0..32)
            .map(|n| {
                format!("CREATE TABLE k{n} (c uuid PRIMARY KEY REFERENCES public.master_cards ON DELETE CASCADE);")
            })
            .collect();
        database.provision("large", &keyed).await.unwrap();
        for from in [0, 150, 300] {
            let more = (from..from + 150).map(|n| format!("CREATE TABLE t{n} (id int PRIMARY KEY, v text);"));
            database.provision("large", &more.collect::<String>()).await.unwrap();
        }
        let names = &database.prepared.names;
        let provisioner = database.login(&names.provision());
        let purge = Purge { plugin: "large", is_installed: false, provisioner: &provisioner, names };
        let (dropped, waited) = beside_a_writer(&database, purge.make()).await;
        assert_eq!(dropped.unwrap().tables.len(), 482);
        println!("a writer waited for {waited:?} at most");
        assert!(waited < Duration::from_secs(2), "{waited:?}");
    }
}

/// The tables with keys go first, each by itself: neither removals of cards nor a process that is killed keep the rest.
#[tokio::test]
async fn a_purge_that_is_broken_off_is_finished_by_the_next() {
    for database in superuser_databases().await {
        database.provision("gone", KEYED).await.unwrap();
        let (names, pools) = (&database.prepared.names, pools(&database));
        let provisioner = database.login(&names.provision());
        let purge = Purge { plugin: "gone", is_installed: false, provisioner: &provisioner, names };
        let other = database.admin().await;
        other.batch_execute("BEGIN; LOCK TABLE plugin_gone.other IN ACCESS SHARE MODE").await.unwrap();
        {
            let mut purging = std::pin::pin!(purge.make());
            let is_halfway = async { while database.tables("plugin_gone").await != ["other"] {} };
            tokio::select! {
                purged = &mut purging => panic!("{purged:?}"),
                () = is_halfway => {}
            }
        }
        // Cards are written and removed, and the operator can go on.
        let ((), waited) = beside_removals(&database, async { tokio::task::yield_now().await }).await;
        assert!(waited < PROMISED, "{waited:?}");
        assert!(plugins::state::has_left_data(&pools.core, "gone").await.unwrap());
        other.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(purge.make().await.unwrap().tables, ["other"]);
        assert!(!plugins::state::has_left_data(&pools.core, "gone").await.unwrap());
        // One that is enabled instead gets a whole schema.
        database.provision("gone", KEYED).await.unwrap();
        let halfway = "DROP TABLE plugin_gone.keyed; UPDATE public.plugin_schema_state SET schema_sha256 = NULL WHERE plugin = 'gone'";
        database.admin().await.batch_execute(halfway).await.unwrap();
        let again = KEYED.replace("TABLE ", "TABLE IF NOT EXISTS ");
        database.provision("gone", &again).await.unwrap();
        assert_eq!(database.tables("plugin_gone").await, ["keyed", "other"]);
    }
}

/// Many wide tables take a while to go; whoever removes cards meanwhile does not keep them.
#[tokio::test]
async fn wide_tables_are_dropped_beside_removals_of_cards() {
    let _turn = beside_nothing_slow().await;
    for database in superuser_databases().await {
        let columns: String = (0..1_000).map(|n| format!(", a{n} int")).collect();
        let rest: String = (1..40).map(|n| format!("; CREATE TABLE b{n} (LIKE b0)")).collect();
        let key = "card_id uuid REFERENCES public.master_cards ON DELETE CASCADE";
        database.provision("wide", &format!("CREATE TABLE b0 ({key}{columns}){rest}")).await.unwrap();
        let names = &database.prepared.names;
        let provisioner = database.login(&names.provision());
        let purge = Purge { plugin: "wide", is_installed: false, provisioner: &provisioner, names };
        let (purged, waited) = beside_removals(&database, purge.make()).await;
        assert_eq!(purged.unwrap().tables.len(), 40);
        assert!(waited < PROMISED, "{waited:?}");
    }
}

/// How long a writer of cards waited at most beside this.
async fn beside_a_writer<T>(database: &Database, work: impl Future<Output = T>) -> (T, Duration) {
    let card = database.card(&uuid::Uuid::now_v7().to_string()).await;
    let core = database.core().await;
    let update = "UPDATE public.master_cards SET version = version + 1 WHERE id = $1";
    let (mut work, mut longest) = (std::pin::pin!(work), Duration::ZERO);
    loop {
        let started = Instant::now();
        let args: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&card];
        let mut write = std::pin::pin!(core.execute(update, &args));
        let done = tokio::select! {
            done = &mut work => {
                write.await.unwrap();
                Some(done)
            }
            written = &mut write => {
                written.unwrap();
                None
            }
        };
        longest = longest.max(started.elapsed());
        if let Some(done) = done {
            return (done, longest);
        }
    }
}

/// Each removal of a card asks every key and is planned with every condition of an index, whichever version made them.
#[tokio::test]
async fn keys_and_conditions_of_indexes_are_bounded_over_all_versions() {
    let _turn = beside_nothing_slow().await;
    for database in superuser_databases().await {
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
    let _turn = beside_nothing_slow().await;
    let slow = "INSERT INTO other SELECT generate_series(1, 100000000)";
    for database in superuser_databases().await {
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
    let _turn = beside_nothing_slow().await;
    for database in superuser_databases().await {
        database.provision("gone", KEYED).await.unwrap();
        let other = database.provision("reader", "CREATE TABLE other (n int)").await.unwrap();
        let reader = connect::connect(&other.connect).await.unwrap();
        reader.batch_execute("BEGIN; SELECT count(*) FROM public.master_cards").await.unwrap();
        let names = &database.prepared.names;
        let provisioner = database.login(&names.provision());
        let purge = Purge { plugin: "gone", is_installed: false, provisioner: &provisioner, names };
        let (refused, longest) = beside_a_writer(&database, purge.make()).await;
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
    for database in superuser_databases().await {
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
        close::close_left_open(&provisioner, names, false).await.unwrap();
        let open = "SELECT rolname::text FROM pg_roles WHERE rolname = ANY ($1) AND rolcanlogin";
        let roles = vec![names.plugin_schema("killed"), names.plugin_runtime("killed")];
        assert!(admin.query(open, &[&roles]).await.unwrap().is_empty());
        assert!(plugins::state::has_left_data(&pools.core, "killed").await.unwrap());
        assert!(!plugins::state::has_left_data(&pools.core, "other").await.unwrap());
        let purge = Purge { plugin: "killed", is_installed: false, provisioner: &provisioner, names };
        purge.make().await.unwrap();
        assert!(admin.query("SELECT FROM pg_roles WHERE rolname = ANY ($1)", &[&roles]).await.unwrap().is_empty());
        assert!(!plugins::state::has_left_data(&pools.core, "killed").await.unwrap());
        // The next step opens what a start has closed.
        database.provision("again", "CREATE TABLE other (n int)").await.unwrap();
        close::close_left_open(&provisioner, names, false).await.unwrap();
        let again = database.provision("again", "CREATE TABLE other (n int)").await.unwrap();
        connect::connect(&again.connect).await.unwrap();
    }
}

/// Rows that go with rows that go with a card are found without reading their whole table.
#[tokio::test]
async fn keys_below_keys_to_the_cards_have_their_index() {
    for database in superuser_databases().await {
        let tables = "CREATE TABLE first (id int PRIMARY KEY, n int UNIQUE, m int, UNIQUE (id, m), card_id uuid REFERENCES public.master_cards (id) ON DELETE CASCADE);
            CREATE TABLE second (id int PRIMARY KEY, a int REFERENCES first (id) ON DELETE CASCADE, b int REFERENCES first (n));
            CREATE TABLE third (x int, y int, FOREIGN KEY (x, y) REFERENCES first (id, m), z int REFERENCES second (id));
            CREATE INDEX ON third (z); CREATE TABLE apart (id int PRIMARY KEY); CREATE TABLE other (a int REFERENCES apart (id));";
        database.provision("deep", tables).await.unwrap();
        // A later file that adds one finds the others there.
        let later = "CREATE TABLE IF NOT EXISTS fourth (v int REFERENCES second (id))";
        database.provision("deep", later).await.unwrap();
        let sql = "SELECT pg_get_indexdef(indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
                     WHERE c.relnamespace = 'plugin_deep'::regnamespace AND NOT i.indisunique ORDER BY 1";
        let found = database.admin().await.query(sql, &[]).await.unwrap();
        let mut found: Vec<String> = found.iter().map(|row| row.get::<_, String>(0)).collect();
        found.iter_mut().for_each(|index| *index = index.split_once(" ON ").unwrap().1.replace("plugin_deep.", ""));
        found.sort();
        let wanted = ["first (card_id)", "fourth (v)", "second (a)", "second (b)", "third (x, y)", "third (z)"];
        assert_eq!(found, wanted.map(|index| index.replace(" (", " USING btree (")));
    }
}
