//! The run of schema.sql: its limits stand outside of its reach, and whatever ends it leaves nothing behind.

use std::time::Duration;

use cardinal_control::link::ProvisionFault;
use cardinal_schema::plugin_schema::{Step, StepError};

use super::database::{Database, found_in};

const ENDLESS: &str =
    "INSERT INTO numbers WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";

async fn sessions_of_the_schema_role(database: &Database, plugin: &str) -> i64 {
    let role = database.prepared.names.plugin_schema(plugin);
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1";
    database.admin().await.query_one(sql, &[&role]).await.unwrap().get(0)
}

#[tokio::test]
async fn texts_that_look_like_an_end_are_texts() {
    let database = Database::new().await;
    let texts = [
        "$cage_0$; COMMIT; DROP TABLE x; --",
        "''; COMMIT; --",
        "\\''; COMMIT; --",
        "END; COMMIT; --",
        "$$; COMMIT; --",
    ];
    let columns: Vec<String> =
        texts.iter().enumerate().map(|(n, text)| format!("c{n} text DEFAULT '{text}'")).collect();
    let made = database.provision("good", &format!("CREATE TABLE items ({})", columns.join(", "))).await.unwrap();
    let plugin = cardinal_database::connect::connect(&made.connect).await.unwrap();
    let row = plugin.query_one("INSERT INTO items DEFAULT VALUES RETURNING *", &[]).await.unwrap();
    for (column, text) in texts.iter().enumerate() {
        assert_eq!(row.get::<_, String>(column), text.replace("''", "'"));
    }
}

#[tokio::test]
async fn quotes_and_dollars_of_an_honest_file_pass() {
    let database = Database::new().await;
    let honest = "CREATE TABLE IF NOT EXISTS items (v text DEFAULT 'it''s \\ a $cage$ and $$ here');
                  COMMENT ON TABLE items IS E'tab\\t, ''quote'', \u{00fc}nic\u{00f6}de';";
    let made = database.provision("good", honest).await.unwrap();
    let plugin = cardinal_database::connect::connect(&made.connect).await.unwrap();
    plugin.execute("INSERT INTO items DEFAULT VALUES", &[]).await.unwrap();
    let row = plugin.query_one("SELECT v FROM items", &[]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), "it's \\ a $cage$ and $$ here");
}

#[tokio::test]
async fn a_mistake_is_told_with_its_place() {
    let database = Database::new().await;
    let mistake = "CREATE TABLE a (id int);\n\n CRATE TABLE b ();";
    let found = found_in(database.provision("typo", mistake).await, "schema-failed");
    assert!(found.contains("line 3, column 2"), "{found}");
    // PostgreSQL's own mistakes are told with their statement.
    let mistake = "CREATE TABLE a (id int);\n\n INSERT INTO a VALUES ('x');";
    let found = found_in(database.provision("typo", mistake).await, "schema-failed");
    assert!(found.starts_with("22P02") && found.contains("line 3, column 2"), "{found}");
    assert!(database.tables("plugin_typo").await.is_empty());
}

#[tokio::test]
async fn a_schema_that_takes_too_long_is_ended() {
    let database = Database::new().await;
    let forever = format!("CREATE TABLE numbers (i int); {ENDLESS}");
    let provisioner = database.login(&database.prepared.names.provision());
    let step = Step { schema_timeout: Duration::from_millis(300), ..database.step(&provisioner, "slow", &forever) };
    let Err(StepError::Refused(ProvisionFault::Refused { found, .. })) = step.make().await else {
        panic!("not refused")
    };
    assert!(found.starts_with("57014"), "{found}");
    assert_eq!(sessions_of_the_schema_role(&database, "slow").await, 0);
    assert!(!database.has_role(&database.prepared.names.plugin_schema("slow")).await);
}

