//! The lock on the cards: whatever a schema.sql holds, it is there for moments. PostgreSQL does not interrupt every
//! expression, so what counts is that none of a plugin's runs while the lock is held.

use std::time::{Duration, Instant};

use cardinal_control::link::{PluginDatabase, ProvisionFault};
use cardinal_schema::plugin_schema::{LockLimits, Step, StepError};
use tokio_postgres::Client;

use super::database::{Database, found_in, superuser_databases};
use super::slow_expression::{BIG, NEEDLE, alone, beside_nothing_slow, searches_that_take};

/// As promised to operators.
const PROMISED: Duration = Duration::from_secs(2);
/// Longer than anybody may wait, so that it shows when somebody does.
const SLOW: Duration = Duration::from_secs(4);

fn places_in_text(count: usize) -> String {
    format!("({})", vec![format!("strpos(v, {NEEDLE})"); count].join(" + "))
}

/// A writer of cards beside a step: how long it waited for a card at most.
async fn beside_a_writer<T>(database: &Database, step: impl Future<Output = T>) -> (T, Duration) {
    let card = database.card(&uuid::Uuid::now_v7().to_string()).await;
    let core = database.core().await;
    core.batch_execute("SET lock_timeout = '60s'; SET statement_timeout = '60s'").await.unwrap();
    let mut longest = Duration::ZERO;
    let mut step = std::pin::pin!(step);
    let done = loop {
        let started = Instant::now();
        let mut update = std::pin::pin!(write(&core, card));
        tokio::select! {
            done = &mut step => {
                update.await;
                longest = longest.max(started.elapsed());
                break done;
            }
            () = &mut update => {}
        };
        longest = longest.max(started.elapsed());
    };
    (done, longest)
}

async fn write(core: &Client, card: uuid::Uuid) {
    let update = "UPDATE public.master_cards SET version = version + 1 WHERE id = $1";
    core.execute(update, &[&card]).await.unwrap();
}

async fn run_beside_a_writer(database: &Database, plugin: &str, sql: &str) -> Result<PluginDatabase, ProvisionFault> {
    let (done, waited) = beside_a_writer(database, database.provision(plugin, sql)).await;
    assert!(waited < PROMISED, "a writer waited for {waited:?} beside {sql}");
    done
}

/// In every place where PostgreSQL computes something: the lock is not there yet.
#[tokio::test]
async fn no_expression_runs_while_cards_are_locked() {
    let _alone = alone().await;
    let key = "card_id uuid REFERENCES public.master_cards (id) ON DELETE CASCADE";
    let fill = format!("CREATE TABLE texts (v text); INSERT INTO texts WITH {BIG} SELECT v FROM big");
    for database in superuser_databases().await {
        let slow_number = places_in_text(searches_that_take(&database, SLOW).await);
        let slow = format!("{slow_number} = 0");
        for (number, sql) in [
            format!("{fill}; CREATE TABLE a (n int, {key}); INSERT INTO a (n) SELECT {slow_number} FROM texts"),
            format!("{fill}; CREATE TABLE a (n bool, {key}); INSERT INTO a VALUES (true); UPDATE a SET n = {slow} FROM texts"),
            format!("{fill}; CREATE TABLE a (v text CHECK ({slow}), {key}); INSERT INTO a (v) SELECT v FROM texts"),
            format!("{fill}; ALTER TABLE texts ADD COLUMN {key}, ADD CHECK ({slow})"),
            format!("{fill}; ALTER TABLE texts ADD COLUMN {key}; ALTER TABLE texts ADD CONSTRAINT k CHECK ({slow}) NOT VALID; ALTER TABLE texts VALIDATE CONSTRAINT k"),
            format!("{fill}; ALTER TABLE texts ADD COLUMN {key}; CREATE INDEX ON texts (({slow_number}))"),
            format!("{fill}; ALTER TABLE texts ADD COLUMN {key}, ADD COLUMN n int GENERATED ALWAYS AS ({slow_number}) STORED"),
            format!("{fill}; ALTER TABLE texts ADD COLUMN {key}, ADD EXCLUDE (({slow_number}) WITH =) DEFERRABLE INITIALLY DEFERRED"),
            format!("{fill}; ALTER TABLE texts ADD COLUMN {key}; CREATE TABLE b (v text, EXCLUDE (({slow_number}) WITH =) DEFERRABLE INITIALLY DEFERRED); INSERT INTO b SELECT v FROM texts"),
            format!("{fill}; CREATE TABLE a ({key}); ALTER TABLE texts ALTER v TYPE int USING {slow_number}"),
        ]
        .into_iter()
        .enumerate()
        {
            let plugin = format!("slow-{number}");
            run_beside_a_writer(&database, &plugin, &sql).await.unwrap_or_else(|fault| panic!("{sql}: {fault:?}"));
        }
    }
}

