//! Ways out of the cage that schema.sql runs in. Each must be refused, and leave nothing of what came before it.

use std::time::Duration;

use super::database::{Database, found_in};

async fn stays_in(schema_sql: &str) -> String {
    let database = Database::new().await;
    let found = found_in(
        database.provision("evil", &format!("CREATE TABLE before_it (id int); {schema_sql}")).await,
        "schema-failed",
    );
    assert!(database.tables("plugin_evil").await.is_empty(), "{schema_sql} left its table");
    found
}

#[tokio::test]
async fn transaction_commands() {
    for command in ["COMMIT", "ROLLBACK", "BEGIN", "END", "SAVEPOINT s", "PREPARE TRANSACTION 'x'", "COMMIT AND CHAIN"]
    {
        let found = stays_in(&format!("{command}; CREATE TABLE after_it ()")).await;
        assert!(found.starts_with("0A000"), "{command}: {found}");
    }
}

#[tokio::test]
async fn transaction_commands_in_blocks_and_procedures() {
    stays_in("DO $$ BEGIN COMMIT; END $$").await;
    stays_in("CREATE PROCEDURE p() LANGUAGE plpgsql AS 'begin commit; end'; CALL p()").await;
    stays_in("DO $$ BEGIN EXECUTE 'COMMIT'; END $$").await;
}

#[tokio::test]
async fn commands_that_need_to_be_alone() {
    stays_in("CREATE INDEX CONCURRENTLY i ON before_it (id)").await;
    stays_in("VACUUM").await;
    stays_in("CREATE DATABASE z").await;
}

#[tokio::test]
async fn text_that_looks_like_the_end_of_the_block() {
    for text in [
        "$cage_0$; COMMIT; DROP TABLE before_it; --",
        "'; COMMIT; --",
        "\\'; COMMIT; --",
        "END; COMMIT; --",
        "$$; COMMIT; --",
    ] {
        stays_in(text).await;
    }
}

#[tokio::test]
async fn quotes_and_dollars_of_an_honest_file_pass() {
    let database = Database::new().await;
    let honest = "CREATE TABLE IF NOT EXISTS items (v text DEFAULT 'it''s \\ a $cage$ and $$ here');
                  COMMENT ON TABLE items IS E'tab\\t, ''quote'', \u{00fc}nic\u{00f6}de';";
    let made = database.provision("good", honest).await.unwrap();
    let plugin = cardinal::db::connect::connect(&made.connect).await.unwrap();
    plugin.execute("INSERT INTO items DEFAULT VALUES", &[]).await.unwrap();
    let row = plugin.query_one("SELECT v FROM items", &[]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), "it's \\ a $cage$ and $$ here");
}

#[tokio::test]
async fn a_mistake_is_told_with_its_line() {
    let database = Database::new().await;
    let found =
        found_in(database.provision("typo", "CREATE TABLE a (id int);\n\nCRATE TABLE b ();").await, "schema-failed");
    assert!(found.starts_with("42601") && found.contains("line 3"), "{found}");
}

#[tokio::test]
async fn a_schema_that_waits_too_long_is_ended() {
    // Its own statement_timeout counts for nothing: the running statement's clock was set before.
    let database = Database::new().await;
    let forever = "SET statement_timeout = 0; SELECT pg_sleep(600)";
    let found = found_in(database.provision_within(Duration::from_millis(300), "slow", forever).await, "schema-failed");
    assert!(found.starts_with("57014"), "{found}");
}