/// Keys come last, so that what never ends holds no lock that a writer of cards needs.
#[tokio::test]
async fn an_endless_statement_beside_a_key_keeps_no_writer_waiting() {
    let database = Database::new().await;
    let (card, core) = (database.card("written").await, database.core().await);
    core.batch_execute("SET lock_timeout = '500ms'").await.unwrap();
    let key = "CREATE TABLE items (card_id uuid REFERENCES public.master_cards (id) ON DELETE CASCADE)";
    let endless = format!("{key}; CREATE TABLE numbers (i int); {ENDLESS}");
    let mut step = std::pin::pin!(database.provision_within(Duration::from_secs(1), "endless", &endless));
    let refused = loop {
        let update = "UPDATE public.master_cards SET version = version + 1 WHERE id = $1";
        let args: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&card];
        tokio::select! {
            refused = &mut step => break refused,
            written = core.execute(update, &args) => assert_eq!(written.unwrap(), 1),
        }
    };
    assert!(found_in(refused, "schema-failed").starts_with("57014"));
    assert!(database.tables("plugin_endless").await.is_empty());
}

/// What a step has set in the provisioner's sessions is gone before the next one.
#[tokio::test]
async fn a_step_begins_with_sessions_as_they_were_opened() {
    let database = Database::new().await;
    let provisioner = database.login(&database.prepared.names.provision());
    let (_, sessions) = database.step(&provisioner, "first", "CREATE TABLE a (id int)").make_with(None).await.unwrap();
    let role = database.prepared.names.provision();
    // The last that the two sessions were told: all of it, and all but plans.
    let last = "SELECT count(*), count(*) FILTER (WHERE query = 'DISCARD ALL'),
                       count(*) FILTER (WHERE query LIKE 'CLOSE ALL; %RESET ALL; %DISCARD TEMP; DISCARD SEQUENCES')
                FROM pg_stat_activity WHERE usename = $1";
    let row = database.admin().await.query_one(last, &[&role]).await.unwrap();
    assert_eq!([0, 1, 2].map(|column| row.get::<_, i64>(column)), [2, 1, 1]);
    let (_, sessions) =
        database.step(&provisioner, "second", "CREATE TABLE a (id int)").make_with(sessions).await.unwrap();
    assert!(sessions.is_some());
}

#[tokio::test]
async fn a_key_is_added_to_a_table_with_rows() {
    let database = Database::new().await;
    let card = database.card("a").await;
    let first = "CREATE TABLE items (card_id uuid); CREATE TABLE parts (card_id uuid) PARTITION BY HASH (card_id);
                 CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 1, REMAINDER 0)";
    let made = database.provision("keys", first).await.unwrap();
    let plugin = cardinal_database::connect::connect(&made.connect).await.unwrap();
    plugin.execute("INSERT INTO items VALUES ($1), (NULL)", &[&card]).await.unwrap();
    plugin.execute("INSERT INTO parts VALUES ($1)", &[&card]).await.unwrap();
    let keys = "ALTER TABLE items ADD CONSTRAINT to_card FOREIGN KEY (card_id) REFERENCES public.master_cards (id) ON DELETE CASCADE;
                ALTER TABLE parts ADD FOREIGN KEY (card_id) REFERENCES public.master_cards (id)";
    database.provision("keys", keys).await.unwrap();
    let valid = "SELECT count(*), bool_and(convalidated) FROM pg_constraint
                 WHERE contype = 'f' AND conparentid = 0 AND connamespace = 'plugin_keys'::regnamespace";
    let row = database.admin().await.query_one(valid, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, bool>(1)), (2, true));
}

#[tokio::test]
async fn a_key_that_does_not_hold_is_refused_and_not_there() {
    let database = Database::new().await;
    let made = database.provision("keys", "CREATE TABLE items (card_id uuid)").await.unwrap();
    let plugin = cardinal_database::connect::connect(&made.connect).await.unwrap();
    plugin.execute("INSERT INTO items VALUES (gen_random_uuid())", &[]).await.unwrap();
    let key = "ALTER TABLE items ADD FOREIGN KEY (card_id) REFERENCES public.master_cards (id)";
    for _ in 0..2 {
        let found = found_in(database.provision("keys", key).await, "schema-failed");
        assert!(found.starts_with("23503"), "{found}");
        let keys = "SELECT FROM pg_constraint WHERE contype = 'f' AND connamespace = 'plugin_keys'::regnamespace";
        assert!(database.admin().await.query(keys, &[]).await.unwrap().is_empty());
    }
    plugin.execute("DELETE FROM items", &[]).await.unwrap();
    database.provision("keys", key).await.unwrap();
}