const DROP_KEY: &str = "ALTER TABLE keyed DROP CONSTRAINT keyed_card_id_fkey";

/// What drops a key locks the cards at once; then nothing follows that reads rows or computes.
#[tokio::test]
async fn nothing_slow_follows_what_locks_the_cards() {
    let _turn = beside_nothing_slow().await;
    let there = "CREATE TABLE keyed (id int, card_id uuid REFERENCES public.master_cards (id) ON DELETE CASCADE);
                 CREATE TABLE parts (k int, card_id uuid REFERENCES public.master_cards) PARTITION BY LIST (k);
                 CREATE TABLE parts_rest PARTITION OF parts DEFAULT; CREATE TABLE loose (k int, card_id uuid);
                 CREATE TABLE texts (v text)";
    let slow = format!("INSERT INTO texts WITH {BIG} SELECT v FROM big WHERE {} = 0", places_in_text(3));
    for database in superuser_databases().await {
        database.provision("keyed", there).await.unwrap();
        let before = keys(&database, "plugin_keyed").await;
        for sql in [
            format!("DROP TABLE keyed; {slow}"),
            format!("ALTER TABLE keyed DROP COLUMN card_id; {slow}"),
            format!("ALTER TABLE keyed DROP CONSTRAINT keyed_card_id_fkey; {slow}"),
            "ALTER TABLE keyed DROP COLUMN card_id, ADD CHECK (strpos('a', 'b') = id)".to_owned(),
            "DROP TABLE keyed; CREATE INDEX ON texts (v)".to_owned(),
            "DROP TABLE keyed; SELECT 1".to_owned(),
            "DROP TABLE keyed; UPDATE texts SET v = ''".to_owned(),
            "DROP TABLE keyed; INSERT INTO texts VALUES ('a')".to_owned(),
            "DROP TABLE keyed; CREATE VIEW seen AS SELECT * FROM texts; INSERT INTO seen VALUES ('a')".to_owned(),
            "DROP TABLE keyed; ALTER TABLE texts ADD CHECK (v = 'a')".to_owned(),
            // Each element reads the whole value anew.
            format!("{DROP_KEY}; CREATE TABLE loops (v text, w text[], CHECK (v > ALL (w)))"),
            format!("{DROP_KEY}; CREATE TABLE loops (v text, w text[]); CREATE INDEX ON loops ((v > ALL (w)))"),
            format!("{DROP_KEY}; CREATE TABLE loops (v text, w text[]); ALTER TABLE loops ADD CHECK (v = ANY (w))"),
            format!(
                "{DROP_KEY}; CREATE TABLE loops (v text CHECK (v < 'b')); INSERT INTO loops VALUES ('{}')",
                "a".repeat(9_000)
            ),
            "DROP TABLE keyed; CREATE TABLE IF NOT EXISTS texts (v text); INSERT INTO texts VALUES ('a')".to_owned(),
        ] {
            let found = found_in(run_beside_a_writer(&database, "keyed", &sql).await, "schema-failed");
            assert!(found.contains("while public.master_cards is locked since line 1, column 1"), "{sql}: {found}");
        }
        for sql in [
            "ALTER TABLE keyed ALTER card_id TYPE uuid USING md5(card_id::text)::uuid",
            "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1)",
            "ALTER TABLE parts ATTACH PARTITION loose FOR VALUES IN (2)",
            "ALTER TABLE parts DETACH PARTITION parts_rest",
        ] {
            let found = found_in(run_beside_a_writer(&database, "keyed", sql).await, "schema-failed");
            assert!(found.contains("would lock public.master_cards while it reads rows"), "{sql}: {found}");
        }
        assert_eq!(keys(&database, "plugin_keyed").await, before);
    }
}

/// As much as is let through behind a dropped key: hundreds of checks, each of which reads the whole value, of every
/// row.
#[tokio::test]
async fn the_most_that_follows_a_dropped_key_keeps_no_writer_waiting() {
    let _turn = beside_nothing_slow().await;
    let there = "CREATE TABLE keyed (card_id uuid REFERENCES public.master_cards (id))";
    let value = "a".repeat(8_000);
    let (checks, rows) = (vec![format!("CHECK (v < '{}b')", "a".repeat(200)); 500], vec![format!("('{value}')"); 90]);
    for database in superuser_databases().await {
        database.provision("keyed", there).await.unwrap();
        let sql = format!(
            "{DROP_KEY}; CREATE TABLE most (v text COLLATE \"und-x-icu\", {checks}); CREATE INDEX ON most (length(v)) WHERE v < 'b';
             INSERT INTO most VALUES {rows}",
            checks = checks.join(", "),
            rows = rows.join(", ")
        );
        let done = run_beside_a_writer(&database, "keyed", &sql).await;
        assert!(done.is_ok() || !found_in(done, "schema-failed").is_empty());
    }
}

/// What the reader cannot know of one file: which partitions an older one made.
#[tokio::test]
async fn a_partition_does_not_go_while_the_key_above_it_is_not_made() {
    let there = "CREATE TABLE parts (k int, j int, card_id uuid) PARTITION BY LIST (k);
                 CREATE TABLE part PARTITION OF parts FOR VALUES IN (1) PARTITION BY LIST (j);
                 CREATE TABLE leaf PARTITION OF part DEFAULT; CREATE TABLE loose (k int, j int, card_id uuid)";
    let key = "ALTER TABLE parts ADD FOREIGN KEY (card_id) REFERENCES public.master_cards";
    for database in superuser_databases().await {
        database.provision("parts", there).await.unwrap();
        for change in ["DETACH PARTITION leaf", "ATTACH PARTITION loose FOR VALUES IN (2)"] {
            let found = found_in(
                database.provision("parts", &format!("{key};\n ALTER TABLE part {change}")).await,
                "schema-unsafe",
            );
            assert!(found.contains("line 2, column 2") && found.contains("on table part, which gets a key"), "{found}");
        }
        // Before the key.
        let both = "ALTER TABLE part DETACH PARTITION leaf; ALTER TABLE part ATTACH PARTITION loose FOR VALUES IN (2)";
        database.replay("parts", &format!("{both}; {key}")).await;
        let row =
            "SELECT string_agg(conrelid::regclass::text, ' ' ORDER BY conrelid::regclass::text) FROM pg_constraint
                   WHERE contype = 'f' AND connamespace = 'plugin_parts'::regnamespace";
        let keyed: String = database.admin().await.query_one(row, &[]).await.unwrap().get(0);
        assert_eq!(keyed, "plugin_parts.loose plugin_parts.part plugin_parts.parts");
    }
}

/// Name, table, definition and comment of every foreign key of a schema.
async fn keys(database: &Database, schema: &str) -> Vec<String> {
    let sql = "SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) || ' '
                   || coalesce(obj_description(oid, 'pg_constraint'), '') || CASE WHEN convalidated THEN '' ELSE ' open' END
                 FROM pg_constraint WHERE contype = 'f' AND connamespace = $1::text::regnamespace AND conparentid = 0 ORDER BY 1";
    let rows = database.admin().await.query(sql, &[&schema]).await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0).replace(schema, "s")).collect()
}

async fn checks(database: &Database, schema: &str) -> i64 {
    let sql = "SELECT count(*) FROM pg_constraint WHERE contype = 'c' AND connamespace = $1::text::regnamespace";
    database.admin().await.query_one(sql, &[&schema]).await.unwrap().get(0)
}

/// Files as authors write them: the first and a later version.
const UPGRADES: [(&str, &str); 4] = [
    // Created, indexed and filled.
    (
        "CREATE TABLE IF NOT EXISTS notes (id int PRIMARY KEY, card_id uuid REFERENCES public.master_cards (id) ON DELETE CASCADE, v text);
         CREATE INDEX IF NOT EXISTS notes_card ON notes (card_id); INSERT INTO notes VALUES (1, NULL, 'seed') ON CONFLICT DO NOTHING",
        "CREATE TABLE IF NOT EXISTS notes (id int PRIMARY KEY, card_id uuid REFERENCES public.master_cards (id) ON DELETE CASCADE, v text);
         CREATE INDEX IF NOT EXISTS notes_card ON notes (card_id); INSERT INTO notes VALUES (1, NULL, 'seed') ON CONFLICT DO NOTHING;
         ALTER TABLE notes ADD COLUMN IF NOT EXISTS other uuid REFERENCES public.master_cards ON DELETE SET NULL",
    ),
    // One column goes, another is filled.
    (
        "CREATE TABLE a (old text, card_id uuid REFERENCES public.master_cards)",
        "ALTER TABLE a ADD COLUMN new text; UPDATE a SET new = upper(old); ALTER TABLE a DROP COLUMN old; INSERT INTO a (new) VALUES ('x')",
    ),
    // Made anew, with rows.
    (
        "DROP TABLE IF EXISTS a; CREATE TABLE a (id bigserial PRIMARY KEY, card_id uuid REFERENCES public.master_cards);
         CREATE INDEX ON a (card_id); INSERT INTO a (id) VALUES (1)",
        "DROP TABLE IF EXISTS a; CREATE TABLE a (id bigserial PRIMARY KEY, v text NOT NULL DEFAULT 'x' CHECK (length(v) < 9),
           card_id uuid REFERENCES public.master_cards ON DELETE SET NULL);
         CREATE UNIQUE INDEX ON a (v) WHERE v <> ''; INSERT INTO a (v) VALUES ('one'), ('two'); ALTER TABLE a ADD UNIQUE (card_id);
         COMMENT ON TABLE a IS 'a'; CREATE TABLE b (a bigint REFERENCES a)",
    ),
    // The key is exchanged.
    (
        "CREATE TABLE a (card_id uuid CONSTRAINT k REFERENCES public.master_cards)",
        "ALTER TABLE a DROP CONSTRAINT IF EXISTS k; ALTER TABLE a ADD CONSTRAINT k FOREIGN KEY (card_id) REFERENCES public.master_cards (id) ON DELETE CASCADE",
    ),
];

/// What a step does while it locks the cards takes a busy machine longer than a step may: it is refused then, and
/// nobody has waited. It works where it has the time.
async fn replay_beside_a_writer(database: &Database, plugin: &str, sql: &str) {
    let step = database.replay_within(LockLimits::default(), plugin, sql);
    let (made, waited) = beside_a_writer(database, step).await;
    assert!(waited < PROMISED, "{sql}: {waited:?}");
    match made {
        Ok(_) => {}
        Err(StepError::Refused(ProvisionFault::Refused { found, .. })) if found.contains("still held its lock") => {
            database.replay(plugin, sql).await;
        }
        Err(error) => panic!("{sql}: {error:?}"),
    }
}

#[tokio::test]
async fn what_authors_write_works() {
    let _turn = beside_nothing_slow().await;
    for database in superuser_databases().await {
        for (number, (first, second)) in UPGRADES.into_iter().enumerate() {
            let plugin = format!("author-{number}");
            let schema = format!("plugin_author_{number}");
            run_beside_a_writer(&database, &plugin, first).await.unwrap_or_else(|fault| panic!("{first}: {fault:?}"));
            replay_beside_a_writer(&database, &plugin, second).await;
            let keys = keys(&database, &schema).await;
            assert!(!keys.is_empty() && !keys.iter().any(|key| key.ends_with(" open")), "{keys:?}");
            // A later version runs over what is there.
            database.provision(&plugin, "CREATE TABLE IF NOT EXISTS later (id int)").await.unwrap();
        }
    }
}

/// Names, tables, options and comments of keys, as PostgreSQL itself would make them of the same file.
#[tokio::test]
async fn keys_come_out_as_postgresql_would_make_them() {
    let file = "
        CREATE TABLE a (id int, card_id uuid REFERENCES public.master_cards, other uuid CONSTRAINT o REFERENCES public.master_cards (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
          FOREIGN KEY (card_id) REFERENCES public.master_cards ON DELETE RESTRICT);
        ALTER TABLE a RENAME TO renamed; ALTER TABLE renamed RENAME COLUMN card_id TO the_card;
        CREATE TABLE a (card_id uuid REFERENCES public.master_cards MATCH FULL ON UPDATE CASCADE ON DELETE CASCADE);
        CREATE TABLE IF NOT EXISTS a (card_id uuid REFERENCES public.master_cards, more uuid REFERENCES public.master_cards);
        ALTER TABLE a ADD COLUMN more uuid REFERENCES public.master_cards, ADD COLUMN again uuid REFERENCES public.master_cards;
        ALTER TABLE a ADD COLUMN IF NOT EXISTS more uuid REFERENCES public.master_cards;
        ALTER TABLE a DROP COLUMN again; ALTER TABLE a RENAME CONSTRAINT a_more_fkey TO more_key;
        COMMENT ON CONSTRAINT more_key ON a IS 'it''s more';
        CREATE TABLE gone (card_id uuid REFERENCES public.master_cards); DROP TABLE gone;
        CREATE TABLE gone (card_id uuid REFERENCES public.master_cards); ALTER TABLE gone DROP CONSTRAINT gone_card_id_fkey;
        CREATE TABLE twice (card_id uuid REFERENCES public.master_cards); ALTER TABLE twice DROP CONSTRAINT twice_card_id_fkey;
        ALTER TABLE twice ADD FOREIGN KEY (card_id) REFERENCES public.master_cards ON DELETE CASCADE;
        CREATE TABLE copied (LIKE a INCLUDING ALL); CREATE TABLE child () INHERITS (a);
        CREATE TABLE a_very_long_name_of_a_table_that_postgresql_cuts_off_somewhere (a_very_long_name_of_a_column uuid REFERENCES public.master_cards);
        CREATE TABLE parts (k int, card_id uuid REFERENCES public.master_cards) PARTITION BY LIST (k);
        CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1); CREATE TABLE parts_2 PARTITION OF parts (card_id REFERENCES public.master_cards ON DELETE CASCADE) FOR VALUES IN (2);
        CREATE TABLE later (k int, card_id uuid) PARTITION BY LIST (k); CREATE TABLE later_1 PARTITION OF later FOR VALUES IN (1);
        CREATE TABLE later_2 (k int, card_id uuid); ALTER TABLE later ATTACH PARTITION later_2 FOR VALUES IN (2);
        CREATE TABLE later_3 PARTITION OF later FOR VALUES IN (3); ALTER TABLE later DETACH PARTITION later_3;
        ALTER TABLE later ADD FOREIGN KEY (card_id) REFERENCES public.master_cards;
        CREATE TABLE plain (k int, card_id uuid) PARTITION BY LIST (k); CREATE TABLE plain_1 (k int, card_id uuid REFERENCES public.master_cards);
        ALTER TABLE plain ATTACH PARTITION plain_1 FOR VALUES IN (1);
        CREATE TABLE named (card_id uuid REFERENCES public.master_cards, v int CONSTRAINT named_card_id_fkey UNIQUE);
        CREATE TABLE \"Größe\" (\"Ä\" uuid REFERENCES public.master_cards);
        CREATE TABLE unchecked (card_id uuid); ALTER TABLE unchecked ADD FOREIGN KEY (card_id) REFERENCES public.master_cards NOT VALID";
    for database in superuser_databases().await {
        database.provision_patiently("ours", file).await.unwrap_or_else(|fault| panic!("{fault:?}"));
        let admin = database.admin().await;
        admin.batch_execute(&format!("CREATE SCHEMA theirs; SET search_path = theirs; {file}")).await.unwrap();
        assert_eq!(keys(&database, "plugin_ours").await, keys(&database, "theirs").await);
        assert_eq!(checks(&database, "plugin_ours").await, 0);
        // Where the partitions have theirs.
        let all = "SELECT conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND connamespace = $1::text::regnamespace ORDER BY 1";
        let tables = async |schema: &str| -> Vec<String> {
            let rows = admin.query(all, &[&schema]).await.unwrap();
            rows.iter().map(|row| row.get::<_, String>(0).replace(&format!("{schema}."), "")).collect()
        };
        assert_eq!(tables("plugin_ours").await, tables("theirs").await);
    }
}

#[tokio::test]
async fn a_row_without_a_card_is_refused_before_anything_stays() {
    let database = Database::new().await;
    let file = "CREATE TABLE a (card_id uuid REFERENCES public.master_cards);
                INSERT INTO a VALUES ('00000000-0000-0000-0000-000000000001')";
    let found = found_in(database.provision("rows", file).await, "schema-failed");
    assert!(found.starts_with("23503") && found.contains("line 1, column 1"), "{found}");
    assert!(database.tables("plugin_rows").await.is_empty());
    let other = "CREATE DOMAIN short AS uuid; CREATE TABLE a (card_id short); ALTER TABLE a ADD FOREIGN KEY (card_id) REFERENCES public.master_cards";
    let found = found_in(database.provision("rows", other).await, "schema-unsafe");
    assert!(found.contains("a key to the cards that is no uuid: a.card_id"), "{found}");
}

/// A step that ends with its process, in the middle of what PostgreSQL does not interrupt.
#[tokio::test]
async fn a_step_that_is_killed_holds_up_no_writer() {
    let _alone = alone().await;
    let (slow, key) = (places_in_text(3), "CREATE TABLE a (card_id uuid REFERENCES public.master_cards)");
    let file =
        format!("{key}; CREATE TABLE texts (v text); INSERT INTO texts WITH {BIG} SELECT v FROM big WHERE {slow} = 0");
    for database in superuser_databases().await {
        let provisioner = database.login(&database.prepared.names.provision());
        let step: Step<'_> = database.step(&provisioner, "killed", &file);
        let admin = database.admin().await;
        let killed = async {
            let mut making = std::pin::pin!(step.make());
            tokio::select! {
                made = &mut making => panic!("{made:?}"),
                () = runs(&admin, "texts") => {}
            }
        };
        let ((), waited) = beside_a_writer(&database, killed).await;
        assert!(waited < PROMISED, "{waited:?}");
        let (made, waited) = beside_a_writer(&database, database.provision("other", key)).await;
        made.unwrap();
        assert!(waited < PROMISED, "{waited:?}");
    }
}

/// Comes back when a statement about this is under way.
async fn runs(admin: &Client, word: &str) {
    let sql = "SELECT FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state = 'active' AND query LIKE '%INSERT%' || $1 || '%'
                 OR pid <> pg_backend_pid() AND state = 'active' AND query LIKE '%insert into%' || $1 || '%'";
    while admin.query(sql, &[&word]).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
}

/// What a card's removal would compute is bounded, also where only the catalog can see it.
#[tokio::test]
async fn a_key_that_sets_a_value_lets_no_large_expression_stand_beside_it() {
    let key = "card_id uuid REFERENCES public.master_cards ON DELETE SET NULL";
    for database in superuser_databases().await {
        let first = "CREATE DOMAIN checked AS text CHECK (VALUE !~ 'x'); CREATE TABLE by_check (v text CHECK (v !~ 'x'), card_id uuid);
            CREATE TABLE by_index (v text, card_id uuid); CREATE INDEX ON by_index ((v || 'x'));
            CREATE TABLE by_column (n numeric, p numeric GENERATED ALWAYS AS (n * n) STORED, card_id uuid);
            CREATE TABLE by_domain (v checked, card_id uuid);
            CREATE TABLE chain (card_id uuid UNIQUE REFERENCES public.master_cards ON DELETE SET NULL);
            CREATE TABLE by_chain (v text CHECK (v LIKE '%x%y%'), card_id uuid); CREATE TABLE fine (v text, n int CHECK (n * 2 > 0), card_id uuid);
            CREATE TABLE by_loop (v text COLLATE \"C\", w text[], card_id uuid, CHECK (v > ALL (w)));
            CREATE TABLE by_many (v text, card_id uuid, CHECK (MANY));
            CREATE TABLE listed (v varchar(9) CHECK (v IN ('a', 'b')), w text, CHECK (w NOT IN ('a', v, 'b') AND length(w) < 9), n int CHECK (n IN (1, 2)),
                u text CHECK (MANY_EQUAL), card_id uuid);
            CREATE TABLE pointed (id uuid PRIMARY KEY); CREATE TABLE by_update (v text CHECK (v ~ 'x'), id uuid REFERENCES pointed ON UPDATE CASCADE)";
        let many = |operator| vec![format!("v {operator} 'a'"); 20].join(" AND ");
        let first = first.replace("MANY_EQUAL", &many("<>").replace('v', "u")).replace("MANY", &many(">"));
        database.provision("sets", &first).await.unwrap_or_else(|fault| panic!("{fault:?}"));
        for (table, key) in [
            ("by_check", "REFERENCES public.master_cards ON DELETE SET NULL"),
            ("by_check", "REFERENCES public.master_cards ON DELETE SET DEFAULT"),
            ("by_index", "REFERENCES public.master_cards ON DELETE SET NULL"),
            ("by_column", "REFERENCES public.master_cards ON DELETE SET NULL"),
            ("by_domain", "REFERENCES public.master_cards ON DELETE SET NULL"),
            ("by_loop", "REFERENCES public.master_cards ON DELETE SET NULL"),
            ("by_many", "REFERENCES public.master_cards ON DELETE SET NULL"),
            ("by_chain", "REFERENCES chain (card_id) ON UPDATE CASCADE"),
            ("by_chain", "REFERENCES chain (card_id) ON DELETE SET NULL"),
        ] {
            let sql = format!("ALTER TABLE {table} ADD FOREIGN KEY (card_id) {key}");
            let found = found_in(database.provision("sets", &sql).await, "schema-unsafe");
            assert!(found.contains("in a table whose key sets a value") && found.contains(table), "{sql}: {found}");
        }
        for key in [
            "REFERENCES public.master_cards ON DELETE CASCADE ON UPDATE CASCADE",
            "REFERENCES pointed ON UPDATE CASCADE",
        ] {
            database.provision("sets", &format!("ALTER TABLE by_check ADD FOREIGN KEY (card_id) {key}")).await.unwrap();
        }
        let listed =
            format!("ALTER TABLE listed ADD FOREIGN KEY (card_id) {}", key.trim_start_matches("card_id uuid "));
        database.provision("sets", &listed).await.unwrap_or_else(|fault| panic!("{fault:?}"));
        let fine = format!("ALTER TABLE fine ADD FOREIGN KEY (card_id) {}", key.trim_start_matches("card_id uuid "));
        database.provision("sets", &fine).await.unwrap();
    }
}
